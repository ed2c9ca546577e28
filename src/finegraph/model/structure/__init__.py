"""Label graphs that learn: cells, kinds and trees from what photos show."""
