"""What a posterior says, as plain values for people and programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Answer(NamedTuple):
    """A label with its probability."""

    label: str
    probability: float


class Statement(NamedTuple):
    """The most specific thing that is sure enough.

    Attributes:
        kind: the kind that the label is of; None for a fine label.
        label: what is stated.
        probability: how sure it is.
        compatible: how many fine labels the statement leaves open.
    """

    kind: str | None
    label: str
    probability: float
    compatible: int

    def __str__(self) -> str:
        name = self.label if self.kind is None else f"{self.kind}: {self.label}"
        return f"{name} ({self.probability:.1%})"


class Question(NamedTuple):
    """What knowing the label of a kind is expected to do.

    Attributes:
        kind: what to ask for.
        binary: whether the answer is yes or no.
        gain: by how many bits the entropy of the fine label falls, on average over the answers.
        before: the probability of the best fine label now.
        after: what it will be, on average.
        settles: how probable it is that the answer settles it: that the best fine label then has a probability of at
            least 1 - risk.
    """

    kind: str
    binary: bool
    gain: float
    before: float
    after: float
    settles: float

    @property
    def text(self) -> str:
        """The question as one asks it."""
        if not self.binary:
            return f"Which {self.kind}?"
        _, mark, part = self.kind.partition(": ")
        return f"Is there {part}?" if mark else f"{self.kind}: yes or no?"

    def __str__(self) -> str:
        return f"{self.text} (+{self.gain:.2f} bits, best {self.before:.0%} -> {self.after:.0%})"


class Part(NamedTuple):
    """What one kind, the fine label itself or evidence adds to the log odds.

    Attributes:
        source: `"fine"`, the name of a kind, or `"evidence: "` and the name of a kind.
        first: the label of the first fine label in this kind; None where it is unknown or one of several.
        second: the same of the second.
        value: the log odds that it adds; positive speaks for the first.
        several: whether the kind has several or unknown parents, so that the part is a difference of log sums, which
            is not the only way to split them.
    """

    source: str
    first: str | None
    second: str | None
    value: float
    several: bool = False


@dataclass(frozen=True)
class Explanation:
    """Why one fine label rather than another, for one sample: log odds = the sum of the parts.

    Attributes:
        first: the fine label that is explained.
        second: the one it is compared with.
        log_odds: log p(first) - log p(second).
        parts: what each source adds, the largest first.
    """

    first: str
    second: str
    log_odds: float
    parts: tuple[Part, ...]

    def __str__(self) -> str:
        lines = [f"{self.first} rather than {self.second}: log odds {self.log_odds:+.2f}"]
        for part in self.parts:
            labels = (
                f" ({part.first} / {part.second})" if part.first and part.second and part.first != part.second else ""
            )
            lines.append(f"  {part.value:+7.2f}  {part.source}{labels}")
        return "\n".join(lines)
