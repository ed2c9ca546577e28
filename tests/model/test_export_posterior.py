"""The posterior in ONNX, fed with scores: equal to enumeration, whatever the graph and the evidence."""

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from finegraph import Kind, LabelGraph, Posterior
from finegraph.model.export import node_writer
from finegraph.model.export.export_check import draw_evidence
from finegraph.model.export.node_writer import NodeWriter, list_tables
from finegraph.model.export.posterior_nodes import add_posterior
from reference import enumeration as ref
from reference.random_graphs import FORMS, random_graph, random_scores

pytestmark = pytest.mark.usefixtures("unchecked")


class Scored:
    """The posterior of a graph as an ONNX model that takes scores."""

    def __init__(self, graph, *, softmax=False, operations=17):
        import onnxruntime

        self.graph, self.coarse = graph, sum(len(graph.labels(kind)) for kind in graph.kinds)
        counts = {"fine_scores": len(graph), "fine_evidence": len(graph)}
        if self.coarse:
            counts |= {"evidence": self.coarse} | ({} if softmax else {"coarse_scores": self.coarse})
        to = NodeWriter(operations)
        for name, count in counts.items():
            if "evidence" in name:
                to.constants.append(numpy_helper.from_array(np.ones((1, count), np.float32), name))
        inputs = [helper.make_tensor_value_info(one, TensorProto.FLOAT, [f"{one}_rows", counts[one]]) for one in counts]
        outputs = [
            helper.make_tensor_value_info("log_probs", TensorProto.FLOAT, ["batch", len(graph)]),
            helper.make_tensor_value_info("possible", TensorProto.BOOL, ["batch"]),
        ]
        if self.coarse:
            outputs.append(helper.make_tensor_value_info("kind_log_probs", TensorProto.FLOAT, ["batch", self.coarse]))
        self.takes_coarse = "coarse_scores" in counts
        coarse_scores, evidence = "coarse_scores" if self.takes_coarse else None, "evidence" if self.coarse else None
        add_posterior(to, graph, "fine_scores", coarse_scores, "fine_evidence", evidence)
        self.model = to.model("posterior", inputs, outputs, 8)
        onnx.checker.check_model(self.model, full_check=True)
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 3, 1
        content = self.model.SerializeToString()
        self.session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def __call__(self, fine, coarse=None, evidence=None, fine_evidence=None):
        given = {"evidence": evidence, "fine_evidence": fine_evidence, "fine_scores": fine}
        given["coarse_scores"] = coarse if self.takes_coarse else None
        inputs = {name: np.asarray(value, np.float32) for name, value in given.items() if value is not None}
        return dict(zip([one.name for one in self.session.get_outputs()], self.session.run(None, inputs), strict=True))

    def split(self, values):
        """Columns kind by kind."""
        return (
            dict(zip(self.graph.kinds, np.split(values, self.ends[:-1], axis=-1), strict=True)) if self.coarse else {}
        )

    @property
    def ends(self):
        return np.cumsum([len(self.graph.labels(kind)) for kind in self.graph.kinds])


def close(got, expected, tolerance=2e-6):
    """Equal as float32 can be: minus infinity in the same places, logarithms to a millionth of themselves."""
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    assert got.shape == expected.shape
    assert np.array_equal(np.isneginf(got), np.isneginf(expected))
    finite = ~np.isneginf(expected)
    got, expected = got[finite], expected[finite]
    assert np.all(np.abs(got - expected) <= tolerance * np.maximum(1, np.abs(expected)))


def ask_both(case, scored, number, scale):
    """Compare with enumeration for one sample after the other, with evidence of every form and without."""
    rng = np.random.default_rng([7, number])
    samples = [random_scores(rng, case, scale) for _ in range(4)]
    if not scored.takes_coarse:
        samples = [one._replace(kinds=[np.zeros_like(kind) for kind in one.kinds]) for one in samples]
    fine = np.array([one.fine for one in samples], np.float32)
    coarse = np.array([np.concatenate([np.zeros(0), *one.kinds]) for one in samples], np.float32)
    for given in (None, draw_evidence(case.graph, 4, rng)):
        evidence = {} if given is None else {"fine_evidence": given.fine}
        if given is not None and scored.coarse:
            evidence["evidence"] = given.coarse
        got = scored(fine, coarse, **evidence)
        assert got["possible"].tolist() == [True] * 4
        for row in range(4):
            kinds = list(scored.split(coarse[row]).values())
            joint = ref.log_joint(fine[row], kinds, case.matrices)
            if given is not None:
                known = dict(enumerate(scored.split(given.coarse[row]).values()))
                joint = ref.given(joint, known, given.fine[row])
            close(got["log_probs"][row], ref.fine_log_probs(joint))
            if scored.coarse:
                expected = [ref.kind_log_probs(joint, kind) for kind in range(len(kinds))]
                close(got["kind_log_probs"][row], np.concatenate(expected))


@pytest.mark.parametrize("form", FORMS)
def test_equals_enumeration(form):
    for number in range(2):
        case = random_graph(np.random.default_rng([3, number, FORMS.index(form)]), form, 4000)
        softmax, operations = number == 1, 18 - number
        ask_both(case, Scored(case.graph, softmax=softmax, operations=operations), number, scale=2.0)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_equals_enumeration_on_many(form):
    for number in range(40):
        case = random_graph(np.random.default_rng([4, number, FORMS.index(form)]), form, 4000)
        scale = [0.3, 2.0, 30.0][number % 3]
        ask_both(case, Scored(case.graph, softmax=number % 4 == 3), number, scale)


def big_graph(fine=5000, seed=0):
    """One parent, several parents with weights, unknown cells and a binary kind, of ordinary sizes."""
    rng = np.random.default_rng(seed)

    def kind(name, labels, several=0.0, unknown=0.0):
        sizes = np.where(rng.random(fine) < several, 3, 1)
        sizes[rng.random(fine) < unknown] = 0
        starts = np.concatenate([[0], np.cumsum(sizes)])
        first = rng.integers(labels, size=fine)
        coarse = np.concatenate([(first[row] + np.arange(size)) % labels for row, size in enumerate(sizes)])
        names = ["no", "yes"] if labels == 2 else [f"{name} {number}" for number in range(labels)]
        return Kind(name, names, starts, coarse, rng.uniform(0.1, 1.0, len(coarse)))

    kinds = [kind("dish", 700), kind("style", 90, several=0.2), kind("place", 40, unknown=0.3), kind("spicy", 2)]
    return LabelGraph([f"fine {number}" for number in range(fine)], kinds)


@pytest.fixture(scope="module")
def big():
    return Scored(big_graph())


def test_a_larger_graph_equals_the_posterior_in_float64(big):
    rng = np.random.default_rng(1)
    fine, coarse = (rng.normal(0, 3, (5, count)).astype(np.float32) for count in (len(big.graph), big.coarse))
    plain = Posterior(big.graph, torch.from_numpy(fine).double(), torch.from_numpy(coarse).double())
    given = draw_evidence(big.graph, 5, rng)
    known = {kind: torch.from_numpy(part) for kind, part in big.split(given.coarse).items()}
    conditioned = plain.given({"fine": torch.from_numpy(given.fine), **known})
    for posterior, got in [(plain, big(fine, coarse)), (conditioned, big(fine, coarse, given.coarse, given.fine))]:
        close(got["log_probs"], posterior.log_probs())
        for kind, part in big.split(got["kind_log_probs"]).items():
            close(part, posterior.log_probs(kind))


def test_the_model_is_linear_in_the_graph(big):
    half = Scored(big_graph(2500)).model.ByteSize()
    assert 1.6 < big.model.ByteSize() / half < 2.2
    # Per fine label and kind: its group, and at most twice its place in a list; per edge of a mixed row a few more.
    edges = sum(len(big.graph.kind(kind).coarse) for kind in big.graph.kinds)
    assert big.model.ByteSize() < 40 * edges
    assert not {node.op_type for node in big.model.graph.node} & {"ScatterElements", "ScatterND", "MatMul", "Gemm"}


def test_large_scores_stay_finite_and_exact(big):
    rng = np.random.default_rng(2)
    fine, coarse = (rng.choice([-1e4, 1e4, 0.0], (3, count)) for count in (len(big.graph), big.coarse))
    got = big(fine, coarse)
    posterior = Posterior(big.graph, torch.from_numpy(fine), torch.from_numpy(coarse))
    close(got["log_probs"], posterior.log_probs())
    for kind, part in big.split(got["kind_log_probs"]).items():
        close(part, posterior.log_probs(kind))
        assert np.exp(part.astype(np.float64)).sum(axis=1) == pytest.approx(1, abs=1e-5)


@pytest.fixture
def menu():
    return Scored(
        LabelGraph.from_table(
            {
                "mapo @ A": {"dish": "mapo", "place": "A", "served": {"bowl": 0.7, "plate": 0.3}},
                "mapo @ B": {"dish": "mapo", "place": "B", "served": None},
                "kung pao @ B": {"dish": "kung pao", "place": "B", "served": "plate"},
            }
        )
    )


def likelihoods(scored, **known):
    """Ones, and for the kinds that are named zeros but for their labels."""
    graph = scored.graph
    parts = [[float(kind not in known or label in known[kind]) for label in graph.labels(kind)] for kind in graph.kinds]
    return np.array([np.concatenate(parts)], np.float32)


def test_evidence_may_be_left_out_or_be_one_row_for_all(menu):
    rng = np.random.default_rng(3)
    fine, coarse = rng.normal(size=(4, 3)), rng.normal(size=(4, menu.coarse))
    ones = menu(fine, coarse, np.ones((4, menu.coarse)), np.ones((4, 3)))
    for name, value in menu(fine, coarse).items():
        assert np.array_equal(value, ones[name])
    row = likelihoods(menu, place={"B"})
    each = menu(fine, coarse, np.repeat(row, 4, axis=0))
    for name, value in menu(fine, coarse, row).items():
        assert np.array_equal(value, each[name])
    assert np.isneginf(each["log_probs"][:, 0]).all()


def test_evidence_of_probability_0_is_told_and_is_not_nan(menu):
    fine, coarse = np.zeros((3, 3)), np.zeros((3, menu.coarse))
    evidence = np.ones((3, menu.coarse), np.float32)
    evidence[1] = likelihoods(menu, dish={"kung pao"}, place={"A"})
    got = menu(fine, coarse, evidence)
    assert got["possible"].tolist() == [True, False, True]
    for name in ("log_probs", "kind_log_probs"):
        assert np.isneginf(got[name][1]).all()
        assert not np.isnan(got[name]).any()
        assert np.array_equal(got[name][0], got[name][2])
    nothing = menu(fine, coarse, fine_evidence=np.zeros((3, 3)))
    assert not nothing["possible"].any()
    assert np.isneginf(nothing["kind_log_probs"]).all()


@pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf])
def test_what_is_no_likelihood_makes_its_sample_impossible(menu, wrong):
    evidence, fine_evidence = np.ones((3, menu.coarse)), np.ones((3, 3))
    evidence[0, 1] = fine_evidence[2, 1] = wrong
    got = menu(np.zeros((3, 3)), np.zeros((3, menu.coarse)), evidence, fine_evidence)
    assert got["possible"].tolist() == [False, True, False]
    assert np.isneginf(got["log_probs"][[0, 2]]).all()
    assert np.isneginf(got["kind_log_probs"][[0, 2]]).all()
    assert np.exp(got["log_probs"][1]).sum() == pytest.approx(1)


def test_likelihoods_count_by_their_ratio(menu):
    rng = np.random.default_rng(4)
    fine, coarse = rng.normal(size=(2, 3)), rng.normal(size=(2, menu.coarse))
    soft = rng.uniform(0.1, 2, (2, menu.coarse))
    one = menu(fine, coarse, soft)
    for factor in (1e-30, 1e30):
        two = menu(fine, coarse, soft * factor)
        close(two["log_probs"], one["log_probs"], 1e-5)


def test_tables_hold_every_item_once(monkeypatch):
    monkeypatch.setattr(node_writer, "MAX_PLACES", 8)
    rng = np.random.default_rng(5)
    for _ in range(50):
        count, items = int(rng.integers(1, 12)), int(rng.integers(0, 40))
        item, owner = rng.permutation(items), rng.integers(count, size=items)
        made = list_tables(item, owner, count, padding=items)
        rows = [row for table in made.tables for row in table.tolist()]
        found = [sorted(one for one in rows[place] if one != items) for place in made.restore]
        assert found == [sorted(item[owner == number].tolist()) for number in range(count)]
        assert all(table.shape[0] == 1 or table.size <= 8 + table.shape[1] for table in made.tables)
        assert sum(table.size for table in made.tables) <= 2 * items + count
