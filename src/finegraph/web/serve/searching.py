"""Search for the server: an open index and the questions to it that a request may ask.

The features that the network made for a photo are searched directly, so a search costs one pass through the network and
one through the index.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from finegraph.data.roots import root_of
from finegraph.errors import FinegraphError
from finegraph.model.features.keys import PhotoKeys
from finegraph.search import Hit, Index, StoredPhoto, condition_factors
from finegraph.search.conditions import label_factors
from finegraph.search.filters import agreeing
from finegraph.search.photo_index import state_stamp
from finegraph.web.problems import ProblemError
from finegraph.web.serve.answering import Scores, ServedModel
from finegraph.web.serve.photo_files import PhotoPlace

_LOG = logging.getLogger("finegraph.web")
_RETRY_SECONDS = 30.0
"""The seconds after which an index that could not be opened is tried again, unless it changes before."""


@dataclass(frozen=True, kw_only=True)
class SearchAsk:
    """A question to the index, for all photos of a request; see `finegraph.search.Index.search`."""

    count: int = 12
    where: Mapping[str, AbstractSet[str | bool]] | None = None
    where_not: Mapping[str, set[str]] | None = None
    same: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    given: Mapping[str, object] | None = None
    per_label: int | None = None
    guessed: bool = False
    sort: str | None = None


class FoundPhotos(NamedTuple):
    """The photos found for one photo or label, and by name its own limits, such as `> 12.3`."""

    hits: list[Hit]
    limits: Mapping[str, str]


class PhotoIndex:
    """The index of the served model; opened again when its folder changes.

    One search opens it; others use the old state meanwhile. If the new state cannot be opened, or belongs to another
    model, searches are refused for a while, so that the index is not read again for every search.

    Attributes:
        model: the model that made the index; searches do not change while the served model is taught.
    """

    def __init__(self, index: Index, model: ServedModel) -> None:
        self._index, self.model = index, model
        self._opening = threading.Lock()
        self._failed: tuple[object, float] | None = None  # the state of the folder, and when to try again

    def __len__(self) -> int:
        return len(self._index)

    @classmethod
    def open_for(cls, folder: Path | None, model: ServedModel, small: bool = False) -> PhotoIndex | None:
        """Open an index folder and refuse one of another model; None without a folder.

        Args:
            folder: the folder of the index; None for no search.
            model: the model that is served.
            small: whether an approximate search holds small codes in memory.

        Raises:
            IndexFolderError: it is not there, damaged, or of another model.
            MissingExtraError: the search library is not installed.
        """
        if folder is None:
            return None
        index = Index.open(folder, small=small)
        if model.model.revision and not index.is_of(model.model):
            model = model.with_lessons(model.model.as_fitted())  # made before the lessons: searched as it was
        index.refuse_other(model.model)
        return cls(index, model)

    def current(self, model: ServedModel) -> OpenIndex:
        """The index in its current state, or in the old one while another thread opens it again.

        Args:
            model: the model that is served, which made the index.

        Raises:
            ProblemError: it changed and cannot be opened again, or the new one belongs to another model.
        """
        stamp = state_stamp(self._index.folder)
        failed = self._failed
        if failed is not None and failed[0] == stamp and time.monotonic() < failed[1]:
            raise _cannot_open()
        if not self._is_current() or failed is not None:
            if self._opening.acquire(blocking=False):
                try:
                    self._reopen(model, stamp)
                finally:
                    self._opening.release()
            elif failed is not None:
                raise _cannot_open()
        return OpenIndex(self._index, model)

    def _is_current(self) -> bool:
        """Whether the open index is the one in its folder."""
        try:
            return self._index.is_current()
        except (FinegraphError, OSError):
            return False  # opening it reports why

    def _reopen(self, model: ServedModel, stamp: object) -> None:
        """Open the index again unless it is already current; one thread at a time."""
        try:
            if not self._index.is_current():
                index = Index.open(self._index.folder, small=self._index.small)
                index.refuse_other(model.model)
                self._index = index
        except (FinegraphError, OSError) as error:
            self._failed = stamp, time.monotonic() + _RETRY_SECONDS
            _LOG.error("the index was changed and cannot be opened again, searches are refused: %s", error)
            raise _cannot_open() from error
        self._failed = None


class OpenIndex:
    """The index as one request sees it, from its filters to its hits, whatever happens to the folder.

    Args:
        index: the open index.
        model: the model that made it.
    """

    def __init__(self, index: Index, model: ServedModel) -> None:
        self._index, self._model = index, model

    def place(self, hit: StoredPhoto) -> PhotoPlace:
        """The path of a hit, and the folder that it must lie in."""
        return PhotoPlace(hit.path, root_of(hit.path, self._index.state.roots))

    def filters(self, texts: Sequence[str]) -> dict[str, set[str]] | None:
        """Filters from texts like `restaurant=B`, by the labels of the photos, also those the model does not have.

        Raises:
            InputError: a text that is not of this form, or can be read in two ways.
            UnknownNameError: a kind or a label that is not there.
        """
        from finegraph.workflows.search import parse_labels

        return {kind: set(labels) for kind, labels in parse_labels(self._index, texts).items()} or None

    def search(
        self, scores: Sequence[Scores], ask: SearchAsk, copies: Sequence[Sequence[StoredPhoto]] | None = None
    ) -> list[FoundPhotos]:
        """What is found for photos with these scores, the most similar first.

        Args:
            scores: of each photo.
            ask: what is searched for.
            copies: per photo those of the index with its content, whose label says what a limit such as `< this` is.

        Raises:
            UnknownNameError: a kind or a label that the graph does not have.
            EvidenceError: the evidence is impossible.
        """
        from finegraph.workflows.search import OwnLimits, is_relative, labelled_copy, own_limits

        factors, where = None, ask.where
        if ask.given and not (ask.same or ask.other):
            where = agreeing(where, ask.given)
        limits = [OwnLimits(where, {})]  # the same for all photos
        if ask.same or ask.other or is_relative(where):
            known = self._model.ask(ask.given).given.apply(self._model.tempered(scores), range(len(scores)))
            stored = None if copies is None else [labelled_copy(photos) for photos in copies]
            limits = own_limits(known, where, stored) if is_relative(where) else limits
            if ask.same or ask.other:
                factors = condition_factors(known, same=ask.same, other=ask.other)
        vectors = np.stack([row.feature for row in scores if row.feature is not None])
        size = len(vectors) if len(limits) == 1 else 1
        found = []
        for start, own in zip(range(0, len(vectors), size), limits, strict=True):
            some = slice(start, start + size)
            hits_by_photo = (
                [[]] * size
                if not own.possible
                else self._index.search(
                    vectors[some],
                    count=ask.count,
                    where=own.where,
                    where_not=ask.where_not,
                    per_label=ask.per_label,
                    guessed=ask.guessed,
                    factors=None if factors is None else factors[some],
                )
            )
            found += [FoundPhotos(self._sorted(hits, ask.sort), own.words) for hits in hits_by_photo]
        return found

    def _sorted(self, hits: Sequence[Hit], by: str | None) -> list[Hit]:
        """Hits by a number or an ordered kind, if that is asked for."""
        from finegraph.workflows.search import sorted_hits

        return list(hits) if by is None else list(sorted_hits(self._index.graph, hits, by))

    def check_sort(self, by: str | None) -> str | None:
        """What hits are to be sorted by.

        Raises:
            InputError: the graph has no such number or ordered kind.
        """
        self._sorted((), by)
        return by

    def copies(self, contents: Sequence[bytes]) -> list[list[StoredPhoto]]:
        """The photos of the index with the content of each of some files."""
        return [self._index.copies(PhotoKeys(content)) for content in contents]

    def search_label(self, label: str, ask: SearchAsk) -> FoundPhotos:
        """What is found for the mean of the photos of a fine label, the most similar first.

        Raises:
            UnknownNameError: no such label, or a kind that the graph does not have.
            InputError: no photo of the label is in the index.
        """
        from finegraph.workflows.search import label_limits

        reranked = ask.same or ask.other
        limits = label_limits(self._index.graph, label, ask.where)
        if not limits.possible:
            return FoundPhotos([], limits.words)
        hits = self._index.search_label(
            label,
            ask.count,
            where=limits.where,
            where_not=ask.where_not,
            per_label=ask.per_label,
            guessed=ask.guessed,
            factors=label_factors(self._index.graph, label, same=ask.same, other=ask.other) if reranked else None,
        )
        return FoundPhotos(self._sorted(hits, ask.sort), limits.words)


def _cannot_open() -> ProblemError:
    detail = (
        "The index was changed; what is there now is not whole, or another model made it than the one that is served."
    )
    return ProblemError("index-changed", detail, {"retry-after": f"{_RETRY_SECONDS:.0f}"})
