"""Numbers of a graph, such as prices: their terms in the joint scores, and the posterior distribution of a value."""
