"""The store of label decisions: every value of every cell, with its person and time.

`LabelStore` is the entry point. The other names are what it takes and returns.
"""

from finegraph.errors import MissingExtraError

try:
    import sqlalchemy  # noqa: F401
except ModuleNotFoundError:
    raise MissingExtraError(
        "label decisions are kept with SQLAlchemy, which is not installed; install it with "
        '`pip install "finegraph[label]"`'
    ) from None

from finegraph.labelling.class_order import ClassOrder, PairsAgreement, RankedClass
from finegraph.labelling.edits.changes import (
    AddFine,
    AddKind,
    AddLabel,
    MergeKinds,
    MergeLabels,
    RemoveFine,
    RemoveKind,
    RemoveLabel,
    RenameFine,
    RenameKind,
    RenameLabel,
    SplitKind,
    SplitLabel,
    StructureChange,
    change_from_dict,
)
from finegraph.labelling.label_store import LabelStore
from finegraph.labelling.questions.team import Agreement, KindAgreement, PairAgreement
from finegraph.labelling.store.records import (
    Batch,
    CellState,
    CellValue,
    Change,
    ClassPage,
    ClassRow,
    Conflict,
    Decision,
    Diff,
    Edit,
    EditResult,
    ExampleChange,
    ImportPreview,
    KindInfo,
    KindProgress,
    LiveFinding,
    Numbers,
    PairAnswer,
    PairNumbers,
    PersonProgress,
    PhotoLabel,
    Preview,
    Progress,
    Suggestion,
    SuggestionPage,
)
from finegraph.labelling.store.values import parse_value_text, value_text
from finegraph.labelling.suggestions.proposals import Proposal

__all__ = [
    "AddFine",
    "AddKind",
    "AddLabel",
    "Agreement",
    "Batch",
    "CellState",
    "CellValue",
    "Change",
    "ClassOrder",
    "ClassPage",
    "ClassRow",
    "Conflict",
    "Decision",
    "Diff",
    "Edit",
    "EditResult",
    "ExampleChange",
    "ImportPreview",
    "KindAgreement",
    "KindInfo",
    "KindProgress",
    "LabelStore",
    "LiveFinding",
    "MergeKinds",
    "MergeLabels",
    "Numbers",
    "PairAgreement",
    "PairAnswer",
    "PairNumbers",
    "PairsAgreement",
    "PersonProgress",
    "PhotoLabel",
    "Preview",
    "Progress",
    "Proposal",
    "RankedClass",
    "RemoveFine",
    "RemoveKind",
    "RemoveLabel",
    "RenameFine",
    "RenameKind",
    "RenameLabel",
    "SplitKind",
    "SplitLabel",
    "StructureChange",
    "Suggestion",
    "SuggestionPage",
    "change_from_dict",
    "parse_value_text",
    "value_text",
]
