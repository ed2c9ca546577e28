"""Samples from photos as they lie on the disk: data sets as they come, folders, manifests."""
