"""A lesson: the fine label that some photos show, or a new fine label without photos.

A lesson keeps the features of a photo, the name of its file and a digest, never the photo. A lesson is forgotten by an
entry of its own, so the log of lessons (files/sealed_log.py) tells who taught and took back what, and when.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from finegraph.errors import InputError
from finegraph.graph.names import name_fault

MAX_PHOTOS = 1000
MAX_NAME = 200
MAX_PERSON = 100
"""How many photos a lesson has, and how many characters a name and a person, at most."""
_ID = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_SHA256 = re.compile(r"[0-9a-f]{64}")

Row = dict[str, str | dict[str, float]]
"""The parents of a fine label by kind: one label, or several possible ones with weights. The value of a number is
text, `12.5` or `12.5 +- 1.5`."""


@dataclass(frozen=True, eq=False)
class TaughtPhoto:
    """The stored facts of a photo.

    Attributes:
        name: of its file, without the folder.
        sha256: of its content. Of several lessons on one photo the last counts.
        features: its scaled features, which class means learn from.
        answered: the scaled features of the view that answers are given by; None if they are `features`, as of models
            that were fitted to one view, or not known, as of lessons of former versions.
    """

    name: str
    sha256: str
    features: Float[NDArray[np.float32], " feature"]
    answered: Float[NDArray[np.float32], " feature"] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Lesson:
    """One lesson.

    Attributes:
        id: its own; the same lesson sent again has the same.
        at: when, in UTC.
        person: who taught it; may be empty.
        label: the fine label.
        parents: its coarse labels, if the model was fitted without this label; else None.
        photos: what shows it, each once; may be none.
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


class TaughtSummary(NamedTuple):
    """A summary of lessons in a few facts.

    Attributes:
        lessons: how many hold.
        photos: how many photos count, each once.
        labels: the fine labels that they name.
        new_labels: those of them that the model was fitted without.
        last: when the last of them was taught, in UTC; empty if there is none.
    """

    lessons: int
    photos: int
    labels: tuple[str, ...]
    new_labels: tuple[str, ...]
    last: str


def lesson_summary(lessons: Iterable[Lesson]) -> TaughtSummary:
    """The summary of the lessons that hold."""
    holding = [lesson for lesson in lessons if not lesson.forgotten]
    return TaughtSummary(
        lessons=len(holding),
        photos=len({photo.sha256 for lesson in holding for photo in lesson.photos}),
        labels=tuple(dict.fromkeys(lesson.label for lesson in holding)),
        new_labels=tuple(dict.fromkeys(lesson.label for lesson in holding if lesson.parents is not None)),
        last=max((lesson.at for lesson in holding), default=""),
    )


def lesson_time() -> str:
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


def check_teacher(text: str) -> str:
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
                "features": _text_of(photo.features),
                **({} if photo.answered is None else {"answered": _text_of(photo.answered)}),
            }
            for photo in lesson.photos
        ],
    }


def each_photo_once(photos: Iterable[TaughtPhoto]) -> tuple[TaughtPhoto, ...]:
    """Photos, those with the same content once: so often they count."""
    first: dict[str, TaughtPhoto] = {}
    for photo in photos:
        first.setdefault(photo.sha256, photo)
    return tuple(first.values())


def _text_of(features: Float[NDArray[np.float32], " feature"]) -> str:
    return base64.b64encode(features.astype("<f4").tobytes()).decode()


def forget_entry(lesson: str, person: str) -> dict[str, object]:
    """The entry that takes a lesson back."""
    return {"action": "forget", "lesson": lesson, "at": lesson_time(), "person": person}


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
            person=check_teacher(entry["person"]),
            label=check_name("label", entry["label"]),
            parents=entry["parents"],
            photos=each_photo_once(_photo(photo, size) for photo in entry["photos"]),
            forgotten=entry["id"] in forgotten,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"entry {entry.get('number')}: expected a lesson, got something else ({error})") from error


def _photo(content: Mapping[str, Any], size: int | None) -> TaughtPhoto:
    features = _features_of(content["features"], size)
    answered = _features_of(content["answered"], len(features)) if "answered" in content else None
    if _SHA256.fullmatch(content["sha256"]) is None:
        raise ValueError("sha256: expected 64 hexadecimal digits")
    return TaughtPhoto(str(content["name"]), content["sha256"], features, answered)


def _features_of(text: str, size: int | None) -> Float[NDArray[np.float32], " feature"]:
    try:
        features = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4").astype(np.float32)
    except binascii.Error as error:
        raise ValueError(f"features: {error}") from error
    if (size is not None and features.shape != (size,)) or not np.isfinite(features).all():
        raise ValueError(f"features: expected {size} finite numbers, got {len(features)} or others")
    return features
