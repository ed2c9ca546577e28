"""Edits of labels: decisions, changes of the structure, and undo, as plans."""
