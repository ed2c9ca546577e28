"""Indexes of photos: what they are made of, looking after them, similar photos, and the page of a search."""
