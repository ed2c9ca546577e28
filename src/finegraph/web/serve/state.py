"""What a running server holds: the model, the workers, the queue, the counters. One for each app.

A model is replaced in one assignment: a request uses the model that it met from its first photo to its last, so none is
dropped and none is answered by two. The old model goes when its last request is done.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from finegraph.errors import FinegraphError
from finegraph.web.admission import Admission
from finegraph.web.decoding import DecodingPool
from finegraph.web.serve.answering import Ask, ServedModel
from finegraph.web.serve.batching import Batcher, Done, Job
from finegraph.web.serve.photo_files import PhotoFiles
from finegraph.web.serve.pictures import SamplePhotos, Thumbnails
from finegraph.web.serve.searching import PhotoIndex
from finegraph.web.serve.settings import ServeSettings
from finegraph.web.serve.statistics import Statistics
from finegraph.web.serve.uploads import Photo

_LOG = logging.getLogger("finegraph.web")
_UPLOADS = 8
"""How many of the largest bodies all uploads together may take."""


class ServerState:
    """Everything of a server; `start` it in the event loop and `stop` it there.

    Args:
        settings: see there.
        model: the model to begin with.
        index: the index to search in.
    """

    def __init__(self, settings: ServeSettings, model: ServedModel, index: PhotoIndex | None = None) -> None:
        self.settings, self.model, self.index = settings, model, index
        self.pool = DecodingPool(settings.decoding)
        largest = settings.security.most_bytes
        self.admission = Admission(settings.queue, (_UPLOADS * largest) >> 20, settings.per_client, largest=largest)
        self.statistics = Statistics(
            lambda: self.admission.inside,
            lambda: self.admission.refused,
            lambda: self.pool.killed + self.photo_files.killed,
        )
        self.batcher = Batcher(
            settings.threads,
            settings.batch_size,
            self.statistics.batches.observe,
            lambda: self.model.warm_up(settings.batch_size),
        )
        self.samples = SamplePhotos(settings.samples)
        self.thumbnails = Thumbnails()
        self.photo_files = PhotoFiles(settings.decoding)
        # Those who tap what they know wait for nobody who searches.
        self.given_threads = ThreadPoolExecutor(settings.threads, "given")
        self.ready = False
        self._reloading = asyncio.Lock()

    async def start(self) -> None:
        """Start workers and threads."""
        await self.pool.__aenter__()
        if self.samples.paths or self.index is not None:
            await self.photo_files.start()
        self.batcher.start()
        self.ready = True

    async def stop(self) -> None:
        """Finish what is there and end workers and threads."""
        self.ready, self.admission.open = False, False
        await self.batcher.close()
        self.given_threads.shutdown(wait=False)
        await self.photo_files.stop()
        await self.pool.__aexit__()

    async def look(self, photo: Photo, model: ServedModel, ask: Ask | None) -> Done:
        """Decode a photo and let it through the network.

        Raises:
            ImageFileError: it cannot be read.
        """
        picture = await self.pool.decode(photo.content, photo.name, model.model.views)
        return await self.batcher.submit(Job(model, picture, photo.name, ask))

    async def reload(self) -> bool:
        """Load the model again from its folder; the one that is served stays where that fails.

        Returns:
            Whether it is served now.
        """
        async with self._reloading:
            try:
                model = await asyncio.to_thread(ServedModel.load, self.settings.model, self.settings.engine)
                index = await asyncio.to_thread(PhotoIndex.open_for, self.settings.index, model)
            except (FinegraphError, OSError) as error:
                self.statistics.reloads.labels("failed").inc()
                _LOG.error("the model could not be loaded again, the old one is served: %s", error)
                return False
            self.model, self.index = model, index
            self.statistics.reloads.labels("done").inc()
            _LOG.warning("the model was loaded again: %s", model.id)
            return True
