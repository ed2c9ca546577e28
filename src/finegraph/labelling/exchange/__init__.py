"""Labels in and out of a store: graphs, Label Studio, photo labels, and differences."""
