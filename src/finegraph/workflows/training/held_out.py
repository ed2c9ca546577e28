"""Which photos a run is trained on, and which it is validated on.

A source may say so by its splits. If it has none, some photos are held out of those to train on, stratified by
class, and photos that are the same stay on one side. Both lists are then kept in the run: whatever is added to the
source later is in neither, and what was trained on never comes to be judged.

Cost: where photos are held out each of them is opened once more, in threads; a JPEG is decoded at a fraction of its
size, which takes a tenth of the time of its features. Reading the lists again opens no photo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from finegraph.data.checks.duplicates import same_photos
from finegraph.data.samples import Samples
from finegraph.data.splits import choose_splits, draw_per_label, hold_out
from finegraph.training.distributed import Ranks
from finegraph.training.records.run_folder import RunFolder, read_kept, write_kept
from finegraph.training.settings import TrainSettings
from finegraph.workflows.labels.graph_sources import source_folder, stored_photo_key

_FORMAT = {"format": "finegraph.photos", "version": 1}


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The photos of a run.

    Attributes:
        train: those to train on.
        val: those to validate on; None if there are none.
        held_out: whether the latter were held out of the photos to train on, rather than being a split of the source.
        listed: whether the run keeps lists of both, so that this is certain whatever was added to the source.
        gone: how many of the photos that were held out are not there any more.
    """

    train: Samples
    val: Samples | None
    held_out: bool = False
    listed: bool = False
    gone: int = 0


ChooseParts = Callable[[Samples, TrainSettings], Parts]


def new_parts(
    samples: Samples,
    settings: TrainSettings,
    ranks: Ranks | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Parts:
    """Choose the photos of a new run.

    Args:
        samples: all photos of the source.
        settings: of the run.
        ranks: this process among the others; the first one opens the photos and all get its answer.
        progress: called with the number of photos compared and the total.

    Raises:
        UnknownNameError: there is no such split.
        DataError: the share to hold out is less than a photo of each class.
    """
    train, val = choose_splits(samples, settings.train_split, settings.val_split)
    held_out = val is None and (not samples.splits if settings.val_share is None else settings.val_share > 0)
    if held_out:
        ranks = Ranks() if ranks is None else ranks
        same = None
        if ranks.first:
            same = same_photos((sample.path for sample in train), settings.workers or 1, progress)
        rest, held = hold_out(train, settings.val_share, settings.seed, ranks.gather(same)[0])
        train, val = (rest, held) if len(held) else (train, None)
    return Parts(train=_drawn(train, settings), val=val, held_out=held_out and val is not None)


def parts_of_run(run: Path | None) -> ChooseParts:
    """What chooses the photos of a run that exists: as its own lists say, or without such lists its settings.

    Args:
        run: the run folder; None if there is none.

    Raises:
        RunFolderError: the lists are damaged.
    """
    kept = None if run is None else read_kept(RunFolder(run).photos_file, _FORMAT, "the photos of this run")
    if kept is None:
        return _by_settings
    train, held = frozenset(kept["train"]), frozenset(kept["held_out"])

    def listed(samples: Samples, settings: TrainSettings) -> Parts:
        folder = source_folder(settings.data)
        keys = {sample.path: stored_photo_key(sample.path, folder) for sample in samples}
        return Parts(
            train=samples.only(lambda sample: keys[sample.path] in train),
            val=samples.only(lambda sample: keys[sample.path] in held),
            held_out=True,
            listed=True,
            gone=len(held - set(keys.values())),
        )

    return listed


def keep_parts(run: RunFolder, source: str, train: Samples, held_out: Samples) -> None:
    """Write the lists of what is trained on and of what is held out into a run folder; existing lists stay.

    Raises:
        RunFolderError: they cannot be written.
    """
    folder = source_folder(source)
    lists = {
        name: list(dict.fromkeys(stored_photo_key(sample.path, folder) for sample in part))
        for name, part in (("train", train), ("held_out", held_out))
    }
    write_kept(run.photos_file, _FORMAT, lists)


def _by_settings(samples: Samples, settings: TrainSettings) -> Parts:
    """The photos of a run without lists: by the splits, or as earlier versions held photos out."""
    share = settings.val_share or 0.0
    train, val = choose_splits(samples, settings.train_split, settings.val_split, share, settings.seed)
    named = choose_splits(samples, settings.train_split, settings.val_split)[1]
    return Parts(train=_drawn(train, settings), val=val, held_out=val is not None and named is None)


def _drawn(train: Samples, settings: TrainSettings) -> Samples:
    """As many photos of each class as the settings ask for."""
    if settings.photos_per_label is None:
        return train
    return draw_per_label(train, settings.photos_per_label, settings.seed)
