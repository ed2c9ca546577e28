"""The files of a run: its folder, settings, log and metrics."""
