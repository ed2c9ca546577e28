"""The store of label decisions: who said what of which class, and when.

`LabelStore` is the way in. Everything else here is what it answers, or a part of it.
"""

from finegraph.errors import MissingExtraError

try:
    import sqlalchemy  # noqa: F401
except ModuleNotFoundError:
    raise MissingExtraError(
        "label decisions are kept with SQLAlchemy, which is not installed; install it with "
        '`pip install "finegraph[label]"`'
    ) from None

from finegraph.labelling.agreement import Agreement, KindAgreement, PairAgreement
from finegraph.labelling.changes import (
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
from finegraph.labelling.photo_file import PhotoLabel
from finegraph.labelling.proposals import Proposal
from finegraph.labelling.records import (
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
    PersonProgress,
    Preview,
    Progress,
    Suggestion,
    SuggestionPage,
)
from finegraph.labelling.store import LabelStore
from finegraph.labelling.values import parse_value_text, value_text

__all__ = [
    "AddFine",
    "AddKind",
    "AddLabel",
    "Agreement",
    "Batch",
    "CellState",
    "CellValue",
    "Change",
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
    "PersonProgress",
    "PhotoLabel",
    "Preview",
    "Progress",
    "Proposal",
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
