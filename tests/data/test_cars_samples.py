"""Stanford Cars in MATLAB's files, with and without the labels of the test photos."""

import sys

import numpy as np
import pytest
from data_files import save
from scipy.io import savemat

from finegraph.data import Box, Sample, read_samples
from finegraph.errors import DataFileError, MissingExtraError

CLASSES = ["AM General Hummer SUV 2000", "Acura RL Sedan 2012"]
CORNERS = ["bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2"]


def write_list(path, rows, labels=True):
    """Annotations as the devkit has them: a row of structures."""
    fields = [*CORNERS, "class", "fname"] if labels else [*CORNERS, "fname"]
    table = np.zeros((1, len(rows)), dtype=[(name, object) for name in fields])
    for number, (box, label, name) in enumerate(rows):
        table[0, number] = (*map(float, box), label, name) if labels else (*map(float, box), name)
    savemat(path, {"annotations": table})


@pytest.fixture
def cars(tmp_path):
    (tmp_path / "devkit").mkdir()
    savemat(tmp_path / "devkit/cars_meta.mat", {"class_names": np.array([CLASSES], dtype=object)})
    train = [((3, 4, 40, 30), 2, "00001.jpg"), ((1, 1, 64, 48), 1, "00002.jpg")]
    test = [((2, 2, 20, 20), 2, "00001.jpg")]
    write_list(tmp_path / "devkit/cars_train_annos.mat", train)
    write_list(tmp_path / "devkit/cars_test_annos.mat", test, labels=False)
    write_list(tmp_path / "cars_test_annos_withlabels.mat", test)
    for name in ("cars_train/00001.jpg", "cars_train/00002.jpg", "cars_test/00001.jpg"):
        save(tmp_path / name)
    return tmp_path


def test_samples(cars):
    samples = read_samples(f"cars:{cars}")
    assert list(samples) == [
        Sample(cars / "cars_test/00001.jpg", CLASSES[1], "test", Box(1, 1, 19, 19)),
        Sample(cars / "cars_train/00001.jpg", CLASSES[1], "train", Box(2, 3, 38, 27)),
        Sample(cars / "cars_train/00002.jpg", CLASSES[0], "train", Box(0, 0, 64, 48)),
    ]
    assert samples.notes == ()


def test_without_the_labels_of_the_test_photos(cars):
    (cars / "cars_test_annos_withlabels.mat").unlink()
    samples = read_samples(f"cars:{cars}")
    assert samples[0] == Sample(cars / "cars_test/00001.jpg", None, "test", Box(1, 1, 19, 19))
    assert samples.labels == tuple(CLASSES)
    assert "this file has no labels; with cars_test_annos_withlabels.mat beside it" in samples.notes[0]


def test_faults_come_at_once(cars):
    rows = [((3, 4, 2, 30), 2, "00001.jpg"), ((1, 1, 64, 48), 9, "00002.jpg"), ((1, 1, 2, 2), 1, "../x.jpg")]
    write_list(cars / "devkit/cars_train_annos.mat", rows)
    (cars / "cars_test_annos_withlabels.mat").write_bytes(b"no such thing" * 20)
    with pytest.raises(DataFileError, match="4 faults") as caught:
        read_samples(f"cars:{cars}")
    for words in (
        "cars_train_annos.mat: value '3.0 4.0 2.0 30.0': photo number 1: expected the corners x1 y1 x2 y2",
        "cars_train_annos.mat: value '9': photo number 2: expected the number of a class, 1 to 2",
        "cars_train_annos.mat: value '../x.jpg': photo number 3: expected the name of a file",
        "cars_test_annos_withlabels.mat: cannot be read as a MATLAB file: ",
    ):
        assert words in str(caught.value)


def test_missing_files_and_fields(cars):
    (cars / "devkit/cars_meta.mat").unlink()
    savemat(cars / "devkit/cars_train_annos.mat", {"other": 1})
    savemat(cars / "cars_test_annos_withlabels.mat", {"annotations": np.zeros((1, 2), dtype=[("fname", object)])})
    with pytest.raises(DataFileError) as caught:
        read_samples(f"cars:{cars}")
    assert "there is no cars_meta.mat; looked in " in str(caught.value)
    assert "expected the variable 'annotations', which is not in the file" in str(caught.value)
    assert "'annotations' has no field bbox_x1, bbox_y1, bbox_x2, bbox_y2" in str(caught.value)


def test_scipy_is_an_extra(cars, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(MissingExtraError, match=r"need scipy; install it with: pip install 'finegraph\[mat\]'"):
        read_samples(f"cars:{cars}")
