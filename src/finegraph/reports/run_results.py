"""The input of a report: the files of one evaluation of a run, what was learnt about its graph, and nothing else.

    RUN/evaluations/NAME/        see workflows/evaluation/report_details.py
        structure.json           what was suggested, learnt and accepted, and the tree of fine labels
        structure.safetensors    small pictures of the photos that it names

No photo is opened, no model is loaded and no photo list is read again, so a report can be made where only the run
folder is. Cost: reading a few arrays and the small pictures.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Shaped
from numpy.typing import NDArray

from finegraph.data.splits import DEFAULT_VAL
from finegraph.errors import InputError, RunFolderError, near_paths, unknown_name
from finegraph.evaluation.photo_pack import unpack_photos
from finegraph.evaluation.results import EvaluationResult
from finegraph.graph import LabelGraph
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.records.starts import Start, read_starts

DETAILS_FORMAT, DETAILS_VERSION = "finegraph.evaluation.details", 1
Array = NDArray[Any]
STRUCTURE, STRUCTURE_PICTURES = "structure.json", "structure.safetensors"
STRUCTURE_FORMAT = {"format": "finegraph.structure", "version": 1}


@dataclass(frozen=True, kw_only=True, eq=False)
class RunResults:
    """One evaluation, read.

    Attributes:
        name: what the run is called in the report.
        evaluation: what the evaluation is called.
        result: its metrics.
        graph: the label graph.
        about: what `details.json` says: model, versions, training photos, notes.
        arrays: what is known of single photos; docs/evaluation.md has every name.
        thumbnails: small pictures of photos, by number.
        gallery: larger pictures of some of them.
        similar: small pictures of similar training photos, by their place in `about["similar"]`.
        training: pictures of training photos of confused classes, by their place in `about["training_photos"]`.
        settings: of the training, as `config.toml` says; empty for a model folder without a run.
        starts: what it was trained with, for each time training was started or resumed; empty if it is not known.
        structure: what was learnt about the graph; None if nothing was.
        structure_pictures: small pictures for that, by the paths of photos.
    """

    name: str
    evaluation: str
    result: EvaluationResult
    graph: LabelGraph
    about: dict[str, Any]
    arrays: dict[str, Shaped[Array, " ..."]]
    thumbnails: dict[int, bytes]
    gallery: dict[int, bytes]
    similar: dict[int, bytes]
    training: dict[int, bytes]
    settings: dict[str, Any]
    starts: list[Start] = field(default_factory=list)
    structure: dict[str, Any] | None = None
    structure_pictures: dict[str, bytes] = field(default_factory=dict)

    @property
    def head(self) -> str:
        """The head of the model, such as `bipartite`."""
        return str(self.about["model"]["head"])

    @property
    def sources(self) -> tuple[str, ...]:
        """What the parts of explanations are of: the fine label, kinds and numbers, in the order of `parts`."""
        names = ("fine", *self.graph.kinds, *self.graph.numbers)
        return names[: self.arrays["parts"].shape[1]]  # evaluations of earlier versions have none for numbers

    @property
    def photos(self) -> list[str]:
        """The path of each photo that was answered, in the order of the arrays."""
        paths = self.about["photos"]
        return [paths[number] for number in self.arrays["sample"].tolist()]

    @property
    def right(self) -> Bool[NDArray[np.bool_], " photo"]:
        """Whether each photo's fine label was answered rightly; no where it is not known."""
        return np.asarray(self.arrays["predicted"] == self.arrays["fine"])


def evaluations_folder(run: str | os.PathLike[str]) -> Path:
    """Where the evaluations of a run, a model folder or a model folder in a run are."""
    path = Path(run)
    for place in (path / "evaluations", path.absolute().parent / "evaluations"):
        if place.is_dir():
            return place
    beside = path.absolute().with_name(f"{path.absolute().name}-evaluations")
    if beside.is_dir():
        return beside
    if not path.exists():
        raise RunFolderError(f"{path}: expected the folder of a run, but there is no such folder{near_paths(path)}")
    raise RunFolderError(f"{path}: there are no evaluations in this run; evaluate it first")


def find_evaluation(run: str | os.PathLike[str], name: str | None = None) -> Path:
    """The folder of an evaluation of a run.

    Args:
        run: the run or model folder.
        name: the evaluation; by default the last of `test`, `test-2` and so on; else the only one, or the last of one
            name and its numbers, such as `val` and `val-2`; if there are others, those of the photos that the run
            was validated on do not count.

    Raises:
        RunFolderError: there is no such run, or none of its evaluations can be shown.
        UnknownNameError: there is no evaluation of that name.
        InputError: there are several and none is called `test`.
    """
    folder = evaluations_folder(run)
    names = sorted(entry.name for entry in folder.iterdir() if (entry / "result.json").is_file())
    if name is not None:
        if name not in names:
            raise unknown_name("evaluation", name, names, f"in {folder}")
        return folder / name
    full = [each for each in names if (folder / each / "details.json").is_file()]
    if not names:
        raise RunFolderError(f"{run}: there are no evaluations in this run; evaluate it first")
    if not full:
        raise RunFolderError(_without_details(folder / names[0]))
    stems = {each: _stem(each, names) for each in full}
    known_stems = {stem for stem, _ in stems.values()}
    if (
        len(known_stems) > 1 and "test" not in known_stems
    ):  # training leaves one of the validation photos; another is meant then
        known_stems = {stems[each][0] for each in full if not _of_validation(folder / each)} or known_stems
    chosen = "test" if "test" in known_stems else min(known_stems)
    same = [each for each in full if stems[each][0] == chosen]
    if chosen != "test" and len(known_stems) > 1:
        raise InputError(f"{run}: there are several evaluations ({', '.join(full[:5])}); say which one to show")
    return folder / max(same, key=lambda each: stems[each][1])


def _stem(name: str, names: Sequence[str]) -> tuple[str, int]:
    """The name of an evaluation without the number that distinguishes it from an earlier one, and that number.

    A number that stands for itself, as in the splits `fold-1` and `fold-2`, is part of the name: there is no `fold`.
    """
    stem, _, number = name.rpartition("-")
    return (stem, int(number)) if stem in names and number.isdecimal() else (name, 1)


def _of_validation(folder: Path) -> bool:
    """Whether an evaluation of a run is of the photos that the run was validated on."""
    run = _run_of(folder)
    if run is None:
        return False
    return EvaluationResult.read(folder / "result.json").split == (_settings(run).get("val_split") or DEFAULT_VAL)


def _run_of(folder: Path) -> Path | None:
    """The run that an evaluation belongs to; None if it is of a model folder, whatever is beside that."""
    return folder.parent.parent if folder.parent.name == "evaluations" else None


def read_run(run: str | os.PathLike[str], name: str, evaluation: str | None = None) -> RunResults:
    """Read an evaluation of a run.

    Args:
        run: the run or model folder.
        name: what to call it in the report.
        evaluation: which evaluation; see `find_evaluation`.

    Raises:
        RunFolderError: the evaluation has not all of the files, or one of them is damaged.
    """
    folder = find_evaluation(run, evaluation)
    if not (folder / "details.json").is_file():
        raise RunFolderError(_without_details(folder))
    try:
        about = json.loads((folder / "details.json").read_text("utf-8"))
        _check_form(about, folder)
        arrays = _read_arrays(folder / "details.safetensors")
        pictures = _read_arrays(folder / "thumbnails.safetensors")
        sets = {name: _pictures(pictures, name) for name in ("photos", "gallery", "similar", "training")}
        graph = LabelGraph.read(folder / "graph.json")
    except (OSError, ValueError, KeyError) as error:
        raise RunFolderError(f"{folder}: its files cannot be read: {error}; evaluate again") from error
    result = EvaluationResult.read(folder / "result.json")
    if result.graph != graph.digest:
        raise RunFolderError(f"{folder}: result.json and graph.json do not belong together; evaluate again")
    _check_arrays(folder, arrays, graph, len(about["photos"]))
    run_folder = _run_of(folder)
    structure = None if run_folder is None else read_structure(run_folder)
    return RunResults(
        name=name,
        evaluation=folder.name,
        result=result,
        graph=graph,
        about=about,
        arrays=arrays,
        thumbnails=sets["photos"],
        gallery=sets["gallery"],
        similar=sets["similar"],
        training=sets["training"],
        settings={} if run_folder is None else _settings(run_folder),
        starts=[] if run_folder is None else read_starts(RunFolder(run_folder)),
        structure=structure,
        structure_pictures={}
        if run_folder is None or structure is None
        else read_structure_pictures(run_folder, structure),
    )


def _without_details(folder: Path) -> str:
    return f"{folder}: this evaluation was written without what a report shows of single photos; evaluate again"


def _check_form(about: Any, folder: Path) -> None:
    """Raise if `details.json` is not what it should be."""
    if not isinstance(about, dict) or about.get("format") != DETAILS_FORMAT:
        raise InputError(f"{folder / 'details.json'}: expected an object with the format {DETAILS_FORMAT!r}")
    if about.get("version") != DETAILS_VERSION:
        raise InputError(f"{folder / 'details.json'}: expected version {DETAILS_VERSION}, got {about.get('version')!r}")


def _check_arrays(folder: Path, arrays: Mapping[str, Array], graph: LabelGraph, photos: int) -> None:
    """Raise if arrays are missing, or have indices out of range."""
    count, kinds = len(arrays.get("sample", ())), len(graph.kinds)
    columns = ["sample", "fine", "predicted", "probability", "rank", "log_prob", "inconsistent"]
    columns += [f"sure_{name}" for name in ("level", "label", "probability", "right")]
    matrices = {f"kinds_{name}": (count, kinds) for name in ("predicted", "probability", "right", "true")}
    for name, shape in {**dict.fromkeys(columns, (count,)), **matrices}.items():
        if name not in arrays or arrays[name].shape != shape:
            raise RunFolderError(f"{folder}: expected {name} of shape {shape} in details.safetensors; evaluate again")
    inside = ("sample", photos), ("fine", len(graph)), ("predicted", len(graph)), ("top_labels", len(graph))
    for name, end in inside:
        if arrays[name].size and int(arrays[name].max()) >= end:
            raise RunFolderError(f"{folder}: {name} in details.safetensors goes beyond {end}; evaluate again")


def _read_arrays(path: Path) -> dict[str, Array]:
    """The arrays in a file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(path.read_bytes())
    except SafetensorError as error:
        raise InputError(f"{path.name} is damaged ({error})") from None


def _pictures(arrays: Mapping[str, Array], name: str) -> dict[int, bytes]:
    """One set of pictures; none if the file has no such set."""
    parts = {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}
    return unpack_photos(parts) if parts else {}


def _settings(run: Path) -> dict[str, Any]:
    """The settings of a run; empty if there is none."""
    try:
        return tomllib.loads((run / "config.toml").read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise RunFolderError(f"{run / 'config.toml'}: expected the settings of this run as TOML: {error}") from None


def read_structure(run: Path) -> dict[str, Any] | None:
    """What was learnt about the graph of a run; None if nothing was, or it cannot be read any more."""
    try:
        content = json.loads((run / STRUCTURE).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    good = isinstance(content, dict) and all(content.get(name) == value for name, value in STRUCTURE_FORMAT.items())
    return content if good else None


def read_structure_pictures(run: Path, structure: Mapping[str, Any]) -> dict[str, bytes]:
    """The small pictures of what was learnt, by the paths of the photos; none if they cannot be read."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        found = unpack_photos(load((run / STRUCTURE_PICTURES).read_bytes()))
    except (OSError, SafetensorError, ValueError, KeyError):
        return {}
    paths = structure.get("pictures", [])
    return {paths[number]: picture for number, picture in found.items() if number < len(paths)}
