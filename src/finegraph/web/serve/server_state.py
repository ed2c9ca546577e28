"""The state of a running server: the model, the workers, the queue, and the counters for Prometheus at `/metrics`.

A model is replaced in one assignment. A request uses one model for all its photos, so a reload drops no request and
mixes no answers. The old model is freed when its last request is done. Counters never hold the name of a photo, label
or client.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from finegraph.errors import FinegraphError, LessonError
from finegraph.model import PhotoClassifier
from finegraph.model.teaching.lesson import Lesson, TaughtPhoto
from finegraph.web.admission import Admission
from finegraph.web.decoding import DecodingPool
from finegraph.web.serve.answering import PhotoQuestion, ServedModel
from finegraph.web.serve.batching import Batcher, Done, Job
from finegraph.web.serve.photo_files import PhotoFiles, SamplePhotos, Thumbnails
from finegraph.web.serve.searching import PhotoIndex
from finegraph.web.serve.serve_settings import ServeSettings
from finegraph.web.serve.uploads import UploadedPhoto
from finegraph.workflows.teach import ModelState, TeachResult, taught

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32)


class ServerCounters:
    """The counters of one server.

    Args:
        inside: returns the number of photos in the server now.
        refused: returns the number of refused requests.
        killed: returns the number of killed decoding workers.
    """

    def __init__(self, inside: Callable[[], int], refused: Callable[[], int], killed: Callable[[], int]) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter("finegraph_requests", "Requests answered.", ["route", "status"], registry=registry)
        self.seconds = Histogram(
            "finegraph_request_seconds", "How long requests took.", ["route"], buckets=_SECONDS, registry=registry
        )
        self.photos = Counter("finegraph_photos", "Photos by what became of them.", ["outcome"], registry=registry)
        self.batches = Histogram("finegraph_batch_size", "Photos in a batch.", buckets=_SIZES, registry=registry)
        self.reloads = Counter("finegraph_reloads", "Reloads of the model.", ["outcome"], registry=registry)
        for name, text, value in (
            ("finegraph_photos_inside", "Photos that are in the server now.", inside),
            ("finegraph_requests_refused", "Requests refused because the server was full.", refused),
            ("finegraph_workers_killed", "Decoding workers that were killed or died.", killed),
        ):
            Gauge(name, text, registry=registry).set_function(value)

    def text(self) -> bytes:
        """All counters as Prometheus reads them."""
        return generate_latest(self._registry)


_LOG = logging.getLogger("finegraph.web")
_MAX_BODIES = 8
"""The memory for all uploads together, in bodies of the largest size."""


class ServerState:
    """The parts of a server; call `start` and `stop` in its event loop.

    Args:
        settings: the settings of the server.
        model: the model to begin with.
        index: the index to search in.
    """

    def __init__(self, settings: ServeSettings, model: ServedModel, index: PhotoIndex | None = None) -> None:
        self.settings, self.model, self.index = settings, model, index
        self.samples = SamplePhotos(settings.samples, settings.to_label)
        self.pool = DecodingPool(settings.decoding, reads_files=bool(self.samples.paths) or index is not None)
        max_bytes = settings.security.max_bytes
        self.admission = Admission(
            settings.queue, (_MAX_BODIES * max_bytes) >> 20, settings.per_client, max_request_bytes=max_bytes
        )
        self.statistics = ServerCounters(
            lambda: self.admission.inside,
            lambda: self.admission.refused,
            lambda: self.pool.killed,
        )
        self.batcher = Batcher(
            settings.threads,
            settings.batch_size,
            self.statistics.batches.observe,
            lambda: self.model.warm_up(settings.batch_size),
        )
        self.thumbnails = Thumbnails()
        self.photo_files = PhotoFiles(self.pool)
        # A pool of its own, so that requests with new evidence do not wait for searches.
        self.given_threads = ThreadPoolExecutor(settings.threads, "given")
        self.ready = False
        self._reloading = asyncio.Lock()
        self._changing = asyncio.Lock()

    async def start(self) -> None:
        """Start workers and threads."""
        if self.settings.teach:
            self.model.model.teaching.prepare()  # so that the first lesson need not wait
        await self.pool.__aenter__()
        self.batcher.start()
        self.ready = True

    async def stop(self) -> None:
        """Finish the admitted requests and end workers and threads."""
        self.ready, self.admission.open = False, False
        await self.batcher.close()
        self.given_threads.shutdown(wait=False)
        await self.pool.__aexit__()

    async def look(self, photo: UploadedPhoto, model: ServedModel, ask: PhotoQuestion | None, view: int = 1) -> Done:
        """Decode a photo, or a part of it, and run it through the network.

        Raises:
            PhotoFileError: it cannot be read.
        """
        picture = await self.pool.decode(photo.content, photo.name, model.model.views, view)
        return await self.batcher.submit(Job(model, picture, photo.name, ask))

    async def follow(self) -> None:
        """Take up lessons that other processes taught the model; without any this costs one `stat` of a file."""
        if self.model.model.is_current():
            return
        async with self._changing:
            try:
                await asyncio.to_thread(self._refresh)
            except LessonError as error:
                _LOG.error("the lessons of others could not be taken up: %s", error)

    def _refresh(self) -> None:
        model = copy.copy(self.model.model)
        model.refresh()
        if model.network is not self.model.model.network:
            self.model = self.model.with_lessons(model)

    async def teach(self, label: str, photos: Sequence[TaughtPhoto], **options: Any) -> TeachResult:
        """Teach the served model; see `PhotoClassifier.keep_lesson`. Answers follow from now on."""
        async with self._changing:
            return await asyncio.to_thread(
                self._apply_lesson, lambda model: model.keep_lesson(label, photos, **options)
            )

    async def forget(self, lesson: str, *, person: str) -> TeachResult:
        """Take a lesson back; see `PhotoClassifier.forget`."""
        async with self._changing:
            return await asyncio.to_thread(self._apply_lesson, lambda model: model.forget(lesson, person=person))

    def _apply_lesson(self, change: Callable[[PhotoClassifier], Lesson]) -> TeachResult:
        """Replace the model by a changed copy, and report how its answers change."""
        model = copy.copy(self.model.model)
        before = ModelState.of(model)
        lesson = change(model)
        self.model = self.model.with_lessons(model)
        return taught(model, lesson, before)

    async def reload(self) -> bool:
        """Load the model again from its folder; if that fails, the old one stays.

        Returns:
            Whether the new model is served now.
        """
        async with self._reloading:
            try:
                settings = self.settings
                model = await asyncio.to_thread(ServedModel.load, settings.model, settings.engine, settings.weights)
                index = await asyncio.to_thread(PhotoIndex.open_for, settings.index, model, settings.small_index)
                if self.settings.teach:
                    await asyncio.to_thread(model.model.teaching.prepare)
            except (FinegraphError, OSError) as error:
                self.statistics.reloads.labels("failed").inc()
                _LOG.error("the model could not be loaded again, the old one is served: %s", error)
                return False
            self.model, self.index = model, index
            self.statistics.reloads.labels("done").inc()
            _LOG.warning("the model was loaded again: %s", model.id)
            return True
