"""The sums over a label graph, carried out in three ways."""
