"""The request bodies of the labelling page. Names and values are checked by the store, which knows the labels."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1, max_length=2000)]


def _shallow(value: Any) -> Any:
    """Check that the value of a cell holds a list or a table of labels, with nothing nested inside."""
    if isinstance(value, dict):
        for content in value.values():
            inner = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
            if any(isinstance(item, dict | list) for item in inner):
                raise ValueError("expected labels in a list or a table, got something nested")
    return value


Value = Annotated[str | dict[str, Any] | None, AfterValidator(_shallow)]
"""A cell as the store takes it: unknown, one label, `one_of`, `weights` or `all_of`."""
Number = Annotated[int, Field(ge=0, le=2**53)]
MAX_CELLS = 10_000
"""The largest number of cells or suggestions that one action changes."""


class Body(BaseModel):
    """A request; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class Edit(Body):
    """An action of a person. Sent again with the same `edit` it happens once."""

    person: Annotated[str, Field(min_length=1, max_length=80)]
    edit: Annotated[str, Field(min_length=8, max_length=100)]


class Numbers(Body):
    """The numbers behind the names of an edit, which hold after a rename."""

    fine: Number | None = None
    kind: Number | None = None
    labels: dict[str, Number] = {}


class CellChange(Body):
    """The value that a cell is to have, and the version that the person was looking at."""

    fine: Name
    kind: Name
    value: Value = None
    seen: int | None
    numbers: Numbers | None = None


class Decide(Edit):
    """Decide one cell or many; many are one action."""

    cells: Annotated[list[CellChange], Field(min_length=1, max_length=MAX_CELLS)]


class Resolve(Edit):
    """Settle a disagreement."""

    fine: Name
    kind: Name
    value: Value = None
    seen: int
    numbers: Numbers | None = None


class Note(Edit):
    """The note of a class."""

    fine: Name
    text: Annotated[str, Field(max_length=10_000)]
    seen: int
    numbers: Numbers | None = None


class PhotoLabel(Edit):
    """The label of a kind that one photo shows; the photo by its number."""

    photo: Annotated[str, Field(min_length=1, max_length=100)]
    kind: Name
    value: Value = None
    seen: int
    numbers: Numbers | None = None


class PairNumbers(Body):
    """The numbers of a kind and of two classes, which hold after a rename."""

    kind: Number | None = None
    one: Number | None = None
    two: Number | None = None


class Compare(Edit):
    """Which of two has more: classes by their names, or photos by their numbers; null takes the answer back."""

    kind: Name
    one: Name
    two: Name
    of: Literal["classes", "photos"] = "classes"
    outcome: Literal["more", "less", "same", "skip"] | None
    seen: int | None
    numbers: PairNumbers = PairNumbers()


class Accept(Edit):
    """Accept suggestions, as they were seen: number of the suggestion -> version of its cell.

    `named` are labels from the names of classes, which have no number; kinds that lack one of them get it.
    """

    suggestions: Annotated[dict[int, int], Field(max_length=MAX_CELLS)] = {}
    named: Annotated[list[CellChange], Field(max_length=MAX_CELLS)] = []


class Undo(Edit):
    """Undo an action, or one edit of it."""

    batch: int | None = None
    number: int | None = None


class Change(Body):
    """A change of names to preview."""

    change: dict[str, Any]


class Apply(Edit):
    """A change of names, as it was previewed."""

    change: dict[str, Any]
    digest: Annotated[str, Field(max_length=200)] | None = None


class ImportFile(Body):
    """A graph file to preview."""

    name: Annotated[str, Field(max_length=500)]
    text: str


class Import(Edit):
    """A graph file to import, as it was previewed."""

    name: Annotated[str, Field(max_length=500)]
    text: str
    digest: Annotated[str, Field(max_length=200)]
