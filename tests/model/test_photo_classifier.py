"""A classifier says of a photo what its network and posterior say, whatever form and company the photo comes in."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

import finegraph as fg
import tiny_classifier as tiny
from finegraph.data.photo_decoding import read_picture
from finegraph.data.samples import Box
from finegraph.data.transforms import make_view
from finegraph.errors import EvidenceError, InputError, PhotoFileError, UnknownNameError
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior
from finegraph.model.answering.given import Given
from finegraph.model.answering.predictions import chance_words
from finegraph.model.answering.unknown import UnknownRule


@pytest.fixture
def model(monkeypatch):
    tiny.register(monkeypatch)
    return tiny.classifier()


@pytest.fixture
def photos(tmp_path):
    paths = []
    for seed in range(7):
        paths.append(tmp_path / f"{seed}.png")
        tiny.picture(seed).save(paths[-1])
    return paths


def posterior_of(model, path, view="centre"):
    """The posterior of a photo, step by step."""
    views = make_view(read_picture(path), model.views, view)
    return model.network(views if view == "ten" else views.unsqueeze(0)).tempered(model.temperature)


def numbers(prediction):
    """All probabilities of a prediction by label."""
    found = dict(prediction.top)
    for kind, answers in prediction.kinds.items():
        found |= {(kind, answer.label): answer.probability for answer in answers}
    return found


def assert_same(one, other, tolerance):
    assert list(numbers(one)) == list(numbers(other))
    assert numbers(one) == pytest.approx(numbers(other), abs=tolerance)


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_it_says_what_the_posterior_says(model, photos, temperature):
    model.temperature = temperature
    for path, prediction in zip(photos, model.predict(photos, risk=0.3), strict=True):
        posterior = posterior_of(model, path)
        assert prediction.photo == str(path)
        assert dict(prediction.top) == pytest.approx(dict(posterior.top(5)[0]), abs=1e-5)
        assert [answer.label for answer in prediction.top] == [answer.label for answer in posterior.top(5)[0]]
        assert list(prediction.kinds) == list(model.graph.kinds)
        for kind in model.graph.kinds:
            assert dict(prediction.kinds[kind]) == pytest.approx(dict(posterior.top(5, kind)[0]), abs=1e-5)
        (sure,) = posterior.answer(0.3)
        assert (prediction.sure is None) == (sure is None)
        if sure is not None:
            assert prediction.sure[:2] == sure[:2]
            assert prediction.sure.probability == pytest.approx(sure.probability, abs=1e-5)
        (why,) = posterior.explain(prediction.top[0].label, prediction.top[1].label)
        assert (prediction.explanation.first, prediction.explanation.second) == (why.first, why.second)
        assert prediction.explanation.log_odds == pytest.approx(why.log_odds, abs=1e-4)


def test_ten_views_are_averaged(model, photos):
    prediction = model.predict(photos[0], views=10)
    posterior = posterior_of(model, photos[0], "ten")
    mean = posterior.probs().double().mean(dim=0)
    assert dict(prediction.top) == pytest.approx(dict(zip(model.graph.fine, mean.tolist(), strict=True)), abs=1e-5)
    dish = posterior.probs("dish").double().mean(dim=0)
    expected = dict(zip(model.graph.labels("dish"), dish.tolist(), strict=True))
    assert dict(prediction.kinds["dish"]) == pytest.approx(expected, abs=1e-5)
    log_odds = np.log(prediction.top[0].probability / prediction.top[1].probability)
    assert prediction.explanation.log_odds == pytest.approx(log_odds, abs=1e-4)
    one = model.predict(photos[0])
    assert abs(one.top[0].probability - prediction.top[0].probability) > 1e-3


def test_all_forms_of_a_photo(model, photos):
    picture = read_picture(photos[1])
    forms = model.predict([photos[1], str(photos[1]), picture, np.asarray(picture)])
    for prediction in forms[1:]:
        assert_same(prediction, forms[0], 1e-6)
    assert [prediction.photo for prediction in forms] == [str(photos[1])] * 2 + ["photo 3", "photo 4"]
    stack = model.predict(np.stack([np.asarray(picture)] * 2))
    assert [prediction.photo for prediction in stack] == ["photo 1", "photo 2"]


def test_turned_and_grey_pictures_are_put_right(model, photos):
    from PIL import Image

    upright = tiny.picture(3)
    turned = upright.transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6
    path = photos[0].with_name("turned.png")
    turned.save(path, exif=exif)
    with Image.open(path) as opened:
        assert_same(model.predict(opened), model.predict(upright), 1e-6)
        assert model.predict(opened).photo == str(path)
    grey = upright.convert("L")
    assert_same(model.predict(grey), model.predict(grey.convert("RGB")), 1e-6)
    assert grey.mode == "L"


@pytest.mark.parametrize("views", [1, 10])
def test_company_does_not_change_an_answer(model, photos, views):
    alone = [model.predict(path, views=views) for path in photos]
    for size in (1, 3, None):
        together = model.predict(photos, views=views, batch_size=size)
        for one, other in zip(alone, together, strict=True):
            assert_same(one, other, 1e-5)


def test_one_photo_gives_one_prediction(model, photos):
    assert model.predict(photos[0]).photo == str(photos[0])
    assert [prediction.photo for prediction in model.predict([photos[0]])] == [str(photos[0])]
    assert model.predict([]) == []


# ---- evidence --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"restaurant": "B"},
        {"restaurant": "B", "spicy": False},
        {"dish": {"mapo tofu", "egg rice"}},
        {"fine": {"kung pao @ A", "egg rice @ B"}},
        {"restaurant": {"A": 0.2, "B": 0.6}},
        {"with: pork": torch.tensor([0.7, 0.1])},
    ],
)
def test_given_is_exact_conditioning(model, photos, given):
    for path, prediction in zip(photos, model.predict(photos, given=given), strict=True):
        expected = posterior_of(model, path).given(given)
        fine = {label: probability for label, probability in expected.top(5)[0] if probability}
        assert dict(prediction.top) == pytest.approx(fine, abs=1e-5)
        dishes = {label: probability for label, probability in expected.top(5, "dish")[0] if probability}
        assert dict(prediction.kinds["dish"]) == pytest.approx(dishes, abs=1e-5)


def test_given_per_photo(model, photos):
    restaurants = ["A", None, "B", {"A", "B"}, "A", "B", None]
    pork = np.random.default_rng(0).random((7, 2))
    for views in (1, 10):
        found = model.predict(photos, given={"restaurant": restaurants, "with: pork": pork}, views=views, batch_size=3)
        for number, prediction in enumerate(found):
            own = {"restaurant": restaurants[number], "with: pork": pork[number]}
            assert_same(prediction, model.predict(photos[number], given=own, views=views), 1e-5)


@pytest.mark.parametrize("views", [1, 10])
def test_how_probable_what_is_given_was_by_the_photo_alone(model, photos, views):
    given = {"restaurant": "B", "with: pork": ["yes", None, "no"], "dish": [None, {"kung pao", "egg rice"}, None]}
    alone = model.predict(photos[:3], views=views, top=9)
    found = model.predict(photos[:3], views=views, given=given)
    left = [{"egg rice @ B"}, {"kung pao @ B", "egg rice @ B"}, {"mapo tofu @ B", "kung pao @ B"}]
    for before, after, labels in zip(alone, found, left, strict=True):
        expected = sum(answer.probability for answer in before.top if answer.label in labels)
        assert after.evidence_probability == pytest.approx(expected, abs=1e-6)
    assert [one.evidence_probability for one in alone] == [None] * 3
    assert not any(one.contradicts_photo for one in alone)


def test_nothing_is_said_of_evidence_on_photos_without_any(model, photos):
    found = model.predict(photos[:3], given={"restaurant": ["A", None, None]})
    assert [one.evidence_probability is None for one in found] == [False, True, True]


def scored(*probs):
    """A posterior of one photo over the tiny menu with these probabilities."""
    graph = LabelGraph.from_table(tiny.TABLE)
    return Posterior(graph, torch.tensor([probs], dtype=torch.float64).log())


@pytest.mark.parametrize(
    ("probs", "given", "contradicts"),
    [
        ((0.96, 0.01, 0.01, 0.01, 0.01), {"dish": "egg rice"}, True),
        ((0.90, 0.01, 0.01, 0.01, 0.07), {"dish": "egg rice"}, False),
        # Spread over fine labels, but the kind itself is all but sure of another label.
        ((0.49, 0.48, 0.01, 0.01, 0.01), {"dish": "egg rice"}, True),
        # Each alone is probable, both together are not.
        ((0.47, 0.01, 0.01, 0.49, 0.02), {"dish": "mapo tofu", "restaurant": "B"}, True),
        ((0.47, 0.01, 0.01, 0.49, 0.02), {"dish": "mapo tofu", "restaurant": "A"}, False),
        ((0.96, 0.01, 0.01, 0.01, 0.01), {"fine": "kung pao @ B"}, True),
        ((0.96, 0.01, 0.01, 0.01, 0.01), {"dish": {"mapo tofu": 0.2, "egg rice": 0.8}}, False),
        ((0.96, 0.01, 0.01, 0.01, 0.01), {"dish": {"mapo tofu", "egg rice"}}, False),
        ((0.96, 0.01, 0.01, 0.01, 0.01), {"dish": None}, None),
    ],
)
def test_what_contradicts_a_photo(probs, given, contradicts):
    posterior = scored(*probs)
    (found,) = Given(posterior.graph, given, ["photo"]).surprise(posterior, [0])
    assert (None if found is None else found.contradicts) is contradicts


def test_a_rare_label_alone_is_no_contradiction():
    """The photo says nothing about a hundred restaurants: none of them contradicts it."""
    graph = LabelGraph.from_table({f"tea @ {i}": {"restaurant": str(i)} for i in range(100)})
    posterior = Posterior(graph, torch.zeros(1, 100))
    (found,) = Given(graph, {"restaurant": "7"}, ["photo"]).surprise(posterior, [0])
    assert found == (pytest.approx(0.01), False)


def test_questions_are_those_of_the_posterior_until_the_answer_is_sure(model, photos):
    for photo in photos:
        found = model.predict(photo, risk=0.2, questions=2)
        asked = posterior_of(model, photo).questions(2, 0.2)[0]
        if found.top[0].probability >= 0.8:
            assert found.questions == ()
        else:
            assert [one.kind for one in found.questions] == [one.kind for one in asked if one.gain >= 0.01]
            assert found.questions
    assert model.predict(photos[0], questions=0).questions == ()
    assert len(model.predict(photos[0], risk=0.0001).questions) == 3


def test_what_evidence_rules_out_is_not_listed(model, photos):
    prediction = model.predict(photos[0], given={"restaurant": "A"})
    assert {answer.label for answer in prediction.top} == {"mapo tofu @ A", "kung pao @ A"}
    assert prediction.kinds["restaurant"] == (("A", 1.0),)
    only = model.predict(photos[0], given={"fine": "egg rice @ B"})
    assert only.top == (("egg rice @ B", 1.0),)
    assert only.explanation is None
    assert only.sure == (None, "egg rice @ B", 1.0, 1, None, None)


def test_some_photos_of_a_batch_have_no_second_answer(model, photos):
    found = model.predict(photos[:3], given={"fine": [None, "egg rice @ B", None]})
    assert found[1].explanation is None
    for number in (0, 2):
        (why,) = posterior_of(model, photos[number]).explain(*(answer.label for answer in found[number].top[:2]))
        assert found[number].explanation.log_odds == pytest.approx(why.log_odds, abs=1e-4)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"restaurnt": "B"}, UnknownNameError, r"^unknown kind 'restaurnt'; did you mean 'restaurant'\?$"),
        (
            {"dish": "mapo tofo"},
            UnknownNameError,
            r"^unknown label 'mapo tofo' of kind 'dish'; did you mean 'mapo tofu'",
        ),
        ({"dish": 3}, EvidenceError, "^evidence on 'dish': expected a label, a set of labels"),
        ({"dish": ["kung pao"]}, EvidenceError, "a list gives one value per photo, expected 2, got 1; use a set"),
        ({"dish": [None, "x"]}, UnknownNameError, r"^b\.jpg: unknown label 'x' of kind 'dish'"),
        ({"dish": [None, ["kung pao"]]}, EvidenceError, r"^b\.jpg: evidence on 'dish': expected a label.*got list$"),
        ({"dish": torch.ones(3, 3)}, InputError, "expected likelihoods of shape"),
        (
            {"dish": "egg rice", "restaurant": "A"},
            EvidenceError,
            "^no fine label of the graph agrees with what is given, that the dish is 'egg rice' and the restaurant is",
        ),
        (
            {"dish": [None, "egg rice"], "restaurant": [None, {"A"}]},
            EvidenceError,
            r"^b\.jpg: no fine label of the graph agrees .* the restaurant is 'A'",
        ),
        ([("dish", "x")], InputError, "^given: expected a mapping from kinds to labels"),
    ],
)
def test_evidence_is_checked_before_any_photo_is_opened(model, given, error, words):
    with pytest.raises(error, match=words):
        model.predict(["a.jpg", "b.jpg"], given=given)


# ---- boxes -----------------------------------------------------------------------------------------------------------


def test_box_is_the_part_that_is_looked_at(model, photos):
    part = read_picture(photos[2]).crop((5, 6, 35, 36))
    expected = model.predict(part)
    assert_same(model.predict(photos[2], box=(5, 6, 30, 30)), expected, 1e-6)
    assert_same(model.predict(read_picture(photos[2]), box=Box(5, 6, 30, 30)), expected, 1e-6)
    found = model.predict([photos[2]] * 2, box=[None, (5, 6, 30, 30)])
    assert_same(found[0], model.predict(photos[2]), 1e-6)
    assert_same(found[1], expected, 1e-6)
    assert abs(found[0].top[0].probability - found[1].top[0].probability) > 1e-4


@pytest.mark.parametrize(
    ("box", "words"),
    [
        ((1, 2, 3), "box: expected x, y, width and height, or a list with one box or None for each of 1 photos"),
        ((1, 2, 0, 3), "a width and height above 0"),
        ((1, 2, float("nan"), 3), "expected finite numbers"),
        ([(1, 2, 3)], "expected the four numbers x, y, width and height"),
        (["1234"], "expected the four numbers"),
    ],
)
def test_wrong_boxes(model, photos, box, words):
    with pytest.raises(InputError, match=words):
        model.predict(photos[0], box=box)


def test_box_beside_the_photo(model, photos):
    with pytest.raises(PhotoFileError, match=r"0\.png: the box 500 0 10 10 has nothing of the photo in it"):
        model.predict(photos[0], box=(500, 0, 10, 10))


# ---- photos that cannot be read --------------------------------------------------------------------------------------


def test_bad_photo_is_named(model, photos):
    photos[3].write_bytes(b"<html>not found")
    with pytest.raises(PhotoFileError, match=r"3\.png: this is no photo of a known format.*web page"):
        model.predict(photos, batch_size=2)
    with pytest.raises(PhotoFileError, match="there is no such file"):
        model.predict(photos[0].with_name("missing.jpg"))


def test_bad_photo_can_be_skipped_and_keeps_its_place(model, photos):
    good = model.predict(photos, given={"restaurant": list("ABABABA")})
    photos[3].write_bytes(photos[3].read_bytes()[:60])
    photos[4].unlink()
    for size in (2, 5, None):
        found = model.predict(photos, given={"restaurant": list("ABABABA")}, on_bad_file="skip", batch_size=size)
        assert [isinstance(one, PhotoFileError) for one in found] == [number in (3, 4) for number in range(7)]
        assert found[3].path == str(photos[3])
        for number in (0, 1, 2, 5, 6):
            assert_same(found[number], good[number], 1e-5)
    assert isinstance(model.predict(photos[4], on_bad_file="skip"), PhotoFileError)


@pytest.mark.parametrize(
    ("photo", "words"),
    [
        (np.zeros((4, 4), np.uint8), r"^photo 2: expected pixels of shape \(height, width, 3\) and type uint8"),
        (np.zeros((4, 4, 3), np.float32), "got shape .* and type float32"),
        (np.zeros((0, 4, 3), np.uint8), r"got shape \(0, 4, 3\)"),
        (17, "^photo 2: expected a path, a PIL image or a numpy array of pixels, got int"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_is_no_photo(model, photos, photo, words):
    with pytest.raises(InputError, match=words):
        model.predict([photos[0], photo])


# ---- unknown photos --------------------------------------------------------------------------------------------------


def test_unknown_is_judged_by_the_photo_alone(model, photos):
    scores = [-posterior_of(model, path).log_probs().max().item() for path in photos]
    threshold = float(np.median(scores)) + 1e-4
    model.unknown = UnknownRule("log_prob", threshold, 0.95)
    for changes in ({}, {"given": {"restaurant": "B"}}):
        for temperature in (1.0, 3.0):
            model.temperature = temperature
            for prediction, score in zip(model.predict(photos, **changes), scores, strict=True):
                assert prediction.unknown.score == pytest.approx(score, abs=1e-5)
                assert prediction.unknown.threshold == threshold
                assert prediction.unknown.is_unknown == (score > threshold)
    assert sum(prediction.unknown.is_unknown for prediction in model.predict(photos)) == 3


def test_unknown_of_ten_views(model, photos):
    model.unknown = UnknownRule("energy", 0.0, 0.95)
    expected = model.unknown.scores(posterior_of(model, photos[0], "ten"), views=10).item()
    assert model.predict(photos[0], views=10).unknown.score == pytest.approx(expected, abs=1e-4)


# ---- how it asks -----------------------------------------------------------------------------------------------------


def test_a_network_in_training_is_asked_as_if_it_were_not(model, photos):
    expected = model.predict(photos)
    network = model.network
    network.train()
    network.backbone.norm.eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    for prediction, one in zip(model.predict(photos), expected, strict=True):
        assert_same(prediction, one, 1e-6)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert network.training
    assert network.backbone.dropout.training
    assert not network.backbone.norm.training


def test_posterior_keeps_no_gradients_and_takes_any_memory_format(model, photos):
    pixels = torch.stack([make_view(read_picture(path), model.views, "centre") for path in photos])
    posterior = model.posterior(pixels)
    assert not posterior.log_probs().requires_grad
    other = model.posterior(pixels.contiguous(memory_format=torch.channels_last))
    assert torch.allclose(posterior.log_probs(), other.log_probs(), atol=1e-6)
    views = torch.stack([make_view(read_picture(path), model.views, "ten") for path in photos[:2]])
    single = [model.posterior(views[number]).probs().mean(dim=0) for number in range(2)]
    assert torch.allclose(model.posterior_of_views(views).probs(), torch.stack(single), atol=1e-6)
    assert torch.allclose(model.posterior_of_views(pixels[:, None]).probs(), posterior.probs(), atol=1e-6)


def test_progress_is_told(model, photos):
    photos[1].write_bytes(b"")
    told = []
    model.predict(photos, batch_size=3, on_bad_file="skip", progress=lambda *numbers: told.append(numbers))
    assert told == [(3, 7), (6, 7), (7, 7)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"views": 3}, "views: expected 1 or 10, got 3"),
        ({"views": True}, "views: expected 1 or 10, got True"),
        ({"top": 0}, "top: expected how many labels to list, at least 1, got 0"),
        ({"risk": 1.0}, "risk: expected a number of at least 0 and below 1, got 1.0"),
        ({"risk": float("nan")}, "risk: expected"),
        ({"questions": -1}, "questions: expected how many questions to offer, at least 0, got -1"),
        ({"batch_size": 0}, "batch_size: expected at least 1, got 0"),
        ({"on_bad_file": "ignore"}, "on_bad_file must be 'error' or 'skip', got 'ignore'"),
    ],
)
def test_wrong_options_are_found_before_any_photo_is_opened(model, options, words):
    with pytest.raises(InputError, match=words):
        model.predict("missing.jpg", **options)


def test_a_photo_whose_scores_are_no_numbers_is_named(model, photos):
    """The network is whole but for one photo, whose feature it makes infinite."""
    look = model.network.of_features

    def broken(*features):
        posterior = look(*features)
        posterior.fine_scores[1] = torch.nan
        return posterior

    model.network.of_features = broken
    with pytest.raises(InputError, match=f"{photos[1]}: there is no answer, since its scores are NaN or infinite"):
        model.predict(photos[:3])


def test_chances_in_words():
    values = (1.0, 0.9999, 0.62, 0.1, 0.099, 1 / 4012, 3e-9, 1e-300, 0.0)
    assert [chance_words(value) for value in values] == [
        "100 %",
        "over 99 %",
        "62 %",
        "10 %",
        "1 in 10",
        "1 in 4,000",
        "1 in 330,000,000",
        "less than 1 in 1,000,000,000",
        "less than 1 in 1,000,000,000",
    ]


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf"), float("nan"), "1"])
def test_wrong_temperature(model, temperature):
    with pytest.raises(InputError, match="temperature: expected a finite number above 0"):
        fg.PhotoClassifier(model.network, model.views, temperature=temperature)


def test_how_much_is_listed(model, photos):
    prediction = model.predict(photos[0], top=1, explain=False)
    assert len(prediction.top) == 1
    assert all(len(answers) == 1 for answers in prediction.kinds.values())
    assert prediction.explanation is None
    assert model.predict(photos[0], top=1).explanation.second == model.predict(photos[0]).top[1].label
    assert len(model.predict(photos[0], top=100).top) == len(model.graph)


def test_one_fine_label_only(monkeypatch, photos):
    tiny.register(monkeypatch)
    prediction = tiny.classifier({"tea": {"dish": "tea"}}).predict(photos[0])
    assert prediction.top == (("tea", 1.0),)
    assert prediction.explanation is None


def test_predictions_are_json(model, photos):
    model.unknown = UnknownRule("entropy", 0.1, 0.9)
    prediction = model.predict(photos[0], risk=0.4)
    prediction = replace(prediction, questions=tuple(posterior_of(model, photos[0]).questions(1)[0]))
    document = json.loads(json.dumps(prediction.to_dict(), allow_nan=False))
    assert document["questions"][0]["kind"] == prediction.questions[0].kind
    assert document["questions"][0]["text"] == prediction.questions[0].text
    assert (document["evidence_probability"], document["contradicts_photo"]) == (None, False)
    assert document["top"][0] == {"label": prediction.top[0].label, "probability": prediction.top[0].probability}
    assert document["kinds"]["dish"][0]["label"] == prediction.kinds["dish"][0].label
    assert document["unknown"]["is_unknown"] is prediction.unknown.is_unknown
    assert document["explanation"]["parts"][0]["source"] == prediction.explanation.parts[0].source
    assert document["risk"] == 0.4
    assert json.loads(json.dumps(asdict(prediction)))["top"][0] == list(prediction.top[0])


def test_predictions_read_well(model, photos):
    prediction = model.predict(photos[0], given={"restaurant": "A"}, risk=0.0)
    first, second = prediction.top
    expected = f"{photos[0]}: {first.label} {first.probability:.1%}, {second.label} {second.probability:.1%}; "
    told = f"the photo alone gave what is known {chance_words(prediction.evidence_probability)}"
    assert str(prediction) == f"{expected}sure at a risk of 0: restaurant: A (100.0%); {told}"
    contradicted = replace(prediction, contradicts_photo=True)
    assert str(contradicted) == f"{expected}if what is known is true; but {told}"
    assert "the photo alone" not in str(model.predict(photos[0]))
    assert repr(model) == "PhotoClassifier(tiny, 5 fine labels, 6 kinds)"
