"""Photos by number. A request names a photo by its place in the data set, so no path ever comes from outside.

The table is made once: linear in the photos.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from finegraph.errors import UnknownNameError

if TYPE_CHECKING:
    from finegraph.workflows.label import LabelSession, SessionPhoto


class PhotoNumbers:
    """The photos of a session, numbered in the order of its samples."""

    def __init__(self, session: LabelSession) -> None:
        self._session = session
        self._samples = session.samples or ()
        self._numbers = {sample.path: number for number, sample in enumerate(self._samples)}

    def of_class(self, fine: str, limit: int | None = None) -> list[tuple[int, SessionPhoto]]:
        """The photos of a class with their numbers."""
        return [(self._numbers[photo.path], photo) for photo in self._session.photos(fine, limit)]

    def number(self, key: str) -> int:
        """The number of a photo by its key.

        Raises:
            UnknownNameError: the session has no such photo.
        """
        return self._numbers[self._session.photo(key).path]

    def photo(self, number: int) -> SessionPhoto:
        """The photo of a number.

        Raises:
            UnknownNameError: no photo of a class has it.
        """
        if 0 <= number < len(self._samples) and (fine := self._samples[number].label) is not None:
            for other, photo in self.of_class(fine):
                if other == number:
                    return photo
        raise UnknownNameError(f"expected the number of one of {len(self._samples)} photos, got {number}")
