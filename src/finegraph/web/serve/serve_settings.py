"""The settings of a server."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from finegraph.errors import InputError
from finegraph.model.features.engines import EngineName
from finegraph.nn.compact_linear import WeightForm
from finegraph.web.decoding import DecodingSettings
from finegraph.web.security import Security


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """The settings of the server of a model."""

    model: Path
    """A model folder or a run folder."""
    index: Path | None = None
    """An index folder to search in, made with the same model; without one there is no search."""
    small_index: bool = False
    """Whether an approximate search holds a quarter of the bytes in memory, and reads the best from the disk."""
    samples: Path | None = None
    """A folder of photos that the page offers to try."""
    to_label: tuple[Path, ...] = ()
    """Photos that the page asks people to label, in this order, in place of samples; for servers that take lessons."""
    security: Security = field(default_factory=Security)
    """The address to listen on, and the access rules."""
    decoding: DecodingSettings = field(default_factory=DecodingSettings)
    """How uploads are decoded."""
    teach: bool = False
    """Whether the model may be taught over HTTP; lessons are kept in its folder."""
    engine: EngineName = "auto"
    """What computes the features: ONNX Runtime or torch; `auto` for the first if it is installed."""
    weights: WeightForm = "float32"
    """The number format of the weights of the last layer: bfloat16 takes half of the memory, int8 a quarter."""
    threads: int = 1
    """How many batches go through the network at once, each on one core."""
    batch_size: int = 8
    """The largest number of photos that go through the network together."""
    queue: int = 64
    """How many photos may be in the server at once; further ones are refused until some are done."""
    per_client: int | None = None
    """How many photos of one client may be in the server at once; by default half of all, and all of this machine."""
    connections: int = 1000
    """How many connections there may be at once."""
    photos_per_request: int = 32
    """How many photos one request may hold."""
    head_seconds: float = 10.0
    """How long the head of a request may take to arrive."""
    upload_seconds: float = 30.0
    """How long its photos may take to arrive."""
    stalled_seconds: float = 30.0
    """How long an answer may wait for a client that does not read it."""
    stop_seconds: float = 30.0
    """How long requests may take to finish when the server stops."""

    def __post_init__(self) -> None:
        for name in ("threads", "batch_size", "queue", "per_client", "connections", "photos_per_request"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name}: expected at least 1, got {value}")
        if self.weights not in get_args(WeightForm):
            raise InputError(f"weights: expected one of {', '.join(get_args(WeightForm))}, got {self.weights!r}")
        if self.weights != "float32" and self.teach:
            raise InputError(
                "weights: a model with rounded weights cannot be taught; serve it in float32, or without --teach"
            )
        if self.to_label and not self.teach:
            raise InputError("to_label: labels are lessons, and this server takes none; let it with --teach")
        if self.to_label and self.samples is not None:
            raise InputError("to_label: the page shows either samples or photos to label; leave one of them out")
        self.security.check()
