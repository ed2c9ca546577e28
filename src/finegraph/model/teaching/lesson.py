"""A lesson: the fine label that some photos show, or a new fine label without photos; and how answers change by it.

A lesson keeps the features of a photo, the name of its file and a digest, never the photo. A lesson is forgotten by an
entry of its own, so the log of lessons (files/sealed_log.py) tells who taught and took back what, and when.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray

from finegraph.errors import InputError
from finegraph.graph.names import name_fault
from finegraph.inference import Answer
from finegraph.nn import BipartiteHead, SoftmaxHead

MAX_PHOTOS = 1000
MAX_NAME = 200
MAX_PERSON = 100
"""How many photos a lesson has, and how many characters a name and a person, at most."""
_ID = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_SHA256 = re.compile(r"[0-9a-f]{64}")

Row = dict[str, str | dict[str, float]]
"""The parents of a fine label by kind: one label, or several of which it is one, with weights. The value of a number is
text, `12.5` or `12.5 +- 1.5`."""


@dataclass(frozen=True, eq=False)
class TaughtPhoto:
    """What is kept of a photo.

    Attributes:
        name: of its file, without the folder.
        sha256: of its content. Of several lessons on one photo the last counts.
        features: its scaled features.
    """

    name: str
    sha256: str
    features: Float[NDArray[np.float32], " feature"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Lesson:
    """What was taught.

    Attributes:
        id: its own; the same lesson sent again has the same.
        at: when, in UTC.
        person: who taught it; may be empty.
        label: the fine label.
        parents: its coarse labels, if the model was fitted without this label; else None.
        photos: what shows it; may be none.
        forgotten: whether it was taken back.
    """

    id: str
    at: str
    person: str
    label: str
    parents: Row | None
    photos: tuple[TaughtPhoto, ...]
    forgotten: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The lesson as JSON, without features."""
        return {
            "id": self.id,
            "at": self.at,
            "person": self.person,
            "label": self.label,
            "parents": self.parents,
            "photos": [photo.name for photo in self.photos],
            "forgotten": self.forgotten,
        }


def now() -> str:
    """The time as it stands in a lesson."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def check_id(text: str) -> str:
    """The id of a lesson.

    Raises:
        InputError: it is none.
    """
    if not isinstance(text, str) or _ID.fullmatch(text) is None:
        raise InputError(f"lesson id: expected 1 to 100 letters, digits, '-', '_' and '.', got {str(text)[:40]!r}")
    return text


def check_name(what: str, text: str) -> str:
    """A label as it may be taught.

    Raises:
        InputError: it cannot be a label.
    """
    if fault := name_fault(text):
        raise InputError(f"{what} {str(text)[:80]!r}: {fault}")
    if len(text) > MAX_NAME:
        raise InputError(f"{what} {text[:40]!r}...: expected at most {MAX_NAME} characters, got {len(text)}")
    return text


def check_person(text: str) -> str:
    """The name of who teaches; may be empty.

    Raises:
        InputError: it is no name.
    """
    if not isinstance(text, str) or len(text) > MAX_PERSON or (text and name_fault(text)):
        fault = name_fault(text) if isinstance(text, str) and len(text) <= MAX_PERSON else None
        raise InputError(
            f"person: expected at most {MAX_PERSON} characters of a name" + (f"; {fault}" if fault else "")
        )
    return text


# ---- entries of the log ---------------------------------------------------------------------------------------------


def teach_entry(lesson: Lesson) -> dict[str, object]:
    """The entry that teaches."""
    return {
        "action": "teach",
        "id": lesson.id,
        "at": lesson.at,
        "person": lesson.person,
        "label": lesson.label,
        "parents": lesson.parents,
        "photos": [
            {
                "name": photo.name,
                "sha256": photo.sha256,
                "features": base64.b64encode(photo.features.astype("<f4").tobytes()).decode(),
            }
            for photo in lesson.photos
        ],
    }


def forget_entry(lesson: str, person: str) -> dict[str, object]:
    """The entry that takes a lesson back."""
    return {"action": "forget", "lesson": lesson, "at": now(), "person": person}


def lessons_of(entries: Sequence[Mapping[str, Any]], size: int | None) -> tuple[Lesson, ...]:
    """The lessons of a log, in their order, those that were forgotten among them.

    Args:
        entries: of the log.
        size: how many features a photo has; None to take any number.

    Raises:
        ValueError: an entry is whole but no lesson.
    """
    forgotten = {entry.get("lesson") for entry in entries if entry.get("action") == "forget"}
    return tuple(_lesson(entry, size, forgotten) for entry in entries if entry.get("action") != "forget")


def _lesson(entry: Mapping[str, Any], size: int | None, forgotten: set[object]) -> Lesson:
    try:
        if entry["action"] != "teach":
            raise ValueError(f"the action is {entry['action']!r}")
        return Lesson(
            id=check_id(entry["id"]),
            at=str(entry["at"]),
            person=check_person(entry["person"]),
            label=check_name("label", entry["label"]),
            parents=entry["parents"],
            photos=tuple(_photo(photo, size) for photo in entry["photos"]),
            forgotten=entry["id"] in forgotten,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"entry {entry.get('number')}: expected a lesson, got something else ({error})") from error


def _photo(content: Mapping[str, Any], size: int | None) -> TaughtPhoto:
    try:
        features = np.frombuffer(base64.b64decode(content["features"], validate=True), dtype="<f4").astype(np.float32)
    except binascii.Error as error:
        raise ValueError(f"features: {error}") from error
    if (size is not None and features.shape != (size,)) or not np.isfinite(features).all():
        raise ValueError(f"features: expected {size} finite numbers, got {len(features)} or others")
    if _SHA256.fullmatch(content["sha256"]) is None:
        raise ValueError("sha256: expected 64 hexadecimal digits")
    return TaughtPhoto(str(content["name"]), content["sha256"], features)


@dataclass(frozen=True)
class AnswerChange:
    """The answers to one photo.

    Attributes:
        photo: its name.
        before: the most probable fine labels before the lesson.
        after: the same after it.
        label_before: how probable the label of the lesson was; 0 if it was not known.
        label_after: how probable it is now; 0 if it is known no more.
    """

    photo: str
    before: tuple[Answer, ...]
    after: tuple[Answer, ...]
    label_before: float
    label_after: float

    def to_dict(self) -> dict[str, Any]:
        """The change as JSON data."""
        return {
            **asdict(self),
            "before": [answer._asdict() for answer in self.before],
            "after": [answer._asdict() for answer in self.after],
        }


def answer_changes(
    lesson: Lesson,
    before: BipartiteHead | SoftmaxHead,
    after: BipartiteHead | SoftmaxHead,
    temperature: float,
    top: int = 5,
) -> list[AnswerChange]:
    """How the answers to the photos of a lesson change.

    Args:
        lesson: what was taught, or taken back.
        before: the head without it.
        after: the head now.
        temperature: of the classifier.
        top: how many labels to list.
    """
    if not lesson.photos:
        return []
    features = torch.from_numpy(np.stack([photo.features for photo in lesson.photos]))
    sides = []
    for head in (before, after):
        with torch.no_grad():
            posterior = head(features.to(head.fine.weight)).tempered(temperature)
        known = lesson.label in head.graph.fine
        label_probs = posterior.log_probs()[:, head.graph.fine_index(lesson.label)].exp().tolist() if known else None
        sides.append((posterior.top(min(top, len(head.graph))), label_probs or [0.0] * len(lesson.photos)))
    (old, old_own), (new, new_own) = sides
    rows = zip(lesson.photos, old, new, old_own, new_own, strict=True)
    return [AnswerChange(photo.name, tuple(one), tuple(two), was, now) for photo, one, two, was, now in rows]
