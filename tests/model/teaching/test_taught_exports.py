"""What follows a taught model: its exports, its folded head, and a thousand lessons against one fit."""

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch

import finegraph as fg
import tiny_classifier as tiny
from finegraph.graph import LabelGraph
from finegraph.model.export.export_check import LIMIT, compare_outputs
from finegraph.model.export.metadata import metadata_of
from finegraph.model.export.onnx_file import onnx_bytes
from finegraph.model.export.runners import ModelRunner, OnnxRunner, TorchRunner
from finegraph.model.export.torch_file import torch_bytes
from finegraph.model.fitting.prototypes import fit_prototypes
from finegraph.model.teaching.class_statistics import ClassStatistics
from finegraph.model.teaching.lesson import TaughtPhoto
from finegraph.model.teaching.teaching import Teaching
from taught_classifier import fitted, photo_of

PLAIN = {label: {kind: row[kind] for kind in ("dish", "restaurant")} for label, row in tiny.TABLE.items()}


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    tiny.register(monkeypatch)


def taught(place, table=tiny.TABLE):
    """A model that was taught photos, a new label and a new coarse label, and forgot a lesson."""
    fitted(table).save(place)
    model = fg.load(place)
    untaught = model.predict(photo_of(4, 77)).top[0]
    for number in range(3):
        model.teach("kung pao @ A", photo_of(4, 70 + number))
    parents = {"dish": "mapo tofu", "restaurant": "C"}
    model.teach("mapo tofu @ C", [photo_of(0, 80), photo_of(0, 81)], parents=parents)
    model.forget(model.teach("egg rice @ B", photo_of(1, 90)).id)
    assert model.predict(photo_of(4, 77)).top[0] != untaught
    return model


def largest_difference(runner, model):
    images = np.random.default_rng(0).integers(0, 256, (6, 24, 24, 3), dtype=np.uint8)
    photos = [f"photo {number}" for number in range(len(images))]
    return max(one.largest for one in compare_outputs(runner, ModelRunner(model), model.graph, images, photos))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.deep
def test_onnx_of_a_taught_model(tmp_path):
    model = taught(tmp_path / "model")
    assert model.network.head.doubt == fg.load(tmp_path / "model").network.head.doubt > 0.0
    assert largest_difference(OnnxRunner(onnx_bytes(model)), model) < LIMIT / 10
    model.temperature = 1.7
    assert largest_difference(OnnxRunner(onnx_bytes(model)), model) < LIMIT / 10
    model.temperature = 1.0
    assert largest_difference(OnnxRunner(onnx_bytes(fg.load(tmp_path / "model"))), model) < LIMIT / 10


@pytest.mark.deep
@pytest.mark.usefixtures("unchecked")
def test_torch_export_of_a_taught_model(tmp_path):
    model = taught(tmp_path / "model")
    coarse = sum(len(model.graph.labels(kind)) for kind in model.graph.kinds)
    assert largest_difference(TorchRunner(torch_bytes(model), len(model.graph), coarse), model) < LIMIT / 10


@pytest.mark.deep
def test_the_folded_head_of_a_taught_model(tmp_path):
    model = taught(tmp_path / "model", PLAIN)
    features = model.network.scaling(torch.randn(20, 12, generator=torch.Generator().manual_seed(0)))
    head = model.network.head
    folded = head.fold()
    assert folded.graph.fine[-1] == "mapo tofu @ C"
    torch.testing.assert_close(folded(features).log_probs(), head(features).log_probs(), atol=1e-5, rtol=1e-5)
    for kind in model.graph.kinds:
        answers = [each(features) for each in (folded, head)]
        one, two = (answer.kind_log_probs(kind, answer.log_probs()) for answer in answers)
        torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-5)


@pytest.mark.deep
@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_lessons_one_by_one_give_the_head_of_one_fit(tmp_path, count):
    """On drawn features: what a photo becomes is tested elsewhere, and a thousand lessons are many."""
    random = np.random.default_rng(0)
    table = {f"label {i}": {"dish": f"dish {i // 4}", "place": f"place {i % 7}"} for i in range(60)}
    graph = LabelGraph.from_table(table)
    means = random.normal(0, 1, (60, 24))
    start_targets = torch.arange(40).repeat_interleave(2)  # the last twenty labels have no photo yet
    start = torch.from_numpy(means[start_targets] + random.normal(0, 1, (80, 24))).float()
    fit = fit_prototypes(start, start_targets, graph)
    statistics = ClassStatistics.of_fit(fit, start, start_targets)
    teaching = Teaching(tmp_path, graph, statistics, fit.head, "0" * 64)
    targets = torch.from_numpy(random.integers(0, 60, count))
    features = fit.scaling(torch.from_numpy(means[targets] + random.normal(0, 1, (count, 24))).float()).numpy()
    for number, (target, row) in enumerate(zip(targets.tolist(), features, strict=True)):
        photo = TaughtPhoto(f"{number}.png", f"{number:064x}", row)
        teaching.teach(graph.fine[target], [photo], parents=None, person="", lesson_id=f"lesson-{number}")
    counts = statistics.counts.index_add(0, targets, torch.ones(count, dtype=torch.float64))
    sums = statistics.sums.index_add(0, targets, torch.from_numpy(features).double())
    once = replace(statistics, counts=counts, sums=sums).solve(graph)
    for name, value in once.state_dict().items():
        torch.testing.assert_close(teaching.head.state_dict()[name], value, atol=1e-5, rtol=1e-5)


@pytest.mark.deep
@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_photos_taught_one_by_one_give_the_head_of_fitting_all_at_once(tmp_path, count):
    """With the strengths and the scaling of that fit, as neither changes by lessons."""
    random = np.random.default_rng(1)
    table = {f"label {i}": {"dish": f"dish {i // 4}", "place": f"place {i % 7}"} for i in range(60)}
    graph = LabelGraph.from_table(table)
    means = random.normal(0, 1, (60, 24))
    targets = torch.cat([torch.arange(40).repeat_interleave(2), torch.from_numpy(random.integers(0, 60, count))])
    features = torch.from_numpy(means[targets] + random.normal(0, 1, (len(targets), 24))).float()
    whole = fit_prototypes(features, targets, graph)
    statistics = ClassStatistics.of_fit(whole, features[:80], targets[:80])
    teaching = Teaching(tmp_path, graph, statistics, statistics.solve(graph), "0" * 64)
    scaled = whole.scaling(features).numpy()
    for number in range(80, len(targets)):
        photo = TaughtPhoto(f"{number}.png", f"{number:064x}", scaled[number])
        label = graph.fine[int(targets[number])]
        teaching.teach(label, [photo], parents=None, person="", lesson_id=f"lesson-{number}")
    again = fit_prototypes(features, targets, graph, strengths=whole.strengths)
    for fit in (whole, again):
        for name, value in fit.head.state_dict().items():
            torch.testing.assert_close(teaching.head.state_dict()[name], value, atol=1e-5, rtol=1e-5)


@pytest.mark.deep
def test_exports_say_what_was_taught(tmp_path):
    model = taught(tmp_path / "model")
    said = json.loads(metadata_of(model)["lessons"])
    assert said["last"] == max(lesson.at for lesson in model.lessons if not lesson.forgotten)
    del said["last"]
    assert said == {
        "lessons": 4,
        "photos": 5,
        "labels": ["kung pao @ A", "mapo tofu @ C"],
        "new_labels": ["mapo tofu @ C"],
    }
    assert "lessons" not in metadata_of(fitted())
    assert onnx.load_from_string(onnx_bytes(model)).metadata_props[-1].key == "lessons"


def test_the_card_says_what_was_taught_and_keeps_what_people_wrote(tmp_path):
    fitted().save(tmp_path / "model")
    card = tmp_path / "model" / "README.md"
    first = card.read_text()
    assert "What it was taught" not in first
    edited = first.replace("## Metrics\n", "## Whom to ask\n\nAda\n\n## Metrics\n")
    card.write_text(edited)
    model = fg.load(tmp_path / "model")
    one = model.teach("kung pao @ A", photo_of(4, 70))
    two = fg.load(tmp_path / "model").teach("mapo tofu @ C", [photo_of(4, 70), photo_of(0, 80)], parents={})
    text = card.read_text()
    assert f"2 lessons with 2 photos of 2 labels, the last one at {two.at}: kung pao @ A, mapo tofu @ C." in text
    assert "New among them: mapo tofu @ C." in text
    assert "## Whom to ask\n\nAda\n" in text
    model.save(tmp_path / "copy") if model.refresh() else None
    assert text.count("## What it was taught") == (tmp_path / "copy" / "README.md").read_text().count(
        "What it was taught"
    )
    model.forget(two.id)
    assert "1 lesson with 1 photo of 1 label" in card.read_text()
    model.forget(one.id)
    assert card.read_text() == edited
    card.unlink()
    model.teach("kung pao @ A", photo_of(4, 70))
    assert not card.exists()
