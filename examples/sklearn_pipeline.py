"""The classifier in a pipeline of scikit-learn, with cross-validation, and with a question that only a graph can take.

python examples/sklearn_pipeline.py
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import finegraph as fg

digits = load_digits()
graph = fg.LabelGraph.from_table(
    {
        str(digit): {"parity": "even" if digit % 2 == 0 else "odd", "has a loop": digit in (0, 6, 8, 9)}
        for digit in range(10)
    }
)
labels = np.array([str(digit) for digit in digits.target])
few = np.concatenate([np.flatnonzero(labels == str(digit))[:10] for digit in range(10)])  # ten photos of each

pipeline = make_pipeline(PCA(30), fg.BipartiteClassifier(graph))
scores = cross_val_score(pipeline, digits.data[few], labels[few], cv=3)
print(f"cross-validated accuracy with ten photos of each digit: {scores.mean():.1%}")

pipeline.fit(digits.data[few], labels[few])
rest = np.setdiff1d(np.arange(len(labels)), few)
print(f"on the {len(rest)} others: {pipeline.score(digits.data[rest], labels[rest]):.1%}")
reduced = pipeline[0].transform(digits.data[rest])
known = ["even" if digits.target[row] % 2 == 0 else "odd" for row in rest]
told = pipeline[-1].predict(reduced, given={"parity": known})
print(f"given whether it is even or odd: {np.mean(told == labels[rest]):.1%}")
