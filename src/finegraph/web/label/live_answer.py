"""Something that is read from the whole store, found beside the work: it never makes a person wait for long.

Of 100,000 classes it takes seconds. So it runs in a thread of its own, starts again only after edits, and rests some
times as long as it took. What is known may be that much old; `version` says of which state it is.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from finegraph.errors import FinegraphError
from finegraph.labelling import LabelStore

Answer = TypeVar("Answer")
PATIENCE = 0.1
"""How long a question that nobody waits for may wait for a newer answer."""
_FIRST_WAIT = 1.0
"""How long the first question waits for an answer; of small stores there is one by then."""
_LOG = logging.getLogger("finegraph.web")


class LiveAnswer(Generic[Answer]):
    """The answer to one question to a store, up to date as soon as it goes; may be asked by several threads.

    Args:
        store: whose edits make the answer old.
        find: finds it.
        none: the answer until there is one.
        what: what is done, for the log: "the graph check".
        rest: how many times as long as it took it is not asked again.
    """

    def __init__(self, store: LabelStore, find: Callable[[], Answer], none: Answer, *, what: str, rest: float) -> None:
        self._store, self._find, self._what, self._rest = store, find, what, rest
        self._lock = threading.Lock()
        self._found: tuple[int, Answer] = (-1, none)
        self._running = False
        self._not_before = 0.0
        self._done = threading.Event()

    def get(self, wait: float = 0.0) -> tuple[int, Answer]:
        """The version that was looked at (-1: none yet), and the answer.

        Args:
            wait: how many seconds to wait for a newer one where it is old.
        """
        version = self._store.version
        with self._lock:
            stale = self._found[0] != version and not self._running and time.monotonic() >= self._not_before
            first = self._found[0] == -1
            if stale:
                self._running = True
                self._done.clear()
                threading.Thread(target=self._look, args=(version,), daemon=True).start()
        if stale:
            self._done.wait(_FIRST_WAIT if first else wait)
        with self._lock:
            return self._found

    def _look(self, version: int) -> None:
        began = time.monotonic()
        found: tuple[int, Answer] | None = None
        try:
            found = (version, self._find())
        except FinegraphError as error:  # the store is closing, or the graph has no classes left
            _LOG.warning("%s could not run: %s", self._what, error)
        except Exception:  # a fault: said in full, and the next question tries again
            _LOG.exception("%s failed", self._what)
        with self._lock:
            if found is not None:
                self._found = found
            self._running = False
            self._not_before = time.monotonic() + self._rest * (time.monotonic() - began)
        self._done.set()
