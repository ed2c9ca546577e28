"""The names that other people's programs rely on: a session that must work for ever. Add to it; rename nothing."""

import inspect

import numpy as np
import pytest
import torch

import finegraph as fg
import tiny_classifier as tiny
import typed_session

TABLE = {
    "mapo tofu @ A": {"dish": "mapo tofu", "restaurant": "A", "tofu": True},
    "mapo tofu @ B": {"dish": "mapo tofu", "restaurant": "B", "tofu": True},
    "kung pao @ B": {"dish": "kung pao", "restaurant": "B", "tofu": False},
}


@pytest.fixture
def graph(tmp_path):
    path = tmp_path / "menu.csv"
    rows = ["fine,dish,restaurant,tofu", "mapo tofu @ A,mapo tofu,A,yes", "mapo tofu @ B,mapo tofu,B,yes"]
    path.write_text("\n".join([*rows, "kung pao @ B,kung pao,B,no"]) + "\n")
    graph = fg.LabelGraph.read(path)
    assert graph == fg.LabelGraph.from_table(TABLE)
    return graph


def test_graphs(graph):
    assert graph.fine == tuple(TABLE)
    assert graph.kinds == ("dish", "restaurant", "tofu")
    assert graph.labels("dish") == ("mapo tofu", "kung pao")
    assert graph.labels("tofu") == ("no", "yes")
    assert graph.parents("dish").tolist() == [0, 0, 1]
    fine, coarse, weight = graph.edges("dish")
    assert (fine.tolist(), coarse.tolist(), weight.tolist()) == ([0, 1, 2], [0, 0, 1], [1.0, 1.0, 1.0])


def test_heads(graph):
    x = torch.randn(4, 16)
    one, softmax = fg.BipartiteHead(16, graph), fg.SoftmaxHead(16, graph)
    two = fg.BipartiteHead(16, graph, coarse_features=8)
    each = fg.BipartiteHead(16, graph, coarse_features={"dish": 3, "restaurant": 4, "tofu": 5})
    own = {"dish": torch.randn(4, 3), "restaurant": torch.randn(4, 4), "tofu": torch.randn(4, 5)}
    for posterior in (one(x), softmax(x), two(x, torch.randn(4, 8)), each(x, own)):
        assert isinstance(posterior, fg.Posterior)
        assert posterior.log_probs().shape == (4, 3)
        assert posterior.log_probs("restaurant").shape == (4, 2)
    fine, coarse = one.scores(x)
    again = fg.Posterior(graph, fine, coarse)
    assert torch.allclose(again.log_probs(), one(x).log_probs())
    assert torch.allclose(one.fold()(x).log_probs("dish"), one(x).log_probs("dish"), atol=1e-6)
    assert fg.laplacian_prior(one).shape == ()


def test_questions(graph):
    posterior = fg.Posterior(graph, torch.randn(2, 3), {"dish": torch.randn(2, 2)})
    known = posterior.given({"restaurant": "B"})
    assert torch.equal(known.log_probs(), posterior.given(restaurant="B").log_probs())
    posterior.given(restaurant={"A", "B"}, dish=["kung pao", None], tofu={"yes": 0.2, "no": 0.9})
    label, probability = posterior.top(5)[0][0]
    assert label in graph.fine
    assert 0 < probability <= 1
    assert posterior.answer(risk=0.99)[0].probability > 0
    assert len(posterior.explain("mapo tofu @ A", "kung pao @ B")) == 2
    told = posterior.log_prob_of({"restaurant": "B"})
    assert told.shape == (2,)
    assert torch.equal(told, posterior.log_prob_of(restaurant="B"))
    asked = posterior.questions(3)
    assert [question.kind for question in asked[0]][:1] in (["dish"], ["restaurant"], ["tofu"])
    assert {"kind", "binary", "gain", "before", "after", "settles", "above", "unit"} == set(asked[0][0]._fields)


def test_values():
    price = fg.Number.from_values("price", [9.0, 12.0, 15.0], unit="EUR")
    graph = fg.LabelGraph(["soup", "noodles", "duck"], numbers=[price])
    posterior = fg.Posterior(graph, torch.randn(2, 3), number_scores={"price": torch.rand(2, 2)})
    value = posterior.value("price")
    assert isinstance(value, fg.ValueDistribution)
    assert (value.name, value.unit) == ("price", "EUR")
    assert value.mean.shape == value.spread.shape == value.quantile(0.5).shape == (2,)
    assert value.interval(0.9).low.shape == value.interval(0.9).high.shape == (2,)
    assert value.probability("<= 12").shape == value.probability((10, 15)).shape == (2,)
    posterior.given(price="<= 12 EUR").given(price=[(10, 15), None]).given(price=fg.Around(12, 2))
    assert posterior.log_prob_of(price=(10, 15)).shape == (2,)


def test_comparisons_of_photos():
    parameters = inspect.signature(fg.ranking_loss).parameters
    assert list(parameters) == ["values_more", "values_less", "same", "scale", "reduction"]
    value, same = torch.tensor([2.0, 0.0]), torch.tensor([False, True])
    assert fg.ranking_loss(value, value.flip(0), same=same, scale=2.0, reduction="sum").shape == ()


def test_the_loss(graph):
    parameters = inspect.signature(fg.joint_loss).parameters
    assert {name: one.default for name, one in parameters.items()} == {
        "posterior": inspect.Parameter.empty,
        "target": inspect.Parameter.empty,
        "kind_targets": None,
        "kind_weights": None,
        "reduction": "mean",
        "ignore_index": -100,
    }
    posterior = fg.Posterior(graph, torch.randn(2, 3))
    target = torch.tensor([0, -100])
    loss = fg.joint_loss(posterior, target, {"dish": torch.tensor([-100, 1])}, {"dish": 0.5}, "none", -100)
    assert loss.shape == (2,)


def test_models(monkeypatch, tmp_path):
    tiny.register(monkeypatch)
    tiny.classifier().save(tmp_path / "run" / "model")
    tiny.picture().save(tmp_path / "photo.png")
    for folder in (tmp_path / "run", tmp_path / "run" / "model"):
        model = fg.load(folder)
        prediction = model.predict(tmp_path / "photo.png", given={"restaurant": "B"})
        assert prediction.top[0].label.endswith("@ B")
        assert 0 < prediction.evidence_probability <= 1
        assert prediction.contradicts_photo in (True, False)
        assert isinstance(prediction.questions, tuple)
    folder = tmp_path / "run" / "model"
    files = {"config.json", "model.safetensors", "preprocessing.json", "graph.json", "README.md"}
    assert {path.name for path in folder.iterdir()} == files


def test_feature_matrices(graph):
    features = np.random.default_rng(0).normal(size=(12, 5))
    labels = np.array(graph.fine)[np.arange(12) % 3]
    model = fg.BipartiteClassifier(graph).fit(features, labels)
    assert model.predict(features).shape == (12,)
    assert (
        model.predict_proba(features, given={"restaurant": "B"})[:, list(model.classes_).index(graph.fine[0])].max()
        == 0
    )
    assert set(model.predict_kind(features, "dish")) <= set(graph.labels("dish"))
    assert 0 <= model.score(features, labels) <= 1


def test_the_session_for_type_checkers_has_every_public_name():
    text = inspect.getsource(typed_session)
    assert [name for name in fg.__all__ if f"fg.{name}" not in text] == []
    typed_session.main()
