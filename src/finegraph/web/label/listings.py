"""Lists of classes as they were when somebody asked for them.

A list of unknown classes gets shorter while it is worked through, and pages that are cut by their offset would leave
out as many classes as were decided. So the order of the classes is kept, by their numbers, and pages are cut from it.
The name of a list is a digest of its numbers: who asks the same shares it, and after a restart the same list has the
same name. The lists that nobody has asked for the longest are forgotten; whoever asks for one of them gets a new one
under another name, unless nothing has changed. Memory: 8 bytes per class of a list, 32 MB at the most.
"""

from __future__ import annotations

import hashlib
import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence

MOST_NUMBERS = 4_000_000
"""How many numbers all lists have together; the newest list is kept however long it is."""
_LENGTH = 20


class Listings:
    """The lists of one store; may be asked by several threads."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._kept: OrderedDict[str, array[int]] = OrderedDict()
        self._numbers = 0

    def find(self, name: str | None, make: Callable[[], array[int]]) -> tuple[str, array[int]]:
        """A list with its name: the one that is asked for, or a new one where there is none of that name."""
        with self._gate:
            if name is not None and name in self._kept:
                self._kept.move_to_end(name)
                return name, self._kept[name]
        found = make()
        name = hashlib.sha256(found.tobytes()).hexdigest()[:_LENGTH]
        with self._gate:
            if name not in self._kept:
                self._kept[name] = found
                self._numbers += len(found)
            self._kept.move_to_end(name)
            while self._numbers > MOST_NUMBERS and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._numbers -= len(oldest)
        return name, found


def first_place(numbers: array[int], wanted: Sequence[int]) -> int | None:
    """Where the first of some classes is that a list has; None where it has none of them."""
    for number in wanted:
        try:
            return numbers.index(number)
        except ValueError:
            continue
    return None
