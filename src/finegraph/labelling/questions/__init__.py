"""What a store is asked: lists, history, progress, agreement, findings."""
