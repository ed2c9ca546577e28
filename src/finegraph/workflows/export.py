"""Exporting a trained model to one file, checked before it is written.

A plain function from names to a dataclass; nothing is printed here. The file is made in memory, loaded back as a
stranger would load it, and compared with the model on photos: those that are named, or some that the run was trained
with, or drawn ones. Only a file that agrees is written, in one step. Cost: translating the network (a second for those
of finegraph, ten and more for others and for torch), and the photos going twice through both.
"""

from __future__ import annotations

import glob
import os
import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from finegraph.data.sources import read_samples
from finegraph.errors import DataError, ExportError, FinegraphError, PhotoFileError
from finegraph.files.durable import free_bytes, reason_of, synced_file, write_all, write_over
from finegraph.model.export.export_check import (
    LIMIT,
    TINY,
    Difference,
    PlainDifference,
    compare_outputs,
    drawn_pictures,
    plain_difference,
    plain_view,
    refuse_differences,
)
from finegraph.model.export.export_names import FORMAT, FORMAT_VERSION, suffix_of
from finegraph.model.export.runners import Images, ModelRunner, OnnxRunner, Runner, TorchRunner, check_onnx
from finegraph.model.features.photos import Photo, photo_inputs, read_views
from finegraph.model.folder.find_model import MODEL_OF_RUN, find_model
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.progress_types import ShowProgress
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.settings import TrainSettings
from finegraph.workflows.predict import photos_of

PHOTOS = 32
"""How many photos of the run's data are compared, spread over all of them."""
DRAWN = 12
"""How many pictures are drawn if there are no photos."""
_BATCH = 16
_DATA = ".onnx.data"


@dataclass(frozen=True, kw_only=True)
class ExportResult:
    """The written file, and how well it agrees with the model.

    Attributes:
        path: the file.
        form: `onnx` or `pt2`.
        size: how many bytes it has, with those of the file beside it.
        data: the file beside it that holds its weights, where they are too large for one; None for most.
        image_size: height and width of the images that it takes.
        fine, kinds, coarse: how many fine labels, kinds and coarse labels it knows.
        temperature: what all scores are divided by, inside the file.
        checked_on: which photos it was compared on, in words.
        photos: how many these were.
        differences: how far its outputs are from the model's.
        plain: how far plain preprocessing is from finegraph's; None if pictures were drawn, or none can be read so.
        plain_left_out: how many photos are not part of that, as plain preprocessing cannot read them.
    """

    path: Path
    form: str
    size: int
    data: Path | None
    image_size: int
    fine: int
    kinds: int
    coarse: int
    temperature: float
    checked_on: str
    photos: int
    differences: tuple[Difference, ...]
    plain: PlainDifference | None
    plain_left_out: int

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON data."""
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            **asdict(self),
            "path": str(self.path),
            "data": None if self.data is None else str(self.data),
            "limit": LIMIT,
            "tiny": TINY,
            "differences": [asdict(difference) for difference in self.differences],
        }


@dataclass(frozen=True)
class _Photos:
    """Photos to compare on: a description, their names, their views, and their files if they have any."""

    words: str
    names: list[str]
    images: Images
    files: list[str]


def export_model(
    run: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    check: Sequence[str | os.PathLike[str]] = (),
    progress: ShowProgress | None = None,
) -> ExportResult:
    """Export the model of a run, or of a model folder, to one file.

    Args:
        run: a run folder or a model folder.
        output: the file: `.onnx` for ONNX, `.pt2` for a program of `torch.export`. An earlier file is replaced.
        check: photos, or folders of photos, to compare the file with the model on; by default some of those that the
            run was trained with, or drawn pictures if there are none.
        progress: called with the number of photos compared and the total.

    Raises:
        ModelFolderError: there is no model, or it is damaged.
        ExportError: the file cannot be made or written, or does not answer as the model; nothing is written then.
        MissingExtraError: a package that ONNX files need is not installed.
        DataError: a photo that is named cannot be read.
    """
    target = Path(output)
    form = suffix_of(target.name)
    _check_target(target)
    model = find_model(run)
    if form == ".onnx":
        check_onnx()
    named = photos_of(check) if check else []
    classifier = PhotoClassifier.load(model, "cpu")
    photos = _named(classifier, named) if named else _of_run(model, classifier)
    with ExitStack() as waiting:
        made = _make(classifier, form, target, waiting)
        differences = compare_outputs(
            made.file, ModelRunner(classifier), classifier.graph, photos.images, photos.names, progress=progress
        )
        refuse_differences(differences)
        plain, left_out = _plain(classifier, photos, made.file)
        _write(target, made)
    graph = classifier.graph
    return ExportResult(
        path=target,
        form=form.removeprefix("."),
        size=made.size,
        data=made.data,
        image_size=classifier.views.size,
        fine=len(graph),
        kinds=len(graph.kinds),
        coarse=sum(len(graph.labels(kind)) for kind in graph.kinds),
        temperature=classifier.temperature,
        checked_on=photos.words,
        photos=len(photos.names),
        differences=tuple(differences),
        plain=plain,
        plain_left_out=left_out,
    )


@dataclass(frozen=True)
class _Made:
    """A file that was made and loaded back: its content, its size in all, and the file beside it, if there is one."""

    content: bytes
    file: Runner
    size: int
    data: Path | None = None
    waiting: Path | None = None


def _make(classifier: PhotoClassifier, form: str, target: Path, waiting: ExitStack) -> _Made:
    """The content of the file, and the file loaded back.

    Args:
        classifier: what to export.
        form: the ending of the file.
        target: where it will be.
        waiting: ends with the export; a folder for what is too large for one file is removed then.
    """
    if form == ".onnx":
        from finegraph.model.export import onnx_file

        if onnx_file.size_of(classifier) > onnx_file.LARGEST:
            return _make_with_data(classifier, target, waiting)
        content = onnx_file.onnx_bytes(classifier)
        return _Made(content, OnnxRunner(content), len(content))
    from finegraph.model.export.torch_file import torch_bytes

    graph = classifier.graph
    content = torch_bytes(classifier)
    coarse = sum(len(graph.labels(kind)) for kind in graph.kinds)
    return _Made(content, TorchRunner(content, len(graph), coarse, len(graph.numbers)), len(content))


def _make_with_data(classifier: PhotoClassifier, target: Path, waiting: ExitStack) -> _Made:
    """The same for a model whose weights go to a file beside it; both wait in a folder beside the target."""
    from onnx import checker

    from finegraph.model.export.node_writer import ALIGNMENT
    from finegraph.model.export.onnx_file import onnx_with_data

    # Each export has a name of its own, so that a model never meets the weights of another one.
    data = target.absolute().parent / f"{target.stem}-{secrets.token_hex(4)}{_DATA}"
    content = onnx_with_data(classifier, data.name)
    size = len(content.model)
    try:
        folder = Path(waiting.enter_context(TemporaryDirectory(dir=data.parent, prefix=".finegraph-export-")))
        with synced_file(folder / data.name) as handle:
            for array in content.data:
                write_all(handle, array.reshape(-1).view(np.uint8).data)
                write_all(handle, bytes(-array.nbytes % ALIGNMENT))
                size += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        (folder / target.name).write_bytes(content.model)
    except OSError as error:
        raise _cannot_write(target, size, error) from error
    checker.check_model(str(folder / target.name), full_check=True)
    return _Made(content.model, OnnxRunner(str(folder / target.name)), size, data, folder / data.name)


# ---- photos ----------------------------------------------------------------------------------------------------------


def _named(classifier: PhotoClassifier, files: list[str]) -> _Photos:
    """The photos that the user names; one that cannot be read is an error."""
    return _read(classifier, files, "the photos named", skip=False)


def _of_run(model: Path, classifier: PhotoClassifier) -> _Photos:
    """Some photos that the run was trained with, or drawn pictures, and why."""
    folder = RunFolder(model.absolute().parent)
    if model.absolute().name != MODEL_OF_RUN or not folder.config_file.is_file():
        return _drawn(classifier, "the model is not in a run folder, so it is not known which photos it is for")
    try:
        source = TrainSettings.from_dict(folder.read_config(), str(folder.config_file)).data
        samples = read_samples(source)
        step = max(1, -(-len(samples) // PHOTOS))
        return _read(
            classifier, [str(sample.path) for sample in samples[::step]], f"the run's data, {source}", skip=True
        )
    except (FinegraphError, OSError) as error:  # whatever is wrong with them, the model can still be exported
        return _drawn(classifier, f"the photos of the run cannot be read ({str(error).splitlines()[0]})")


def _drawn(classifier: PhotoClassifier, reason: str) -> _Photos:
    """Drawn pictures."""
    pictures = drawn_pictures(DRAWN)
    images, _ = _views(classifier, pictures, skip=False)
    names = [f"drawn picture {number + 1}" for number in range(len(pictures))]
    return _Photos(f"drawn pictures, as {reason}", names, images, [])


def _read(classifier: PhotoClassifier, files: list[str], words: str, *, skip: bool) -> _Photos:
    """The photos in files."""
    images, numbers = _views(classifier, files, skip=skip)
    if not numbers:
        raise DataError(f"{words}: none of {len(files)} photos can be read")
    kept = [files[number] for number in numbers]
    return _Photos(words, kept, images, kept)


def _views(classifier: PhotoClassifier, photos: Sequence[Photo], *, skip: bool) -> tuple[Images, list[int]]:
    """The views (batch, height, width, 3) of photos, and which photos they are of."""
    images, numbers = [], []
    for number, photo in enumerate(photo_inputs(photos, None)):
        try:
            images.append(read_views(photo, classifier.views).permute(0, 2, 3, 1).numpy())
            numbers.append(number)
        except PhotoFileError:
            if not skip:
                raise
    size = classifier.views.size
    return np.concatenate([np.zeros((0, size, size, 3), np.uint8), *images]), numbers


def _plain(classifier: PhotoClassifier, photos: _Photos, file: Runner) -> tuple[PlainDifference | None, int]:
    """How much plain preprocessing changes the answers of the file, and how many photos it cannot read."""
    views, numbers = [], []
    for number, path in enumerate(photos.files):
        try:
            views.append(plain_view(path, classifier.views))
            numbers.append(number)
        except Exception:  # this comparison is additional: the file itself was checked already
            continue
    left_out = len(photos.files) - len(numbers)
    if not numbers:
        return None, left_out
    ours, plain = photos.images[numbers], np.stack(views)
    return plain_difference(ours, plain, _ask(file, ours), _ask(file, plain)), left_out


def _ask(file: Runner, images: Images) -> dict[str, Any]:
    """The answers about images, a few at a time."""
    parts = [file(images[start : start + _BATCH]) for start in range(0, len(images), _BATCH)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


# ---- the file --------------------------------------------------------------------------------------------------------


def _check_target(target: Path) -> None:
    """Refuse, before any work, a place where no file can be written."""
    folder = target.absolute().parent
    if target.is_dir():
        raise ExportError(f"{target}: expected a file to write, got a folder; name a file in it")
    if not folder.is_dir():
        raise ExportError(f"{target}: there is no folder {str(folder)!r} to write to; make it, or choose another place")
    if not os.access(folder, os.W_OK):
        raise ExportError(f"{target}: the folder {str(folder)!r} may not be written to; choose another place")


def _write(target: Path, made: _Made) -> None:
    """Write the file in one step; an earlier one stays until the new one is on the disk."""
    try:
        if made.data is not None and made.waiting is not None:
            os.rename(made.waiting, made.data)
        write_over(target, made.content)
        # Weights of earlier exports to the same file, which no model asks for now.
        for old in target.absolute().parent.glob(f"{glob.escape(target.stem)}-????????{_DATA}"):
            if old != made.data:
                old.unlink()
    except OSError as error:
        raise _cannot_write(target, made.size, error) from error


def _cannot_write(target: Path, size: int, error: OSError) -> ExportError:
    free = free_bytes(target.absolute().parent)
    room = "" if free is None else f", {free / 1e6:.1f} MB are free"
    return ExportError(
        f"{target}: the file ({size / 1e6:.1f} MB{room}) cannot be written: {reason_of(error)}; "
        "make room, check the rights of the folder, or choose another place"
    )
