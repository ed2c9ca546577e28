"""Label files, stores and graphs from any source, and suggestions for the cells of a store."""
