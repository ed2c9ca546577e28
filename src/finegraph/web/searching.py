"""Search for the server: an open index and the questions to it that a request may ask.

The features that the network made for a photo are searched directly, so a search costs one pass through the network and
one through the index.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from finegraph.errors import FinegraphError
from finegraph.web.answering import Scores, ServedModel
from finegraph.web.problems import ProblemError

if TYPE_CHECKING:
    from finegraph.search import Hit, Index

_LOG = logging.getLogger("finegraph.web")
_AGAIN = 30.0
"""An index that could not be opened is tried again after so many seconds, or as soon as it changes."""


@dataclass(frozen=True, kw_only=True)
class SearchAsk:
    """What is asked of the index, for all photos of a request; see `finegraph.search.Index.search`."""

    count: int = 12
    where: Mapping[str, set[str]] | None = None
    where_not: Mapping[str, set[str]] | None = None
    same: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    given: Mapping[str, set[str]] | None = None
    per_label: int | None = None
    guessed: bool = False


class PhotoIndex:
    """An open index that the served model made; opened again when somebody changed it.

    Where what is there now cannot be opened, or is of another model, searches are refused and that is remembered: a
    whole index is not read again for every search.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._opening = threading.Lock()
        self._failed: tuple[object, float] | None = None  # the state of the folder, and when to try again

    def __len__(self) -> int:
        return len(self._index)

    @classmethod
    def open_for(cls, folder: Path | None, model: ServedModel) -> PhotoIndex | None:
        """Open an index folder and refuse one of another model; None where there is none to open.

        Raises:
            IndexFolderError: it is not there, damaged, or of another model.
            MissingExtraError: the search library is not installed.
        """
        if folder is None:
            return None
        from finegraph.search import Index

        index = Index.open(folder)
        index.refuse_other(model.model)
        return cls(index)

    def search(
        self, model: ServedModel, scores: Sequence[Scores], ask: SearchAsk, *, reopen: bool = True
    ) -> list[list[Hit]]:
        """What is most similar to photos, the best first.

        Args:
            model: the model that made the scores, and the index.
            scores: those of the photos.
            ask: what is asked.
            reopen: whether the index is opened again if it changed; not for a request that began before another model
                took over, as the folder may hold that one's index by now.

        Raises:
            ProblemError: the index changed and cannot be opened again.
            UnknownNameError: a kind or a label that the graph does not have.
            EvidenceError: what is given cannot be true.
        """
        from finegraph.search import condition_factors

        factors = None
        if ask.same or ask.other:
            known = model.ask(ask.given).given.apply(model.tempered(scores), range(len(scores)))
            factors = condition_factors(known, same=ask.same, other=ask.other)
        vectors = np.stack([row.feature for row in scores if row.feature is not None])
        index = self._current(model) if reopen else self._index
        return index.search(
            vectors,
            count=ask.count,
            where=ask.where,
            where_not=ask.where_not,
            per_label=ask.per_label,
            guessed=ask.guessed,
            factors=factors,
        )

    def search_label(self, model: ServedModel, label: str, ask: SearchAsk) -> list[Hit]:
        """What is most similar to the mean of the photos of a fine label, the best first.

        Raises:
            ProblemError: the index changed and cannot be opened again.
            UnknownNameError: no such label, or a kind that the graph does not have.
            InputError: no photo of the label is in the index.
        """
        from finegraph.search.conditions import label_factors

        index = self._current(model)
        asked = ask.same or ask.other
        return index.search_label(
            label,
            ask.count,
            where=ask.where,
            where_not=ask.where_not,
            per_label=ask.per_label,
            guessed=ask.guessed,
            factors=label_factors(index.graph, label, same=ask.same, other=ask.other) if asked else None,
        )

    def _current(self, model: ServedModel) -> Index:
        """The index as it is now.

        Raises:
            ProblemError: it changed and cannot be opened again, or another model made the new one.
        """
        from finegraph.search import Index
        from finegraph.search.index import state_stamp

        with self._opening:
            stamp = state_stamp(self._index.folder)
            if self._failed is not None and self._failed[0] == stamp and time.monotonic() < self._failed[1]:
                raise _cannot_open()
            try:
                if not self._index.is_current():
                    index = Index.open(self._index.folder)
                    index.refuse_other(model.model)
                    self._index = index
            except (FinegraphError, OSError) as error:
                self._failed = stamp, time.monotonic() + _AGAIN
                _LOG.error("the index was changed and cannot be opened again, searches are refused: %s", error)
                raise _cannot_open() from error
            self._failed = None
            return self._index


def _cannot_open() -> ProblemError:
    detail = (
        "The index was changed; what is there now is not whole, or another model made it than the one that is served."
    )
    return ProblemError("index-changed", detail, {"retry-after": f"{_AGAIN:.0f}"})
