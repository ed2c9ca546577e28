"""Whether the store is whole, asked again and again while people work.

The store was checked when it was opened. What is read after that is not compared with its seals, which would cost too
much; so whoever watches the server (`/health/ready`) lets the whole store be checked every ten minutes, in a thread of
its own. Nobody waits for it longer than a second.
"""

from __future__ import annotations

import logging
import threading
import time

from finegraph.errors import DamagedStoreError, FinegraphError
from finegraph.labelling import LabelStore

_BETWEEN = 600.0
"""Seconds from one check to the next."""
_WAIT = 1.0
"""How long a question waits for the check that it began; small stores are checked by then."""
_LOG = logging.getLogger("finegraph.web")


class StoreHealth:
    """What the last check of an open store found.

    Args:
        store: the store; it was checked just now.
        between: seconds from one check to the next.
    """

    def __init__(self, store: LabelStore, between: float = _BETWEEN) -> None:
        self._store, self._between = store, between
        self._lock = threading.Lock()
        self._next = time.monotonic() + between
        self._running = False
        self._found: DamagedStoreError | None = None

    def refuse_damaged(self) -> None:
        """Begin a check where one is due.

        Raises:
            DamagedStoreError: the last check found damage.
        """
        with self._lock:
            due = not self._running and time.monotonic() >= self._next
            self._running |= due
        if due:
            check = threading.Thread(target=self._check, name="label-store-check", daemon=True)
            check.start()
            check.join(_WAIT)
        if (found := self._found) is not None:
            raise DamagedStoreError(str(found), found.damage)

    def _check(self) -> None:
        try:
            self._store.check()
            self._found = None
        except DamagedStoreError as error:
            self._found = error
        except FinegraphError as error:  # the store is closing
            _LOG.warning("the store could not be checked: %s", error)
        with self._lock:
            self._running, self._next = False, time.monotonic() + self._between
