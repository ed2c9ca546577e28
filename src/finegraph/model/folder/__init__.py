"""The model folder: finding, reading and writing it, and its card."""
