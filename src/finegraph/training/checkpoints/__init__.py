"""Checkpoints: what they hold, how they are written, read and checked."""
