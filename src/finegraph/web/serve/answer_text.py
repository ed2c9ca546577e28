"""A prediction as a sentence, for the page and the API.

    Mapo tofu at Lei Garden, 83 %; surely mapo tofu, 97 %

First the most probable fine label, then the most exact statement that is sure enough, unless it is the same or was
given. If the evidence contradicts the photo, nothing is called sure:

    If it is Pear, then Anjou, 99 %; but the photo alone gave that 1 in 4,000

Labels may be in any script: one that is written from right to left is isolated, so that it does not reorder the numbers
beside it, invisible control characters are replaced by a visible sign, and very long labels are cut.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping

from finegraph.inference import Statement
from finegraph.inference.evidence import FINE
from finegraph.model import Prediction
from finegraph.model.answering.predictions import chance_words

MAX_LETTERS = 160
"""A longer label is cut in a sentence."""
_REPLACED, _FIRST_ISOLATE, _POP_ISOLATE = "\ufffd", "\u2068", "\u2069"
_DIRECTION_MARKS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


def answer_words(prediction: Prediction, given: Mapping[str, object]) -> str:
    """The answer in words.

    Args:
        prediction: the prediction of a photo.
        given: what was known beside the photo, by kind.
    """
    best = prediction.top[0]
    first = f"{_sentence(best.label)}, {percent(best.probability)}"
    if prediction.contradicts_photo and prediction.evidence_probability is not None:
        alone = f"but the photo alone gave that {chance_words(prediction.evidence_probability)}"
        if FINE in given:
            return f"{first}, as you entered; {alone}"
        return f"If {_given_words(given)}, then {_spoken(best.label)}, {percent(best.probability)}; {alone}"
    sure = prediction.sure
    if sure is None:
        return f"{first}; nothing is sure"
    if sure.kind is None:
        return f"Surely {_spoken(sure.label)}, {percent(sure.probability)}"
    if sure.kind in given:
        return f"{first}; nothing beyond what you entered is sure"
    return f"{first}; surely {statement_words(sure)}, {percent(sure.probability)}"


def statement_words(statement: Statement) -> str:
    """A statement about a kind in words: its label, or the kind itself for yes and no."""
    if statement.low is not None and statement.kind is not None:
        return f"{_spoken(statement.kind)} {_spoken(statement.label)}"
    if statement.label not in ("yes", "no") or statement.kind is None:
        return _spoken(statement.label)
    group, mark, part = statement.kind.partition(": ")
    name = _spoken(part if mark else group)
    return f"{'with' if statement.label == 'yes' else 'without'} {name}" if mark else f"{name}: {statement.label}"


def _given_words(given: Mapping[str, object]) -> str:
    """The evidence as a condition: the label if it is one, else in general words."""
    if len(given) == 1:
        kind, value = next(iter(given.items()))
        labels = value if isinstance(value, Collection) and not isinstance(value, str) else (value,)
        if len(labels) == 1 and not isinstance(value, Mapping):
            (single,) = labels
            label = str(single) if not isinstance(single, bool) else "yes" if single else "no"
            words = statement_words(Statement(kind, label, 1.0, 1))
            return f"it is {words}" if label not in ("yes", "no") or ": " in kind else words
    return "what you entered is true"


def percent(probability: float) -> str:
    """A probability in percent; 0 % and 100 % only if it is exactly that."""
    if 0.995 <= probability < 1.0 - 1e-9:
        return "over 99 %"
    return "under 1 %" if 0.0 < probability < 0.005 else f"{100 * probability:.0f} %"


def _spoken(label: str) -> str:
    """A label as people say it: `mapo tofu @ A` is mapo tofu at A."""
    short = label if len(label) <= MAX_LETTERS else label[: MAX_LETTERS - 1].rstrip() + "…"
    if short.isascii() and short.isprintable():
        return short.replace(" @ ", " at ")
    plain = "".join(_REPLACED if _is_invisible_control(letter) else letter for letter in short).replace(" @ ", " at ")
    leftward = any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in plain)
    return f"{_FIRST_ISOLATE}{plain}{_POP_ISOLATE}" if leftward else plain


def _is_invisible_control(letter: str) -> bool:
    """Whether a character is invisible and changes how its neighbours are shown: controls and direction marks."""
    return unicodedata.category(letter) == "Cc" or unicodedata.bidirectional(letter) in _DIRECTION_MARKS


def _sentence(label: str) -> str:
    spoken = _spoken(label)
    return spoken[:1].upper() + spoken[1:]
