"""Running a study: the photos, then cell after cell, then summary, tables and plots.

    plan -> features, once -> for each cell that is not done: draw, fit, measure, keep -> summary

Cost: that of the features of every photo once, and of each cell the fits of all its settings.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import torch

from finegraph._version import __version__
from finegraph.errors import SettingsError
from finegraph.graph.formats.text_file import write_text
from finegraph.reports.plots.plot_style import WITHOUT_MATPLOTLIB, has_matplotlib
from finegraph.reports.plots.study_plots import draw_study
from finegraph.training.loop import Watcher
from finegraph.workflows.report import write_report
from finegraph.workflows.studies.fine_tuning import drop_checkpoints, fine_tune
from finegraph.workflows.studies.grid import Cell, Estimate, plan, seeds_of
from finegraph.workflows.studies.head_fits import fit_study_head
from finegraph.workflows.studies.markdown_tables import TRAIN, bad_photos_text, tables_text
from finegraph.workflows.studies.measure import PerPhoto, measure, metrics_of_photos, photo_metrics
from finegraph.workflows.studies.photo_sets import StudyData, StudyFeatures, read_study_data, study_features
from finegraph.workflows.studies.sklearn_heads import DISCRIMINANT, check_installed, check_photos
from finegraph.workflows.studies.spec import Study
from finegraph.workflows.studies.study_folder import CellResult, StudyFolder
from finegraph.workflows.studies.study_summary import (
    FREQUENCY_COLUMNS,
    SUMMARY_COLUMNS,
    Summary,
    by_frequency,
    summarise_cells,
)


class StudyWatcher(Watcher, Protocol):
    """Receives the progress of a study and, with tune = "all", that of its training."""

    def stage(self, name: str, done: int, total: int) -> None:
        """Some of a stage, such as features, is done."""

    def cell(self, text: str, done: int, total: int, seconds_left: float | None) -> None:
        """A cell begins: how many are done of all, and the time left, if known."""


@dataclass(frozen=True, kw_only=True)
class StudyOutcome:
    """What a study gave.

    Attributes:
        folder: where everything is.
        finished: whether all cells are done; if not, running it again continues.
        cells: how many cells are done.
        total: how many there are.
        summary: means, intervals and differences; None if it is not finished.
        about: what was compared on what.
        plots: the files of the plots.
    """

    folder: Path
    finished: bool
    cells: int
    total: int
    summary: Summary | None
    about: dict[str, Any]
    plots: tuple[str, ...] = ()


def run_study(study: Study, out: str | os.PathLike[str], watcher: StudyWatcher) -> StudyOutcome:
    """Run a study, or what is left of it.

    Args:
        study: what to compare; see `read_study`.
        out: the folder; one where the same study was begun is continued.
        watcher: receives the progress.

    Raises:
        SettingsError: the study does not fit its data, or the folder has another study.
        MissingExtraError: a head needs scikit-learn, or the weights of a network are not installed.
        DataError: the photos' list has faults.
        RunFolderError: the folder cannot be used.
    """
    check_installed(study.heads)
    data = read_study_data(study, watcher.stage)
    folder = StudyFolder(out)
    cells = plan(study)
    _check_draws(cells, data)
    about = about_study(study, data)
    with folder.lock():
        folder.open(study, data.facts())
        results = {cell: folder.read(cell) for cell in cells if folder.has(cell)}
        runner = _Runner(study, data, folder, watcher)
        estimate = Estimate(cells, {amount: len(data.draw(amount, study.seeds[0])) for amount in study.amounts})
        for cell, result in results.items():
            estimate.add(cell, result.seconds)
        for cell in cells:
            if cell in results:
                continue
            watcher.cell(cell.text, len(results), len(cells), estimate.seconds_left)
            measured = runner.run(cell)
            if measured is None:
                return StudyOutcome(
                    folder=folder.path, finished=False, cells=len(results), total=len(cells), summary=None, about=about
                )
            results[cell] = measured
            estimate.add(cell, measured.seconds)
            done = [results[planned] for planned in cells if planned in results]
            folder.write_results(done, with_bad_photos(about, done))
        watcher.cell("summary", len(cells), len(cells), 0.0)
        return _finish(study, data, folder, [results[cell] for cell in cells], about, watcher.note)


def _check_draws(cells: Sequence[Cell], data: StudyData) -> None:
    """Refuse cells that cannot be fitted, before anything is computed."""
    for cell in cells:
        if cell.head == DISCRIMINANT:
            drawn = data.draw(cell.amount, cell.seed)
            check_photos(cell.head, cell.amount, len(drawn), len({sample.label for sample in drawn}))


def _finish(
    study: Study,
    data: StudyData,
    folder: StudyFolder,
    results: list[CellResult],
    about: dict[str, Any],
    note: Callable[[str], None],
) -> StudyOutcome:
    """Write what is made of the cells."""
    about = with_bad_photos(about, results)
    folder.write_results(results, about)
    summary = summarise_cells(results)
    folder.write_table("summary.csv", SUMMARY_COLUMNS, summary.rows)
    folder.write_json("summary.json", {"format": "finegraph.study.summary", "version": 1, **about, "rows": summary.rows,
                                       "rivals": summary.rivals})  # fmt: skip
    frequency = by_frequency(results, data)
    folder.write_table("frequency.csv", FREQUENCY_COLUMNS, frequency)
    write_text(str(folder.path / "tables.md"), tables_text(study, about, summary, frequency))
    plots: list[str] = []
    if has_matplotlib():
        folder.plots.mkdir(exist_ok=True)
        plots = draw_study(summary.rows, folder.plots, title=study.title or study.data, note=note)
    else:  # hours of computing are not lost for them
        note(f"{WITHOUT_MATPLOTLIB}, and start the study again: nothing is computed twice")
    write_report([folder.path])
    return StudyOutcome(
        folder=folder.path,
        finished=True,
        cells=len(results),
        total=len(results),
        summary=summary,
        about=about,
        plots=tuple(plots),
    )


class _Runner:
    """Does cells; features are kept for as long as the next cells need them."""

    def __init__(self, study: Study, data: StudyData, folder: StudyFolder, watcher: StudyWatcher) -> None:
        self.study, self.data, self.folder, self.watcher = study, data, folder, watcher
        self._features: tuple[bool, StudyFeatures] | None = None

    def run(self, cell: Cell) -> CellResult | None:
        """Fit and measure a cell, and keep it; None if training was asked to stop."""
        features = self.features(cell.box) if self.study.tune == "head" else None
        began = perf_counter()
        samples = self.data.draw(cell.amount, cell.seed)
        tried, chosen, step = 1, [], None
        seconds: float | None
        if features is None:
            tuned = fine_tune(self.study, self.data, cell, samples, self.folder, self.watcher, self.watcher.stage)
            if tuned is None:
                return None
            measured, seconds, bad = tuned
            photos = sum(os.fspath(sample.path) not in bad for sample in samples)
        else:
            part, bad = features.drawn(samples), features.bad
            photos = len(part)
            kinds = self.data.sets[cell.kinds] if cell.kinds else ()
            fitted = fit_study_head(cell.head, self.data.graph, kinds, part, features.val, self.study.settings)
            tried, chosen, seconds = fitted.tried, fitted.chosen, fitted.seconds
            if not fitted.converged:
                self.watcher.note(f"{cell.text}: the fit did not come to its minimum")
            step = fitted.model.step(part)
            measured = {
                (split, views): measure(fitted.model, split_features, self.data.graph, views)
                for (split, views), split_features in features.splits.items()
            }
        result = CellResult(
            cell=cell,
            rows=_rows(measured, seconds, step),
            tried=tried,
            chosen=chosen,
            photos=photos,
            seconds=perf_counter() - began,
            per_photo=_per_photo(measured) if len(seeds_of(self.study, cell.amount)) == 1 else {},
            bad=bad,
        )
        self.folder.add(result)
        if features is None:
            drop_checkpoints(self.folder, cell)
        return result

    def features(self, box: bool) -> StudyFeatures:
        """The features for a choice of box."""
        if self._features is None or self._features[0] != box:
            self._features = None  # the old ones go before the new ones come
            features = study_features(self.study, self.data, box, self.watcher.stage)
            for note in features.notes:
                self.watcher.note(note)
            if features.bad:
                self.watcher.note(bad_photos_text(features.bad))
            self._features = box, features
        return self._features[1]


def _rows(
    measured: Mapping[tuple[str, int], PerPhoto], seconds: float | None, step: tuple[float, float] | None
) -> list[tuple[str, int, str, float]]:
    """The rows of a cell."""
    rows = [
        (split, views, metric, value)
        for (split, views), values in measured.items()
        for metric, value in photo_metrics(values).items()
    ]
    for split, views, metric, value in rows:
        if not np.isfinite(value):
            raise SettingsError(f"{metric} on {split} with {views} views is {value}: the head gives no finite answer")
    if seconds is not None:
        rows.append((TRAIN, 1, "seconds_fit", seconds))
    return rows if step is None else [*rows, (TRAIN, 1, "ms_forward", step[0]), (TRAIN, 1, "ms_backward", step[1])]


def _per_photo(measured: Mapping[tuple[str, int], PerPhoto]) -> dict[tuple[str, int, str], Any]:
    """The values of each photo, by split, views and metric."""
    return {
        (split, views, name): photo_values
        for (split, views), values in measured.items()
        for name, photo_values in metrics_of_photos(values).items()
    }


def about_study(study: Study, data: StudyData) -> dict[str, Any]:
    """The facts about a study, for readers of the results."""
    graph = data.graph
    return {
        "title": study.title,
        "study": study.to_dict(),
        "data": {
            "source": study.data,
            "fine": len(graph),
            "kinds": {kind: len(graph.labels(kind)) for kind in graph.kinds},
            "groups": {name: len(members) for name, members in data.groups.items()},
            "numbers": {name: graph.number(name).unit for name in graph.numbers},
            "sets": {name: list(kinds) for name, kinds in data.sets.items()},
            "train": len(data.train),
            "val": len(data.val),
            "splits": {name: len(part) for name, part in data.splits.items()},
        },
        "budget": budget_text(study),
        "machine": {
            "finegraph": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "processor": platform.machine(),
        },
    }


def with_bad_photos(about: dict[str, Any], results: Sequence[CellResult]) -> dict[str, Any]:
    """The facts about a study, with the photos that could not be read in some cell."""
    bad = {path: reason for result in results for path, reason in result.bad.items()}
    return {**about, "bad_photos": [{"path": path, "reason": reason} for path, reason in sorted(bad.items())]}


def budget_text(study: Study) -> str:
    """What each head could choose from, in a sentence."""
    if study.tune == "all":
        return (
            "Every head has one setting, its recipe, and the epoch that was best on the validation photos; every head "
            "sees the same draws."
        )
    layers = [head for head in ("independent", "ensemble") if head in study.heads]
    layers_text = f" Layers that are fitted on their own ({', '.join(layers)}) each keep the best of the same settings."
    return (
        f"Every head tries {study.settings} settings on the same validation photos and keeps the one under which their "
        "fine labels are most likely; every head sees the same draws."
        + layers_text * bool(layers)
        + " `auto` looks at none of these photos." * ("auto" in study.heads)
    )
