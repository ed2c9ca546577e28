"""The steps of indexes: their photos, maintenance, similar photos, and the page of a search."""
