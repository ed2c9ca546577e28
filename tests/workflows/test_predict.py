import json

import pytest

import finegraph as fg
import tiny_classifier as tiny
from finegraph.errors import DataError, InputError, ModelFolderError, PhotoFileError, UnknownNameError
from finegraph.graph import LabelGraph
from finegraph.workflows.predict import parse_given, photos_of, predict_photos


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run folder with a model in it."""
    tiny.register(monkeypatch)
    tiny.classifier(temperature=1.3).save(tmp_path / "run" / "model")
    return tmp_path / "run"


@pytest.fixture
def photos(tmp_path):
    (tmp_path / "photos").mkdir()
    for seed in range(3):
        tiny.picture(seed).save(tmp_path / "photos" / f"{seed}.png")
    return tmp_path / "photos"


def test_the_numbers_are_those_of_the_library(run, photos):
    paths = sorted(photos.iterdir())
    for views in (1, 10):
        result = predict_photos(run, paths, given=["restaurant=B"], views=views, top=2, risk=0.2)
        model = fg.load(run / "model")
        expected = model.predict(paths, given={"restaurant": "B"}, views=views, top=2, risk=0.2)
        assert list(result.predictions) == expected
        assert (result.model, result.given, result.views, result.bad) == (str(run), {"restaurant": ("B",)}, views, ())


def test_folder_of_photos(run, photos):
    (photos / "notes.txt").write_text("x", encoding="utf-8")
    (photos / ".hidden.png").write_bytes(b"x")
    result = predict_photos(run, [photos, photos / "1.png"])
    names = [str(photos / name) for name in ("0.png", "1.png", "2.png", "1.png")]
    assert [prediction.photo for prediction in result.predictions] == names
    (photos / "empty").mkdir()
    with pytest.raises(DataError, match="got a folder without photos"):
        photos_of([photos / "empty"])
    with pytest.raises(DataError, match="expected at least one photo, got none"):
        photos_of([])


def test_bad_photos(run, photos):
    (photos / "1.png").write_bytes(b"no photo")
    with pytest.raises(PhotoFileError, match=r"1\.png: this is no photo"):
        predict_photos(run, [photos])
    result = predict_photos(run, [photos], on_bad_file="skip")
    assert [prediction.photo for prediction in result.predictions] == [str(photos / "0.png"), str(photos / "2.png")]
    assert [error.path for error in result.bad] == [str(photos / "1.png")]
    with pytest.raises(DataError, match=r"^.*1\.png: this is no photo"):
        predict_photos(run, [photos / "1.png"], on_bad_file="skip")
    with pytest.raises(DataError, match=r"^none of 2 photos could be read; the first is .*1\.png: this is no photo"):
        predict_photos(run, [photos / "1.png"] * 2, on_bad_file="skip")


def test_missing_photo_shows_before_anything_is_done(photos):
    with pytest.raises(PhotoFileError, match=r"4\.png: there is no such file"):
        predict_photos("no such model", [photos / "0.png", photos / "4.png"])
    with pytest.raises(ModelFolderError, match="there is no such folder"):
        predict_photos("no such model", [photos / "0.png"])


def test_document(run, photos):
    (photos / "1.png").write_bytes(b"")
    result = predict_photos(run, [photos], given=["dish=kung pao", "dish=egg rice"], on_bad_file="skip")
    document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert document["given"] == {"dish": ["kung pao", "egg rice"]}
    assert [photo["photo"] for photo in document["photos"]] == [str(photos / "0.png"), str(photos / "2.png")]
    assert document["bad"] == [{"photo": str(photos / "1.png"), "reason": "the file is empty"}]


GRAPH = fg.LabelGraph.from_table(
    {
        "f=1": {"dish": "a,b", "where": "x=y", "a": "b=c", "a=b": "c", "with": ["salt"]},
        "f,2": {"dish": "a", "where": "x", "a": "d", "a=b": "e", "with": ["oil"]},
        "f3": {"dish": "b", "where": "y", "a": "d", "a=b": "e", "with": []},
    }
)


@pytest.mark.parametrize(
    ("texts", "given"),
    [
        ([], {}),
        (["dish=a"], {"dish": ("a",)}),
        (["dish=a,b"], {"dish": ("a,b",)}),
        (["dish=a", "where=x=y", "dish=b", "dish=a"], {"dish": ("a", "b"), "where": ("x=y",)}),
        (["fine=f=1"], {"fine": ("f=1",)}),
        (["a=d"], {"a": ("d",)}),
        (["a=b=e"], {"a=b": ("e",)}),
        (["with: salt=yes"], {"with: salt": ("yes",)}),
    ],
)
def test_given_as_text(texts, given):
    assert parse_given(GRAPH, texts) == given


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("dish", InputError, "^given 'dish': expected kind=label, such as 'dish=a,b'$"),
        ("dsh=a", UnknownNameError, r"^unknown kind 'dsh'; did you mean 'dish'\?$"),
        ("dish=c", UnknownNameError, "^unknown label 'c' of kind 'dish'; there are: 'a,b', 'a', 'b'$"),
        ("where=x,y", UnknownNameError, "for one of several labels, give 'where=x' and 'where=y'$"),
        ("fine=f4", UnknownNameError, "^unknown fine label 'f4'"),
        (
            "a=b=c",
            InputError,
            "it can be read in two ways, kind 'a', label 'b=c' or kind 'a=b', label 'c'",
        ),
        ("with=salt", UnknownNameError, r"^unknown kind 'with'; did you mean 'with: salt=yes'\?$"),
        ("dish>=a", InputError, "^the labels of 'dish' have no order, so there is no limit of them; write 'dish=a,b'$"),
        ("fine<f1", InputError, "^the labels of 'fine' have no order"),
        ("=a", UnknownNameError, "^unknown kind ''"),
    ],
)
def test_given_that_cannot_be_read(text, error, words):
    with pytest.raises(error, match=words):
        parse_given(GRAPH, [text])


def test_given_that_is_no_condition():
    graph = LabelGraph.from_table(
        {"a": {"dish": "x", "price": 9}, "b": {"dish": "y", "price": 12}}, {"price": "number"}
    )
    with pytest.raises(InputError, match=r"such as 'dish=x', or a condition on a number, such as 'price<=15'$"):
        parse_given(graph, ["price~20"])
