"""What a run writes down: its folder, its settings, its log and its metrics."""
