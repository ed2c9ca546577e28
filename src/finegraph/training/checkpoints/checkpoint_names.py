"""The names of checkpoints, which say all that is needed to find one: its number, its step, whether it is a best one.

    000007-step-350-best

Numbers count the saves and order them; steps need not grow, where a run fell back to an earlier checkpoint. Nothing
here needs torch.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from finegraph.errors import CheckpointError
from finegraph.files.durable import reason_of

_NAME = re.compile(r"([0-9]{6,})-step-([0-9]+)(-best)?")


@dataclass(frozen=True, order=True)
class CheckpointName:
    """What the name of a checkpoint says.

    Attributes:
        number: which save it was, counted from 1.
        step: the step after which it was saved.
        best: whether it was the best then.
    """

    number: int
    step: int
    best: bool

    def __str__(self) -> str:
        return f"{self.number:06}-step-{self.step}{'-best' if self.best else ''}"


def checkpoint_names(folder: Path) -> list[CheckpointName]:
    """All checkpoints in a folder, the oldest first; anything else in it is not ours.

    Raises:
        CheckpointError: the folder cannot be read.
    """
    try:
        found = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"{folder}: expected a folder of checkpoints: {reason_of(error)}") from error
    matches = [match for match in map(_NAME.fullmatch, found) if match]
    names = [CheckpointName(int(match[1]), int(match[2]), match[3] is not None) for match in matches]
    # A number with more zeros in front than it should have is not ours either.
    return sorted(name for name, match in zip(names, matches, strict=True) if str(name) == match[0])
