"""The scores of numbers in heads: where they start, what they add, folding, extending, saving."""

import math

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.errors import GraphMismatchError, InputError, UnknownNameError

MENU = fg.LabelGraph.from_table(
    {
        "mapo tofu @ A": {"dish": "mapo tofu", "price": 12.0, "mass": 300.0},
        "mapo tofu @ B": {"dish": "mapo tofu", "price": 9.5, "mass": 250.0},
        "kung pao @ B": {"dish": "kung pao", "price": 14.0, "mass": 420.0},
    },
    types={"price": "number, EUR", "mass": "log number, g"},
)
VAGUE = fg.LabelGraph.from_table(
    {
        "a": {"dish": "x", "price": "12 +- 1.5", "mass": 300.0},
        "b": {"dish": "x", "price": 9.5, "mass": None},
        "c": {"dish": "y", "price": 14.0, "mass": "100..200"},
    },
    types={"price": "number, EUR", "mass": "log number, g"},
)
PER_KIND = {"dish": 2, "price": 3, "mass": 4}


@pytest.fixture
def features():
    return torch.randn(5, 8, generator=torch.Generator().manual_seed(0))


def bipartite(features, graph, **options):
    """A head with random coarse and number weights."""
    head = fg.BipartiteHead(features, graph, **options)
    for part in (head.coarse, head.numbers):
        for parameter in part.parameters():
            torch.nn.init.normal_(parameter)
    return head


class TestScores:
    @pytest.mark.parametrize("graph", [MENU, VAGUE], ids=["exact", "vague"])
    def test_a_head_starts_like_softmax(self, features, graph):
        head = fg.BipartiteHead(8, graph)
        plain = fg.BipartiteHead(8, graph.only(["dish"]))
        plain.fine.weight.data, plain.fine.bias.data = head.fine.weight.data, torch.zeros(3)
        at_zero = head(torch.zeros(1, 8)).joint_scores().scores
        assert at_zero.max() - at_zero.min() <= 2 / math.sqrt(8) + 1e-6  # the random biases of a linear layer alone
        apart = head(features).joint_scores().scores - plain(features).joint_scores().scores
        assert torch.allclose(apart - apart[:, :1], at_zero - at_zero[:, :1], atol=1e-6)

    @pytest.mark.parametrize("graph", [MENU, VAGUE], ids=["exact", "vague"])
    def test_the_posterior_has_them(self, features, graph):
        head = bipartite(8, graph).double()
        fine, scores = head.scores(features.double())
        assert set(scores) == {"dish", "price", "mass"}
        posterior = head(features.double())
        expected = fg.Posterior(
            graph, fine, {"dish": scores["dish"]}, number_scores={name: scores[name] for name in graph.numbers}
        )
        assert torch.equal(posterior.log_probs(), expected.log_probs())
        assert torch.equal(posterior.value("mass").mean, expected.value("mass").mean)
        raw = features.double() @ head.numbers.weight.T + head.numbers.bias
        assert torch.allclose(scores["price"][:, 0], raw[:, 0])
        assert torch.allclose(scores["mass"][:, 1], raw[:, 3].exp().log1p())

    def test_two_features_and_a_feature_per_kind(self, features):
        two = bipartite(8, MENU, coarse_features=4)
        own = torch.randn(5, 4)
        assert torch.equal(two(features, own).number_scores, two.numbers(own))
        each = bipartite(8, MENU, coarse_features=PER_KIND)
        given = {name: torch.randn(5, size) for name, size in PER_KIND.items()}
        scores = each(features, given).number_scores
        assert scores.shape == (5, 2, 2)
        assert torch.equal(scores[:, 1], each.numbers[1](given["mass"])[:, 0])

    def test_softmax_tells_values_by_its_labels(self, features):
        head = fg.SoftmaxHead(8, MENU)
        values = torch.tensor([12.0, 9.5, 14.0], dtype=torch.float64)
        assert torch.allclose(head(features).value("price").mean, head(features).probs().double() @ values)

    def test_silent_scores_say_nothing(self, features):
        head = bipartite(8, VAGUE)
        head.silence_numbers()
        plain = fg.Posterior(VAGUE, *head.scores(features)[:1], {"dish": head.scores(features)[1]["dish"]})
        assert torch.allclose(head(features).log_probs(), plain.log_probs(), atol=1e-6)
        assert torch.allclose(head(features).value("price").spread, plain.value("price").spread)
        with pytest.raises(InputError, match="without a bias cannot be silent"):
            fg.BipartiteHead(8, MENU, bias=False).silence_numbers()

    @pytest.mark.usefixtures("unchecked")
    def test_misfits_are_refused(self, features):
        each = fg.BipartiteHead(8, MENU, coarse_features=PER_KIND)
        for call, error, text in [
            (lambda: fg.BipartiteHead(8, MENU, coarse_features={"dish": 2}), InputError, "number 'price' is missing"),
            (lambda: fg.BipartiteHead(8, MENU, coarse_features={"prce": 2}), UnknownNameError, "unknown kind 'prce'"),
            (lambda: each(features, features), InputError, r"each of \('dish', 'price', 'mass'\)"),
            (lambda: each(features, {"dish": torch.zeros(5, 2)}), InputError, "the number 'price' is missing"),
        ]:
            with pytest.raises(error, match=text):
                call()

    def test_a_rate_means_the_same_with_numbers(self):
        assert fg.BipartiteHead(8, MENU).parameter_groups(1.0)[0]["lr"] == pytest.approx(1 / 4)


def with_constant_precisions(head):
    """The same head with precisions that do not depend on the features."""
    with torch.no_grad():
        head.numbers.weight[1::2] = 0.0
    return head


class TestFolding:
    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("sizes", [{}, {"coarse_features": 4}], ids=["one feature", "two features"])
    def test_the_answers_are_the_same(self, features, bias, sizes):
        head = with_constant_precisions(bipartite(8, MENU, bias=bias, **sizes)).double()
        given = (features.double(), *(torch.randn(5, 4, dtype=torch.float64) for _ in sizes))
        folded = head.fold()
        ours, theirs = folded(torch.cat(given, dim=1)), head(*given)
        assert torch.allclose(ours.log_probs(), theirs.log_probs(), atol=1e-12)
        assert torch.allclose(ours.value("mass").mean, theirs.value("mass").mean)
        evidence = {"price": "<= 12.5"}
        assert torch.allclose(ours.given(evidence).probs(), theirs.given(evidence).probs(), atol=1e-12)

    def test_what_has_no_linear_form_is_refused(self):
        with pytest.raises(InputError, match="number 'price' has fine labels with spreads or unknown values"):
            with_constant_precisions(bipartite(8, VAGUE)).fold()
        with pytest.raises(InputError, match="the precision of number 'price' depends on the features"):
            bipartite(8, MENU).fold()


NEW = {"kung pao @ A": {"dish": "kung pao", "price": 31.0, "mass": 80.0}}


class TestExtending:
    @pytest.mark.parametrize("sizes", [{}, {"coarse_features": 4}], ids=["one feature", "two features"])
    def test_known_labels_keep_their_scores_on_another_inner_scale(self, features, sizes):
        head = bipartite(8, MENU, **sizes).double()
        given = (features.double(), *(torch.randn(5, 4, dtype=torch.float64) for _ in sizes))
        middle = head.extend(MENU.with_fine(NEW))
        later = {"soup @ A": {"dish": "soup", "price": 3.0, "mass": 500.0}}
        for larger in (middle, middle.extend(middle.graph.with_fine(later))):
            assert larger.graph.number("price").centre != MENU.number("price").centre
            before, after = head(*given).joint_scores().scores, larger(*given).joint_scores().scores[:, :3]
            assert torch.allclose(after - after[:, :1], before - before[:, :1], atol=1e-10)

    def test_a_new_label_is_where_its_value_puts_it(self, features):
        """Where values alone tell labels apart, a new label is told apart like the others."""
        graph = fg.LabelGraph.from_table(
            {f"for {price}": {"price": float(price)} for price in (1, 2, 3, 4, 5, 6, 8)}, types={"price": "number"}
        )
        head = fg.BipartiteHead(8, graph).double()
        pull = torch.randn(8, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
        with torch.no_grad():
            head.fine.weight.zero_()
            head.fine.bias.copy_(-head.numbers.precision_terms(head.tensors.numbers))
            head.numbers.weight[0] = pull
        larger = head.extend(graph.with_fine({"for 30": {"price": 30.0}}))
        scores = larger(features.double()).joint_scores().scores
        for label in ("for 2", "for 30"):
            value, first = (float(graph.number("price").to_inner(float(one.split()[1]))) for one in (label, "for 1"))
            apart = scores[:, larger.graph.fine_index(label)] - scores[:, 0]
            assert torch.allclose(apart, (value - first) * (features.double() @ pull), atol=1e-10)

    def test_other_numbers_are_refused(self):
        head = fg.BipartiteHead(8, MENU)
        with pytest.raises(GraphMismatchError, match="extend needs the same numbers in the same order"):
            head.extend(MENU.only(["dish", "mass"]))


class TestSaving:
    def test_weights_come_back(self, features):
        head, other = bipartite(8, MENU), bipartite(8, MENU)
        extra = {"numbers.weight", "numbers.bias", "numbers.scale"}
        assert set(head.state_dict()) == set(fg.BipartiteHead(8, MENU.only(["dish"])).state_dict()) | extra
        other.load_state_dict(head.state_dict())
        assert torch.equal(other(features).log_probs(), head(features).log_probs())

    def test_a_graph_without_numbers_has_no_such_weights(self):
        assert not [name for name in fg.BipartiteHead(8, MENU.only(["dish"])).state_dict() if "number" in name]

    def test_other_values_are_another_graph(self):
        changed = MENU.with_number(fg.Number.from_values("price", [12.0, 9.5, 15.0], unit="EUR"))
        with pytest.raises(GraphMismatchError, match="made for another label graph"):
            fg.BipartiteHead(8, changed).load_state_dict(fg.BipartiteHead(8, MENU).state_dict())

    def test_a_head_without_memory_is_filled_by_loading(self, features):
        head = bipartite(8, VAGUE)
        with torch.device("meta"):
            empty = fg.BipartiteHead(8, VAGUE)
        assert empty.numbers.weight.is_meta
        empty.load_state_dict(head.state_dict(), assign=True)
        assert torch.equal(empty(features).value("price").mean, head(features).value("price").mean)

    def test_half_precision(self, features):
        head = bipartite(8, VAGUE).to(torch.bfloat16)
        posterior = head(features.bfloat16())
        assert posterior.number_scores.dtype == torch.float32
        assert np.isfinite(posterior.value("mass").mean.detach().numpy()).all()
