"""From settings to a run folder with a model in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import torch

from finegraph._version import __version__
from finegraph.data.splits import DEFAULT_VAL
from finegraph.errors import FinegraphError, SettingsError
from finegraph.evaluation import CalibrationFit
from finegraph.files.folder_swap import remove_leftovers
from finegraph.graph.kind_worth import KindWorth, kind_worth
from finegraph.model.folder.find_model import CONFIG
from finegraph.model.folder.model_card import CALIBRATED_ON
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.nn import Network
from finegraph.progress_types import ShowStage
from finegraph.training.distributed import Ranks, joined_ranks
from finegraph.training.loop import Watcher
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.records.starts import add_start
from finegraph.training.settings import TrainSettings
from finegraph.workflows.evaluation.report_details import BAD_TRAINING, PHOTOS_DIGEST
from finegraph.workflows.graph_comparisons import compared_words, conflict_words
from finegraph.workflows.indexing.similar_photos import TrainingFeatures
from finegraph.workflows.labels.graph_sources import (
    StoredLabels,
    at_version,
    is_store,
    keep_labels,
    kept_labels,
    named_edit,
    read_stored,
    shown_source,
    source_folder,
)
from finegraph.workflows.structure.kept_structure import cells_part, keep_structure, tree_part
from finegraph.workflows.training.calibration import CalibratedModel, calibrate_trained
from finegraph.workflows.training.held_out import ChooseParts, keep_parts, new_parts, parts_of_run
from finegraph.workflows.training.learnt_graph import GraphLearnt
from finegraph.workflows.training.train_report import Trained, report_trained
from finegraph.workflows.training.training_data import (
    TrainingData,
    make_network,
    make_views,
    photos_digest,
    read_training_data,
    with_whole_paths,
)
from finegraph.workflows.training.tune_all import tune_all
from finegraph.workflows.training.tune_head import tune_head

_MAX_CONFLICTS = 5
"""How many pairs and circles that do not fit together are named for each kind."""


class TrainWatcher(Watcher, Protocol):
    """Receives the progress of a run: the stages before training, and training itself."""

    def data(self, data: TrainingData, folder: str) -> None:
        """The photos were listed, and the run folder made."""

    def stage(self, name: str, done: int, total: int) -> None:
        """Some of a stage, such as "features", is done."""


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """What a run gave.

    Attributes:
        run: the run folder.
        model: the model folder in it; None if training was interrupted.
        finished: whether it came to its end; if not, it can be resumed.
        photos: how many photos were trained on.
        validated_on: the split to validate on, or `val` for photos that were held out; None if there are none.
        held_out: how many photos were held out of those to train on, if there is no split to validate on.
        to_evaluate: a split to evaluate on, `test` or else what was validated on; None if there is none.
        metrics: on the validation photos, before calibration; empty if there are none. `numbers.NAME` is the mean
            absolute error of a number.
        units: the unit of each number that has one.
        calibration: what was fitted on the validation photos and is saved with the model; None if nothing was.
        calibration_fault: why nothing could be fitted, if there are validation photos.
        strengths: what the head was fitted with, if the head alone was tuned.
        bad: photos that could not be read.
        seconds: how long it took.
        worth: what each kind is worth to a head that was fitted in closed form; None for others.
        report: the page with the model on its validation photos; None if none was asked for or there are none.
        report_fault: why there is no report, if it could not be written.
    """

    run: str
    model: str | None
    finished: bool
    photos: int
    validated_on: str | None
    held_out: int
    to_evaluate: str | None
    metrics: dict[str, float]
    calibration: CalibrationFit | None
    calibration_fault: str | None
    strengths: dict[str, Any] | None
    bad: list[str]
    seconds: float
    units: dict[str, str] = field(default_factory=dict)
    worth: KindWorth | None = None
    report: str | None = None
    report_fault: str | None = None


def train_run(
    settings: TrainSettings,
    watcher: TrainWatcher,
    *,
    run: str | os.PathLike[str] | None = None,
    resume: bool = False,
    report: bool = False,
) -> TrainResult:
    """Train a model as settings say, into a run folder.

    Args:
        settings: what to train on what; see `resume_settings` for those of a run that is resumed.
        watcher: receives the progress, in the first process.
        run: the run folder; by default a new one in `runs`, named after the data.
        resume: whether the run exists and is resumed.
        report: whether to judge the model on its validation photos at the end, and to write the report of that. A
            report that cannot be written is a fault of its own: the run is complete without it.

    Raises:
        SettingsError: settings that do not go together.
        RunFolderError: the folder exists and is not to be resumed, or another process trains in it.
    """
    began = monotonic()
    settings = with_whole_paths(settings.resolve())
    device = choose_device(settings.device)
    with joined_ranks(device.type) as ranks:
        stage = _stages(watcher, ranks)
        settings, stored = _read_store(settings, run if resume else None, ranks)
        quick = replace(settings, workers=settings.workers or torch.get_num_threads())
        data = read_training_data(quick, stored, _parts(run if resume else None, ranks, stage))
        torch.manual_seed(settings.seed)  # the head's first weights
        network = make_network(settings, data.graph, ranks)  # before the folder: without weights there is no run
        folder = _run_folder(settings, run, resume, ranks)
        if ranks.first:
            _keep(folder, settings, stored, data)
        with folder.lock() if ranks.first else nullcontext():
            if ranks.first:
                remove_leftovers(folder.model)
                add_start(folder, source_folder(settings.data))
                watcher.data(data, str(folder.path))
                for note in _comparison_notes(data, settings):
                    watcher.note(note)
                if data.counted:
                    watcher.note(
                        f"photos show what their classes exclude in {', '.join(data.counted[:5])}: the links of "
                        f"{len(data.counted)} kinds became weights, by how often each label is seen"
                    )
            split = settings.val_split or DEFAULT_VAL if data.val is not None else None
            try:
                result, model, known = _train(quick, network, data, folder, ranks, device, watcher, resume, split)
            except FinegraphError:
                if ranks.first and not resume:
                    folder.remove_if_unused()
                raise
        ranks.wait()
    if report and result["finished"] and ranks.first and split is not None:
        classifier, judged = (None, None) if model is None else (model.classifier, model.judged)
        trained = Trained(
            folder=folder, settings=quick, classifier=classifier, data=data, split=split, known=known, judged=judged
        )
        result |= _report(trained, device, stage)
    return TrainResult(
        **result,
        run=str(folder.path),
        photos=len(data.train),
        validated_on=split,
        held_out=len(data.val) if data.held_out and data.val is not None else 0,
        to_evaluate="test" if "test" in data.splits else split,
        calibration=None if model is None else model.fit,
        calibration_fault=None if model is None else model.fault,
        seconds=monotonic() - began,
        units={name: data.graph.number(name).unit for name in data.graph.numbers if data.graph.number(name).unit},
    )


def _comparison_notes(data: TrainingData, settings: TrainSettings) -> list[str]:
    """What comparisons became, what does not fit together in them, and which of them have no effect."""
    notes = []
    for kind in data.compared:
        ordered = kind.name not in data.graph.numbers
        filled = f"{len(kind.filled):,} label{'s' if len(kind.filled) != 1 else ''} that were unknown"
        made = filled if ordered else "a number of the graph"
        notes.append(f"{kind.name}: {made}, by {compared_words(kind)}")
        notes += [f"{kind.name}: {words}" for words in conflict_words(kind, _MAX_CONFLICTS)]
    alike = 0
    for pair in () if data.pairs is None else data.pairs.pairs:
        alike += data.train[pair.more].label == data.train[pair.less].label
    if alike and settings.tune == "head":
        notes.append(
            f"{alike:,} comparison{'s' if alike != 1 else ''} of two photos of one fine label "
            f"say{'' if alike != 1 else 's'} nothing of fine labels, to which a head is fitted; "
            "training the whole network learns from them"
        )
    if data.pairs is not None and settings.tune == "all" and settings.kind_weight == 0.0:
        notes.append("comparisons of photos have no effect on the network: the weight of kinds is 0")
    return notes


def _parts(run: str | os.PathLike[str] | None, ranks: Ranks, stage: ShowStage) -> ChooseParts:
    """What chooses the photos: of a run that is resumed, or else of a new one."""
    if run is not None:
        return parts_of_run(Path(run))
    return lambda samples, settings: new_parts(samples, settings, ranks, stage("photos compared"))


def _keep(folder: RunFolder, settings: TrainSettings, stored: StoredLabels | None, data: TrainingData) -> None:
    """Keep a copy in the run of the labels and photo lists that may change after it."""
    if stored is not None:
        keep_labels(folder, stored)
    if data.held_out and data.val is not None:
        keep_parts(folder, settings.data, data.train, data.val)


def _train(
    settings: TrainSettings,
    network: Network,
    data: TrainingData,
    folder: RunFolder,
    ranks: Ranks,
    device: torch.device,
    watcher: TrainWatcher,
    resume: bool,
    split: str | None,
) -> tuple[dict[str, Any], CalibratedModel | None, TrainingFeatures | None]:
    """Train, calibrate, and save the model; returns the rest of the result, the model if it is new, and features."""
    views = make_views(settings, network)
    model, known, judged, statistics, learnt = None, None, None, None, None
    result: dict[str, Any] = {"model": None, "finished": True, "metrics": {}, "strengths": None, "bad": []}
    bad: dict[str, str] = {}
    if settings.tune == "head":
        tuned = tune_head(network, data, views, settings, ranks, _stages(watcher, ranks))
        if tuned is not None:
            for note in tuned.notes:
                watcher.note(note)
            if not tuned.converged:
                watcher.note(f"the head did not come to its minimum in {tuned.iterations:,} steps")
            result.update(metrics=tuned.metrics, strengths=tuned.strengths, bad=[str(error) for error in tuned.bad])
            bad = {error.path: error.reason for error in tuned.bad}
            known, judged, statistics, learnt = tuned.known, tuned.judged, tuned.statistics, tuned.learnt
    else:
        network.to(device, torch.float64 if settings.precision == "float64" else torch.float32)
        stage = _stages(watcher, ranks)
        trained = tune_all(network, data, views, settings, ranks, folder, watcher, resume=resume, progress=stage)
        result["finished"] = trained is not None
        if trained is not None:
            result.update(metrics=trained.metrics, bad=list(trained.bad))
            bad, learnt = dict.fromkeys(trained.bad, "it could not be read"), trained.learnt
            if trained.fitted is not None:
                # Metrics of held-out photos belong to the network before; this one was trained on these photos.
                strengths = {name: one for name, one in trained.fitted.strengths.items() if name != CALIBRATED_ON}
                result["strengths"], statistics = (
                    {**strengths, "held_out": 0, "validated": 0},
                    trained.fitted.statistics,
                )
    if statistics is not None:
        variances = statistics.variances
        result["worth"] = kind_worth(network.graph, variances.kinds, variances.own, variances.numbers)
    result["model"] = str(folder.model) if result["finished"] else None
    if result["finished"] and ranks.first and not (resume and (folder.model / CONFIG).exists()):
        # An existing model may have been calibrated since.
        about = _about(settings, data, result, bad)
        classifier = PhotoClassifier(network.to("cpu", torch.float32), views, about=about, statistics=statistics)
        stage = _stages(watcher, ranks)
        chosen_by = result["strengths"] or {}
        held_out = sum(int(chosen_by.get(name, 0)) for name in ("held_out", "validated"))
        model = calibrate_trained(classifier, data, settings, split, judged, device, stage, held_out)
        model.classifier.save(folder.model)
        if learnt is not None:
            _keep_learnt(folder, learnt, data)
    return result, model, known


def _keep_learnt(folder: RunFolder, learnt: GraphLearnt, data: TrainingData) -> None:
    """Keep what was learnt about the graph in the run, for its report."""
    parts: dict[str, Any] = {}
    assert learnt.statistics is not None
    if learnt.cells is not None:
        parts["cells"] = cells_part(learnt.first, learnt.statistics, learnt.cells.cells(), data.train)
    if learnt.tree is not None and learnt.tree.levels:
        moves = [move.words for move in learnt.tree.moves]
        parts["tree"] = tree_part(learnt.first, learnt.tree.levels, data.train, moves)
    if learnt.suggested:
        parts["added"] = [
            {"name": one.name, "source": one.source, "reason": one.reason, "stability": one.stability}
            for one in learnt.suggested
        ]
        looks = [one.kinds[0].parents for one in reversed(learnt.suggested) if one.source == "looks"]
        if looks and "tree" not in parts:
            parts["tree"] = tree_part(learnt.first, looks, data.train)
    keep_structure(folder.path, parts)


def _report(trained: Trained, device: torch.device, stage: ShowStage) -> dict[str, Any]:
    """Write the report of a complete run; a failure is reported and leaves the run complete."""
    try:
        return {"report": report_trained(trained, device, stage)}
    except (FinegraphError, OSError) as error:
        return {"report_fault": str(error)}
    except KeyboardInterrupt:
        return {"report_fault": "it was stopped; evaluate the run to have one"}
    except Exception as error:  # whatever it is, the model is saved, and hours of training must not look like a failure
        return {"report_fault": f"{type(error).__name__}: {error}" if str(error) else type(error).__name__}


def _read_store(
    settings: TrainSettings, run: str | os.PathLike[str] | None, ranks: Ranks
) -> tuple[TrainSettings, StoredLabels | None]:
    """What a label store says, if the settings name one, and the settings that name the very edit.

    All processes read the same edit, also during edits. A run that is resumed has its own copy. The settings that
    are written down have no password.
    """
    if settings.graph is None or not is_store(settings.graph):
        return settings, None
    if run is not None and (kept := kept_labels(RunFolder.open(run))) is not None:
        return settings, kept
    place = at_version(settings.graph, ranks.gather(named_edit(settings.graph))[0])
    return replace(settings, graph=shown_source(place)), read_stored(place)


def resume_settings(run: str | os.PathLike[str], given: dict[str, Any]) -> TrainSettings:
    """The settings of a run that is resumed; those that are given again must be the same.

    Raises:
        SettingsError: a setting differs, and would change what is learnt.
        RunFolderError: there is no such run.
    """
    saved = TrainSettings.from_dict(RunFolder.open(run).read_config(), f"{os.fspath(run)}/config.toml").resolve()
    asked = with_whole_paths(TrainSettings.from_dict({**saved.to_dict(), **given}).resolve())
    changed = saved.changed(asked)
    if changed:
        listed = "; ".join(f"{name} was {getattr(saved, name)!r}, now {getattr(asked, name)!r}" for name in changed)
        raise SettingsError(f"{os.fspath(run)}: a run continues with the settings it began with: {listed}")
    return asked


def choose_device(name: str) -> torch.device:
    """The device of a setting; `auto` is a GPU if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise SettingsError(f"device: {name!r} cannot be used here: {str(error).splitlines()[0]}") from error
    return device


def _run_folder(settings: TrainSettings, run: str | os.PathLike[str] | None, resume: bool, ranks: Ranks) -> RunFolder:
    """The folder of the run: made by the first process, opened by the others."""
    if resume:
        if run is None:
            raise SettingsError("to resume a run, name its folder")
        return RunFolder.open(run)
    path = ""
    if ranks.first:
        folder = RunFolder.create(_new_name(settings.data) if run is None else run)
        folder.write_config(settings.to_dict())
        path = str(folder.path)
    return RunFolder.open(ranks.gather(path)[0])


def _new_name(data: str) -> Path:
    """A folder in `runs` that is not there yet, named after the data."""
    stem = Path(data.rpartition(":")[2]).stem or "run"
    for number in range(1, 1_000_000):
        path = Path("runs") / (stem if number == 1 else f"{stem}-{number}")
        if not path.exists():
            return path
    raise SettingsError("runs: all names are taken; name a folder")


def _stages(watcher: TrainWatcher, ranks: Ranks) -> ShowStage:
    """The progress of each stage by its name, in the first process."""
    if ranks.first:
        return lambda name: lambda done, total: watcher.stage(name, done, total)
    return lambda name: lambda done, total: None


def _about(
    settings: TrainSettings, data: TrainingData, result: dict[str, Any], bad: Mapping[str, str]
) -> dict[str, Any]:
    """The facts for the model card."""
    unread = {path: bad[path] for path in dict.fromkeys(os.fspath(sample.path) for sample in data.train) if path in bad}
    return {
        "finegraph": __version__,
        "data": settings.data,
        "photos": len(data.train),
        PHOTOS_DIGEST: photos_digest(data.train),
        "settings": settings.to_dict(),
        "metrics": {f"val_{name}": value for name, value in result["metrics"].items()},
        "strengths": result["strengths"] or {},
        **({BAD_TRAINING: unread} if unread else {}),
    }
