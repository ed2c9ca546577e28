"""What a running server holds: the model, the workers, the queue, and counters for Prometheus at `/metrics`.

A model is replaced in one assignment: a request uses the model that it met from its first photo to its last, so none is
dropped and none is answered by two. The old model goes when its last request is done. No name of a photo, label or
client is ever among the counters.
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
from finegraph.web.serve.answering import Ask, ServedModel
from finegraph.web.serve.batching import Batcher, Done, Job
from finegraph.web.serve.photo_files import PhotoFiles
from finegraph.web.serve.pictures import SamplePhotos, Thumbnails
from finegraph.web.serve.searching import PhotoIndex
from finegraph.web.serve.serve_settings import ServeSettings
from finegraph.web.serve.uploads import Photo
from finegraph.workflows.teach import TeachResult, taught

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32)


class Statistics:
    """The counters of one server.

    Args:
        inside: tells how many photos are in the server now.
        refused: tells how many requests were refused.
        killed: tells how many decoding workers were killed.
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
_UPLOADS = 8
"""How many of the largest bodies all uploads together may take."""


class ServerState:
    """Everything of a server; `start` it in the event loop and `stop` it there.

    Args:
        settings: the settings of the server.
        model: the model to begin with.
        index: the index to search in.
    """

    def __init__(self, settings: ServeSettings, model: ServedModel, index: PhotoIndex | None = None) -> None:
        self.settings, self.model, self.index = settings, model, index
        self.samples = SamplePhotos(settings.samples, settings.to_label)
        self.pool = DecodingPool(settings.decoding, reads_files=bool(self.samples.paths) or index is not None)
        largest = settings.security.max_bytes
        self.admission = Admission(settings.queue, (_UPLOADS * largest) >> 20, settings.per_client, largest=largest)
        self.statistics = Statistics(
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
        # Requests with new evidence do not wait for searches.
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
        """Finish what is there and end workers and threads."""
        self.ready, self.admission.open = False, False
        await self.batcher.close()
        self.given_threads.shutdown(wait=False)
        await self.pool.__aexit__()

    async def look(self, photo: Photo, model: ServedModel, ask: Ask | None, view: int = 1) -> Done:
        """Decode a photo, or a part of it, and let it through the network.

        Raises:
            PhotoFileError: it cannot be read.
        """
        picture = await self.pool.decode(photo.content, photo.name, model.model.views, view)
        return await self.batcher.submit(Job(model, picture, photo.name, ask))

    async def follow(self) -> None:
        """Take up what other processes taught the model since; costs a look at a file if there is nothing."""
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
            return await asyncio.to_thread(self._change, lambda model: model.keep_lesson(label, photos, **options))

    async def forget(self, lesson: str, *, person: str) -> TeachResult:
        """Take a lesson back; see `PhotoClassifier.forget`."""
        async with self._changing:
            return await asyncio.to_thread(self._change, lambda model: model.forget(lesson, person=person))

    def _change(self, act: Callable[[PhotoClassifier], Lesson]) -> TeachResult:
        """Let the model be changed by lessons, and say how its answers change."""
        model = copy.copy(self.model.model)
        before, graph = model.network.head, model.graph
        lesson = act(model)
        self.model = self.model.with_lessons(model)
        return taught(model, lesson, before, graph)

    async def reload(self) -> bool:
        """Load the model again from its folder; the one that is served stays if that fails.

        Returns:
            Whether it is served now.
        """
        async with self._reloading:
            try:
                settings = self.settings
                model = await asyncio.to_thread(ServedModel.load, settings.model, settings.engine, settings.weights)
                index = await asyncio.to_thread(PhotoIndex.open_for, self.settings.index, model)
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
