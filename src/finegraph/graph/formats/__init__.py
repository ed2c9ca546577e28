"""Graph files: CSV and JSON, read strictly with all faults at once, and written so that they read back equal."""
