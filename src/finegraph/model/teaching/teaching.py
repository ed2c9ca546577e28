"""The lessons of a model, and the graph and head that follow from them.

A head is a function of the fit and of the lessons that hold, in their order. The same lessons always give the same
head, and a forgotten lesson leaves no trace. Of several lessons on one photo the last counts. A fine
label that the model was fitted without lives as long as a lesson names it.

Cost: one system of the size of the fine labels when the first lesson is read or taught; each lesson after that a
product with as many columns as labels changed (solved_effects.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from finegraph.errors import FinegraphError, GraphError, InputError, LessonError, UnknownNameError, near_matches
from finegraph.files.durable import reason_of
from finegraph.files.sealed_json import unseal
from finegraph.files.sealed_log import SealedLog
from finegraph.graph import LabelGraph
from finegraph.graph.new_labels import rows_by_kind
from finegraph.graph.number_cells import number_cell
from finegraph.model.fitting.class_means import LinkMatrices
from finegraph.model.teaching.class_statistics import ClassStatistics
from finegraph.model.teaching.lesson import (
    Lesson,
    Row,
    TaughtPhoto,
    check_name,
    each_photo_once,
    forget_entry,
    lesson_time,
    lessons_of,
    teach_entry,
)
from finegraph.model.teaching.solved_effects import SolvedEffects
from finegraph.nn import BipartiteHead, SoftmaxHead

LOG = "lessons"
"""The name of the log in a model folder."""
MAX_CHANGED = 128
"""How many fine labels may have changed before effects are solved again."""
MAX_DENSE = 1500
"""Up to this many fine labels a start is kept to go on from; it is a matrix of that size."""


@dataclass(frozen=True)
class _Start:
    """Solved effects to go on from: of these rows of new labels, and of these photos by fine label."""

    rows: tuple[tuple[str, str], ...]
    photos: Mapping[int, tuple[str, ...]]
    solved: SolvedEffects


class Teaching:
    """The lessons of a fitted model.

    Attributes:
        lessons: all lessons in their order, those that were forgotten among them.
        graph: the label graph with the labels that were taught.
        head: the head that follows.
        revision: tells states apart: empty if no lesson holds.
    """

    def __init__(
        self,
        folder: Path,
        graph: LabelGraph,
        statistics: ClassStatistics,
        head: BipartiteHead | SoftmaxHead,
        owner: str,
        *,
        on_change: Callable[[Sequence[Lesson]], None] | None = None,
    ) -> None:
        """Read the lessons of a model folder.

        Args:
            folder: where they are kept.
            graph: the graph that the model was fitted with.
            statistics: of that fit.
            head: the fitted head.
            owner: a digest of the statistics.
            on_change: called with all lessons after one was kept or taken back here, before others can write.

        Raises:
            LessonError: they are damaged or cannot be read.
        """
        self._folder, self._log, self._on_change = folder, SealedLog(folder, LOG, owner), on_change
        self._fitted_graph, self._fitted, self._fitted_head = graph, statistics, head
        self.graph, self.head, self.revision = graph, head, ""
        self.lessons: tuple[Lesson, ...] = ()
        self._entries = 0
        self._start: _Start | None = None
        self._links: LinkMatrices | None = None
        self.refresh()

    @property
    def fitted_head(self) -> BipartiteHead | SoftmaxHead:
        """The head before any lesson."""
        return self._fitted_head

    @property
    def statistics(self) -> ClassStatistics:
        """The statistics of the fit, before any lesson."""
        return self._fitted

    def current_statistics(self) -> ClassStatistics:
        """The statistics of the fit with the lessons that hold."""
        holding = [lesson for lesson in self.lessons if not lesson.forgotten]
        targets = [self.graph.fine_index(lesson.label) for lesson in holding]
        return self._with_photos(self.graph, _counted_photos(holding, targets))

    def files(self) -> dict[str, bytes]:
        """The log as the files of another model folder."""
        return self._log.files()

    def is_current(self) -> bool:
        """Whether nobody taught or took back anything since; costs a look at a file."""
        return self._log.is_current()

    def refresh(self) -> bool:
        """Take up what others taught or took back since; whether there was anything.

        Raises:
            LessonError: the lessons are damaged or cannot be read.
        """
        with _kept(self._folder):
            if not self._log.read() and self._entries == len(self._log.entries):
                return False
            self._update()
            return True

    def teach(
        self,
        label: str,
        photos: Sequence[TaughtPhoto],
        *,
        parents: Mapping[str, object] | None,
        person: str,
        lesson_id: str,
    ) -> Lesson:
        """Keep a lesson and follow it; one that is kept already, by its id, is not kept twice.

        Raises:
            InputError: it cannot be meant; see `check`.
            LessonError: it cannot be kept; nothing has changed.
        """
        with _kept(self._folder), self._log.writing():
            self._update()
            photos = each_photo_once(photos)
            known = next((item for item in self.lessons if item.id == lesson_id), None)
            if known is not None:
                if known.label != label or [item.sha256 for item in known.photos] != [item.sha256 for item in photos]:
                    raise InputError(f"lesson id {lesson_id!r}: it is that of another lesson, on {known.label!r}")
                return known
            row = self.check(label, parents, with_photos=bool(photos))
            lesson = Lesson(id=lesson_id, at=lesson_time(), person=person, label=label, parents=row, photos=photos)
            self._append(teach_entry(lesson))
            return lesson

    def forget(self, lesson_id: str, *, person: str) -> Lesson:
        """Take a lesson back; one that was taken back already stays so.

        Raises:
            UnknownNameError: there is no such lesson.
            LessonError: it cannot be written down; nothing has changed.
        """
        with _kept(self._folder), self._log.writing():
            self._update()
            known = next((lesson for lesson in self.lessons if lesson.id == lesson_id), None)
            if known is None:
                near = near_matches(lesson_id[:100], [lesson.id for lesson in self.lessons])
                hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
                raise UnknownNameError(f"lesson {lesson_id[:100]!r}: there is none of this id{hint}")
            if not known.forgotten:
                self._append(forget_entry(lesson_id, person))
            return replace(known, forgotten=True)

    def check(self, label: str, parents: Mapping[str, object] | None, *, with_photos: bool) -> Row | None:
        """The row of a label that a lesson may name; None for one that the model was fitted with.

        Raises:
            UnknownNameError: the label is new and nothing is said of its parents.
            InputError: it is known and other parents are given, or there is nothing to learn.
            GraphError: the parents cannot be meant.
        """
        check_name("label", label)
        values = {name: value for name, value in (parents or {}).items() if name in self.graph.numbers}
        cells = {name: value for name, value in (parents or {}).items() if name not in values}
        for name in _names(cells):
            check_name("label", name)
        if label in self.graph.fine:
            known_row = _row(self.graph, label)
            for name, value in values.items():
                number = self.graph.number(name)
                parsed = number_cell(value, number.scale, f"label {label!r}, number {name!r}", number.unit)
                if parsed is not None and _value_text(*parsed) != known_row.get(name):
                    known_as = known_row.get(name, "which is unknown")
                    raise InputError(
                        f"label {label!r}: the model knows it with another {name}, {known_as}; give no values, or take "
                        "another name"
                    )
            for kind, cell in rows_by_kind(self.graph, label, cells).items():
                known = known_row.get(kind, {})
                if ({known} if isinstance(known, str) else set(known)) != set(cell.labels):
                    raise InputError(
                        f"label {label!r}: the model knows it with another {kind}, {known!r}; give no coarse labels, "
                        "or take another name"
                    )
            if not with_photos:
                raise InputError(f"label {label!r}: the model knows it already; give photos of it")
            return None if label in self._fitted_graph.fine else known_row
        if parents is None:
            near = " or ".join(repr(name) for name in near_matches(label, self.graph.fine))
            hint = f"did you mean {near}? To" if near else "to"
            raise UnknownNameError(
                f"label {label!r}: the model does not know it; {hint} add it, say which coarse labels it has"
            )
        return _row(self.graph.with_fine({label: parents}), label)

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _append(self, entry: Mapping[str, object]) -> None:
        """Keep an entry and follow it."""
        self._log.append(entry)
        self._update()
        if self._on_change is not None:
            self._on_change(self.lessons)

    def _update(self) -> None:
        """Update graph and head from the log."""
        if self._entries == len(self._log.entries):
            return
        fresh = self._log.entries[self._entries :]
        forgotten = {entry.get("lesson") for entry in fresh if entry.get("action") == "forget"}
        known = tuple(replace(lesson, forgotten=True) if lesson.id in forgotten else lesson for lesson in self.lessons)
        added = lessons_of(fresh, self._fitted.sums.shape[1])
        holding = [lesson for lesson in (*known, *added) if not lesson.forgotten]
        rows = _new_rows(holding)
        try:
            same = tuple(rows) == self.graph.fine[len(self._fitted_graph) :] and all(
                _row(self.graph, label) == row for label, row in rows.items()
            )
            graph = self.graph if same else self._fitted_graph.with_fine(rows)
            targets = [graph.fine_index(lesson.label) for lesson in holding]
        except (GraphError, InputError) as error:
            raise ValueError(f"{self._folder}: a lesson does not fit the graph of the model: {error}") from error
        head = self._solve(graph, rows, holding, targets) if holding else self._fitted_head
        digest = hashlib.sha256(json.dumps([lesson.id for lesson in holding]).encode()).hexdigest()[:32]
        self.graph, self.head, self.revision = graph, head, digest if holding else ""
        self.lessons, self._entries = (*known, *added), len(self._log.entries)

    def _solve(
        self, graph: LabelGraph, rows: Mapping[str, Row], holding: Sequence[Lesson], targets: Sequence[int]
    ) -> BipartiteHead | SoftmaxHead:
        """The head of the fit and some lessons."""
        photos = _counted_photos(holding, targets)
        statistics = self._with_photos(graph, photos)
        if len(graph) > MAX_DENSE:
            return statistics.solve(graph)
        links = self._links if self._links is not None and graph == self.graph else statistics.links(graph)
        self._links = links
        keys = tuple((label, json.dumps(row)) for label, row in rows.items())
        shown_by = {target: tuple(shown) for target, shown in photos.items()}
        changed = self._changed(keys, shown_by, statistics)
        if changed is None:
            self._start = _Start(keys, shown_by, SolvedEffects(links, statistics))
            return statistics.head_of(graph, links, self._start.solved.effects())
        assert self._start is not None
        return statistics.head_of(graph, links, self._start.solved.changed(links, statistics, changed))

    def _with_photos(self, graph: LabelGraph, photos: Mapping[int, Mapping[str, TaughtPhoto]]) -> ClassStatistics:
        """The statistics of the fit with more photos."""
        statistics = self._fitted.larger(graph)
        counts, sums = statistics.counts.clone(), statistics.sums.clone()
        for target, shown in photos.items():
            counts[target] += len(shown)
            for photo in shown.values():
                sums[target] += torch.from_numpy(photo.features)
        return replace(statistics, counts=counts, sums=sums)

    def _changed(
        self, rows: tuple[tuple[str, str], ...], photos: Mapping[int, tuple[str, ...]], now: ClassStatistics
    ) -> torch.Tensor | None:
        """The fine labels that changed since the start; None if it is no start for these statistics."""
        start = self._start
        if start is None or rows[: len(start.rows)] != start.rows:
            return None
        touched = [one for one in {*photos, *start.photos} if photos.get(one) != start.photos.get(one)]
        changed = torch.tensor(sorted(touched), dtype=torch.int64)
        if len(changed) > MAX_CHANGED or bool((now.counts[changed] == 0).any()):
            return None
        return changed

    def prepare(self) -> None:
        """Solve for the start now, so that the first lesson need not wait for it."""
        if self._start is None and len(self._fitted_graph) <= MAX_DENSE:
            self._start = _Start((), {}, SolvedEffects(self._fitted.links(self._fitted_graph), self._fitted))


@contextlib.contextmanager
def _kept(folder: Path) -> Iterator[None]:
    """Turn what the log says of the disk and of damage into an error of lessons."""
    try:
        yield
    except FinegraphError:
        raise
    except OSError as error:
        reason = reason_of(error)
        raise LessonError(
            f"{folder}: lessons cannot be kept or read: {reason}; nothing has changed. Make room or make the folder "
            "writable, then try again",
            reason,
        ) from error
    except ValueError as error:
        raise LessonError(
            f"{error}; restore {LOG}.jsonl and {LOG}.json from a copy, or move both away to have the model as it was "
            "before all lessons",
            "the lessons are damaged",
        ) from error


def taught_graph(folder: Path, graph: LabelGraph, owner: str) -> LabelGraph:
    """The graph of a model with the labels that it was taught; see `Teaching`.

    Raises:
        LessonError: the lessons are damaged or cannot be read.
    """
    log = SealedLog(folder, LOG, owner)
    with _kept(folder):
        log.read()
        return graph.with_fine(_new_rows([lesson for lesson in lessons_of(log.entries, None) if not lesson.forgotten]))


def _new_rows(holding: Sequence[Lesson]) -> dict[str, Row]:
    """The rows of the labels that a model was fitted without, in the order of their first lessons."""
    rows: dict[str, Row] = {}
    for lesson in holding:
        if lesson.parents is not None:
            rows.setdefault(lesson.label, lesson.parents)
    return rows


def _counted_photos(holding: Sequence[Lesson], targets: Sequence[int]) -> dict[int, dict[str, TaughtPhoto]]:
    """The photos that count, by fine label and digest: of several lessons on one photo the last."""
    last = {photo.sha256: number for number, one in enumerate(holding) for photo in one.photos}
    photos: dict[int, dict[str, TaughtPhoto]] = {}
    for number, (one, target) in enumerate(zip(holding, targets, strict=True)):
        for photo in one.photos:
            if last[photo.sha256] == number:
                photos.setdefault(target, {})[photo.sha256] = photo
    return photos


def kept_lessons(folder: Path) -> list[str]:
    """The ids of the lessons in a folder, forgotten or not; none if the log cannot be read."""
    lessons = []
    with contextlib.suppress(OSError, ValueError):
        for line in (folder / f"{LOG}.jsonl").read_bytes().splitlines(keepends=True):
            entry = unseal(line)
            if entry.get("action") == "teach":
                lessons.append(str(entry.get("id")))
    return lessons


def _row(graph: LabelGraph, label: str) -> Row:
    """The parents and values of a fine label, as JSON data."""
    number = graph.fine_index(label)
    row: Row = {}
    for name in graph.kinds:
        kind = graph.kind(name)
        edges = slice(kind.starts[number], kind.starts[number + 1])
        parents = [kind.labels[one] for one in kind.coarse[edges]]
        if len(parents) == 1:
            row[name] = parents[0]
        elif parents:
            row[name] = dict(zip(parents, kind.weight[edges].tolist(), strict=True))
    for name in graph.numbers:
        one = graph.number(name)
        if one.known[number]:
            row[name] = _value_text(float(one.values[number]), float(one.spreads[number]))
    return row


def _value_text(value: float, spread: float) -> str:
    """A value with its spread, as graph files have it."""
    return f"{value!r} +- {spread!r}" if spread else repr(value)


def _names(parents: Mapping[str, object] | None) -> Iterator[str]:
    """All labels that parents name."""
    for value in (parents or {}).values():
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping | set | frozenset | list | tuple):
            yield from (one for one in value if isinstance(one, str))
