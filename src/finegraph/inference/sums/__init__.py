"""The sums over a label graph: one interface, three implementations, chosen in one place.

    interface.py       joint scores, target probabilities, gradient and coarse gradient of one batch
    by_rows.py         labels as rows: whole rows are added, for all kinds at once
    by_columns.py      labels as columns: matrix products, gathers and scatters
    by_weights.py      kinds with a row of weights per fine label: products with all weights
    graph_tensors.py   chooses, by the cost model of `strategy.py`, which depends on sizes alone

A wrong choice costs time, never exactness: every strategy gives the same results.
"""
