"""The drawings of docs/idea.md, as SVG: `python docs/drawings.py` writes them to docs/_static.

Every number in them is computed: the example is a posterior of three menu items, and bars, sums and shares are what the
library answers. A test draws them again and compares, so that a drawing cannot fall behind.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

import torch

import finegraph as fg

STATIC = Path(__file__).parent / "_static"
BLUE, ORANGE, GREEN, PURPLE, GREY, INK = "#2563a8", "#b8560f", "#2f7d4f", "#7a4fa3", "#8a94a3", "#1d2733"
KIND_COLOURS = {"dish": ORANGE, "restaurant": GREEN, "tofu": PURPLE}

GRAPH = fg.LabelGraph.from_table(
    {
        "mapo tofu @ A": {"dish": "mapo tofu", "restaurant": "A", "tofu": True},
        "mapo tofu @ B": {"dish": "mapo tofu", "restaurant": "B", "tofu": True},
        "kung pao @ B": {"dish": "kung pao", "restaurant": "B", "tofu": False},
    }
)
FINE_SCORES = {"mapo tofu @ A": 0.4, "mapo tofu @ B": 0.2, "kung pao @ B": 0.1}
COARSE_SCORES = {
    "dish": {"mapo tofu": 1.0, "kung pao": 0.2},
    "restaurant": {"A": 0.8, "B": 0.1},
    "tofu": {"no": -0.3, "yes": 0.5},
}


def example() -> fg.Posterior:
    """The posterior that the drawings show."""
    coarse = {
        kind: torch.tensor([[COARSE_SCORES[kind][label] for label in GRAPH.labels(kind)]], dtype=torch.float64)
        for kind in GRAPH.kinds
    }
    return fg.Posterior(GRAPH, torch.tensor([list(FINE_SCORES.values())], dtype=torch.float64), coarse)


def percent(share: float) -> str:
    """A probability in words; nothing is rounded to certainty."""
    return "< 1%" if 0 < share < 0.005 else "> 99%" if 0.995 < share < 0.99995 else f"{share:.0%}"


# ---- strokes --------------------------------------------------------------------------------------------------------


class Drawing:
    """An SVG drawing on a white card, readable on light and dark pages."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        colour: str = INK,
        size: int = 15,
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        """A line of text."""
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" fill="{colour}" font-size="{size}" text-anchor="{anchor}"{weight}>'
            f"{escape(text)}</text>"
        )

    def box(self, x: float, y: float, width: float, height: float, colour: str, *, fill: float = 0.12) -> None:
        """A rounded box."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{colour}" '
            f'fill-opacity="{fill:g}" stroke="{colour}" stroke-opacity="0.7"/>'
        )

    def bar(self, x: float, y: float, share: float, colour: str, *, full: float = 150, height: float = 16) -> None:
        """A probability as a bar, with its number."""
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{full:g}" height="{height:g}" rx="3" fill="#eef1f5"/>')
        if share > 0:
            width = max(1.0, full * share)
            self.parts.append(
                f'<rect x="{x:g}" y="{y:g}" width="{width:.1f}" height="{height:g}" rx="3" fill="{colour}"/>'
            )
        self.text(x + full + 8, y + height / 2 + 5, percent(share), size=14)

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str = GREY, *, width: float = 1.6) -> None:
        """A line."""
        self.parts.append(
            f'<path d="M{x1:g} {y1:g}C{(x1 + x2) / 2:g} {y1:g} {(x1 + x2) / 2:g} {y2:g} {x2:g} {y2:g}" fill="none" '
            f'stroke="{colour}" stroke-width="{width:g}"/>'
        )

    def arrow(self, x1: float, y: float, x2: float) -> None:
        """An arrow to the right."""
        self.parts.append(
            f'<path d="M{x1:g} {y:g}H{x2:g}m-7 -5l7 5l-7 5" fill="none" stroke="{GREY}" stroke-width="2"/>'
        )

    def image(self, x: float, y: float, size: float, data: str) -> None:
        """A picture from a data URL."""
        self.parts.append(
            f'<image x="{x:g}" y="{y:g}" width="{size:g}" height="{size:g}" href="{data}" '
            'preserveAspectRatio="xMidYMid slice"/>'
        )

    def svg(self) -> str:
        """The whole drawing."""
        frame = f'<rect width="{self.width}" height="{self.height}" rx="10" fill="#ffffff"/>'
        opening = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img" font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif">'
        )
        return "\n".join([opening, f"<title>{escape(self.title)}</title>", frame, *self.parts, "</svg>", ""])


# ---- the drawings ---------------------------------------------------------------------------------------------------


def graph() -> Drawing:
    """Fine labels in the middle, the labels of each kind around them, and a line for each link."""
    drawing = Drawing(
        760, 330, "A label graph: three menu items, linked to dishes, restaurants and whether there is tofu"
    )
    drawing.text(125, 30, "fine labels", colour=BLUE, bold=True, anchor="middle")
    fine_places = {label: 90 + 90 * place for place, label in enumerate(GRAPH.fine)}
    for label, y in fine_places.items():
        drawing.box(30, y - 20, 190, 40, BLUE)
        drawing.text(125, y + 5, label, anchor="middle")
    y = 58.0
    for kind in GRAPH.kinds:
        colour = KIND_COLOURS[kind]
        drawing.text(730, y + 22, kind, colour=colour, bold=True, anchor="end")
        for place, label in enumerate(GRAPH.labels(kind)):
            at = y + 40 * place
            drawing.box(470, at - 16, 150, 32, colour)
            drawing.text(545, at + 5, label, anchor="middle")
            for fine, fine_y in fine_places.items():
                if GRAPH.labels(kind)[GRAPH.parents(kind)[GRAPH.fine_index(fine)]] == label:
                    drawing.line(220, fine_y, 470, at, colour)
        y += 92
    drawing.text(545, 30, "labels of each kind", colour=INK, bold=True, anchor="middle")
    return drawing


def joint() -> Drawing:
    """How scores add up to one score per fine label, become probabilities, and sum to those of a kind."""
    posterior = example()
    probabilities = posterior.probs()[0].tolist()
    drawing = Drawing(
        980, 316, "The joint: scores of a fine label and of its parents add up; softmax; coarse labels sum"
    )
    columns = [("own score", BLUE), *((kind, KIND_COLOURS[kind]) for kind in GRAPH.kinds)]
    for place, (name, colour) in enumerate(columns):
        drawing.text(225 + 95 * place, 36, name, colour=colour, bold=True, anchor="middle")
    drawing.text(612, 36, "joint score", bold=True, anchor="middle")
    drawing.text(720, 36, "probability", bold=True)
    for row, label in enumerate(GRAPH.fine):
        y = 52 + 50 * row
        drawing.text(20, y + 24, label)
        scores = [FINE_SCORES[label]]
        for kind in GRAPH.kinds:
            scores.append(COARSE_SCORES[kind][GRAPH.labels(kind)[GRAPH.parents(kind)[row]]])
        for place, (score, (_, colour)) in enumerate(zip(scores, columns, strict=True)):
            drawing.box(190 + 95 * place, y, 70, 36, colour)
            drawing.text(225 + 95 * place, y + 24, f"{score:.1f}", anchor="middle")
            drawing.text(
                272 + 95 * place, y + 24, "+" if place < len(scores) - 1 else "=", anchor="middle", colour=GREY
            )
        drawing.box(577, y, 70, 36, INK, fill=0.06)
        drawing.text(612, y + 24, f"{sum(scores):.1f}", anchor="middle", bold=True)
        drawing.arrow(658, y + 18, 706)
        drawing.bar(720, y + 10, probabilities[row], BLUE)
    drawing.text(20, 238, "Each kind sums the probabilities of its children:", bold=True)
    x = 20.0
    for kind in ("dish", "restaurant"):
        for place, label in enumerate(GRAPH.labels(kind)):
            share = posterior.probs(kind)[0, place].item()
            drawing.text(x, 274, f"{kind}: {label}", colour=KIND_COLOURS[kind], size=14)
            drawing.bar(x, 282, share, KIND_COLOURS[kind], full=140)
            x += 240
    return drawing


def evidence() -> Drawing:
    """What evidence does: rule out, and normalise again."""
    posterior = example()
    given = posterior.given(restaurant="B")
    before, after = posterior.probs()[0].tolist(), given.probs()[0].tolist()
    drawing = Drawing(860, 250, "Evidence: what contradicts it is ruled out, the rest is normalised again")
    drawing.text(190, 36, "by the photo alone", bold=True)
    drawing.text(600, 36, "given: the restaurant is B", bold=True, colour=GREEN)
    for row, label in enumerate(GRAPH.fine):
        y = 56 + 46 * row
        ruled_out = after[row] == 0
        drawing.text(20, y + 15, label)
        drawing.bar(190, y, before[row], BLUE)
        drawing.arrow(420, y + 8, 580)
        if ruled_out:
            drawing.text(500, y + 1, "ruled out", size=13, anchor="middle", colour=ORANGE)
        drawing.bar(600, y, after[row], GREY if ruled_out else BLUE)
    probable = posterior.log_prob_of(restaurant="B").exp().item()
    drawing.text(20, 218, f"The photo alone gave restaurant B a probability of {probable:.1%}.")
    drawing.text(
        20,
        238,
        f"Each remaining label is divided by that: {before[1]:.1%} / {probable:.1%} = {after[1]:.1%}.",
        size=14,
        colour=GREY,
    )
    return drawing


def folding() -> Drawing:
    """The weights of a fine label and of its parents become one row of a linear layer."""
    drawing = Drawing(860, 226, "Folding: with one parent per kind, weights add up to the rows of one linear layer")
    drawing.text(20, 36, "trained: one row for each fine and each coarse label", bold=True)
    drawing.text(610, 36, "folded: one linear layer", bold=True)
    for row, label in enumerate(GRAPH.fine):
        y = 54 + 50 * row
        parts = [("own", BLUE)]
        for kind in GRAPH.kinds:
            parts.append((GRAPH.labels(kind)[GRAPH.parents(kind)[row]], KIND_COLOURS[kind]))
        for place, (name, colour) in enumerate(parts):
            drawing.box(20 + 132 * place, y, 108, 34, colour)
            drawing.text(74 + 132 * place, y + 22, name, anchor="middle", size=14)
            if place < len(parts) - 1:
                drawing.text(140 + 132 * place, y + 23, "+", anchor="middle", colour=GREY)
        drawing.arrow(548, y + 17, 596)
        drawing.box(610, y, 230, 34, INK, fill=0.06)
        drawing.text(725, y + 22, label, anchor="middle")
    drawing.text(
        20, 214, "The folded layer gives the same answers and costs what a softmax layer does.", size=14, colour=GREY
    )
    return drawing


DRAWINGS = {"idea-graph": graph, "idea-joint": joint, "idea-evidence": evidence, "idea-folding": folding}
"""The drawings, by the names of their files."""


def main() -> None:
    """Write all drawings."""
    STATIC.mkdir(exist_ok=True)
    for name, draw in DRAWINGS.items():
        (STATIC / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")
        print(f"docs/_static/{name}.svg")


if __name__ == "__main__":
    main()
