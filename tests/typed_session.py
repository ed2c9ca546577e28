"""A session with every public name, for type checkers: `make check` runs mypy on it, as strictly as on the package.

`assert_type` fails the check where a type is missing, wrong or `Any`. `test_contract.py` runs the session too, and
fails if a public name is not in it.
"""

from pathlib import Path
from typing import assert_type

import numpy as np
import torch
from torch import Tensor

import finegraph as fg


def graphs() -> fg.LabelGraph:
    """Label graphs, their kinds and numbers."""
    graph = fg.LabelGraph.from_table(
        {
            "mapo tofu @ A": {"dish": "mapo tofu", "restaurant": "A", "price": 9.5},
            "mapo tofu @ B": {"dish": "mapo tofu", "restaurant": "B", "price": (12.0, 1.0)},
            "kung pao @ B": {"dish": "kung pao", "restaurant": "B", "price": None},
        },
        {"price": "number, EUR"},
    )
    assert_type(graph, fg.LabelGraph)
    assert_type(graph.fine, tuple[str, ...])
    assert_type(graph.kinds, tuple[str, ...])
    assert_type(graph.labels("dish"), tuple[str, ...])
    assert_type(graph.kind("dish"), fg.Kind)
    assert_type(graph.number("price"), fg.Number)
    return graph


def heads(graph: fg.LabelGraph) -> fg.Posterior:
    """Heads, the loss and the prior."""
    head = fg.BipartiteHead(16, graph)
    baseline = fg.SoftmaxHead(16, graph)
    features = torch.randn(2, 16)
    posterior = head(features)
    assert_type(posterior, fg.Posterior)
    assert_type(baseline(features), fg.Posterior)
    assert_type(fg.BipartiteHead(16, fg.LabelGraph(["a", "b"], {})).fold(), fg.SoftmaxHead)
    loss = fg.joint_loss(posterior, torch.tensor([0, 2]))
    assert_type(loss, Tensor)
    assert_type(fg.laplacian_prior(head), Tensor)
    value = posterior.value("price").mean
    assert_type(fg.ranking_loss(value[:1], value[1:]), Tensor)
    return posterior


def questions(posterior: fg.Posterior) -> None:
    """What a posterior answers."""
    known = posterior.given({"restaurant": "B"}, price=fg.Around(12.0, 2.0))
    assert_type(known, fg.Posterior)
    assert_type(known.log_probs(), Tensor)
    assert_type(known.probs("dish"), Tensor)
    assert_type(posterior.log_prob_of(restaurant="B"), Tensor)
    assert_type(posterior.top(2), list[list[fg.Answer]])
    statements = posterior.answer(risk=0.5)
    assert_type(statements, list[fg.Statement | None])
    explanation = posterior.explain("mapo tofu @ A", "mapo tofu @ B")[0]
    assert_type(explanation, fg.Explanation)
    assert_type(explanation.parts, tuple[fg.Part, ...])
    value = posterior.value("price")
    assert_type(value, fg.ValueDistribution)
    assert_type(value.probability("<= 10"), Tensor)


def estimator(graph: fg.LabelGraph) -> None:
    """The scikit-learn estimator."""
    features = np.random.default_rng(0).normal(size=(12, 4))
    labels = [graph.fine[place % 3] for place in range(12)]
    model = fg.BipartiteClassifier(graph)
    assert_type(model.fit(features, labels), fg.BipartiteClassifier)


def models(folder: Path) -> None:
    """Saved models; needs a model folder."""
    model = fg.load(folder)
    assert_type(model, fg.PhotoClassifier)
    assert_type(fg.__version__, str)
    assert_type(model.predict("photo.jpg").top[0].label, str)


def main() -> None:
    """Run all that needs no model folder."""
    graph = graphs()
    questions(heads(graph))
    estimator(graph)


if __name__ == "__main__":
    main()
