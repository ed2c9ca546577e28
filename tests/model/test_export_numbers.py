"""Numbers in exported files: means and quantiles equal those of the posterior, in ONNX and as torch traces them."""

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from finegraph import Posterior
from finegraph.inference.sums.graph_tensors import graph_tensors
from finegraph.model.export.export_check import _of_values
from finegraph.model.export.export_names import NUMBER_MEANS, NUMBER_QUANTILES, QUANTILES
from finegraph.model.export.node_writer import Writer
from finegraph.model.export.number_nodes import NumberScores
from finegraph.model.export.posterior_nodes import add_posterior
from finegraph.model.export.tracing import traced_quantiles
from reference.random_graphs import FORMS, random_graph, random_scores
from reference.random_numbers import with_numbers

pytestmark = pytest.mark.usefixtures("unchecked")


def session_of(graph, coarse, numbers, operations):
    """The posterior of a graph as an ONNX model that takes scores; number scores or none."""
    import onnxruntime

    counts = {"fine_scores": len(graph), "fine_evidence": len(graph)}
    counts |= {"coarse_scores": coarse, "evidence": coarse} if coarse else {}
    counts |= dict.fromkeys(("pulls", "precisions"), len(graph.numbers)) if numbers else {}
    to = Writer(operations)
    for name in counts:
        if "evidence" in name:
            to.constants.append(numpy_helper.from_array(np.ones((1, counts[name]), np.float32), name))
    value = helper.make_tensor_value_info
    inputs = [value(one, TensorProto.FLOAT, [f"{one}_rows", counts[one]]) for one in counts]
    outputs = [
        value("log_probs", TensorProto.FLOAT, ["batch", len(graph)]),
        value(NUMBER_MEANS, TensorProto.FLOAT, ["batch", len(graph.numbers)]),
        value(NUMBER_QUANTILES, TensorProto.FLOAT, ["batch", len(graph.numbers), len(QUANTILES)]),
    ]
    kinds = ("coarse_scores", "evidence") if coarse else (None, None)
    scores = NumberScores("pulls", "precisions") if numbers else None
    add_posterior(to, graph, "fine_scores", kinds[0], "fine_evidence", kinds[1], scores)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    content = to.model("posterior", inputs, outputs, 8).SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.deep
def test_values_equal_those_of_the_posterior(form):
    rng = np.random.default_rng([51, FORMS.index(form)])
    case = random_graph(rng, form, 4000)
    graph, _ = with_numbers(rng, case, 2)
    samples = [random_scores(rng, case, 2.0) for _ in range(3)]
    fine = torch.tensor(np.array([one.fine for one in samples]), dtype=torch.float32)
    coarse = torch.tensor(np.array([np.concatenate([np.zeros(0), *one.kinds]) for one in samples]), dtype=torch.float32)
    scored = FORMS.index(form) % 3 > 0
    scores = torch.tensor(rng.normal(size=(3, 2, 2)), dtype=torch.float32).abs() if scored else None
    likelihood = torch.tensor(rng.uniform(0.1, 1.0, (3, len(graph))), dtype=torch.float32)
    posterior = Posterior(graph, fine, coarse if coarse.shape[1] else None, number_scores=scores).given(fine=likelihood)

    given = {"fine_scores": fine.numpy(), "fine_evidence": likelihood.numpy()}
    given |= {"coarse_scores": coarse.numpy()} if coarse.shape[1] else {}
    given |= {"pulls": scores[..., 0].numpy(), "precisions": scores[..., 1].numpy()} if scored else {}
    session = session_of(graph, coarse.shape[1], scored, 17 + FORMS.index(form) % 2)
    log_probs, means, quantiles = session.run(None, given)

    np.testing.assert_allclose(np.exp(log_probs), posterior.probs(), atol=1e-6)
    values = [posterior.value(name) for name in graph.numbers]
    expected = np.stack([value.mean for value in values], axis=1)
    assert _of_values(graph, expected, expected, means.astype(np.float64)).max() < 1e-5
    low, high = (between(values, step) for step in (-1e-5, 1e-5))
    assert _of_values(graph, low, high, quantiles.astype(np.float64)).max() < 1e-5
    table = graph_tensors(graph).numbers
    traced = [traced_quantiles(*pair, QUANTILES) for pair in zip(table.numbers, values, strict=True)]
    low, high = (between(values, step) for step in (-2e-7, 2e-7))
    assert _of_values(graph, low, high, np.stack(traced, axis=1)).max() < 1e-7


def between(values, step):
    """The quantiles of slightly other probabilities: (batch, number, quantile)."""
    return np.stack([np.stack([value.quantile(q + step) for q in QUANTILES], axis=1) for value in values], axis=1)
