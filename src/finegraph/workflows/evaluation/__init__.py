"""What `finegraph evaluate` keeps: its folder, details and pictures for a report, and how well features find photos."""
