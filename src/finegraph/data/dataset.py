"""Samples as a torch `Dataset`: views of photos with their targets.

Names become numbers once, when the dataset is made; names that the graph does not have are reported then, together. A
bad photo raises, or with the policy "skip" stands in its batch as an error that `collate` puts aside: it is never
replaced by another photo, and the process that reads the batches learns of it whatever worker met it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from finegraph.data.measured_values import measured_values
from finegraph.data.photo_decoding import MAX_PIXELS, read_picture
from finegraph.data.samples import Sample, Samples
from finegraph.data.transforms import View, ViewSettings, make_view, random_part, sample_random
from finegraph.errors import InputError, PhotoFileError, UnknownNameError
from finegraph.graph.faults import MAX_PRINTED
from finegraph.graph.kind import Kind
from finegraph.graph.label_graph import LabelGraph
from finegraph.graph.spelling import SpellingHints
from finegraph.inference.sums.targets import FROM_FINE

MISSING = -100
"""The target where a label is not known; losses pass over it."""


class Item(NamedTuple):
    """One sample: its view or views, its targets, and its number in the list of samples."""

    image: UInt8[Tensor, "*view channel height width"]
    fine: int
    kinds: dict[str, int | float]
    sample: int


class Batch(NamedTuple):
    """Several samples: tensors with one row per photo that could be read, and the errors of the others."""

    images: UInt8[Tensor, "batch *view channel height width"]
    fine: Int[Tensor, " batch"]
    kinds: dict[str, Int[Tensor, " batch"] | Float[Tensor, " batch"]]
    sample: Int[Tensor, " batch"]
    bad: tuple[PhotoFileError, ...]


class PhotoDataset(Dataset[Item | PhotoFileError]):
    """Views of photos and their targets, as numbers of labels in a graph.

    An item has the target of every kind of the graph that any of the samples has labels of, and the value of every
    number that was measured on any of them; see `training_targets`. Kinds that the graph does not have are left out;
    checking the data reports them.

    Args:
        samples: the photos.
        graph: the labels that targets are numbers of.
        settings: the sizes of the views, and whether boxes are used.
        view: "train" for a random view, "centre" for one, "ten" for ten.
        seed: where the chance of random views starts from.
        view_share: the smallest share of a picture that a random view shows; 1 for the paper's views.
        on_bad_file: "error" raises on a photo that cannot be read, "skip" gives the error in place of the item.
        max_pixels: photos with more pixels are refused.
        keep_pictures: decoded photos are kept in memory up to this many bytes, so that later epochs need not decode.

    Raises:
        UnknownNameError: labels that the graph does not have, all of them at once.
    """

    def __init__(
        self,
        samples: Samples,
        graph: LabelGraph,
        settings: ViewSettings,
        *,
        view: View = "centre",
        seed: int = 0,
        view_share: float = 1.0,
        on_bad_file: Literal["error", "skip"] = "error",
        max_pixels: int = MAX_PIXELS,
        keep_pictures: int = 0,
    ) -> None:
        if on_bad_file not in ("error", "skip"):
            raise InputError(f"on_bad_file must be 'error' or 'skip', got {on_bad_file!r}")
        if not 0.0 < view_share <= 1.0:
            raise InputError(f"view_share must be above 0 and at most 1, got {view_share!r}")
        self.view_share = view_share
        self.samples, self.graph, self.settings = samples, graph, settings
        self.view, self.seed, self.on_bad_file, self.max_pixels = view, seed, on_bad_file, max_pixels
        self.fine, self.kinds = training_targets(samples, graph)
        self._pictures = _Pictures(keep_pictures)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Item | PhotoFileError:
        return self.item(index, 0)

    def item(self, index: int, epoch: int) -> Item | PhotoFileError:
        """A sample with its view in an epoch."""
        sample = self.samples[index]
        try:
            picture = self._pictures.get(index, lambda: self._read(sample))
        except PhotoFileError as error:
            if self.on_bad_file == "skip":
                return error
            raise
        random = sample_random(self.seed, epoch, index) if self.view == "train" else None
        if random is not None and self.view_share < 1.0:
            image = random_part(picture, self.settings, self.view_share, random)
        else:
            image = make_view(picture, self.settings, self.view, random)
        kinds = {kind: targets[index].item() for kind, targets in self.kinds.items()}
        return Item(image, int(self.fine[index]), kinds, index)

    def _read(self, sample: Sample) -> Image.Image:
        """The picture that views are cut from."""
        box = sample.box if self.settings.box else None
        needed = (self.settings.resize, self.settings.resize)
        return read_picture(sample.path, box, at_least=needed, max_pixels=self.max_pixels)


class _Pictures:
    """Decoded photos by number, until they fill a given number of bytes. Any thread may ask."""

    def __init__(self, max_bytes: int) -> None:
        self._free, self._kept = max_bytes, dict[int, Image.Image]()

    def get(self, number: int, read: Callable[[], Image.Image]) -> Image.Image:
        """A photo, read if it is not there."""
        kept = self._kept.get(number)
        if kept is not None:
            return kept
        picture = read()
        size = picture.width * picture.height * len(picture.getbands())
        if size <= self._free:  # threads that come at once may keep a photo or two more
            self._kept[number] = picture
            self._free -= size
        return picture


def targets_of(samples: Samples, graph: LabelGraph) -> tuple[Int[Tensor, " batch"], dict[str, Int[Tensor, " batch"]]]:
    """The fine label of each sample as a number, and its label of each kind that any sample has labels of.

    If a photo has no label of such a kind, it is the parent of its fine label, if that has just one. `MISSING` means
    that nothing is known.

    Raises:
        UnknownNameError: labels that the graph does not have, all of them at once.
    """
    faults: list[str] = []
    fine = _numbers(samples, [sample.label for sample in samples], graph.fine, "fine label", faults)
    kinds = {}
    used = set(samples.kinds)
    for kind in graph.kinds:
        if kind in used:
            labels = [sample.kinds.get(kind) for sample in samples]
            numbers = _numbers(samples, labels, graph.labels(kind), f"label of kind {kind!r}", faults)
            kinds[kind] = torch.where(numbers == MISSING, _only_parents(graph.kind(kind), fine), numbers)
    if faults:
        more = [f"  and {len(faults) - MAX_PRINTED} more"] if len(faults) > MAX_PRINTED else []
        count = "a label is" if len(faults) == 1 else f"{len(faults)} labels are"
        raise UnknownNameError("\n".join([f"{count} not in the graph:", *faults[:MAX_PRINTED], *more]))
    return fine, kinds


def training_targets(
    samples: Samples, graph: LabelGraph
) -> tuple[Int[Tensor, " batch"], dict[str, Int[Tensor, " batch"] | Float[Tensor, " batch"]]]:
    """The same for the loss: a photo without its own label has the label that the graph gives its class.

    For each number that was measured on any photo there are the values in the user's unit, NaN where there is none.

    Raises:
        UnknownNameError: labels that the graph does not have, all of them at once.
        DataError: a value that its number cannot have.
    """
    fine, labels = targets_of(samples, graph)
    kinds: dict[str, Int[Tensor, " batch"] | Float[Tensor, " batch"]] = {**labels}
    for name in labels:
        number_of = {label: number for number, label in enumerate(graph.labels(name))}
        photo_labels = torch.tensor([number_of.get(sample.kinds.get(name, ""), MISSING) for sample in samples])
        from_fine = torch.where(fine == MISSING, MISSING, FROM_FINE)
        kinds[name] = torch.where(photo_labels == MISSING, from_fine, photo_labels)
    values = measured_values(samples, graph)
    return fine, kinds | {
        name: torch.from_numpy(photo_labels)
        for name, photo_labels in values.items()
        if not np.isnan(photo_labels).all()
    }


def _only_parents(kind: Kind, fine: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
    """The label of a kind that the graph gives for certain to the fine label of each sample; `MISSING` elsewhere."""
    only = np.full(len(kind.starts), MISSING)  # the last entry is for samples without a fine label
    certain = np.flatnonzero(np.diff(kind.starts) == 1)
    only[certain] = kind.coarse[kind.starts[certain]]
    return torch.from_numpy(only[np.where(fine.numpy() == MISSING, len(only) - 1, fine.numpy())])


def _numbers(
    samples: Samples, labels: Sequence[str | None], names: Sequence[str], what: str, faults: list[str]
) -> Int[Tensor, " batch"]:
    """The number of each label among `names`; unknown ones are added to `faults` with what may be meant.

    Args:
        samples: the photos.
        labels: one label of each.
        names: the labels that there are.
        what: what a label is, for messages.
        faults: what is wrong so far.
    """
    number_of: dict[str | None, int] = {name: number for number, name in enumerate(names)}
    number_of[None] = MISSING
    suggestions = SpellingHints()
    for sample, label in zip(samples, labels, strict=True):
        if label is not None and label not in number_of:
            number_of[label] = MISSING
            hint = suggestions.hint(label, names)
            place = "" if sample.line is None else f"{samples.source}:{sample.line}: "
            faults.append(f"  {place}{what} {label!r}" + (f"; {hint}" if hint else ""))
    return torch.tensor([number_of[label] for label in labels], dtype=torch.int64)


def collate(items: Sequence[Item | PhotoFileError]) -> Batch:
    """A batch of items, for the argument `collate_fn` of a data loader; bad photos are put aside in `bad`.

    If no photo at all could be read, `images` has no rows and no shape beyond that.
    """
    good = [item for item in items if isinstance(item, Item)]
    bad = tuple(item for item in items if isinstance(item, PhotoFileError))
    kinds: Mapping[str, int | float] = good[0].kinds if good else {}
    return Batch(
        torch.stack([item.image for item in good]) if good else torch.empty(0, dtype=torch.uint8),
        torch.tensor([item.fine for item in good], dtype=torch.int64),
        {kind: _column([item.kinds[kind] for item in good]) for kind in kinds},
        torch.tensor([item.sample for item in good], dtype=torch.int64),
        bad,
    )


def _column(targets: Sequence[int | float]) -> Int[Tensor, " batch"] | Float[Tensor, " batch"]:
    """The labels of a kind, or the values of a number, as a tensor."""
    return torch.tensor(targets, dtype=torch.float64 if isinstance(targets[0], float) else torch.int64)
