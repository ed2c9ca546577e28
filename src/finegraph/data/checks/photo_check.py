"""Checking a set of photos and their labels for faults and doubtful places.

Every photo is opened once. Reported are photos that cannot be read, boxes that miss them, very small ones, photos that
occur more than once (in two splits that is leakage: a test that was seen in training), labels without training photos
and, against a graph, labels that it does not have or that have no photo, and what is seen on photos but excluded by it.
Findings are sorted by weight: errors first. Cost: one decoding per photo; the rest is about linear.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from finegraph.data.checks.duplicates import Fingerprint, find_duplicates, fingerprints
from finegraph.data.checks.photo_findings import Finding
from finegraph.data.measured_values import measured_values
from finegraph.data.photo_decoding import MAX_PIXELS
from finegraph.data.samples import Sample, Samples
from finegraph.errors import DataError, PhotoFileError
from finegraph.graph.faults import first_few
from finegraph.graph.label_graph import LabelGraph
from finegraph.graph.photo_labels import count_photo_labels
from finegraph.graph.spelling import SpellingHints

MIN_SIDE = 32
"""Photos with a shorter side are reported as very small."""
_OUTSIDE = 1.5
"""By how many pixels a box may reach beyond the photo without a word: lists round and count in different ways."""
_TRAINING = "train"


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of the photos in pixels, each as (smallest, median, largest)."""

    width: tuple[int, int, int]
    height: tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class DataCheck:
    """What a check of a source found.

    Attributes:
        source: what was checked.
        samples: how many samples it lists.
        files: how many different files these are.
        bad_files: how many of them cannot be read.
        sizes: of those that can be read; None if there are none.
        formats: how many files have each format.
        modes: how many files hold colours in each way.
        counts: fine label -> split -> how many samples; the split "" stands for none.
        findings: errors, then warnings.
    """

    source: str
    samples: int
    files: int
    bad_files: int
    sizes: Sizes | None
    formats: dict[str, int]
    modes: dict[str, int]
    counts: dict[str, dict[str, int]]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        """The number of errors."""
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def warnings(self) -> int:
        """The number of warnings."""
        return len(self.findings) - self.errors


def check_samples(
    samples: Samples,
    graph: LabelGraph | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
    workers: int = 1,
    max_pixels: int = MAX_PIXELS,
) -> DataCheck:
    """Open every photo and report what is wrong.

    Args:
        samples: the photos.
        graph: the labels to compare with; by default labels are not compared.
        progress: called with the number of photos done and the total.
        workers: how many threads decode.
        max_pixels: photos with more pixels count as bad.
    """
    by_file: dict[Path, list[Sample]] = {}
    for sample in samples:
        by_file.setdefault(sample.path, []).append(sample)
    prints: dict[Path, Fingerprint] = {}
    findings: list[Finding] = []
    for done, (path, result) in enumerate(fingerprints(list(by_file), workers, max_pixels), start=1):
        if isinstance(result, PhotoFileError):
            findings.append(Finding(rule="bad-file", severity="error", message=result.reason, files=(str(path),)))
        else:
            prints[path] = result
            findings += _picture_findings(path, by_file[path], result)
        if progress is not None:
            progress(done, len(by_file))
    bad = len(by_file) - len(prints)
    findings += _duplicate_findings(by_file, prints)
    findings += [Finding(rule="source", severity="warning", message=note) for note in samples.notes]
    counts = _count(samples)
    findings += label_findings(samples, counts, graph)
    findings.sort(key=lambda one: one.severity != "error")
    return DataCheck(
        source=samples.source,
        samples=len(samples),
        files=len(by_file),
        bad_files=bad,
        sizes=_sizes(list(prints.values())),
        formats=dict(Counter(one.format for one in prints.values()).most_common()),
        modes=dict(Counter(one.mode for one in prints.values()).most_common()),
        counts=counts,
        findings=tuple(findings),
    )


def _picture_findings(path: Path, samples: list[Sample], fingerprint: Fingerprint) -> Iterator[Finding]:
    """The doubtful findings about a photo itself and the boxes on it."""
    files = (str(path),)
    if min(fingerprint.width, fingerprint.height) < MIN_SIDE:
        message = f"the photo has only {fingerprint.width} x {fingerprint.height} pixels"
        yield Finding(rule="small-photo", severity="warning", message=message, files=files)
    for box in (sample.box for sample in samples if sample.box is not None):
        box_text = " ".join(f"{x:g}" for x in box)
        size = f"the photo has {fingerprint.width} x {fingerprint.height} pixels, the box is {box_text}"
        if box.x >= fingerprint.width or box.y >= fingerprint.height:
            yield Finding(
                rule="box-outside", severity="error", message=f"the box misses the photo: {size}", files=files
            )
        elif box.x + box.width > fingerprint.width + _OUTSIDE or box.y + box.height > fingerprint.height + _OUTSIDE:
            message = f"the box reaches beyond the photo: {size}"
            yield Finding(rule="box-outside", severity="warning", message=message, files=files)


def _duplicate_findings(by_file: dict[Path, list[Sample]], prints: dict[Path, Fingerprint]) -> Iterator[Finding]:
    """Photos that occur more than once; those in several splits are errors."""
    paths = list(prints)
    for path, samples in by_file.items():
        if len({sample.split for sample in samples} - {None}) > 1:
            yield _duplicate("exact", [path], samples)
    for group in find_duplicates(list(prints.values())):
        files = [paths[number] for number in group.members]
        yield _duplicate(group.form, files, [sample for path in files for sample in by_file[path]])


def _duplicate(form: Literal["exact", "re-encoded"], files: list[Path], samples: list[Sample]) -> Finding:
    """The finding of one group of equal photos."""
    splits = sorted({sample.split for sample in samples if sample.split is not None})
    labels = sorted({sample.label for sample in samples if sample.label is not None})
    what = "the same file" if form == "exact" else "the same picture, saved again,"
    message = f"{what} is there {len(samples)} times"
    if len(splits) > 1:
        message += f", in the splits {' and '.join(splits)}"
    if len(labels) > 1:
        message += f", with the labels {first_few(labels, len(labels))}"
    rule, hint = ("leakage", "keep it in one split") if len(splits) > 1 else ("duplicate", None)
    if len(labels) > 1:
        hint = "find out which label is right" + (f", and {hint}" if hint else "")
    names = tuple(map(str, files))
    severity: Literal["error", "warning"] = "error" if len(splits) > 1 else "warning"
    return Finding(rule=f"{rule}-{form}", severity=severity, message=message, files=names, hint=hint)


def _count(samples: Samples) -> dict[str, dict[str, int]]:
    """Fine label -> split -> how many samples."""
    counts: dict[str, dict[str, int]] = {label: {} for label in samples.labels}
    for sample in samples:
        if sample.label is not None:
            row = counts[sample.label]
            row[sample.split or ""] = row.get(sample.split or "", 0) + 1
    return counts


def _sizes(prints: list[Fingerprint]) -> Sizes | None:
    """The sizes of all photos in a few numbers."""
    if not prints:
        return None

    def three(values: list[int]) -> tuple[int, int, int]:
        return min(values), int(np.median(values)), max(values)

    return Sizes(
        width=three([fingerprint.width for fingerprint in prints]),
        height=three([fingerprint.height for fingerprint in prints]),
    )


def label_findings(samples: Samples, counts: dict[str, dict[str, int]], graph: LabelGraph | None) -> Iterator[Finding]:
    """The wrong and doubtful labels.

    Args:
        samples: the photos.
        counts: fine label -> split -> how many samples.
        graph: the labels to compare with, if any.
    """
    nameless = sum(sample.label is None for sample in samples)
    if nameless:
        message = f"{nameless} of {len(samples)} photos have no fine label"
        yield Finding(rule="no-label", severity="warning", message=message)
    if _TRAINING in samples.splits:
        unseen = [label for label, row in counts.items() if not row.get(_TRAINING)]
        if unseen:
            message = f"{_are(len(unseen), 'label')} without training photos: {first_few(unseen, len(unseen))}"
            yield Finding(rule="no-training-photos", severity="warning", message=message)
    if graph is not None:
        yield from _fine_findings(counts, graph)
        yield from _kind_findings(samples, graph)


def _fine_findings(counts: dict[str, dict[str, int]], graph: LabelGraph) -> Iterator[Finding]:
    """Fine labels that the graph does not have, and those that have no photo."""
    known = set(graph.fine)
    yield from _unknown("unknown-label", "fine label", {x: sum(row.values()) for x, row in counts.items()}, graph.fine)
    empty = [label for label in graph.fine if label not in counts]
    if empty:
        message = f"{_are(len(empty), 'label')} of the graph without photos: {first_few(empty, len(empty))}"
        nothing = len(empty) == len(known)
        hint = "this may be the graph of other data" if nothing else None
        yield Finding(rule="label-without-photos", severity="warning", message=message, hint=hint)


def _kind_findings(samples: Samples, graph: LabelGraph) -> Iterator[Finding]:
    """Kinds and their labels that the graph does not have, and photo labels that it excludes."""
    kinds = samples.kinds
    suggestions = SpellingHints()
    yield from _value_findings(samples, graph)
    for kind in kinds:
        if kind not in graph.kinds and kind not in graph.numbers:
            hint = suggestions.hint(kind, graph.kinds)
            message = f"the graph has no kind {kind!r}; its labels on photos are not used"
            yield Finding(rule="unknown-kind", severity="warning", message=message, hint=hint)
    known = set(graph.fine)
    fine = [sample.label if sample.label in known else None for sample in samples]
    for kind in (kind for kind in kinds if kind in graph.kinds):
        labels = [sample.kinds.get(kind) for sample in samples]
        seen = Counter(label for label in labels if label is not None)
        names = graph.labels(kind)
        yield from _unknown("unknown-kind-label", f"label of kind {kind!r}", seen, names)
        usable = set(names)
        counts = count_photo_labels(graph, fine, {kind: [x if x in usable else None for x in labels]})
        for contradiction in graph.contradictions(counts):
            message = (
                f"{contradiction.count} of {contradiction.total} photos of {contradiction.fine!r} show "
                f"{contradiction.label!r}, "
                f"which the graph excludes for {contradiction.kind!r}"
            )
            hint = "mend the graph or the photos' labels, or let what photos show become weights of the graph"
            yield Finding(rule="contradiction", severity="warning", message=message, hint=hint)


def _value_findings(samples: Samples, graph: LabelGraph) -> Iterator[Finding]:
    """Measured values that no number of the graph can have, and numbers that the graph does not have."""
    for number in samples.numbers:
        if number not in graph.numbers:
            hint = SpellingHints().hint(number, graph.numbers)
            message = f"the graph has no number {number!r}; its values on photos are not used"
            yield Finding(rule="unknown-number", severity="warning", message=message, hint=hint)
    try:
        measured_values(samples, graph)
    except DataError as error:
        yield Finding(rule="bad-value", severity="error", message=str(error))


def _unknown(rule: str, what: str, seen: dict[str, int], names: Collection[str]) -> Iterator[Finding]:
    """Labels that occur on photos but not in the graph."""
    known = set(names)
    suggestions = SpellingHints()
    for label, number in seen.items():
        if label not in known:
            photos = f"{number} photo{'s' if number != 1 else ''}"
            message = f"the graph has no {what} {label!r}, which {photos} {'have' if number != 1 else 'has'}"
            yield Finding(rule=rule, severity="error", message=message, hint=suggestions.hint(label, names))


def _are(number: int, noun: str) -> str:
    """How many there are: `there is 1 label`, `there are 3 labels`."""
    return f"there is 1 {noun}" if number == 1 else f"there are {number} {noun}s"
