"""The store: its tables, its one writer, its seals, and plans of edits."""
