"""Checks of photos and their labels: damaged and doubtful photos, duplicates, labels against the graph."""
