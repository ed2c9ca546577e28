"""Numbers of a graph, such as prices: their part in the joint scores, and what a posterior knows of a value."""
