"""Samples of photos on the disk: published data sets, folders, manifests."""
