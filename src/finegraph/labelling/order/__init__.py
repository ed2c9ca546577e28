"""The order of classes that follows from comparisons."""
