"""What people do to labels: plans of edits, of changes of the structure, and of undoing them."""
