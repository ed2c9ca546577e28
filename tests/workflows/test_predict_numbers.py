"""Numbers and ordered kinds through the doors: what is known as text, predictions, and filters of a search."""

import csv
import json

import numpy as np
import pytest
import torch

import finegraph as fg
import tiny_classifier as tiny
from finegraph.errors import EvidenceError, InputError, UnknownNameError
from finegraph.graph import LabelGraph
from finegraph.model.answering.predictions import NumberAnswer, PredictionSettings, describe, in_digits
from finegraph.search.filters import selection
from finegraph.search.photo_table import Table
from finegraph.search.segments import GUESSES, NONE, Columns, Segment, write_segment
from finegraph.workflows.predict import PredictionResult, evidence_of, parse_given, predict_photos, write_predictions

TABLE = {
    "mapo tofu @ A": {"dish": "mapo tofu", "restaurant": "A", "heat": "hot", "price": 12.5, "year": 2009},
    "mapo tofu @ B": {"dish": "mapo tofu", "restaurant": "B", "heat": "medium", "price": (9.0, 1.0), "year": 2012},
    "kung pao @ A": {"dish": "kung pao", "restaurant": "A", "heat": "medium", "price": None, "year": 2012},
    "kung pao @ B": {"dish": "kung pao", "restaurant": "B", "heat": "mild", "price": 15.0, "year": 2014},
    "egg rice @ B": {"dish": "egg rice", "restaurant": "B", "heat": "mild", "price": 6.0, "year": None},
}
TYPES = {"heat": ("mild", "medium", "hot"), "price": "log number, EUR", "year": "number"}
GRAPH = LabelGraph.from_table(TABLE, TYPES)


@pytest.mark.parametrize(
    ("texts", "given"),
    [
        (["price<=12"], {"price": ("<= 12",)}),
        (["price = 10..15"], {"price": ("10..15",)}),
        (["year=2012 +- 2", "restaurant=A"], {"year": ("2012 +- 2",), "restaurant": ("A",)}),
        (["heat>=medium"], {"heat": ("medium", "hot")}),
        (["heat=medium..hot"], {"heat": ("medium", "hot")}),
        (["heat=mild to medium"], {"heat": ("mild", "medium")}),
        (["heat < medium"], {"heat": ("mild",)}),
        (["heat=hot", "heat=mild"], {"heat": ("hot", "mild")}),
        (["price≥10", "price≥10"], {"price": ("≥ 10",)}),
        (["price>=10", "price<=15"], {"price": (">= 10 and <= 15",)}),
        (["heat=>= medium"], {"heat": ("medium", "hot")}),
        (["heat>=medium", "restaurant=A", "heat<=medium"], {"restaurant": ("A",), "heat": ("medium",)}),
        (["heat<=medium", "heat<=mild"], {"heat": ("mild",)}),
        (["heat=mild", "heat>medium"], {"heat": ("mild", "hot")}),
    ],
)
def test_what_is_known_as_text(texts, given):
    found = parse_given(GRAPH, texts)
    assert found == given
    posterior = fg.Posterior(GRAPH, torch.zeros(1, len(GRAPH)))
    assert posterior.given(evidence_of(GRAPH, found)).log_probs().isfinite().any()


@pytest.mark.parametrize(
    ("texts", "error", "words"),
    [
        (["price<=cheap"], EvidenceError, "cheap"),
        (["price>=15", "price<=10"], EvidenceError, "no value is '>= 15 and <= 10'; one part rules out the other"),
        (
            ["heat>medium", "heat<medium"],
            InputError,
            "'heat>medium' and 'heat<medium': no label of 'heat' is within both",
        ),
        (["heat>=warm"], UnknownNameError, "unknown label 'warm'"),
        (["pric<=10"], UnknownNameError, r"^unknown kind 'pric'; did you mean 'price'\?"),
        (["pric<10"], UnknownNameError, r"^unknown kind 'pric'; did you mean 'price'\?"),
        (["price=cheap", "heat>=warm", "dish=soup", "pric<3"], InputError, "(?s)cheap.*\n.*soup.*\n.*'pric'.*\n.*warm"),
        (["prize=10"], UnknownNameError, r"unknown kind 'prize'; did you mean 'price'\?"),
    ],
)
def test_what_cannot_be_read(texts, error, words):
    with pytest.raises(error, match=words):
        parse_given(GRAPH, texts)


@pytest.fixture
def run(tmp_path, monkeypatch):
    tiny.register(monkeypatch)
    tiny.classifier(GRAPH).save(tmp_path / "model")
    tiny.picture(1).save(tmp_path / "photo.png")
    return tmp_path


def test_predictions_hold_numbers(run):
    result = predict_photos(run / "model", [run / "photo.png"], risk=0.1)
    (prediction,) = result.predictions
    assert list(prediction.numbers) == ["price", "year"]
    price = prediction.numbers["price"]
    assert price.unit == "EUR"
    assert price.probability == pytest.approx(0.9)
    assert price.low <= price.mean <= price.high
    document = json.loads(json.dumps(prediction.to_dict()))
    assert document["numbers"]["price"]["low"] == price.low
    assert document["numbers"]["price"]["text"].startswith("about ")


def test_numbers_are_those_of_the_posterior():
    posterior = fg.Posterior(GRAPH, torch.randn(3, len(GRAPH), generator=torch.Generator().manual_seed(0)))
    found = describe(posterior, ["a", "b", "c"], PredictionSettings(risk=0.2))
    value = posterior.value("price")
    for row, prediction in enumerate(found):
        price = prediction.numbers["price"]
        assert (price.mean, price.spread) == (value.mean[row].item(), value.spread[row].item())
        assert (price.low, price.high) == tuple(end[row].item() for end in value.interval(0.8))
    assert describe(posterior, ["a", "b", "c"], PredictionSettings(risk=0.0))[0].numbers["price"].probability == 0.999


@pytest.mark.deep
def test_evidence_on_numbers_changes_the_answer(run):
    dear = predict_photos(run / "model", [run / "photo.png"], given=["price=13..20"]).predictions[0]
    assert dear.evidence_probability is not None
    assert 13 <= dear.numbers["price"].low <= dear.numbers["price"].high <= 20
    possible = {answer.label for answer in dear.top if answer.probability > 1e-9}
    assert "mapo tofu @ A" not in possible  # exactly 12.5
    assert "egg rice @ B" not in possible  # exactly 6
    each = fg.load(run / "model").predict(
        [run / "photo.png", run / "photo.png"], given={"price": [(13, 20), None], "heat": ["<= medium", None]}
    )
    assert each[0].numbers["price"].low >= 13
    assert each[1].evidence_probability is None
    with pytest.raises(EvidenceError, match=r"no fine label .* year is '> 2500'"):
        fg.load(run / "model").predict(run / "photo.png", given={"year": "> 2500", "restaurant": "A"})


def test_digits():
    assert [in_digits(value) for value in (2012.0, 12.34, 0.01234, 123.456, 5.0)] == [
        "2012",
        "12.3",
        "0.0123",
        "123",
        "5",
    ]
    assert str(NumberAnswer(9.0, 0.0, 9.0, 9.0, 0.95, "EUR")) == "9 EUR"
    assert str(NumberAnswer(9.2, 1.0, 7.1, 11.25, 0.95, "")) == "about 9.2 (7.1 to 11.2 in 95 %)"
    assert str(NumberAnswer(-2e-5, 1.0, -2.0, 2.5, 0.95, "")) == "about 0 (-2 to 2.5 in 95 %)"


@pytest.mark.parametrize(
    ("where", "passes"),
    [
        ({"price": "<= 12"}, [1, 4]),
        ({"price": (9, 13)}, [0, 1]),
        ({"price": ("10..20",)}, [0, 3]),
        ({"price": "<= 12", "restaurant": "B"}, [1, 4]),
        ({"year": "2012"}, [1, 2]),
    ],
)
def test_filters_of_a_search(where, passes, tmp_path):
    table = table_of_photos(tmp_path)
    assert passing(table, where, None) == passes


def test_what_surely_fails_a_condition(tmp_path):
    table = table_of_photos(tmp_path)
    assert passing(table, None, {"price": "<= 12"}) == [0, 3]
    with pytest.raises(InputError, match="expected one condition"):
        selection(table, {"price": ("<= 12", "> 3")}, None)


def table_of_photos(folder):
    """A photo of each fine label, one without, and further ones of a label that the graph does not have."""
    labels = [*GRAPH.fine, None, *["another"] * 20]
    count = len(labels)
    columns = Columns(
        vectors=np.zeros((count, 2), np.float16),
        keys=np.zeros((count, 16), np.uint8),
        paths=[f"/{number}.jpg" for number in range(count)],
        labels=labels,
        guess_labels=np.full((count, GUESSES), NONE, np.int32),
        guess_probs=np.zeros((count, GUESSES), np.float32),
        kinds={},
        boxes=[None] * count,
    )
    return Table([Segment(folder, write_segment(folder / "segment-0.safetensors", columns))], GRAPH)


def passing(table, where, where_not):
    """The photos that pass."""
    found = selection(table, where, where_not)
    return (np.flatnonzero(found) if found.dtype == np.bool_ else found).tolist()


def test_a_table_of_predictions_has_means_and_quantiles(tmp_path):
    posterior = fg.Posterior(GRAPH, torch.randn(2, 5, generator=torch.Generator().manual_seed(0)))
    answers = describe(posterior, ["a.jpg", "=b.jpg"], PredictionSettings())
    write_predictions(
        PredictionResult(model="m", given={}, views=1, predictions=tuple(answers), bad=()), tmp_path / "answers.csv"
    )
    rows = list(csv.DictReader((tmp_path / "answers.csv").read_text().splitlines()))
    assert [row["photo"] for row in rows] == ["a.jpg", "\\=b.jpg"]
    value = posterior.value("price")
    for row, mean, low, high in zip(rows, value.mean, value.quantile(0.05), value.quantile(0.95), strict=True):
        found = [float(row[name]) for name in ("price [EUR]", "price 5 %", "price 95 %")]
        assert found == pytest.approx([float(mean), float(low), float(high)], rel=1e-5)
        assert row["heat"] in ("mild", "medium", "hot")
