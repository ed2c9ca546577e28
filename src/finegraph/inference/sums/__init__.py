"""The sums over a label graph: one interface, three implementations, chosen in one place.

    groups.py          the groups that fine labels are in, of one kind and of all kinds
    targets.py         the labels of a batch whose probabilities the loss contains
    interface.py       joint scores, target probabilities, gradient and coarse gradient of one batch
    strategy.py        how to sum: the strategies, and the cost model that chooses, by sizes alone
    by_rows.py         labels as rows: whole rows are added, for all kinds at once
    by_columns.py      labels as columns: matrix products, gathers and scatters
    by_weights.py      kinds with a row of weights per fine label: products with all weights
    label_rows.py      labels as rows, computed from features some labels at a time
    graph_tensors.py   chooses between the three, as `strategy.py` says

A wrong choice costs time, never exactness: every strategy gives the same results.
"""
