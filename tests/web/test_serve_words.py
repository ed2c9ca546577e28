"""Answers in words."""

import pytest

from finegraph.inference import Answer, Statement
from finegraph.model import Prediction
from finegraph.web.serve.answer_text import answer_words, percent


def prediction(sure, best=("mapo tofu @ Lei Garden", 0.832)):
    return Prediction("photo", (Answer(*best),), {}, 0.05, sure, None, None)


@pytest.mark.parametrize(
    ("sure", "given", "words"),
    [
        (Statement("dish", "mapo tofu", 0.971, 3), {}, "Mapo tofu at Lei Garden, 83 %; surely mapo tofu, 97 %"),
        (None, {}, "Mapo tofu at Lei Garden, 83 %; nothing is sure"),
        (Statement(None, "mapo tofu @ Lei Garden", 0.999, 1), {}, "Surely mapo tofu at Lei Garden, over 99 %"),
        (
            Statement("restaurant", "Lei Garden", 1.0, 9),
            {"restaurant": "Lei Garden"},
            "Mapo tofu at Lei Garden, 83 %; nothing beyond what you entered is sure",
        ),
        (
            Statement("price", "9 to 12 EUR", 0.96, 5, 9.0, 12.0),
            {},
            "Mapo tofu at Lei Garden, 83 %; surely price 9 to 12 EUR, 96 %",
        ),
        (Statement("ingredient: tofu", "yes", 0.96, 5), {}, "Mapo tofu at Lei Garden, 83 %; surely with tofu, 96 %"),
        (Statement("ingredient: beef", "no", 0.96, 5), {}, "Mapo tofu at Lei Garden, 83 %; surely without beef, 96 %"),
        (
            Statement("dish", "\u05d0\u05d1", 0.97, 3),
            {},
            "Mapo tofu at Lei Garden, 83 %; surely \u2068\u05d0\u05d1\u2069, 97 %",
        ),
        (
            Statement("dish", "a\u202eb\u2069", 0.97, 3),
            {},
            "Mapo tofu at Lei Garden, 83 %; surely a\ufffdb\ufffd, 97 %",
        ),
        (
            Statement("dish", "long " * 100, 0.97, 3),
            {},
            f"Mapo tofu at Lei Garden, 83 %; surely {'long ' * 31}long…, 97 %",
        ),
        (Statement("spicy", "yes", 0.96, 5), {}, "Mapo tofu at Lei Garden, 83 %; surely spicy: yes, 96 %"),
    ],
)
def test_sentences(sure, given, words):
    assert answer_words(prediction(sure), given) == words


@pytest.mark.parametrize(
    ("given", "condition"),
    [
        ({"product": ("Pear",)}, "it is Pear"),
        ({"product": "Pear"}, "it is Pear"),
        ({"product": {"Pear"}}, "it is Pear"),
        ({"ingredient: nut": ("yes",)}, "it is with nut"),
        ({"ingredient: nut": {"no"}}, "it is without nut"),
        ({"spicy": True}, "spicy: yes"),
        ({"spicy": {"yes"}}, "spicy: yes"),
        ({"product": {"Pear", "Plum"}}, "what you entered is true"),
        ({"product": {"Pear": 0.9}}, "what you entered is true"),
        ({"product": "Pear", "spicy": True}, "what you entered is true"),
    ],
)
def test_what_contradicts_the_photo_is_never_sure(given, condition):
    found = Prediction(
        "photo",
        (Answer("Anjou", 0.99),),
        {},
        0.05,
        Statement(None, "Anjou", 0.99, 1),
        None,
        None,
        evidence_probability=1 / 3987,
        contradicts_photo=True,
    )
    words = answer_words(found, given)
    assert words == f"If {condition}, then Anjou, 99 %; but the photo alone gave that 1 in 4,000"
    assert (
        answer_words(found, {"fine": "Anjou"})
        == "Anjou, 99 %, as you entered; but the photo alone gave that 1 in 4,000"
    )


def test_percentages_never_claim_what_is_not():
    values = (0.0, 0.001, 0.004, 0.006, 0.5, 0.994, 0.995, 0.9999999, 1.0)
    assert [percent(value) for value in values] == [
        "0 %",
        "under 1 %",
        "under 1 %",
        "1 %",
        "50 %",
        "99 %",
        "over 99 %",
        "over 99 %",
        "100 %",
    ]
