"""Photos by number. A request names a photo by its place in the data set, so no path ever comes from outside.

A page may outlive the server, and the next one at its address may show other photos. So a number has two parts, such as
`1f0c2ab94d77-12`: a digest of the data set and the place in it. A number of another data set is refused, and what a
browser keeps under it is never shown for another photo. The table is made once per session: linear in the photos.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from finegraph.errors import UnknownNameError

if TYPE_CHECKING:
    from finegraph.workflows.label import LabelSession, SessionPhoto

_DIGEST = 12
_MOST_DIGITS = 10


class PhotoNumbers:
    """The photos of a session, numbered in the order of its samples."""

    def __init__(self, session: LabelSession) -> None:
        self._session = session
        self._samples = session.samples or ()
        self._places = {sample.path: place for place, sample in enumerate(self._samples)}
        digest = hashlib.sha256()
        for sample in self._samples:  # without their classes, which may be renamed
            digest.update(f"{sample.path}\0".encode("utf-8", "surrogateescape"))
        self._digest = digest.hexdigest()[:_DIGEST]

    def of_class(self, fine: str, limit: int | None = None) -> list[tuple[str, SessionPhoto]]:
        """The photos of a class with their numbers."""
        return [(f"{self._digest}-{self._places[photo.path]}", photo) for photo in self._session.photos(fine, limit)]

    def named(self, fine: str, name: str) -> tuple[str, SessionPhoto] | None:
        """The photo of a class that a name means, with its number: its key, or else the end of it after a slash."""
        found = self.of_class(fine)
        ends = [one for one in found if one[1].key.endswith(f"/{name}")]
        return next((one for one in found if one[1].key == name), ends[0] if ends else None)

    def number(self, key: str) -> str:
        """The number of a photo by its key.

        Raises:
            UnknownNameError: the session has no such photo.
        """
        return f"{self._digest}-{self._places[self._session.photo(key).path]}"

    def photo(self, number: str) -> SessionPhoto:
        """The photo of a number.

        Raises:
            UnknownNameError: no photo of a class has it, or it is a number of other photos than these.
        """
        digest, _, place = number.rpartition("-")
        if digest != self._digest:
            raise UnknownNameError(
                f"expected the number of a photo of this data set, {self._digest}-N, got {number[:99]!r}: other photos "
                "are served now than when the page was loaded; load it again"
            )
        if place.isascii() and place.isdigit() and len(place) <= _MOST_DIGITS and int(place) < len(self._samples):
            photo = self._session.photo_at(self._samples[int(place)].path)
            if photo is not None and photo.fine is not None:
                return photo
        raise UnknownNameError(f"expected the number of one of {len(self._samples)} photos, got {number[:100]!r}")
