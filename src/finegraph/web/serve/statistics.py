"""What the server counts, for Prometheus at `/metrics`.

Each server has its own counters. No name of a photo, label or client is ever among them. Cost: microseconds per
request.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

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
