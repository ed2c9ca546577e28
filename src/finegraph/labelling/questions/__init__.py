"""Questions to a store: lists, history, progress, agreement, findings."""
