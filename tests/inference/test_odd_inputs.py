"""Inputs that people do have: many kinds, mixed precisions, NaN beside good samples, copies, empty batches."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.errors import EvidenceError, InputError, TargetError, UnknownNameError
from finegraph.inference.sums.graph_tensors import GraphTensors

GRAPH = fg.LabelGraph.from_table(
    {
        "a": {"dish": "x", "place": "A", "served": {"bowl", "plate"}},
        "b": {"dish": "x", "place": "B", "served": "bowl"},
        "c": {"dish": "y", "place": "B", "served": None},
    }
)


def many_kinds(count, fine=20, weighted=False):
    """A graph with so many kinds that all is done in float64."""
    rng = np.random.default_rng(0)
    names = [f"fine {i}" for i in range(fine)]
    if weighted:
        yes = rng.integers(1, 100, (count, fine)) / 100
        matrices = {f"kind {j}": np.stack([1 - yes[j], yes[j]], axis=1) for j in range(count)}
        return fg.LabelGraph.from_matrix(names, matrices, dict.fromkeys(matrices, ("no", "yes")))
    return fg.LabelGraph.from_parents(names, {f"kind {j}": rng.integers(0, 4, fine) for j in range(count)})


@pytest.mark.deep
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("weighted", [False, True])
def test_very_many_kinds_with_every_option(dtype, weighted):
    graph = many_kinds(70, weighted=weighted)
    head = fg.BipartiteHead(8, graph).to(dtype)
    features = torch.randn(3, 8).to(dtype)
    for target, options in (
        (torch.tensor([0, 1, 2]), {}),
        (torch.tensor([0, 1, 2]), {"kind_weights": 1 / 70}),
        (torch.tensor([0, -100, 2]), {}),
        (torch.tensor([0, 1, 2]), {"kind_targets": {"kind 3": torch.tensor([0, 1, -100])}}),
        (torch.ones(3, 20, dtype=torch.bool), {}),
    ):
        head.zero_grad()
        loss = fg.joint_loss(head(features), target, **options)
        loss.backward()
        assert torch.isfinite(loss)
        assert torch.isfinite(head.coarse.weight.grad).all()


@pytest.mark.parametrize("offset", [1e2, 1e3, 1e4])
@pytest.mark.parametrize("kinds", [1, 28])
def test_large_common_offsets_keep_their_small_differences(kinds, offset):
    """Scores near the offset that differ by about 1, in plain kinds and in kinds with several parents."""
    rng = np.random.default_rng(kinds)
    table = {}
    for i in range(12):
        row = {f"plain {j}": f"{rng.integers(3)}" for j in range(kinds)}
        row |= {f"mixed {j}": {f"{rng.integers(3)}", f"{rng.integers(3)}"} for j in range(kinds)}
        table[f"fine {i}"] = row
    graph = fg.LabelGraph.from_table(table)
    columns = sum(len(graph.labels(kind)) for kind in graph.kinds)
    fine, coarse = torch.randn(4, 12) + offset, torch.randn(4, columns) + offset
    target = torch.tensor([0, 1, 2, 3])
    results = []
    for dtype in (torch.float32, torch.float64):
        leaf = fine.to(dtype, copy=True).requires_grad_()
        posterior = fg.Posterior(graph, leaf, coarse.to(dtype))
        loss = fg.joint_loss(posterior, target)
        loss.backward()
        marginals = [posterior.log_probs(kind).detach() for kind in (graph.kinds[0], graph.kinds[-1])]
        results.append([posterior.log_probs().detach(), *marginals, loss.detach(), leaf.grad])
    for ours, exact in zip(*results, strict=True):
        assert ((ours.double() - exact).abs() / exact.abs().clamp_min(1)).max() <= 1e-5


def test_a_sample_with_nan_leaves_the_others_alone():
    scores = torch.tensor([[torch.nan, 0.0, 0.0], [0.0, 0.0, 0.0]])
    given = fg.Posterior(GRAPH, scores, torch.zeros(2, 6)).given(place=[None, "B"])
    assert given.probs()[1].tolist() == pytest.approx([0, 0.5, 0.5])


ASK = {
    "top": lambda posterior: posterior.top(1),
    "top of a kind": lambda posterior: posterior.top(1, "dish"),
    "answer": lambda posterior: posterior.answer(),
    "explain": lambda posterior: posterior.explain("a", "b"),
    "questions": lambda posterior: posterior.questions(),
    "sample": lambda posterior: posterior.sample(),
}


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("head", [fg.BipartiteHead, fg.SoftmaxHead])
@pytest.mark.parametrize("ask", ASK)
def test_features_that_are_no_numbers_have_no_answer(ask, head, value):
    features = torch.randn(3, 4)
    features[1, 2] = value
    posterior = head(4, GRAPH)(features)
    with pytest.raises(InputError, match="sample 1: there is no answer, since its scores are NaN or infinite"):
        ASK[ask](posterior)
    ASK[ask](posterior.some([0, 2]))


def test_scores_that_overflow_in_float16_have_no_answer():
    head = fg.BipartiteHead(4, GRAPH).half()
    with torch.no_grad():
        head.fine.weight.fill_(300.0)
    posterior = head(torch.full((2, 4), 100.0).half() * torch.tensor([[0.01], [1.0]]).half())
    with pytest.raises(InputError, match=r"sample 1: .* in float16, scores above 65,504 become infinite"):
        posterior.top(1)
    wide = head.float()(torch.full((1, 4), 100.0))
    assert 0 < wide.top(1)[0][0].probability <= 1


def test_a_fine_label_that_is_ruled_out_is_no_fault():
    posterior = fg.Posterior(GRAPH, torch.tensor([[0.0, -torch.inf, 0.5]]))
    assert posterior.top(3)[0][-1] == ("b", 0.0)


def test_precisions_may_differ():
    coarse = torch.tensor([[1e8, 1e8 + 1]], dtype=torch.float64)
    graph = fg.LabelGraph.from_parents(["a", "b"], {"kind": [0, 1]})
    probs = fg.Posterior(graph, torch.zeros(1, 2), {"kind": coarse}).probs()
    assert probs[0].tolist() == pytest.approx([0.26894142, 0.73105858])


def test_gradients_of_entropy_after_hard_evidence_are_finite():
    scores = torch.randn(2, 3, requires_grad=True)
    fg.Posterior(GRAPH, scores).given(place="B").entropy().sum().backward()
    assert torch.isfinite(scores.grad).all()
    assert scores.grad[:, 0].tolist() == [0.0, 0.0]


def test_second_derivatives_are_refused_rather_than_wrong():
    scores = torch.randn(1, 3, requires_grad=True)
    posterior = fg.Posterior(GRAPH, scores, torch.zeros(1, 6, requires_grad=True))
    for value in (fg.joint_loss(posterior, torch.tensor([0])), posterior.log_probs("dish")[0, 0]):
        with pytest.raises(InputError, match="second derivatives are not available"):
            torch.autograd.grad(value, scores, create_graph=True)
    with pytest.raises(InputError, match="second derivatives are not available"):
        torch.autograd.functional.hessian(lambda x: fg.joint_loss(fg.Posterior(GRAPH, x), torch.tensor([0])), scores)


def test_a_set_ruled_out_by_evidence_costs_infinitely_much_but_gives_no_nan():
    scores = torch.zeros(1, 3, requires_grad=True)
    posterior = fg.Posterior(GRAPH, scores).given(place="B")
    loss = fg.joint_loss(posterior, torch.tensor([[True, False, False]]))
    loss.backward()
    assert loss.item() == torch.inf
    assert torch.isfinite(scores.grad).all()


def test_both_forms_of_targets_refuse_alike():
    posterior = fg.Posterior(GRAPH, torch.zeros(1, 3))
    for target in (torch.tensor([0]), torch.ones(1, 3, dtype=torch.bool)):
        with pytest.raises(UnknownNameError, match="unknown kind 'dsh'"):
            fg.joint_loss(posterior, target, {"dsh": torch.tensor([0])})
        narrow = fg.joint_loss(posterior, target, {"dish": torch.tensor([1], dtype=torch.int32)})
        wide = fg.joint_loss(posterior, target, {"dish": torch.tensor([1])})
        assert torch.equal(narrow, wide)


@pytest.mark.usefixtures("unchecked")
def test_what_is_no_tensor_is_refused():
    posterior = fg.Posterior(GRAPH, torch.zeros(1, 3))
    with pytest.raises(TargetError, match="target: expected a tensor of label indices, got list"):
        fg.joint_loss(posterior, [0])
    with pytest.raises(InputError, match="fine scores: expected a tensor, got ndarray"):
        fg.Posterior(GRAPH, np.zeros((1, 3)))
    with pytest.raises(InputError, match="at least 1 draw, got 0"):
        posterior.sample(0)


def test_inference_mode_does_not_spoil_training():
    graph = fg.LabelGraph(GRAPH.fine, [GRAPH.kind(kind) for kind in GRAPH.kinds])
    with torch.inference_mode():
        fg.Posterior(graph, torch.zeros(1, 3)).log_probs("served")
    scores = torch.zeros(1, 3, requires_grad=True)
    fg.joint_loss(fg.Posterior(graph, scores), torch.tensor([0])).backward()
    assert torch.isfinite(scores.grad).all()


def test_an_empty_batch_asks_nothing():
    skewed = fg.LabelGraph.from_parents(
        [f"{i}" for i in range(3000)], {"kind": np.concatenate([np.zeros(2000, np.int64), np.arange(1, 1001)])}
    )
    for graph in (GRAPH, skewed):
        posterior = fg.BipartiteHead(4, graph)(torch.zeros(0, 4))
        assert fg.joint_loss(posterior, torch.zeros(0, dtype=torch.int64)).item() == 0.0
        assert posterior.top(1) == posterior.answer() == posterior.explain(graph.fine[0], graph.fine[1]) == []
        assert len(posterior.given({graph.kinds[0]: []})) == 0


def test_heads_of_one_graph_share_its_tensors_and_another_graph_has_its_own():
    head = fg.BipartiteHead(4, GRAPH)
    read_again = pickle.loads(pickle.dumps(head))  # noqa: S301
    for other in (copy.deepcopy(head), fg.SoftmaxHead(4, GRAPH), head.double()):
        assert other.tensors is head.tensors
    assert read_again.graph is not GRAPH
    assert read_again.tensors.key != head.tensors.key
    for tensors in (head.tensors, read_again.tensors):
        assert GraphTensors.by_key(tensors.key) is tensors


@pytest.mark.deep
def test_a_head_from_another_process_compiles_with_its_own_graph(tmp_path):
    torch.manual_seed(0)
    head = fg.BipartiteHead(4, GRAPH)
    features, target = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
    expected = fg.joint_loss(head(features), target).item()
    (tmp_path / "head.pickle").write_bytes(pickle.dumps((head, features, target)))
    code = f"""
import pickle, torch, finegraph as fg
other = fg.BipartiteHead(4, fg.LabelGraph.from_table({{n: {{"dish": "z"}} for n in ("a", "b", "c")}}))
head, features, target = pickle.loads(open({str(tmp_path / "head.pickle")!r}, "rb").read())
loss = torch.compile(lambda x: fg.joint_loss(head(x), target), backend="aot_eager", fullgraph=True)
print(loss(features).item())
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(result.stdout) == pytest.approx(expected, rel=1e-5)


class TestEvidence:
    def test_a_list_may_hold_likelihoods(self):
        posterior = fg.Posterior(GRAPH, torch.zeros(2, 3))
        mixed = posterior.given(dish=[torch.tensor([1.0, 0.0]), None])
        assert torch.allclose(mixed.probs(), posterior.given(dish=["x", None]).probs())
        assert torch.allclose(
            posterior.given(dish=np.array(["x", "y"])).probs(), posterior.given(dish=["x", "y"]).probs()
        )

    def test_label_indices_are_not_taken_for_likelihoods(self):
        with pytest.raises(EvidenceError, match=r"must be floating-point, got torch.int64"):
            fg.Posterior(GRAPH, torch.zeros(2, 3)).given(dish=torch.tensor([1, 0]))

    def test_it_is_cut_with_the_batch(self):
        posterior = fg.Posterior(GRAPH, torch.randn(4, 3)).given(place="B")
        part = torch.utils._pytree.tree_map_only(torch.Tensor, lambda tensor: tensor[1:3], posterior)
        assert torch.allclose(part.log_probs(), posterior.log_probs()[1:3])

    def test_on_the_fine_label_is_kept_apart_in_explanations(self):
        posterior = fg.Posterior(GRAPH, torch.tensor([[1.0, 0.0, 0.0]]))
        plain = {part.source: part.value for part in posterior.explain("a", "b")[0].parts}
        soft = posterior.given(fine={"a": 1.0, "b": 1.0, "c": 1e-3})
        assert {part.source: part.value for part in soft.explain("a", "b")[0].parts} == plain
        favoured = posterior.given(fine={"a": 1.0, "b": 0.5, "c": 1.0}).explain("a", "b")[0]
        assert {part.source: part.value for part in favoured.parts}["evidence: fine"] == pytest.approx(np.log(2))

    def test_what_it_rules_out_cannot_be_explained(self):
        posterior = fg.Posterior(GRAPH, torch.zeros(1, 3)).given(place="B")
        with pytest.raises(InputError, match="the fine label 'a' has probability 0"):
            posterior.explain("a", "b")


def test_weights_prior_of_close_weights_is_exact():
    head = fg.BipartiteHead(4, GRAPH.only(["dish", "place"]))
    with torch.no_grad():
        for parameter in (head.fine.weight, head.coarse.weight):
            parameter.copy_(30 + 1e-3 * torch.randn(parameter.shape))
    expected = 0.0
    for kind in head.graph.kinds:
        rows = head.coarse.weight[head.tensors.columns[kind]][head.graph.parents(kind)].double()
        expected += ((head.fine.weight.double() - rows) ** 2).sum().item() / 2
    assert fg.laplacian_prior(head).item() == pytest.approx(expected, rel=2e-2)


def test_moving_and_averaging_heads():
    head = fg.BipartiteHead(4, GRAPH)
    averaged = torch.optim.swa_utils.AveragedModel(head, use_buffers=True)
    averaged.update_parameters(head)
    averaged.update_parameters(head)
    features = torch.randn(2, 4)
    assert torch.allclose(averaged(features).log_probs("served"), head(features).log_probs("served"))
    assert head.to("meta").fine.weight.is_meta
