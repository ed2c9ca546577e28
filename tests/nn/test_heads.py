"""Heads: scores, folding, extending, saving, and the weight prior."""

import copy

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.errors import (
    EvidenceError,
    GraphMismatchError,
    InputError,
    SeveralParentsError,
    ShapeError,
    UnknownNameError,
)
from finegraph.nn.extending import Extension
from finegraph.nn.prior import laplacian
from reference import enumeration as ref
from reference.random_graphs import FORMS, random_graph

GRAPH = fg.LabelGraph.from_table(
    {
        "mapo tofu @ A": {"dish": "mapo tofu", "restaurant": "A", "tofu": True},
        "mapo tofu @ B": {"dish": "mapo tofu", "restaurant": "B", "tofu": True},
        "kung pao @ B": {"dish": "kung pao", "restaurant": "B", "tofu": False},
    }
)
NEW = {"kung pao @ A": {"dish": "kung pao", "restaurant": "A", "tofu": "no"}}
SEVERAL = fg.LabelGraph.from_table(
    {"a": {"served": {"bowl", "plate"}}, "b": {"served": "bowl"}, "c": {"served": "plate"}}
)


@pytest.fixture
def features():
    return torch.randn(5, 8, generator=torch.Generator().manual_seed(0))


def bipartite(features, graph, **options):
    """A bipartite head with random coarse weights, which start at 0 otherwise."""
    head = fg.BipartiteHead(features, graph, **options)
    for parameter in head.coarse.parameters():
        torch.nn.init.normal_(parameter)
    return head


class TestDoubt:
    """All scores of a photo divided by sqrt(1 + doubt * lead)."""

    @pytest.mark.parametrize("form", FORMS)
    def test_it_equals_enumeration_of_scaled_scores(self, features, form):
        case = random_graph(np.random.default_rng(3), form)
        graph, features = case.graph, features.double()
        head = bipartite(8, graph).double()
        fine, coarse = head.scores(features)
        head.doubt = 0.7
        posterior = head(features)

        def enumerated(row, factor):
            kinds = [factor * coarse[kind][row].detach().numpy() for kind in graph.kinds]
            return ref.log_joint(factor * fine[row].detach().numpy(), kinds, case.matrices)

        for row in range(len(features)):
            plain = ref.fine_log_probs(enumerated(row, 1.0))
            factor = (1.0 + head.doubt * (plain.max() - plain.mean())) ** -0.5
            expected = enumerated(row, factor)
            np.testing.assert_allclose(posterior.log_probs()[row].detach(), ref.fine_log_probs(expected), atol=1e-9)
            for number, kind in enumerate(graph.kinds):
                own = ref.kind_log_probs(expected, number)
                np.testing.assert_allclose(posterior.log_probs(kind)[row].detach(), own, atol=1e-9)

    def test_fold_extend_save_and_copy_keep_it(self, features):
        head = bipartite(8, GRAPH)
        head.doubt = 0.3
        expected = head(features).log_probs()
        assert not torch.allclose(expected, torch.log_softmax(head.fold().fine(features), dim=1), atol=1e-3)
        torch.testing.assert_close(head.fold()(features).log_probs(), expected)
        assert head.extend(GRAPH.with_fine(NEW)).doubt == head.fold().extend(GRAPH.with_fine(NEW)).doubt == head.doubt
        loaded = fg.BipartiteHead(8, GRAPH)
        loaded.load_state_dict(head.state_dict())
        for same in (loaded, copy.deepcopy(head), copy.deepcopy(head).bfloat16().float()):
            assert same.doubt == head.doubt
        assert torch.equal(loaded(features).log_probs(), expected)
        loaded.load_state_dict(bipartite(8, GRAPH).state_dict())
        assert (loaded.doubt, "doubt_factor" in loaded.state_dict()) == (0.0, False)

    def test_loss_gradient_and_explanations_follow(self, features):
        head = bipartite(8, GRAPH)
        head.doubt = 0.3
        target = torch.tensor([0, 1, 2, 0, 1])
        loss = head.loss(features, target)
        torch.testing.assert_close(loss, fg.joint_loss(head(features), target))
        (slope,) = torch.autograd.grad(loss, head.fine.bias)
        twin = copy.deepcopy(head).double()
        with torch.no_grad():
            twin.fine.bias[0] += 1e-5
            above = twin.loss(features.double(), target)
            twin.fine.bias[0] -= 2e-5
            assert float(slope[0]) == pytest.approx(
                float(above - twin.loss(features.double(), target)) / 2e-5, abs=1e-4
            )
        log_probs = head(features).log_probs().detach()
        for row, found in enumerate(head(features).explain(GRAPH.fine[0], GRAPH.fine[2])):
            assert found.log_odds == pytest.approx(float(log_probs[row, 0] - log_probs[row, 2]), abs=1e-5)
            assert sum(part.value for part in found.parts) == pytest.approx(found.log_odds, abs=1e-5)

    def test_what_it_refuses(self, features):
        head = bipartite(8, GRAPH)
        with pytest.raises(InputError, match="doubt: expected a finite number of at least 0, got -1"):
            head.doubt = -1.0
        with pytest.raises(EvidenceError, match="doubt first, then give the evidence"):
            head(features).given(restaurant="B").doubted(0.5)


class TestScores:
    def test_it_starts_like_softmax(self, features):
        head = fg.BipartiteHead(8, GRAPH)
        assert torch.allclose(head(features).log_probs(), head.fine(features).log_softmax(dim=1), atol=1e-6)

    def test_one_feature(self, features):
        head = bipartite(8, GRAPH)
        fine, coarse = head.scores(features)
        expected = fine.clone()
        for kind in GRAPH.kinds:
            expected = expected + coarse[kind][:, GRAPH.parents(kind)]
        assert torch.allclose(head(features).log_probs(), expected.log_softmax(dim=1), atol=1e-6)

    def test_two_features(self, features):
        head = bipartite(8, GRAPH, coarse_features=4)
        posterior = head(features, torch.randn(5, 4))
        assert posterior.log_probs("dish").shape == (5, 2)

    def test_a_feature_per_kind(self, features):
        sizes = {"dish": 2, "restaurant": 3, "tofu": 4}
        head = bipartite(8, GRAPH, coarse_features=sizes)
        own = {kind: torch.randn(5, size) for kind, size in sizes.items()}
        _, coarse = head.scores(features, own)
        for layer, kind in zip(head.coarse, GRAPH.kinds, strict=True):
            assert torch.allclose(coarse[kind], layer(own[kind]))

    def test_softmax_has_the_same_interface(self, features):
        head = fg.SoftmaxHead(8, GRAPH)
        posterior = head(features)
        assert torch.allclose(posterior.log_probs(), head.scores(features).log_softmax(dim=1))
        assert torch.allclose(posterior.probs("dish")[:, 1], posterior.probs()[:, 2])

    def test_without_kinds_it_is_softmax(self, features):
        graph = fg.LabelGraph(["a", "b"])
        head = bipartite(8, graph)
        assert torch.allclose(head(features).log_probs(), head.fine(features).log_softmax(dim=1))

    @pytest.mark.usefixtures("unchecked")
    def test_misfits_are_refused(self, features):
        head = bipartite(8, GRAPH)
        two = bipartite(8, GRAPH, coarse_features=4)
        each = bipartite(8, GRAPH, coarse_features={"dish": 2, "restaurant": 3, "tofu": 4})
        for call, error, text in [
            (lambda: head(features[:, :7]), ShapeError, r"features: expected shape \(batch, 8\), got \(5, 7\)"),
            (lambda: head(features[0]), ShapeError, r"features: expected shape \(batch, 8\), got \(8,\)"),
            (lambda: head(features, features), InputError, "takes no coarse features"),
            (
                lambda: two(features),
                InputError,
                r"needs coarse features too: a tensor of shape \(batch, 4\), got NoneType",
            ),
            (lambda: two(features, features), ShapeError, r"coarse features: expected shape \(batch, 4\)"),
            (lambda: each(features, features), InputError, "needs features per kind"),
            (lambda: each(features, {"dish": features[:, :2]}), InputError, "the kind 'restaurant' is missing"),
            (lambda: each(features, {"dsh": features}), UnknownNameError, "unknown kind 'dsh' in the coarse features"),
            (lambda: bipartite(8, GRAPH, coarse_features={"dish": 2}), InputError, "'restaurant' is missing"),
            (lambda: bipartite(8, GRAPH, coarse_features={"dsh": 2}), UnknownNameError, "unknown kind 'dsh'"),
            (lambda: fg.SoftmaxHead(0, GRAPH), InputError, "at least 1, got 0"),
            (lambda: fg.BipartiteHead((8, 6), GRAPH), InputError, r"at least 1, got \(8, 6\)"),
        ]:
            with pytest.raises(error, match=text):
                call()


class TestFolding:
    def test_the_answers_are_the_same(self, features):
        head = bipartite(8, GRAPH)
        folded = head.fold()
        assert isinstance(folded, fg.SoftmaxHead)
        for kind in (None, *GRAPH.kinds):
            assert torch.allclose(folded(features).log_probs(kind), head(features).log_probs(kind), atol=1e-6)
        evidence = {"restaurant": "B"}
        assert torch.allclose(
            folded(features).given(evidence).probs(), head(features).given(evidence).probs(), atol=1e-6
        )

    @pytest.mark.parametrize("bias", [True, False])
    def test_two_features_fold_side_by_side(self, features, bias):
        head = bipartite(8, GRAPH, coarse_features=4, bias=bias)
        other = torch.randn(5, 4)
        folded = head.fold()
        both = torch.cat([features, other], dim=1)
        assert torch.allclose(folded(both).log_probs(), head(features, other).log_probs(), atol=1e-6)

    def test_what_has_no_linear_form_is_refused(self):
        with pytest.raises(SeveralParentsError, match="kind 'served' has fine labels with several or unknown parents"):
            bipartite(8, SEVERAL).fold()
        with pytest.raises(InputError, match="separate features per kind cannot be folded"):
            bipartite(8, GRAPH, coarse_features=dict.fromkeys(GRAPH.kinds, 2)).fold()


class TestSaving:
    def test_weights_come_back(self, features):
        head, other = bipartite(8, GRAPH), bipartite(8, GRAPH)
        assert set(head.state_dict()) == {"graph_digest", "fine.weight", "fine.bias", "coarse.weight", "coarse.bias"}
        other.load_state_dict(head.state_dict())
        assert torch.equal(other(features).log_probs(), head(features).log_probs())

    def test_another_graph_is_refused(self):
        table = {
            name: {k: GRAPH.labels(k)[GRAPH.parents(k)[i]] for k in GRAPH.kinds} for i, name in enumerate(GRAPH.fine)
        }
        reordered = fg.LabelGraph.from_table(dict(reversed(table.items())))
        with pytest.raises(
            GraphMismatchError, match=r"made for another label graph .digest [0-9a-f]{12}, this head has"
        ):
            bipartite(8, reordered).load_state_dict(bipartite(8, GRAPH).state_dict())

    def test_inside_a_network(self):
        network = torch.nn.Sequential(torch.nn.Linear(3, 8), fg.SoftmaxHead(8, GRAPH))
        state = network.state_dict()
        state["1.graph_digest"] = torch.zeros(32, dtype=torch.uint8)
        with pytest.raises(GraphMismatchError, match="made for another label graph"):
            network.load_state_dict(state)

    def test_a_copy_is_independent(self, features):
        head = bipartite(8, GRAPH)
        twin = copy.deepcopy(head)
        with torch.no_grad():
            twin.fine.weight.zero_()
        assert twin.graph is GRAPH
        assert not torch.equal(twin(features).log_probs(), head(features).log_probs())

    @pytest.mark.parametrize("make", [fg.BipartiteHead, fg.SoftmaxHead])
    def test_a_head_without_memory_is_filled_by_loading(self, features, make):
        graph = fg.LabelGraph.from_table(
            {"a": {"served": {"bowl": 0.3, "plate": 0.7}, "hot": True}, "b": {"served": "bowl", "hot": False}}
        )
        head = make(8, graph)
        torch.nn.init.normal_(list(head.parameters())[-2])
        with torch.device("meta"):
            assigned, emptied = make(8, graph), make(8, graph)
        assert assigned.fine.weight.is_meta
        assert assigned(torch.zeros(5, 8, device="meta")).log_probs("served").shape == (5, 2)
        assigned.load_state_dict(head.state_dict(), assign=True)
        emptied.to_empty(device="cpu")
        assert torch.equal(emptied.graph_digest, head.graph_digest)
        emptied.load_state_dict(head.state_dict())
        with torch.device("meta"):
            partly = make(8, graph)
        state = {name: value for name, value in head.state_dict().items() if name != "graph_digest"}
        partly.load_state_dict(state, strict=False, assign=True)
        assert torch.equal(partly.graph_digest, head.graph_digest)
        target = torch.tensor([0, 1, 0, 0, 1])
        for filled in (assigned, emptied, partly):
            assert torch.equal(filled(features).log_probs("served"), head(features).log_probs("served"))
            assert torch.equal(fg.joint_loss(filled(features), target), fg.joint_loss(head(features), target))

    def test_a_graph_first_used_without_memory_is_right_later(self, features):
        graph = fg.LabelGraph(GRAPH.fine, [GRAPH.kind(kind) for kind in GRAPH.kinds])
        with torch.device("meta"):
            fg.BipartiteHead(8, graph)
        head = bipartite(8, graph)
        expected = fg.Posterior(GRAPH, *head.scores(features))
        assert torch.equal(head(features).log_probs("dish"), expected.log_probs("dish"))

    def test_half_precision_keeps_the_graph_exact(self, features):
        graph = fg.LabelGraph.from_table({"a": {"k": {"x": 0.3, "y": 0.7}}, "b": {"k": "x"}})
        head = bipartite(8, graph).to(torch.bfloat16)
        weight = head.tensors.kind("k").edge_log_weight
        assert weight.dtype == torch.float64
        assert weight.exp().tolist() == pytest.approx([0.3, 0.7], abs=1e-12)
        assert head(features.bfloat16()).log_probs().dtype == torch.float32


def grown(graph, extra):
    """A graph with more fine labels."""
    table = {name: {k: graph.labels(k)[graph.parents(k)[i]] for k in graph.kinds} for i, name in enumerate(graph.fine)}
    return fg.LabelGraph.from_table({**extra, **table})


class TestExtending:
    @pytest.mark.parametrize("make", [bipartite, fg.SoftmaxHead])
    def test_known_labels_keep_their_scores(self, features, make):
        head = make(8, GRAPH)
        larger = head.extend(grown(GRAPH, NEW))
        before, after = head(features).joint_scores().scores, larger(features).joint_scores().scores
        names = [larger.graph.fine_index(name) for name in GRAPH.fine]
        assert torch.allclose(after[:, names] - after[:, names[:1]], before - before[:, :1], atol=1e-5)

    def test_a_new_label_is_what_its_parents_tell(self):
        """Where weights are sums of a dish's and a restaurant's part, a missing pair is found from the others."""
        dishes, places = torch.randn(6, 8), torch.randn(5, 8)
        names = {f"{d} @ {r}": {"dish": f"d{d}", "restaurant": f"r{r}"} for d in range(6) for r in range(5)}
        whole = fg.LabelGraph.from_table(names)
        known = fg.LabelGraph.from_table({name: row for name, row in names.items() if name != "2 @ 3"})
        head = fg.SoftmaxHead(8, known, bias=False)
        with torch.no_grad():
            for index, name in enumerate(known.fine):
                d, r = (int(part) for part in name.split(" @ "))
                head.fine.weight[index] = dishes[d] + places[r]
        guess = head.extend(whole).fine.weight[whole.fine_index("2 @ 3")]
        truth = dishes[2] + places[3]
        # Each part is shrunk a little, since it was seen with few others; the direction is right.
        assert torch.cosine_similarity(guess, truth, dim=0) > 0.97

    def test_a_label_without_photos_is_predicted(self):
        """Trained on all combinations but one, the head finds photos of that one."""
        generator = torch.Generator().manual_seed(3)
        parts = torch.randn(10, 24, generator=generator)
        names = {f"{d} @ {r}": {"dish": f"d{d}", "restaurant": f"r{r}"} for d in range(5) for r in range(5)}
        whole = fg.LabelGraph.from_table(names)
        known = fg.LabelGraph.from_table({name: row for name, row in names.items() if name != "1 @ 4"})

        def photos(graph, index):
            centre = [parts[int(n.split(" @ ")[0])] + parts[5 + int(n.split(" @ ")[1])] for n in graph.fine]
            return torch.stack(centre)[index] + 0.3 * torch.randn(len(index), 24, generator=generator)

        target = torch.arange(len(known)).repeat(6)
        x = photos(known, target)
        head = fg.BipartiteHead(24, known)
        optimizer = torch.optim.Adam(head.parameter_groups(0.1))
        for _ in range(60):
            optimizer.zero_grad()
            loss = fg.joint_loss(head(x), target, kind_weights=0.5)
            loss.backward()
            optimizer.step()
        new = whole.fine_index("1 @ 4")
        answers = head.extend(whole)(photos(whole, torch.full((40,), new))).probs().argmax(dim=1)
        assert (answers == new).float().mean() > 0.8

    def test_new_coarse_labels_start_at_the_mean_of_their_kind(self):
        head = bipartite(8, GRAPH)
        larger = head.extend(grown(GRAPH, {"soup @ A": {"dish": "soup", "restaurant": "A", "tofu": "no"}}))
        columns = head.tensors.columns["dish"]
        expected = head.coarse.weight[columns].mean(dim=0)
        place = larger.tensors.columns["dish"].start + larger.graph.label_index("dish", "soup")
        assert torch.allclose(larger.coarse.weight[place], expected)

    @pytest.mark.parametrize("shared", [True, False])
    @pytest.mark.parametrize("form", FORMS)
    def test_one_solution_per_label_or_per_feature_equals_a_dense_one(self, form, shared):
        case = random_graph(np.random.default_rng(6), form)
        graph, rng = case.graph, np.random.default_rng(7)
        # A new row is that of an old fine label, but for one kind, where it has a label that was not there.
        rows = np.concatenate([np.arange(len(graph)), rng.integers(0, len(graph), 5)])
        kinds = [graph.kind(kind).rows(rows) for kind in graph.kinds]
        if kinds:
            matrix = np.pad(kinds[0].matrix(), ((0, 0), (0, 1)))
            matrix[-1] = 0.0
            matrix[-1, -1] = 1.0
            kinds[0] = fg.Kind.from_matrix(kinds[0].name, (*kinds[0].labels, "brand new"), matrix)
        order = rng.permutation(len(rows))
        names = np.array([*graph.fine, *(f"new {n}" for n in range(5))])
        larger = fg.LabelGraph(names[order].tolist(), [kind.rows(order) for kind in kinds])
        extension = Extension(graph, larger)
        old = np.concatenate([np.zeros((len(graph), 0)), *(graph.matrix(kind) for kind in graph.kinds)], axis=1)
        for features in (2, 9):
            fine = torch.from_numpy(rng.normal(size=(len(graph), features)))
            coarse = torch.from_numpy(rng.normal(size=(old.shape[1], features)))
            found = extension.weights(fine, coarse, shared=shared)
            joint = fine.numpy() + (old @ coarse.numpy() if shared else 0.0)
            inverse = np.linalg.inv(np.eye(len(graph)) + old @ old.T)
            constant = (inverse @ joint).sum(axis=0) / inverse.sum()
            parts = old.T @ inverse @ (joint - constant)
            new_parts = np.zeros((found.coarse.shape[0], features))
            new = np.concatenate([np.zeros((len(larger), 0)), *(larger.matrix(kind) for kind in larger.kinds)], axis=1)
            place = [
                start + larger.label_index(kind, label)
                for kind, start in zip(graph.kinds, np.cumsum([0, *(len(k.labels) for k in kinds)]), strict=False)
                for label in graph.labels(kind)
            ]
            new_parts[place] = parts
            expected = constant + new @ new_parts - (new @ found.coarse.numpy() if shared else 0.0)
            expected[[larger.fine_index(name) for name in graph.fine]] = fine.numpy()
            np.testing.assert_allclose(found.fine, expected, atol=1e-9)
            np.testing.assert_array_equal(found.coarse[place], coarse)

    def test_what_does_not_extend_is_refused(self):
        head = bipartite(8, GRAPH)
        with pytest.raises(GraphMismatchError, match="same kinds in the same order"):
            head.extend(GRAPH.only(["dish"]))
        smaller = fg.LabelGraph(GRAPH.fine[:2], [GRAPH.kind(k).rows(np.arange(2)) for k in GRAPH.kinds])
        with pytest.raises(GraphMismatchError, match=r"cannot drop any; 1 are missing .* 'kung pao @ B'"):
            head.extend(smaller)


class TestPrior:
    @pytest.mark.parametrize("form", FORMS)
    def test_value_and_gradient_equal_loops(self, form):
        case = random_graph(np.random.default_rng(3), form)
        head = bipartite(4, case.graph).double()
        prior = fg.laplacian_prior(head)
        prior.backward()
        fine = head.fine.weight.detach().numpy()
        coarse = [head.coarse.weight[c].detach().numpy() for c in head.tensors.columns.values()]
        assert prior.item() == pytest.approx(ref.weight_prior(fine, coarse, case.raw), abs=1e-10)
        fine_grad, coarse_grad = ref.weight_prior_gradient(fine, coarse, case.raw)
        assert np.allclose(head.fine.weight.grad, fine_grad, atol=1e-10)
        for columns, expected in zip(head.tensors.columns.values(), coarse_grad, strict=True):
            assert np.allclose(head.coarse.weight.grad[columns], expected, atol=1e-10)

    def test_labels_of_an_ordered_kind_are_drawn_to_the_next_one(self):
        rows = {"a": {"heat": "mild"}, "b": {"heat": "hot"}, "c": {"heat": "medium"}, "d": {"heat": "hot"}}
        order = ("mild", "medium", "hot")
        head = bipartite(4, fg.LabelGraph.from_table(rows, types={"heat": order})).double()
        plain = bipartite(4, fg.LabelGraph.from_table(rows)).double()
        with torch.no_grad():
            plain.fine.weight.copy_(head.fine.weight)
            plain.coarse.weight.copy_(head.coarse.weight[[order.index(one) for one in plain.graph.labels("heat")]])
        rows = [head.coarse.weight[place] for place in range(3)]
        chain = 0.5 * ((rows[0] - rows[1]).square() + (rows[1] - rows[2]).square()).sum()
        prior = fg.laplacian_prior(head)
        assert prior.item() == pytest.approx((fg.laplacian_prior(plain) + chain).item(), abs=1e-12)
        grads = torch.autograd.grad(prior, [head.fine.weight, head.coarse.weight])
        assert torch.autograd.gradcheck(
            lambda fine, coarse: laplacian(head.edges, fine, coarse),
            [head.fine.weight.detach().requires_grad_(), head.coarse.weight.detach().requires_grad_()],
        )
        assert grads[1].abs().sum() > 0

    def test_equal_sizes_per_kind_are_compared_too(self):
        head = bipartite(4, GRAPH, coarse_features=dict.fromkeys(GRAPH.kinds, 4))
        fg.laplacian_prior(head).backward()
        assert all(layer.weight.grad is not None for layer in head.coarse)

    def test_misfits_are_refused(self):
        with pytest.raises(ShapeError, match="both need the same features; got 8 and 4"):
            fg.laplacian_prior(bipartite(8, GRAPH, coarse_features=4))
        sizes = {"dish": 2, "restaurant": 3, "tofu": 4}
        with pytest.raises(ShapeError, match=r"different feature sizes per kind, \[2, 3, 4\]"):
            fg.laplacian_prior(bipartite(8, GRAPH, coarse_features=sizes))
        with pytest.raises(InputError, match="needs a BipartiteHead, which has coarse weights; got SoftmaxHead"):
            fg.laplacian_prior(fg.SoftmaxHead(8, GRAPH))


def test_a_learning_rate_means_the_same_for_every_head(features):
    """One step of the same rate moves the joint scores about as far, whatever the number of kinds."""
    many = fg.LabelGraph.from_parents(
        [f"fine {i}" for i in range(40)],
        {f"kind {j}": np.random.default_rng(j).integers(0, 5, 40) for j in range(30)},
    )
    target = torch.arange(5)
    moves = []
    for make in (fg.SoftmaxHead, bipartite):
        head = make(8, many)
        with torch.no_grad():
            for parameter in head.parameters():
                parameter.zero_()
        optimizer = torch.optim.SGD(head.parameter_groups(0.1), lr=0.1)
        fg.joint_loss(head(features), target, kind_weights=0.0).backward()
        optimizer.step()
        moves.append((head(features).log_probs()[torch.arange(5), target] + np.log(40)).mean().item())
    assert 0.2 < moves[1] / moves[0] < 3


def test_other_links_keep_the_weights():
    graph = fg.LabelGraph.from_parents(["a", "b", "c"], {"dish": [0, 0, 1]}, {"dish": ["x", "y", "spare"]})
    moved = fg.LabelGraph.from_parents(["a", "b", "c"], {"dish": [0, 1, 1]}, {"dish": ["x", "y", "spare"]})
    head, features = fg.BipartiteHead(4, graph), torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    weight = head.coarse.weight
    with torch.no_grad():
        weight.copy_(torch.randn(3, 4, generator=torch.Generator().manual_seed(1)))
    head.relink(moved)
    assert head.coarse.weight is weight
    expected = fg.BipartiteHead(4, moved)
    expected.load_state_dict(head.state_dict())
    torch.testing.assert_close(head(features).log_probs("dish"), expected(features).log_probs("dish"))
    assert head(features).log_probs("dish")[:, 2].isneginf().all()  # nobody has the spare label
    with pytest.raises(GraphMismatchError, match="as many labels in each kind"):
        head.relink(fg.LabelGraph.from_parents(["a", "b", "c"], {"dish": [0, 1, 1]}))
