"""The steps of learning a label graph: what a model has seen, what a kind changes, and what is kept of it."""
