"""The loops in one process that `benchmarks/serve.py` compares the server with.

same       decode and predict with the parts and the engine of the server, but no HTTP, no queue and no other process.
           Each thread takes some photos from the files to the answers, which is the quickest way to use all cores
predict    `model.predict`, which runs in torch

Both are measured with one thread and with as many as there are cores; the quicker one counts.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

BATCH = 8
"""How many photos a thread takes at once; it is what the server lets through the network together."""
LOOPS = ("same", "predict")


def loop(name: str, model: str, paths: Sequence[Path], engine: str, seconds: float) -> float:
    """Photos per second of one loop."""
    from finegraph.cli.process import prepare_process

    prepare_process()
    make = _same if name == "same" else _predict
    work = make(model, paths, engine)
    numbers = sorted({1, os.cpu_count() or 1})
    return max(work(threads, seconds) for threads in numbers)


def _same(model: str, paths: Sequence[Path], engine: str) -> Callable[[int, float], float]:
    import numpy as np
    import torch

    from finegraph.web.decode_worker import decode_photo
    from finegraph.web.decoding import DecodingSettings
    from finegraph.web.serve.answering import ServedModel

    torch.set_num_threads(1)
    served = ServedModel.load(Path(model), engine)
    served.warm_up(BATCH)
    views, ask = served.model.views, served.ask()
    job = {"size": views.size, "resize": views.resize, "keep_shape": views.keep_shape}
    job["interpolation"] = views.interpolation
    job["max_pixels"] = job["max_jpeg_pixels"] = DecodingSettings().max_jpeg_pixels

    def answer(start: int) -> None:
        pictures = []
        chosen = [paths[(start + place) % len(paths)] for place in range(BATCH)]
        for path in chosen:
            _, pixels = decode_photo(path.read_bytes(), job)
            pictures.append(np.frombuffer(pixels, np.uint8).reshape(views.size, views.size, 3))
        served.answer(served.scores(pictures), [str(path) for path in chosen], ask)

    def work(threads: int, seconds: float) -> float:
        began, turns, done = time.perf_counter(), count(), []

        def run() -> None:
            while time.perf_counter() - began < seconds:
                answer(BATCH * next(turns))
                done.append(BATCH)

        running = [threading.Thread(target=run) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return sum(done) / (time.perf_counter() - began)

    return work


def _predict(model: str, paths: Sequence[Path], engine: str) -> Callable[[int, float], float]:
    import torch

    import finegraph

    classifier = finegraph.load(model)
    files = [str(path) for path in paths]

    def work(threads: int, seconds: float) -> float:
        torch.set_num_threads(threads)
        classifier.predict(files[:32])
        began, done = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            start = done % len(files)
            done += len(classifier.predict(files[start : start + 32]))
        return done / (time.perf_counter() - began)

    return work
