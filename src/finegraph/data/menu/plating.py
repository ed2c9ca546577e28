"""Where the pieces of a dish lie: in heaps, sides, rings, rows, on a bed, or in broth.

A place is x (to the right) and y (to the front) in radii of the inside of the vessel, and how high it is. Pieces are
given in the order in which they are pasted, the lowest layer first and within it the hindmost first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from finegraph.data.menu.ingredients import BY_NAME

LAYERS = ((0.84, 0.0, 0.48), (0.64, 0.16, 0.32), (0.4, 0.32, 0.2))
"""Of a heap: how far each layer reaches, how high it lies, and what part of the pieces is in it."""


class Portion(NamedTuple):
    """An ingredient of a dish and how much of it there is; 1 where it is alone on the plate."""

    ingredient: str
    amount: float


class Piece(NamedTuple):
    """A piece on the plate; `facing` is one of the turns of its sheet, -1 for any."""

    ingredient: str
    x: float
    y: float
    high: float
    layer: int
    facing: int = -1


PIECES_PER_COUNT = 1.5
"""How many pieces lie on a plate for each that the usual portion of an ingredient counts."""


@dataclass
class Plating:
    """The pieces of one photo in the order they are put down.

    Args:
        random: the chance of this photo.
        heap: how high food is heaped.
        portion: how much of it there is.
    """

    random: np.random.Generator
    heap: float
    portion: float
    pieces: list[Piece] = field(default_factory=list)

    def count(self, portion: Portion) -> int:
        """How many pieces of an ingredient there are this time."""
        usual = BY_NAME[portion.ingredient].count * portion.amount * self.portion
        return max(2, round(usual * self.random.uniform(0.85, 1.15) * PIECES_PER_COUNT))

    def mound(
        self, portions: list[Portion], at: tuple[float, float] = (0, 0), size: float = 1.0, on: float = -1.0
    ) -> None:
        """All of them mixed in one heap; `on` is the height of what it lies on, if it lies on something."""
        first, base = (0, 0.0) if on < 0 else (len(LAYERS), on * self.heap)
        names = [portion.ingredient for portion in portions for _ in range(self.count(portion))]
        self.random.shuffle(names)
        start = 0
        for layer, (reach, high, share) in enumerate(LAYERS):
            end = len(names) if layer == len(LAYERS) - 1 else start + round(len(names) * share)
            for index, name in enumerate(names[start:end]):
                far = np.sqrt((index + self.random.uniform(0.2, 0.8)) / max(end - start, 1)) * reach * size
                turn = index * 2.39996 + self.random.normal(0, 0.3)  # the golden angle leaves no gaps
                x, y = at[0] + far * np.cos(turn), at[1] + far * np.sin(turn)
                self.pieces.append(Piece(name, x, y, base + high * self.heap * size, first + layer))
            start = end

    def strew(self, portions: list[Portion], reach: float = 0.7, high: float = 0.3) -> None:
        """Here and there on top."""
        for portion in portions:
            for _ in range(self.count(portion)):
                far, turn = np.sqrt(self.random.uniform(0, 1)) * reach, self.random.uniform(0, 2 * np.pi)
                lift = high * self.heap * (1 - (far / max(reach, 0.1)) ** 2)
                self.pieces.append(
                    Piece(portion.ingredient, far * np.cos(turn), far * np.sin(turn), lift, 2 * len(LAYERS))
                )

    def ring(self, portion: Portion, reach: float = 0.72, layer: int = 1) -> None:
        """In a circle near the edge."""
        number = self.count(portion)
        start = self.random.uniform(0, 2 * np.pi)
        for index in range(number):
            turn = start + index / number * 2 * np.pi + self.random.normal(0, 0.05)
            facing = round(turn / (2 * np.pi) * 10) % 10
            self.pieces.append(
                Piece(portion.ingredient, reach * np.cos(turn), reach * np.sin(turn), 0.02, layer, facing)
            )

    def rows(self, portion: Portion, reach: float = 0.62, layer: int = 1, base: float = 0.05) -> None:
        """Side by side in a few rows, all turned alike."""
        number = self.count(portion)
        rows = 1 if number <= 4 else 2 if number <= 12 else 3
        facing = int(self.random.integers(10))
        for index in range(number):
            row, place = index % rows, index // rows
            across = (place + 0.5) / max(-(-number // rows), 1) * 2 - 1
            down = ((row + 0.5) / rows * 2 - 1) * (0.62 if rows > 1 else 0)
            x, y = across * reach + self.random.normal(0, 0.02), down * reach + self.random.normal(0, 0.02)
            self.pieces.append(
                Piece(portion.ingredient, x, y, base, layer, (facing + int(self.random.integers(0, 2))) % 10)
            )

    def in_order(self) -> list[Piece]:
        """The pieces in the order in which they are pasted."""
        return sorted(self.pieces, key=lambda piece: (piece.layer, piece.y))


def arrange(arrangement: str, portions: tuple[Portion, ...], plating: Plating) -> None:
    """Put the portions of a dish on a plate.

    Args:
        arrangement: one of `ARRANGEMENTS`.
        portions: the ingredients, the most important first.
        plating: what they are put into.
    """
    accents = [one for one in portions[1:] if BY_NAME[one.ingredient].role == "accent"]
    others = [one for one in portions if one not in accents]
    beds = [one for one in others if BY_NAME[one.ingredient].spreads]
    if arrangement == "heap" and beds and len(portions) > len(beds):
        plating.mound(beds, size=1.06)
        plating.mound([one for one in portions if one not in beds], size=0.86, on=0.14)
    elif arrangement == "heap":
        plating.mound(list(portions))
    elif arrangement == "bed":
        plating.mound([others[-1]], size=1.08)
        plating.mound([*others[:-1], *accents] or [others[-1]], size=0.66, on=0.24)
    elif arrangement == "sides":
        half = plating.random.uniform(-0.4, 0.4)
        cos, sin = 0.4 * np.cos(half), 0.4 * np.sin(half)
        plating.mound([*others[:1], *accents], at=(-cos, -sin), size=0.74)
        plating.mound(others[1:] or others[:1], at=(cos, sin), size=0.7)
    elif arrangement == "ring":
        for one in others[1:2]:
            plating.ring(Portion(one.ingredient, one.amount * 1.1))
        plating.mound([*others[:1], *others[2:], *accents], size=0.72)
    elif arrangement == "rows":
        plating.mound(others[1:], size=0.9)
        plating.rows(others[0], base=0.16 if others[1:] else 0.05, layer=3 if others[1:] else 1)
        plating.strew([Portion(one.ingredient, one.amount * 0.6) for one in accents], 0.66, 0.2)
    else:  # broth: few pieces look out of it
        plating.mound([Portion(one.ingredient, one.amount * 0.9) for one in beds], size=1.0)
        rest = [Portion(one.ingredient, one.amount * 0.62) for one in others if one not in beds]
        plating.mound(rest, size=0.84, on=0.3 if beds else -1.0)
        plating.strew([Portion(one.ingredient, one.amount * 0.6) for one in accents], 0.8, 0.1)


ARRANGEMENTS = ("heap", "bed", "sides", "ring", "rows", "broth")
"""The ways in which dishes are put on plates."""
