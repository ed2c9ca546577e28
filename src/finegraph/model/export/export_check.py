"""Whether an exported file answers as the model does, on photos, with and without evidence.

Probabilities may differ by 1e-4 at most, all of them. Logarithms of probabilities may differ by as much where the
probability is at least 1e-4: below, a difference of logarithms says little, and rounding in a network of float32 alone
makes it larger. What the model rules out, the file must rule out too, and nothing may be NaN. Means of numbers may
differ by 1e-4 standard deviations of all values, and a quantile may be that of a probability 1e-4 off: with exact
values it jumps. The photos come in batches of 1, 3 and 8, so that the batch is seen to be free; each has evidence of
its own in a second turn. If there are no photos, pictures are drawn.

Resizing and cutting stay outside of an exported file. Whoever runs it does them with a library of their own, and
finegraph itself decodes large JPEGs at a fraction of their size, which is quicker and gives slightly other pixels. How
much that moves the answers is measured with plain Pillow, on the same photos, and reported beside the check, never
mixed with it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageOps

from finegraph.data.photo_parts import resized
from finegraph.data.transforms import ViewSettings
from finegraph.errors import ExportError
from finegraph.graph import Kind, LabelGraph, Number
from finegraph.graph.number import MAX_VALUE
from finegraph.model.export import export_names as names
from finegraph.model.export.export_names import NO_ESTIMATE, NO_RANGE
from finegraph.model.export.runners import LOWER_QUANTILES, UPPER_QUANTILES, Answers, Images, Likelihoods, Runner

FORMS = ("hard", "set", "soft")
"""One label of one kind; several labels of half of the kinds; a likelihood for every label."""
NUMBER_FORMS = ("nothing", "range", "at least", "at most", "estimate", "range and estimate")
"""The evidence on a number."""
LIMIT = 1e-4
"""How far probabilities, their logarithms and the numbers of the embedding may differ."""
TINY = 1e-4
"""Below this probability, logarithms are not compared."""
BATCHES = (1, 3, 8)


@dataclass(frozen=True)
class Difference:
    """How far one output of a file is from the model's.

    Attributes:
        output: the name of the output.
        given_evidence: whether evidence was given.
        value: the largest difference of probabilities; of the embedding, of its numbers; of numbers of the graph, in
            standard deviations of their values.
        log: the largest difference of logarithms where the probability is not tiny; None for the embedding.
        photo: the name of the photo with the largest difference.
    """

    output: str
    given_evidence: bool
    value: float
    log: float | None
    photo: str

    @property
    def largest(self) -> float:
        """The larger of the two."""
        return max(self.value, self.log or 0.0)


def compare_outputs(
    file: Runner,
    model: Runner,
    graph: LabelGraph,
    images: UInt8[Images, "batch height width channel"],
    photos: list[str],
    progress: Callable[[int, int], None] | None = None,
) -> list[Difference]:
    """The differences of all outputs, with and without evidence.

    Args:
        file: the exported file.
        model: what it is to agree with.
        graph: the label graph.
        images: (batch, height, width, 3) what both are asked about.
        photos: what the images are called.
        progress: called with the number of images done and the total.
    """
    random = np.random.default_rng(0)
    worst: dict[tuple[str, bool], Difference] = {}
    for part in _batches(len(images)):
        for given in (None, draw_evidence(graph, len(images[part]), random)):
            expected, found = model(images[part], given), file(images[part], given)
            for one in _differences(graph, expected, found, given is not None, photos[part]):
                key = (one.output, one.given_evidence)
                worst[key] = one if key not in worst else _worse(worst[key], one)
        if progress is not None:
            progress(min(part.stop, len(images)), len(images))
    return [worst[key] for key in sorted(worst, key=lambda key: (names.OUTPUTS.index(key[0]), key[1]))]


def refuse_differences(differences: list[Difference]) -> None:
    """Raise if a difference is too large.

    Raises:
        ExportError: it names the output, the photo and the difference.
    """
    worst = max(differences, key=lambda one: one.largest)
    if not worst.largest <= LIMIT:
        evidence = " given evidence" if worst.given_evidence else ""
        raise ExportError(
            f"the exported file does not answer as the model: {worst.output}{evidence} differs by {worst.largest:.2g} "
            f"for {worst.photo}, expected at most {LIMIT:g}; nothing was written. The network may not be a plain "
            "function of its pixels, or its scores may be so large that float32 cannot tell them apart"
        )


def _batches(count: int) -> Iterator[slice]:
    """Runs of different lengths that make up the whole."""
    start, turn = 0, 0
    while start < count:
        length = BATCHES[min(turn, len(BATCHES) - 1)]
        yield slice(start, start + length)
        start, turn = start + length, turn + 1


def _differences(
    graph: LabelGraph, expected: Answers, found: Answers, given: bool, photos: list[str]
) -> Iterator[Difference]:
    """The differences of one batch."""
    if not np.array_equal(expected[names.POSSIBLE], found[names.POSSIBLE]):
        yield Difference(names.POSSIBLE, given, np.inf, None, photos[0])
    for output in names.OUTPUTS[:-1]:
        if output not in expected or (given and output == names.EMBEDDING):  # evidence does not change it
            continue
        one, two = expected[output].astype(np.float64), found[output].astype(np.float64)
        if one.shape != two.shape:
            yield Difference(output, given, np.inf, None, photos[0])
            continue
        rows: tuple[NDArray[np.float64], NDArray[np.float64] | None]
        if output == names.EMBEDDING:
            rows = _of_numbers(one, two)
        elif output in (names.NUMBER_MEANS, names.NUMBER_QUANTILES):
            low, high = (
                (expected[LOWER_QUANTILES], expected[UPPER_QUANTILES])
                if output == names.NUMBER_QUANTILES
                else (one, one)
            )
            rows = _of_values(graph, low, high, two), None
        else:
            rows = _of_probabilities(one, two)
        largest = np.max([row for row in rows if row is not None], axis=0)
        value, log = (None if row is None else float(row.max(initial=0.0)) for row in rows)
        assert value is not None
        yield Difference(output, given, value, log, photos[int(largest.argmax())])


def _of_numbers(one: NDArray[np.float64], two: NDArray[np.float64]) -> tuple[NDArray[np.float64], None]:
    """The largest difference of each row; infinite where something is not a number."""
    return np.nan_to_num(np.abs(one - two), nan=np.inf).max(axis=1), None


def _of_values(
    graph: LabelGraph, low: NDArray[Any], high: NDArray[Any], found: NDArray[np.float64]
) -> NDArray[np.float64]:
    """By how many standard deviations values of numbers are outside of intervals, the largest of each row."""
    outside = np.zeros(len(found))
    for place, name in enumerate(graph.numbers):
        number = graph.number(name)
        ends = [number.to_inner(value[:, place]) for value in (low, high, found)]
        rounding = 4 * np.finfo(np.float32).eps * (np.abs(found[:, place]) / _unit_width(number, found[:, place]))
        below, above = ends[0] - ends[2], ends[2] - ends[1]
        away = np.nan_to_num(np.maximum(below, above) - rounding, nan=np.inf, posinf=np.inf)
        outside = np.maximum(outside, away.reshape(len(found), -1).max(axis=1, initial=0.0))
    return outside


def _unit_width(number: Number, value: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much an inner step of 1 is in the user's unit, at a value."""
    size = np.abs(value) if number.scale == "log" else np.ones_like(value)
    return np.maximum(number.width * size, np.finfo(np.float64).tiny)


def _of_probabilities(
    one: NDArray[np.float64], two: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The largest difference of each row, of probabilities and of their logarithms."""
    odd = (np.isneginf(one) != np.isneginf(two)) | np.isnan(one) | np.isnan(two)
    probability = np.where(odd, np.inf, np.abs(np.exp(one) - np.exp(two)))
    tiny = np.maximum(one, two) < np.log(TINY)
    with np.errstate(invalid="ignore"):  # minus infinity on both sides
        log = np.where(tiny, 0.0, np.abs(one - two))
    return probability.max(axis=1), np.where(odd.any(axis=1, keepdims=True), np.inf, log).max(axis=1)


def _worse(one: Difference, two: Difference) -> Difference:
    """Both as one, with the larger values."""
    log = None if one.log is None or two.log is None else max(one.log, two.log)
    photo = (one if one.largest >= two.largest else two).photo
    return Difference(one.output, one.given_evidence, max(one.value, two.value), log, photo)


def draw_evidence(graph: LabelGraph, count: int, random: np.random.Generator) -> Likelihoods:
    """Evidence on some samples, of the forms in turn.

    Each agrees with a fine label that is drawn first, so it is never of probability 0.
    """
    rows = [_one(graph, FORMS[number % len(FORMS)], random) for number in range(count)]
    coarse = sum(len(graph.labels(kind)) for kind in graph.kinds)
    fine = np.array([row.fine for row in rows], np.float32).reshape(count, len(graph))
    likelihoods = Likelihoods(fine, np.array([row.coarse for row in rows], np.float32).reshape(count, coarse))
    if not graph.numbers:
        return likelihoods
    ranges, estimates = np.array([row.ranges for row in rows]), np.array([row.estimates for row in rows])
    return likelihoods._replace(ranges=ranges, estimates=estimates)


def _one(graph: LabelGraph, form: str, random: np.random.Generator) -> Likelihoods:
    """The evidence on one sample, without the axis of samples."""
    fine = int(random.integers(len(graph)))
    of_fine = np.ones(len(graph), np.float32)
    parts = [np.ones(len(graph.labels(kind)), np.float32) for kind in graph.kinds]
    if form == "soft":
        of_fine = random.uniform(0.1, 1.0, len(graph)).astype(np.float32)
        parts = [random.uniform(0.1, 1.0, len(part)).astype(np.float32) for part in parts]
    else:
        share = 1 / max(len(parts), 1) if form == "hard" else 0.5
        for number, name in enumerate(graph.kinds):
            if random.random() < share:
                parts[number] = _allowed(graph.kind(name), fine, form, random)
    numbers = [_on_number(graph.number(name), fine, random) for name in graph.numbers]
    ranges, estimates = (np.array([pair[part] for pair in numbers]).reshape(-1, 2) for part in (0, 1))
    return Likelihoods(of_fine, np.concatenate([np.zeros(0, np.float32), *parts]), ranges, estimates)


def _on_number(number: Number, fine: int, random: np.random.Generator) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """A range and an estimate that agree with a fine label, in the user's unit."""
    form = NUMBER_FORMS[int(random.integers(len(NUMBER_FORMS)))]
    inner, spread = (float(part[fine]) for part in number.standardised)
    value = inner + spread * random.normal()
    steps = (-random.exponential(), random.exponential(), random.normal())
    smallest = 1 / MAX_VALUE if number.scale == "log" else -MAX_VALUE
    first, last, likely = (float(np.clip(number.to_outer(value + step), smallest, MAX_VALUE)) for step in steps)
    if spread == 0 and random.random() < 0.5:  # a range holds its ends, also where they are the value of a fine label
        first = last = float(number.values[fine])
    low = first if form in ("range", "at least", "range and estimate") else NO_RANGE[0]
    high = last if form in ("range", "at most", "range and estimate") else NO_RANGE[1]
    if "estimate" not in form:
        return (low, high), NO_ESTIMATE
    deviation = number.width * random.uniform(0.1, 2.0) * (likely if number.scale == "log" else 1.0)
    return (low, high), (likely, float(deviation))


def _allowed(kind: Kind, fine: int, form: str, random: np.random.Generator) -> NDArray[np.float32]:
    """Zeros, and ones for a label that a fine label can have; in a set also for a few others."""
    edges = kind.coarse[kind.starts[fine] : kind.starts[fine + 1]]
    possible = edges if len(edges) else np.flatnonzero(kind.prior)
    allowed = np.zeros(len(kind.labels), np.float32)
    allowed[random.choice(possible)] = 1.0
    if form == "set":
        allowed[random.random(len(allowed)) < 0.3] = 1.0
    return allowed


@dataclass(frozen=True)
class PlainDifference:
    """How far plain preprocessing is from finegraph's, on the same photos.

    Attributes:
        mean_pixel: the mean difference of a pixel, of 255.
        largest_pixel: the largest one.
        probability: the largest difference of the probability of a fine label.
        other_answers: how many photos get another most probable fine label.
    """

    mean_pixel: float
    largest_pixel: int
    probability: float
    other_answers: int


def plain_view(path: str | os.PathLike[str], views: ViewSettings) -> UInt8[Images, "height width channel"]:
    """The view of a photo as one writes it with Pillow alone, every pixel decoded: (height, width, 3).

    Raises:
        Exception: of any kind, for photos that finegraph reads and Pillow alone does not: very large ones, or such with
            broken EXIF data.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # not a warning for the user of export
        with Image.open(path) as file:
            picture = ImageOps.exif_transpose(file).convert("RGB")
    picture = resized(picture, views.resize, keep_shape=views.keep_shape, interpolation=views.interpolation)
    left, top = ((side - views.size) // 2 for side in picture.size)
    return np.array(picture.crop((left, top, left + views.size, top + views.size)))


def plain_difference(
    ours: UInt8[Images, "batch height width channel"],
    plain: UInt8[Images, "batch height width channel"],
    our_answers: Answers,
    plain_answers: Answers,
) -> PlainDifference:
    """How far two ways to prepare the same photos are apart."""
    pixels = np.abs(ours.astype(np.int16) - plain.astype(np.int16))
    one, two = our_answers[names.LOG_PROBS], plain_answers[names.LOG_PROBS]
    return PlainDifference(
        mean_pixel=float(pixels.mean()),
        largest_pixel=int(pixels.max()),
        probability=float(np.abs(np.exp(one) - np.exp(two)).max()),
        other_answers=int((one.argmax(axis=1) != two.argmax(axis=1)).sum()),
    )


def drawn_pictures(count: int) -> list[Image.Image]:
    """Pictures of coloured shapes on a shaded ground with noise, the same every time."""
    random = np.random.default_rng(0)
    return [_draw(random) for _ in range(count)]


def _draw(random: np.random.Generator) -> Image.Image:
    width, height = (int(side) for side in random.integers(200, 500, 2))
    corners = Image.fromarray(random.integers(0, 256, (3, 3, 3), dtype=np.uint8))
    picture = corners.resize((width, height), Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(picture)
    for _ in range(int(random.integers(3, 9))):
        across, down = (np.sort(random.integers(0, side, 2)).tolist() for side in (width, height))
        colour = tuple(int(value) for value in random.integers(0, 256, 3))
        shape = pen.ellipse if random.random() < 0.5 else pen.rectangle
        shape((across[0], down[0], across[1], down[1]), fill=colour)
    noise = random.normal(0, 12, (height, width, 3))
    return Image.fromarray(np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8))
