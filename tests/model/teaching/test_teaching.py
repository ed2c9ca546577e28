"""Lessons: exactness, undo, new labels, and what is kept in the model folder."""

import pytest
import torch

import finegraph as fg
import tiny_classifier as tiny
from finegraph.errors import GraphError, InputError, LessonError, ModelFolderError, PhotoFileError, UnknownNameError
from finegraph.graph import Number
from finegraph.model.photo_classifier import PhotoClassifier
from taught_classifier import fitted, photo_of


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    tiny.register(monkeypatch)


@pytest.fixture
def folder(tmp_path):
    fitted().save(tmp_path / "model")
    return tmp_path / "model"


def _weights(model):
    return {name: value.clone() for name, value in model.network.head.state_dict().items()}


def _assert_same(one, two):
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_the_statistics_give_the_fitted_head():
    for head in ("bipartite", "softmax"):
        model = fitted(head=head)
        again = model.statistics.solve(model.graph)
        features = torch.randn(20, 12)
        one = model.network.head(model.network.scaling(features)).log_probs()
        two = again(model.network.scaling(features)).log_probs()
        torch.testing.assert_close(one, two, atol=1e-4, rtol=0)


@pytest.mark.deep
def test_photos_one_by_one_give_the_head_of_all_at_once(folder):
    model = fg.load(folder)
    start = model.statistics
    rows = []
    for number in range(60):
        label = model.graph.fine[number % 5]
        photo = photo_of(number % 5, 50 + number)
        lesson = model.teach(label, photo)
        rows.append((number % 5, lesson.photos[0].features))
    counts, sums = start.counts.clone(), start.sums.clone()
    for label, row in rows:
        counts[label] += 1
        sums[label] += torch.from_numpy(row)
    from dataclasses import replace

    once = replace(start, counts=counts, sums=sums).solve(model.graph)
    for name, value in once.state_dict().items():
        torch.testing.assert_close(model.network.head.state_dict()[name], value, atol=1e-5, rtol=1e-5)
    again = fg.load(folder)
    for name, value in again.network.head.state_dict().items():
        torch.testing.assert_close(model.network.head.state_dict()[name], value, atol=1e-5, rtol=1e-5)


@pytest.mark.deep
def test_a_lesson_changes_answers_at_once_and_forgetting_restores_them_exactly(folder):
    model = fg.load(folder)
    before = _weights(model)
    photo = photo_of(3, 99)
    wrong = model.graph.fine[0]
    chance = {one.label: one.probability for one in model.predict(photo, top=5).top}[wrong]
    lesson = model.teach(wrong, [photo], person="Ada")
    taught = _weights(model)
    assert {one.label: one.probability for one in model.predict(photo, top=5).top}[wrong] > chance + 0.01
    assert [(one.label, one.person, one.forgotten) for one in model.lessons] == [(wrong, "Ada", False)]
    second = model.teach(model.graph.fine[1], [photo_of(1, 98)])
    model.forget(second.id)
    _assert_same(_weights(model), taught)
    _assert_same(_weights(fg.load(folder)), taught)
    model.forget(lesson.id, person="Bob")
    _assert_same(_weights(model), before)
    _assert_same(_weights(fg.load(folder)), before)
    assert [one.forgotten for one in model.lessons] == [True, True]


def test_the_first_lesson_is_that_of_a_model_that_was_loaded_after_it(folder):
    model = fg.load(folder)
    model.teaching.prepare()
    model.teach("egg rice @ B", [photo_of(4, 77)])
    for name, value in _weights(fg.load(folder)).items():
        torch.testing.assert_close(_weights(model)[name], value, atol=1e-5, rtol=1e-5)


def test_the_same_lesson_again_counts_once(folder):
    model = fg.load(folder)
    one = model.teach("egg rice @ B", [photo_of(4, 77)], lesson_id="the-one")
    taught = _weights(model)
    other = fg.load(folder)
    two = other.teach("egg rice @ B", [photo_of(4, 77)], lesson_id="the-one")
    assert (one.id, one.at) == (two.id, two.at)
    assert len(other.lessons) == 1
    _assert_same(_weights(other), taught)
    with pytest.raises(InputError, match="it is that of another lesson, on 'egg rice @ B'"):
        model.teach("kung pao @ A", [photo_of(4, 77)], lesson_id="the-one")


def test_of_two_lessons_on_one_photo_the_last_counts(folder):
    model, photo = fg.load(folder), photo_of(4, 77)
    model.teach("egg rice @ B", [photo, photo])
    once = _weights(model)
    slip = model.teach("kung pao @ A", [photo])
    right = model.teach("egg rice @ B", [photo])
    for name, value in _weights(model).items():
        torch.testing.assert_close(once[name], value, atol=1e-6, rtol=1e-6)
    model.forget(right.id)
    model.forget(slip.id)
    _assert_same(_weights(fg.load(folder)), once)


@pytest.mark.deep
def test_a_new_label_with_photos(folder):
    model = fg.load(folder)
    parents = {"dish": "mapo tofu", "restaurant": "C", "with": ["tofu"], "spicy": True}
    photos = [photo_of(9, number) for number in range(8)]
    model.teach("mapo tofu @ C", photos, parents=parents)
    for one in (model, fg.load(folder)):
        assert one.graph.fine[-1] == "mapo tofu @ C"
        assert one.graph.labels("restaurant") == ("A", "B", "C")
        found = one.predict(photos[0])
        assert found.top[0].label == "mapo tofu @ C"
        shares = {answer.label: answer.probability for answer in found.kinds["restaurant"]}
        assert shares["C"] == pytest.approx(found.top[0].probability, rel=1e-5)  # no other label is of this restaurant
    again = fg.load(folder)
    again.teach("mapo tofu @ C", [photo_of(9, 4)])
    again.forget(model.lessons[0].id)
    assert again.graph.fine[-1] == "mapo tofu @ C"  # the second lesson names it too
    assert again.graph.labels("restaurant") == ("A", "B", "C")
    again.forget(again.lessons[1].id)
    assert again.graph == fitted().graph


def test_a_new_label_without_photos_is_what_its_parents_tell(folder):
    model = fg.load(folder)
    model.teach("egg rice @ A", parents={"dish": "egg rice", "restaurant": "A", "with": ["pork"], "spicy": False})
    means = model.network.head.fold()
    assert len(model.graph) == 6
    chances = {one.label: one.probability for one in model.predict(photo_of(4, 50), top=6).top}
    assert chances["egg rice @ A"] > chances["mapo tofu @ A"]
    assert bool(torch.isfinite(means.fine.weight).all())


def test_a_new_label_of_which_nothing_is_known(folder):
    model = fg.load(folder)
    model.teach("a riddle", [photo_of(8, 1), photo_of(8, 2)], parents={})
    assert model.predict(photo_of(8, 1)).top[0].label == "a riddle"
    assert model.graph.kind("dish").unknown.tolist() == [False] * 5 + [True]


@pytest.mark.deep
def test_a_label_that_had_no_photo_when_the_model_was_fitted(tmp_path):
    fitted(labels=(0, 1, 2, 3)).save(tmp_path / "model")
    model = fg.load(tmp_path / "model")
    model.teach("egg rice @ B", [photo_of(4, 1), photo_of(4, 2)])
    assert model.predict(photo_of(4, 3)).top[0].label == "egg rice @ B"


@pytest.mark.parametrize(
    ("label", "options", "error", "words"),
    [
        ("mapo", {}, InputError, "does not know it; to add it, say which coarse labels"),
        ("Egg rice @ b", {}, InputError, "did you mean 'egg rice @ B'"),
        ("egg rice @ b", {"parents": {}}, GraphError, "the graph has 'egg rice @ B' already"),
        ("egg rice @ B", {"parents": {"dish": "mapo tofu"}}, InputError, "knows it with another dish, 'egg rice'"),
        ("egg rice @ B", {"photos": []}, InputError, "knows it already; give photos"),
        ("x", {"parents": {"dich": "mapo tofu"}}, UnknownNameError, "did you mean 'dish'"),
        ("x" * 201, {"parents": {}}, InputError, "at most 200 characters"),
        ("x", {"parents": {"dish": "y" * 201}}, InputError, "at most 200 characters"),
        ("a\nb", {"parents": {}}, InputError, "control character"),
        ("egg rice @ B", {"lesson_id": "../x"}, InputError, "lesson id: expected"),
        ("egg rice @ B", {"person": "x" * 101}, InputError, "person: expected at most 100"),
        ("egg rice @ B", {"photos": ["nowhere.jpg"]}, PhotoFileError, "nowhere.jpg"),
    ],
)
def test_what_cannot_be_taught_is_refused_and_changes_nothing(folder, label, options, error, words):
    model = fg.load(folder)
    with pytest.raises(error, match=words):
        model.teach(label, options.pop("photos", [photo_of(1, 1)]), **options)
    assert model.lessons == ()
    assert not (folder / "lessons.jsonl").exists()
    with pytest.raises(InputError, match="there is none of this id"):
        model.forget("never")


def test_the_parents_of_a_known_label_may_be_said_again(folder):
    fg.load(folder).teach("egg rice @ B", [photo_of(4, 1)], parents={"dish": "egg rice", "spicy": False})


def test_models_of_other_fits_say_what_to_do(tmp_path):
    tiny.classifier().save(tmp_path / "model")
    with pytest.raises(InputError, match="train it again with fit = prototypes"):
        fg.load(tmp_path / "model").teach("egg rice @ B", [photo_of(1, 1)])
    with pytest.raises(InputError, match="save this one, load it"):
        fitted().teach("egg rice @ B", [photo_of(1, 1)])


def test_two_models_of_one_folder_follow_each_other(folder):
    one, two = fg.load(folder), fg.load(folder)
    assert not two.refresh()
    one.teach("mapo tofu @ C", [photo_of(9, 1)], parents={"dish": "mapo tofu"})
    assert two.refresh()
    assert two.graph == one.graph
    two.teach("mapo tofu @ C", [photo_of(9, 2)])
    two.teach("mapo tofu @ D", parents={"dish": "mapo tofu", "restaurant": "D"})
    with pytest.raises(InputError, match="knows it already"):  # what two taught meanwhile is known to one
        one.teach("mapo tofu @ D", parents={"dish": "mapo tofu"})
    assert [lesson.label for lesson in one.lessons] == ["mapo tofu @ C", "mapo tofu @ C", "mapo tofu @ D"]


@pytest.mark.deep
def test_saving_takes_lessons_along_and_never_drops_those_of_others(folder, tmp_path):
    model = fg.load(folder)
    lesson = model.teach("egg rice @ B", [photo_of(4, 77)])
    model.save(tmp_path / "copy")
    copy = fg.load(tmp_path / "copy")
    _assert_same(_weights(copy), _weights(fg.load(folder)))
    assert "lesson with 1 photo" in (tmp_path / "copy" / "README.md").read_text()
    copy.forget(lesson.id)
    _assert_same(_weights(copy), _weights(fitted()))
    model.save(folder)
    other = fg.load(folder)
    other.teach("kung pao @ B", [photo_of(3, 70)])
    with pytest.raises(LessonError, match="taught 1 lessons that this one does not know"):
        model.save(folder)
    other.save(folder)
    assert len(fg.load(folder).lessons) == 2
    assert isinstance(other.with_calibration(2.0, None, {}), PhotoClassifier)
    other.with_calibration(2.0, None, {}).save(folder)
    assert fg.load(folder).temperature == 2.0
    assert len(fg.load(folder).lessons) == 2


def test_damage_is_found(folder):
    model = fg.load(folder)
    model.teach("egg rice @ B", [photo_of(4, 77)])
    for name in ("lessons.jsonl", "lessons.json", "statistics.safetensors"):
        whole = (folder / name).read_bytes()
        for place in (10, len(whole) // 2, len(whole) - 3):
            (folder / name).write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
            with pytest.raises(ModelFolderError, match=name):
                fg.load(folder)
        (folder / name).write_bytes(whole)
    assert len(fg.load(folder).lessons) == 1


def test_taught_labels_are_in_the_graph_that_is_read_alone(folder):
    from finegraph.model.folder.model_reader import read_model_graph

    model = fg.load(folder)
    model.teach("mapo tofu @ C", parents={"dish": "mapo tofu"})
    assert read_model_graph(folder) == model.graph


@pytest.mark.deep
def test_values_of_a_new_label_are_kept(tmp_path):
    graph = fitted().graph.with_number(Number.from_values("price", range(5, 5 + len(fitted().graph)), unit="EUR"))
    model = fitted(graph)
    model.save(tmp_path / "model")
    row = {"dish": fitted().graph.labels("dish")[0], "price": (31.5, 1.5)}
    fg.load(tmp_path / "model").teach("new", photo_of(7, 1), parents=row)
    again = fg.load(tmp_path / "model")
    number = again.graph.number("price")
    assert (number.values[-1], number.spreads[-1]) == (31.5, 1.5)
    again.teach("new", photo_of(7, 2), parents={"price": "31.5 +- 1.5"})
    with pytest.raises(InputError, match=r"the model knows it with another price, 31.5 \+- 1.5"):
        again.teach("new", photo_of(7, 3), parents={"price": 30})
