"""Suggestions for cells: computed, kept and accepted."""
