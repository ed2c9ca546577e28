"""Where labels are: files, stores and graphs wherever they are, and suggestions for the cells of a store."""
