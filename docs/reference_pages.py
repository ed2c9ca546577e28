"""The pages of the reference that the code itself writes: commands, settings, HTTP routes, public names, errors.

Each page is Markdown and is rewritten by every build of the site, so that it cannot fall behind. `write_pages`
writes a file only where it changed, so that a second build has nothing to do.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer

import finegraph
from finegraph import errors
from finegraph.cli import exit_codes
from finegraph.cli.main import ORDER, app
from finegraph.training.recipes import RECIPES
from finegraph.training.settings import TrainSettings


def write_pages(folder: Path) -> None:
    """Write all pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        text = make()
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


# ---- commands -------------------------------------------------------------------------------------------------------


def commands_page() -> str:
    """Every command with its arguments and options, in the order of work."""
    lines = ["# Commands", "", "Every command answers to `--help`; this page is that help.", ""]
    for name, command in all_commands():
        lines += [f"## finegraph {name}", "", *_command_text(name, command)]
    lines += ["## Exit codes", "", *_table_of(exit_codes.__doc__ or ""), ""]
    return "\n".join(lines)


def all_commands() -> Iterator[tuple[str, Any]]:
    """The commands that do something, with their names as typed."""
    root = typer.main.get_command(app)
    for name in ORDER:
        yield from _leaves(name, root.commands[name])  # type: ignore[attr-defined]


def _leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield name, command
        return
    for part, below in command.commands.items():
        if not getattr(below, "hidden", False):
            yield from _leaves(f"{name} {part}", below)


def _command_text(name: str, command: Any) -> list[str]:
    """One command: what it does, how it is typed, and its options."""
    context = typer.Context(command, info_name=f"finegraph {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [_prose(command.help or ""), "", "```", f"finegraph {name} {usage}", "```", ""]
    rows = [row for parameter in command.params if (row := _parameter_row(parameter))]
    return [*lines, "| name | what it is |", "|---|---|", *rows, ""] if rows else lines


def _parameter_row(parameter: Any) -> str | None:
    if getattr(parameter, "hidden", False) or parameter.name == "help":
        return None
    if parameter.param_type_name == "argument":
        names = [(parameter.metavar or parameter.name).upper()]
    else:
        names = [*parameter.opts, *parameter.secondary_opts]
    about = _cell(getattr(parameter, "help", None) or "")
    return f"| {', '.join(f'`{name}`' for name in names)} | {about} |"


# ---- settings -------------------------------------------------------------------------------------------------------


def settings_page() -> str:
    """Every setting of training, with its default and what the recipes make of it."""
    lines = [
        "# Settings of training",
        "",
        "One name for each, in a TOML file (`finegraph train --config menu.toml`), as a flag (`--batch-size` for",
        "`batch_size`) and in Python (`TrainSettings`). [Training](../training.md) explains them in context.",
        "",
        "| setting | default | what it is |",
        "|---|---|---|",
    ]
    for one in dataclasses.fields(TrainSettings):
        lines.append(f"| `{one.name}` | {_default(one.default)} | {_cell(one.metadata['about'])} |")
    names = [one.name for one in dataclasses.fields(next(iter(RECIPES.values())))]
    lines += ["", "## Recipes", "", "What a recipe sets unless the setting is given.", ""]
    lines += ["| setting | " + " | ".join(RECIPES) + " |", "|---|" + "---|" * len(RECIPES)]
    for name in names:
        values = " | ".join(_default(getattr(recipe, name)) for recipe in RECIPES.values())
        lines.append(f"| `{name}` | {values} |")
    lines += ["", "## Environment variables", "", "| variable | what it does |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(about)} |" for name, about in VARIABLES.items()]
    return "\n".join([*lines, ""])


VARIABLES = {
    "FINEGRAPH_CACHE": "the folder of stored features and of drawn menus; by default the cache folder of the user",
    "FINEGRAPH_TOKEN": "the token of `finegraph serve` and `finegraph label`, instead of `--token`",
    "FINEGRAPH_MILVUS_URI": "the address of the Milvus server of an index, instead of the one that it was made with",
    "FINEGRAPH_MILVUS_TOKEN": "the token of that server, `USER:PASSWORD` or a key; it is stored nowhere",
    "FINEGRAPH_COMPLETE": "set by the shell for completion; see `finegraph --help`",
}
"""The environment variables that the package reads."""


def _default(value: object) -> str:
    if value is None or value == "" or value == ():
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


# ---- HTTP -----------------------------------------------------------------------------------------------------------


def http_page() -> str:
    """Every route of `finegraph serve`, from the description that the server itself gives."""
    lines = [
        "# HTTP routes of the server",
        "",
        "`finegraph serve` describes itself at `/openapi.json`; this page is made of that description.",
        "[Serving a model](../serve.md) explains how to use it.",
        "",
    ]
    description = openapi()
    for path, methods in description["paths"].items():
        for method, route in methods.items():
            lines += [f"## {method.upper()} {path}", "", _prose(route.get("description") or route["summary"]), ""]
            lines += _fields(description, route)
            lines += ["| status | meaning |", "|---|---|"]
            lines += [
                f"| {status} | {_cell(body['description'])} |" for status, body in sorted(route["responses"].items())
            ]
            lines += [""]
    return "\n".join([*lines, *_label_routes()])


def _label_routes() -> list[str]:
    """The routes of the labelling page: each with what it does and the names of its fields."""
    lines = [
        "## Routes of the labelling page",
        "",
        "`finegraph label` serves these to [its own page](../label.md). They may change with the page; programs should",
        "use `finegraph.labelling.LabelStore` or the commands. Every edit names its `person` and an `edit` id: sent",
        "again with the same id, it happens once. The header `finegraph-store` protects other stores at one address.",
        "",
        "| route | what it does | fields |",
        "|---|---|---|",
    ]
    description = label_openapi()
    for path, methods in description["paths"].items():
        for method, route in methods.items():
            name = f"{method.upper()} {path}"
            lines.append(f"| `{name}` | {LABEL_ROUTES[name]} | {', '.join(_field_names(description, route))} |")
    return [*lines, ""]


LABEL_ROUTES = {
    "GET /": "the page",
    "GET /health/live": "whether the server runs",
    "GET /health/ready": "whether its store is intact, by the last check",
    "GET /api/start": "the kinds and their labels, the person's settings, and the version of the store",
    "GET /api/classes": "a page of a list of classes, filtered and ordered",
    "GET /api/class": "one class: cells, votes, notes, photos",
    "GET /api/suggestions": "suggestions for cells",
    "GET /api/history": "edits, newest first",
    "GET /api/batches": "actions, newest first",
    "GET /api/undoable": "the last action that a person can undo",
    "GET /api/changes": "the edits after a version of the store",
    "GET /api/progress": "how many cells are decided, by kind and by person",
    "GET /api/agreement": "Cohen's and Fleiss' kappa",
    "GET /api/findings": "what the graph check finds",
    "GET /api/marks": "the cells of a kind that the graph check doubts, and suggestions from names",
    "GET /api/diff": "the differences between two versions of the store",
    "GET /photos/{number}/{size}": "a small copy of a photo",
    "POST /api/decide": "decide cells",
    "POST /api/resolve": "settle a disagreement",
    "POST /api/note": "write a note",
    "POST /api/photo": "label a single photo",
    "POST /api/accept": "accept suggestions",
    "POST /api/undo": "undo an action",
    "POST /api/preview": "what a change of names would do",
    "POST /api/apply": "change names: add, rename, merge, split or remove",
    "POST /api/compare": "answer which of two has more",
    "GET /api/compare/pair": "the next pair to compare",
    "GET /api/compare/order": "the order that follows from comparisons",
    "GET /api/export/{form}": "the store as a file",
    "POST /api/import/preview": "what an import would change",
    "POST /api/import": "import a file",
}
"""What each route of the labelling page does."""


def label_openapi() -> dict[str, Any]:
    """The routes of a labelling server, in the form of OpenAPI."""
    from finegraph.web.label.label_app import create_label_app
    from finegraph.workflows.label import open_session

    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder) / "menu.csv"
        graph.write_text("fine,dish\na,x\nb,y\n", encoding="utf-8")
        session = open_session(graph)
        try:
            return create_label_app(session).openapi()
        finally:
            session.close()


def _field_names(description: dict[str, Any], route: dict[str, Any]) -> list[str]:
    """The names of what a request may hold, as code."""
    names = [one["name"] for one in route.get("parameters", []) if one["in"] != "header"]
    for content in route.get("requestBody", {}).get("content", {}).values():
        schema = description["components"]["schemas"][content["schema"]["$ref"].rsplit("/", 1)[-1]]
        names += schema.get("properties", {})
    return [f"`{name}`" for name in names]


def openapi() -> dict[str, Any]:
    """The description of the API that a server with all its parts gives."""
    from finegraph.data.transforms import ViewSettings
    from finegraph.nn import build_network
    from finegraph.web.serve.answering import ServedModel
    from finegraph.web.serve.serve_app import make_app
    from finegraph.web.serve.serve_settings import ServeSettings
    from finegraph.web.serve.server_state import ServerState

    graph = finegraph.LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "y"}})
    model = finegraph.PhotoClassifier(build_network(graph), ViewSettings(size=64, resize=72))
    state = ServerState(ServeSettings(model=Path("model"), teach=True), ServedModel(model, "model"))
    return make_app(state).openapi()


PATH_FIELDS = {
    "key": "The key of a photo, as a search gives it.",
    "number": "The number of a sample, as `/v1/samples` lists it.",
    "lesson": "The id of a lesson.",
}
"""What stands in a path."""


def _fields(description: dict[str, Any], route: dict[str, Any]) -> list[str]:
    """What a request holds: parameters of the address and fields of the body."""
    rows = [
        f"| `{one['name']}` | in the {one['in']} | {_cell(one.get('description') or PATH_FIELDS[one['name']])} |"
        for one in route.get("parameters", [])
    ]
    for media, content in route.get("requestBody", {}).get("content", {}).items():
        schema = content.get("schema", {})
        if "$ref" in schema:
            schema = description["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
        for name, one in schema.get("properties", {}).items():
            rows.append(f"| `{name}` | {media} | {_cell(one['description'])} |")
    return ["| field | where | what it is |", "|---|---|---|", *rows, ""] if rows else []


# ---- Python ---------------------------------------------------------------------------------------------------------


def python_page() -> str:
    """Every public name, with its docstring."""
    lines = ["# Python", "", "`import finegraph as fg`. These names are public and stay.", ""]
    for name in finegraph.__all__:
        if name.startswith("__"):
            continue
        one = getattr(finegraph, name)
        is_class = inspect.isclass(one)
        lines += [f"## {name}", "", "```{eval-rst}"]
        lines += [f".. auto{'class' if is_class else 'function'}:: finegraph.{name}"]
        members = _own_members(one) if is_class else []
        lines += [f"   :members: {', '.join(members)}"] if members else []  # none named would mean all
        lines += ["```", ""]
    return "\n".join(lines)


def _own_members(one: type) -> list[str]:
    """What a class itself defines for its users; not what a base class of another library brings along."""
    inherited = [base for base in one.__mro__ if base.__module__.startswith("finegraph")]
    names = dict.fromkeys(name for base in inherited for name in vars(base) if not name.startswith("_"))
    return [name for name in names if not name.endswith("_request") and _is_described(getattr(one, name, None))]


def _is_described(member: object) -> bool:
    """Whether a member has words of its own; the fields of a named tuple have none."""
    return not (inspect.getdoc(member) or "Alias for").startswith("Alias for")


# ---- errors ---------------------------------------------------------------------------------------------------------


def errors_page() -> str:
    """The tree of exceptions, and what to do about each."""
    lines = ["# Errors", "", "Every message says what was expected, what it got instead, and what to do.", ""]
    tree = (errors.__doc__ or "").split("\n\n")[1]
    lines += ["```text", inspect.cleandoc(tree), "```", "", "| error | when | what to do |", "|---|---|---|"]
    for name, error in all_errors():
        when = _cell((error.__doc__ or "").partition("\n")[0])
        lines.append(f"| `{name}` | {when} | {_cell(WHAT_TO_DO[name])} |")
    lines += [
        "",
        "[Exit codes](commands.md#exit-codes) and [statuses over HTTP](../serve.md#the-api) follow from these.",
        "",
    ]
    return "\n".join(lines)


def all_errors() -> Iterator[tuple[str, type[Exception]]]:
    """The exceptions under their present names."""
    for name, error in vars(errors).items():
        if inspect.isclass(error) and issubclass(error, Exception) and error.__name__ == name:
            yield name, error


WHAT_TO_DO = {
    "FinegraphError": "Catch this class to catch every error of finegraph.",
    "InputError": "Correct the argument that the message names.",
    "ShapeError": "Compare the shape in the message with that of your tensor.",
    "UnknownNameError": "Check the spelling; the message lists near matches. `finegraph graph show` lists all labels.",
    "TargetError": "Pass indices of the graph as targets, and -100 for what is unknown.",
    "SettingsError": "Correct the settings that the message names; to change those of a run, start a new one.",
    "EvidenceError": "Take back evidence until some fine label agrees with all of it; check the form of likelihoods.",
    "GraphError": "Correct the table of labels; `finegraph graph check` lists all faults.",
    "EmptyGraphError": "Add at least one row with a fine label.",
    "SeveralParentsError": "Do without the operation, such as folding, or give each fine label one parent in the kind.",
    "GraphFileError": "Correct the lines that the message lists; `.faults` has all of them.",
    "GraphMismatchError": "Load the weights with the graph they were made for, or use `head.extend` for new labels.",
    "DataError": "Correct the photos or lists that the message names.",
    "DataFileError": "Correct the rows that the message lists; `finegraph data check` looks at everything.",
    "PhotoFileError": 'Replace or remove the photo, or leave such photos out with `on_bad_file="skip"`.',
    "PhotoTooLargeError": "Save the photo with fewer pixels.",
    "WeightsError": "Use a weight file of this network.",
    "CheckpointError": "Resume: an earlier checkpoint is used if the last one is damaged. Free space on a full disk.",
    "RunFolderError": "Choose another name for the run, resume it, or end the process that uses it.",
    "ModelFolderError": "Copy the folder again, train again, or update finegraph if the format is newer.",
    "LessonError": "Restore both lesson files from a copy, or move both away to return to the model as it was fitted.",
    "IndexFolderError": "Make the index again with `finegraph index`, or name the model that it belongs to.",
    "SearchEngineError": "Start the server of the engine, and see that its address and token are right.",
    "ExportError": "Nothing was written. Use `.pt2` for large models; report networks that cannot be translated.",
    "NonFiniteError": "Lower the learning rate, and look at the photos and the layer that the message names.",
    "LabelStoreError": "Close the process that uses the store, update finegraph, or try again if the store was busy.",
    "DamagedStoreError": "Put a backup in its place; `.damage` lists what is damaged. The rest can be exported.",
    "NoRoomError": "Free space on the disk, then repeat the edit.",
    "ConflictError": "Show both values to the person and send the edit again with the new version.",
    "JobError": "Look at the message of the process that ended first, then resume.",
    "MissingExtraError": 'Install the extra that the message names, such as `pip install "finegraph[serve]"`.',
}
"""What to do about each error."""


# ---- text -----------------------------------------------------------------------------------------------------------


def _prose(text: str) -> str:
    """A text without its line breaks, and nothing in it read as HTML; code is never read so."""
    parts = re.split(r"(`[^`]*`)", re.sub(r"\s+", " ", text).strip())
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)


def _cell(text: str) -> str:
    """A text that may stand in a table."""
    return _prose(text).replace("|", "\\|")


def _table_of(text: str) -> list[str]:
    """The lines of a table in a docstring."""
    return [line for line in text.splitlines() if line.startswith("|")]


PAGES: dict[str, Callable[[], str]] = {
    "commands": commands_page,
    "settings": settings_page,
    "http": http_page,
    "python": python_page,
    "errors": errors_page,
}
"""The pages that the code writes, by the names of their files."""
