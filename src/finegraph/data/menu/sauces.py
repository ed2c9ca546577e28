"""Sauces: their colour on the pieces, and the pool they make on the plate."""

from __future__ import annotations

from dataclasses import dataclass

from finegraph.data.menu.surface import Colour


@dataclass(frozen=True)
class Sauce:
    """One sauce.

    Attributes:
        name: what it is called here; dishes are named after how they are cooked.
        colour: of the pool.
        coat: how strongly it colours the pieces, 0 to 1.
        depth: how dense the pool is, 0 for none, 1 for one that cannot be seen through.
        gloss: how much light the pool throws back.
    """

    name: str
    colour: Colour
    coat: float
    depth: float
    gloss: float


SAUCES: dict[str, Sauce] = {
    sauce.name: sauce
    for sauce in (
        Sauce("dry", (196, 140, 70), 0.25, 0.0, 0.0),
        Sauce("clear", (222, 206, 160), 0.1, 0.35, 0.5),
        Sauce("soy", (96, 50, 20), 0.6, 0.75, 0.8),
        Sauce("oyster", (122, 72, 30), 0.45, 0.6, 0.7),
        Sauce("black bean", (50, 32, 24), 0.5, 0.7, 0.6),
        Sauce("sweet and sour", (206, 62, 20), 0.75, 0.8, 0.9),
        Sauce("curry", (222, 160, 40), 0.85, 0.95, 0.5),
        Sauce("chilli oil", (182, 30, 10), 0.75, 0.85, 0.9),
        Sauce("garlic", (202, 160, 96), 0.35, 0.5, 0.5),
        Sauce("pepper", (70, 44, 30), 0.55, 0.5, 0.7),
        Sauce("broth", (214, 178, 110), 0.2, 0.85, 0.6),
        Sauce("red broth", (196, 66, 24), 0.5, 0.9, 0.8),
        Sauce("herb", (110, 130, 50), 0.5, 0.6, 0.5),
    )
}
