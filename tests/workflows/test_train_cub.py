"""Training on the layout of CUB-200-2011, whose photos may contradict their species."""

import numpy as np
import pytest
from PIL import Image

import finegraph as fg
from finegraph.training.settings import TrainSettings
from finegraph.workflows.data import check_data
from finegraph.workflows.evaluate import evaluate_run
from finegraph.workflows.train import train_run
from training import tiny

SPECIES = ("001.Albatross", "002.Wren")


class Silent:
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)

    def __getattr__(self, name):
        return lambda *anything: None


@pytest.fixture
def cub(tmp_path):
    """Ten photos of two species, hooked and dagger; one photo was seen as a cone, which no species is."""
    tiny.register()
    random = np.random.default_rng(0)
    folder = tmp_path / "cub"
    files = {name: [] for name in ("images", "image_class_labels", "train_test_split", "bounding_boxes")}
    seen = []
    for number in range(1, 11):
        label = number % 2
        path = folder / "images" / SPECIES[label] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 255, (48, 48, 3)).astype(np.uint8)).save(path)
        files["images"].append(f"{number} {SPECIES[label]}/{path.name}")
        files["image_class_labels"].append(f"{number} {label + 1}")
        files["train_test_split"].append(f"{number} {int(number <= 8)}")
        files["bounding_boxes"].append(f"{number} 4.0 4.0 40.0 40.0")
        shape = 2 if number == 1 else label
        seen += [f"{number} {attribute + 1} {int(attribute == shape)} 4 1.0" for attribute in range(3)]
    files["classes"] = [f"{number + 1} {name}" for number, name in enumerate(SPECIES)]
    for name, lines in files.items():
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    attributes = folder / "attributes"
    attributes.mkdir()
    shapes = ("hooked", "dagger", "cone")
    (attributes / "attributes.txt").write_text(
        "".join(f"{number} has_bill_shape::{shape}\n" for number, shape in enumerate(shapes, start=1))
    )
    (attributes / "class_attribute_labels_continuous.txt").write_text("90 5 5\n5 90 5\n")
    (attributes / "image_attribute_labels.txt").write_text("\n".join(seen) + "\n")
    return f"cub:{folder}"


@pytest.mark.deep
@pytest.mark.parametrize("tune", ["head", "all"])
def test_kinds_are_those_of_the_species_as_in_the_paper(cub, tmp_path, tune):
    more = {"epochs": 1, "batch_size": 4} if tune == "all" else {}
    settings = TrainSettings(data=cub, network="tiny", weights="none", tune=tune, **more)
    train_run(settings, Silent(), run=tmp_path / "run")
    graph = fg.load(tmp_path / "run").graph
    assert graph.parents("bill shape").tolist() == [0, 1]
    assert set(evaluate_run(tmp_path / "run").result.kind_photos.values()) == {2}


@pytest.mark.deep
def test_photos_count_when_asked_for_and_become_weights_where_they_contradict(cub, tmp_path):
    watcher = Silent()
    settings = TrainSettings(data=cub, network="tiny", weights="none", photo_labels="use")
    train_run(settings, watcher, run=tmp_path / "run")
    assert any("photos show what their classes exclude in bill shape" in note for note in watcher.notes)
    fine, coarse, _ = fg.load(tmp_path / "run").graph.edges("bill shape")
    assert (1, 2) in set(zip(fine.tolist(), coarse.tolist(), strict=True))  # the wren that was seen as a cone


def test_the_check_compares_photos_with_their_species_unasked(cub):
    found = check_data(cub).findings
    assert any(one.rule == "contradiction" and "which the graph excludes" in one.message for one in found)
