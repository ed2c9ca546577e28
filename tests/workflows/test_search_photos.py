"""Searching by photo and by label, with a real (tiny) network; and the page of what was found."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import tiny_classifier as tiny
from finegraph.data.transforms import ViewSettings
from finegraph.errors import EvidenceError, IndexFolderError, InputError, PhotoFileError, UnknownNameError
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.search import Index, condition_factors, embed_photos
from finegraph.workflows.index import make_index
from finegraph.workflows.indexing.search_page import search_page, write_search_page
from finegraph.workflows.search import parse_where, search_index, search_photos

LABELS = list(tiny.TABLE)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model, photos of its labels, and an index of them."""
    folder = tmp_path_factory.mktemp("search")
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        tiny.classifier().save(folder / "model")
        for number, label in enumerate(LABELS):
            (folder / "photos" / label).mkdir(parents=True)
            for seed in range(4):
                tiny.picture(10 * number + seed).save(folder / "photos" / label / f"{seed}.png")
        tiny.picture(77).save(folder / "query.png")
        make_index(folder / "model", [folder / "photos"], folder / "index")
    return folder


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    tiny.register(monkeypatch)


@pytest.fixture
def index(place):
    return Index.open(place / "index")


@pytest.fixture
def model(place):
    return PhotoClassifier.load(place / "model")


def test_files_pictures_and_arrays_are_the_same_query(index, model, place):
    file = place / "photos" / LABELS[1] / "2.png"
    with Image.open(file) as opened:
        picture = opened.convert("RGB")
    by_file, by_picture, by_array = search_photos(index, model, [file, picture, np.asarray(picture)], count=3)
    assert by_file.hits[0].path == str(file)
    assert by_file.hits == by_picture.hits == by_array.hits
    assert (by_file.photo, by_picture.photo) == (str(file), "photo 2")
    assert search_photos(index, model, file, count=3)[0].hits == by_file.hits
    assert search_photos(index, model, []) == []


def test_conditions_use_the_posterior_of_the_query_with_its_evidence(index, model, place):
    query = place / "query.png"
    for given in (None, {"restaurant": "A"}):
        embedded = embed_photos(model, query, given)
        prediction = model.predict(query, given=given)
        top = embedded.posteriors[0].top(1)[0][0]
        assert top.label == prediction.top[0].label
        assert top.probability == pytest.approx(prediction.top[0].probability, abs=1e-5)
        factors = condition_factors(embedded.posteriors[0], same=["dish"], other=["restaurant"])
        expected = index.search(embedded.features, 5, factors=factors)[0]
        found = search_photos(index, model, query, count=5, same=["dish"], other=["restaurant"], given=given)[0]
        assert list(found.hits) == expected
    known = search_photos(index, model, query, count=20, other=["restaurant"], given={"restaurant": "A"})[0]
    assert {hit.kinds["restaurant"] for hit in known.hits} == {("B",)}


def test_what_the_caller_gets_wrong(index, model, place):
    query = place / "query.png"
    with pytest.raises(UnknownNameError, match="unknown kind 'dishes'; did you mean 'dish'"):
        search_photos(index, model, query, same=["dishes"])
    with pytest.raises(EvidenceError, match="no fine label of the graph agrees"):
        search_photos(index, model, query, same=["dish"], given={"restaurant": "A", "dish": "egg rice"})
    with pytest.raises(PhotoFileError, match=r"none\.png: there is no such file"):
        search_photos(index, model, place / "none.png")
    with pytest.raises(InputError, match="expected a photo or a fine label to search by"):
        search_index(place / "index")
    with pytest.raises(PhotoFileError, match=r"none\.png: there is no such file"):
        search_index(place / "index", [place / "none.png"])
    tiny.classifier(seed=3).save(place / "other")
    with pytest.raises(IndexFolderError, match="expected the model that made this index"):
        search_index(place / "index", [query], model=place / "other")


def test_by_name(place):
    file = place / "photos" / LABELS[1] / "2.png"
    result = search_index(
        place / "index", [file], labels=[LABELS[4]], count=4, where=["restaurant=B", "dish!=kung pao"], per_label=3
    )
    assert (result.photos, result.method, result.where, result.where_not) == (
        20, "exact", {"restaurant": ("B",)}, {"dish": ("kung pao",)},
    )  # fmt: skip
    by_photo, by_label = result.queries
    assert (by_photo.photo, by_photo.hits[0].path) == (str(file), str(file))
    assert (by_label.photo, by_label.label) == (None, LABELS[4])
    for query in result.queries:
        assert len(query.hits) == 4
        labels = [hit.label for hit in query.hits]
        assert set(labels) == {LABELS[1], LABELS[4]}
        assert max(labels.count(label) for label in labels) <= 3
    document = result.to_dict()
    assert document["queries"][1]["hits"][0]["path"] == by_label.hits[0].path
    alone = search_index(place / "index", [file], others_only=True, count=20)
    assert len(alone.queries[0].hits) == 19
    assert str(file) not in {hit.path for hit in alone.queries[0].hits}


def test_copies_are_left_out_whatever_part_of_them_the_model_looks_at(tmp_path):
    tiny.classifier(views=ViewSettings(size=24, resize=32, box=True)).save(tmp_path / "model")
    lines = ["path,label,x,y,width,height"]
    for seed in range(6):
        tiny.picture(seed).save(tmp_path / f"{seed}.png")
        lines.append(f"{seed}.png,{LABELS[seed % 2]},{seed},2,20,30" if seed else f"0.png,{LABELS[0]},,,,")
    shutil.copy(tmp_path / "3.png", tmp_path / "copy.png")
    lines.append(f"copy.png,{LABELS[1]},7,1,9.5,30")
    (tmp_path / "images.csv").write_text("\n".join(lines) + "\n")
    make_index(tmp_path / "model", [tmp_path / "images.csv"], tmp_path / "index", engine="torch")
    for query, left in (("0.png", 6), ("3.png", 5), ("copy.png", 5)):
        (found,) = search_index(tmp_path / "index", [tmp_path / query], others_only=True, count=20).queries
        names = {Path(hit.path).name for hit in found.hits}
        assert len(names) == left, query
        assert not names & ({"3.png", "copy.png"} if left == 5 else {"0.png"})
    (found,) = search_index(tmp_path / "index", [tmp_path / "3.png"], count=20).queries
    assert len(found.hits) == 7


def test_a_label_with_a_condition(place):
    result = search_index(place / "index", labels=[LABELS[0]], same=["dish"], other=["restaurant"], count=20)
    assert [hit.label for hit in result.queries[0].hits] == [LABELS[1]] * 4
    assert {hit.probability for hit in result.queries[0].hits} == {1.0}


def test_what_is_known_of_a_photo_sharpens_a_condition(place, index, model):
    query = place / "query.png"
    result = search_index(place / "index", [query], other=["restaurant"], given=["restaurant=A"], count=20)
    expected = search_photos(index, model, query, count=20, other=["restaurant"], given={"restaurant": "A"})[0]
    assert result.queries[0].hits == expected.hits
    assert {hit.kinds["restaurant"] for hit in expected.hits} == {("B",)}
    several = search_index(place / "index", [query], other=["restaurant"], given=["restaurant=A", "restaurant=B"])
    assert several.queries[0].hits == search_index(place / "index", [query], other=["restaurant"]).queries[0].hits
    with pytest.raises(UnknownNameError, match="unknown label 'C' of kind 'restaurant'"):
        search_index(place / "index", [query], other=["restaurant"], given=["restaurant=C"])
    with pytest.raises(InputError, match="expected a photo with what is given, which says what is on it"):
        search_index(place / "index", labels=[LABELS[0]], other=["restaurant"], given=["restaurant=A"])


def test_what_is_known_of_a_photo_alone_finds_photos_that_agree(place, index, model):
    query = place / "query.png"
    result = search_index(place / "index", [query], given=["restaurant=A"], where=["dish!=kung pao"], count=20)
    assert result.given == {"restaurant": ("A",)}
    assert {hit.label for hit in result.queries[0].hits} == {"mapo tofu @ A"}
    found = search_photos(
        index, model, query, given={"restaurant": "A", "spicy": None}, where={"restaurant": {"A", "B"}}
    )
    assert {hit.kinds["restaurant"] for hit in found[0].hits} == {("A",)}
    with pytest.raises(InputError, match="no restaurant that is asked for agrees with what is given"):
        search_photos(index, model, query, given={"restaurant": "A"}, where={"restaurant": "B"})
    with pytest.raises(InputError, match="expected a label or a set of labels, got dict; ask for the same or another"):
        search_photos(index, model, query, given={"restaurant": {"A": 0.9, "B": 0.1}})


def test_a_photo_of_the_index_is_said_to_be_in_it(place, index):
    file = place / "photos" / LABELS[1] / "2.png"
    copy = place / "copy.png"
    copy.write_bytes(file.read_bytes())
    result = search_index(place / "index", [copy, place / "query.png"], where=["restaurant=A"], others_only=True)
    found, strange = result.queries
    (stored,) = found.in_index
    assert (stored.path, stored.label, stored.guess, stored.kinds["restaurant"]) == (str(file), LABELS[1], None, ("B",))
    assert strange.in_index == ()
    assert result.to_dict()["queries"][0]["in_index"][0]["label"] == LABELS[1]
    assert f"this photo is in the index as {LABELS[1]}" in search_page(result)
    assert index.copies(b"0" * 16) == []


def test_filters_as_text(index):
    assert parse_where(index, ["dish=kung pao", "dish=egg rice", "fine!=kung pao @ A"]) == (
        {"dish": ("kung pao", "egg rice")},
        {"fine": ("kung pao @ A",)},
    )
    for text, words in {
        "dish": "filter 'dish': expected kind=label or kind!=label, such as 'fine=",
        "dsh=x": "unknown kind 'dsh'; did you mean 'dish'",
        "dsh!=x": "unknown kind 'dsh'; did you mean 'dish'",
        "dsh<=x": "unknown kind 'dsh'; did you mean 'dish'",
        "dsh<x": "unknown kind 'dsh'; did you mean 'dish'",
        "dish<egg rice": "the labels of 'dish' have no order, so there is no limit of them; write 'dish=",
        "dish>=egg rice": "the labels of 'dish' have no order",
        "dish=kung po": "unknown label 'kung po' of kind 'dish'; did you mean 'kung pao'",
        "fine!=kung pao": "unknown fine label 'kung pao' of kind 'fine'; did you mean 'kung pao @ ",
    }.items():
        with pytest.raises(InputError, match=re.escape(words)):
            parse_where(index, [text])


def test_the_page_holds_everything_and_loads_nothing(place, tmp_path):
    result = search_index(place / "index", [place / "query.png"], labels=[LABELS[0]], count=3, other=["restaurant"])
    write_search_page(result, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text == search_page(result)
    assert text.count("data:image/jpeg;base64,") == 1 + 6
    assert "another restaurant" in text
    assert not re.search(r"https?://|<script|url\(|@import|<link", text)
    assert text.count('class="hit"') == 6


def test_labels_on_the_page_are_in_words(place):
    text = search_page(search_index(place / "index", labels=[LABELS[0]], where=[f"fine={LABELS[0]}"], count=1))
    shown = re.findall("<li>(.*?)</li>", text)
    assert shown == ["dish: mapo tofu", "restaurant: A", "spicy", "with: tofu, pork"]


def test_names_on_the_page_are_text(place, tmp_path):
    odd = tmp_path / "<b onclick=x>&.png"
    tiny.picture(5).save(odd)
    text = search_page(search_index(place / "index", [odd], count=1))
    assert "&lt;b onclick=x&gt;&amp;.png" in text
    assert "<b onclick" not in text


def test_a_photo_that_is_gone_is_shown_without_a_picture(place, tmp_path):
    folder = tmp_path / "few"
    folder.mkdir()
    tiny.picture(5).save(folder / "a.png")
    make_index(place / "model", [folder], tmp_path / "index")
    (folder / "a.png").unlink()
    text = search_page(search_index(tmp_path / "index", [place / "query.png"]))
    assert "the file cannot be shown" in text
    assert "perhaps " in text
    nothing = search_page(search_index(tmp_path / "index", [place / "query.png"], where=["dish=kung pao"]))
    assert "No photo matches." in nothing
