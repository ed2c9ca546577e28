"""The slow and obvious answers that the package is checked against, and random label graphs to check it on."""
