"""One HTML page: its data, cards, charts and pictures as text, and beside this file its template, style and scripts."""
