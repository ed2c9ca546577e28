"""The pool of worker processes that decode photos, in lanes, so that no photo waits behind a slow one.

Every upload first goes to the quick lane, where a worker reads its header. Nearly all are decoded there, in some
hundredths of a second; JPEGs are decoded at a reduced size. A photo that would take longer, such as a PNG of twenty
million pixels, goes to the one worker for large photos, or is refused if its file is too small for that many pixels.
So decompression bombs only delay each other. Photos on this machine have a third lane: a disk that hangs delays no
upload. A photo that cannot be read raises `PhotoFileError`. Why there are three lanes: docs/decisions/0010-server.md.
Cost: see `decode_lane.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from finegraph.data.transforms import ViewSettings
from finegraph.errors import PhotoFileError
from finegraph.web.decode_lane import Lane, LargePhoto, Pixels
from finegraph.web.problems import ProblemError

MAX_FILES_WAITING = 64
"""How many photos on this machine may wait to be read; a browser asks for six at a time."""
_RETRY = {"retry-after": "5"}


@dataclass(frozen=True, kw_only=True)
class DecodingSettings:
    """How uploads are decoded."""

    workers: int = 2
    """How many photos are decoded at once, in addition to one large photo."""
    computing: float = 2.0
    """The processor seconds that one photo may take; a worker that takes longer is killed."""
    seconds: float = 10.0
    """The seconds after which a worker that has not answered is killed."""
    queueing: float = 30.0
    """The seconds after which a photo is refused if no worker becomes free."""
    megabytes: int = 64
    """How much memory a worker may take beyond what it needs when idle; a photo that needs more is a large photo."""
    large_megabytes: int = 144
    """How much memory the worker for large photos may take."""
    max_pixels: int = 40_000_000
    """A photo with more pixels is refused from its header alone, unless it is a JPEG."""
    max_jpeg_pixels: int = 120_000_000
    """The same for JPEGs, which are decoded smaller; some phones make photos of 50 and 108 million pixels."""
    quick_pixels: int = 8_000_000
    """A photo with more pixels is a large photo, unless it is a JPEG, which is decoded smaller."""
    pixels_per_byte: int = 250
    """A large photo with more pixels for each byte of its file is refused: no camera makes such files, bombs do."""
    large_waiting: int = 32
    """How many large photos may be in the server at once."""


class DecodingPool:
    """A pool of workers; `async with` starts and stops them.

    Args:
        settings: the limits. Photos on this machine have the limits of large uploads.
        reads_files: whether there is a worker for photos on this machine.
    """

    def __init__(self, settings: DecodingSettings, *, reads_files: bool = False) -> None:
        self._settings = settings
        self._limits = {"max_pixels": settings.max_pixels, "max_jpeg_pixels": settings.max_jpeg_pixels}
        times = (settings.computing, settings.seconds, settings.queueing)
        self._quick = Lane(settings.workers, settings.megabytes, *times)
        self._large = Lane(1, settings.large_megabytes, *times)
        self._files = Lane(1 if reads_files else 0, settings.large_megabytes, *times)
        self._lanes = (self._quick, self._large, self._files)

    async def __aenter__(self) -> DecodingPool:
        for lane in self._lanes:
            await lane.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for lane in self._lanes:
            await lane.stop()

    @property
    def killed(self) -> int:
        """How many workers were killed or died so far."""
        return sum(lane.killed for lane in self._lanes)

    def is_ready(self) -> bool:
        """Whether both lanes for uploads have a worker."""
        return all(
            [self._quick.has_worker(), self._large.has_worker()]
        )  # a list: both must run, as they replace the dead

    async def decode(self, content: bytes, name: str, views: ViewSettings, view: int = 1) -> Pixels:
        """The middle of a photo, or of a part of it, as the network sees it.

        Args:
            content: the file.
            name: the name of the photo in errors.
            views: the sizes of the view.
            view: 1 for the whole photo, more for a part of it.

        Raises:
            PhotoFileError: it is not a photo, broken, too large, or takes too long.
            ProblemError: too many large photos wait already, or no worker became free.
        """
        settings = self._settings
        job = {
            "size": views.size,
            "resize": views.resize,
            "keep_shape": views.keep_shape,
            "interpolation": views.interpolation,
            **({} if view == 1 else {"view": view}),
            **self._limits,
        }
        quick = {"quick_pixels": settings.quick_pixels, "megabytes": settings.megabytes}
        answer = await self._quick.decode(content, name, {**job, **quick})
        if not isinstance(answer, LargePhoto):
            return answer
        if answer.pixels > settings.pixels_per_byte * len(content):
            reason = f"a file of {len(content)} bytes with {answer.pixels} pixels is not a photo; send one of a camera"
            raise PhotoFileError(name, reason)
        if self._large.inside >= settings.large_waiting:
            raise ProblemError("overloaded", f"There are {self._large.inside} large photos in the server.", _RETRY)
        answer = await self._large.decode(content, name, {**job, "megabytes": settings.large_megabytes})
        assert not isinstance(answer, LargePhoto)  # without `quick_pixels` a worker decodes a photo or refuses it
        return answer

    async def read(self, **job: Any) -> tuple[dict[str, Any], bytes]:
        """Read a photo on this machine.

        Args:
            **job: `path`, `root`, `stamp`, `side` and `max_bytes`; see `decode_worker.read_local_photo`.

        Raises:
            PhotoFileError: it cannot be read, lies outside its root, is too large, or takes too long.
            ProblemError: too many wait already, or the worker did not become free.
        """
        if self._files.inside >= MAX_FILES_WAITING:
            raise ProblemError("overloaded", f"There are {self._files.inside} photos that wait to be read.", _RETRY)
        return await self._files.ask(b"", "photo", {**job, **self._limits, "megabytes": self._settings.large_megabytes})
