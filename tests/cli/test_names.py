"""A thing has one name: as a flag of a command, as a name in TOML, and as a parameter in Python.

A flag that may be repeated names one value (`--label`), its parameter all of them (`labels`). Arguments by
position have no name on the command line. Where names differ, `OTHERWISE` says so and why.
"""

import inspect
from dataclasses import fields
from functools import partial

import pytest

from cli.test_main import commands
from finegraph.labelling import LabelStore
from finegraph.training.settings import TrainSettings
from finegraph.web.label.label_server import serve_label
from finegraph.web.security import Security
from finegraph.web.serve.serve_settings import ServeSettings
from finegraph.workflows import (
    demo,
    evaluate,
    export,
    graph,
    graph_comparisons,
    index,
    label,
    learn_graph,
    menu,
    predict,
    report,
    search,
    study,
    suggest_graph,
    suggest_photos,
    teach,
    train,
)
from finegraph.workflows.data import check_data
from finegraph.workflows.doctor import examine
from finegraph.workflows.indexing import index_upkeep
from finegraph.workflows.labels import label_files, label_stores
from finegraph.workflows.studies import spec

PYTHON = {
    "demo": [demo.run_demo],
    "train": [train.train_run, TrainSettings],
    "evaluate": [evaluate.evaluate_run],
    "teach": [teach.teach_photos],
    "suggest-photos": [suggest_photos.suggest_photos],
    "predict": [predict.predict_photos],
    "report": [report.write_report],
    "study": [study.run_study, spec.read_study],
    "search": [search.search_index],
    "serve": [ServeSettings, Security],
    "export": [export.export_model],
    "doctor": [examine],
    "completion": [],
    "graph check": [graph.check_graph],
    "graph show": [graph.show_graph],
    "graph compare": [graph_comparisons.compare_labels],
    "graph learn": [learn_graph.learn_graph],
    "graph suggest": [suggest_graph.suggest_graph],
    "data check": [check_data],
    "data menu": [menu.write_menu],
    "index make": [index.make_index],
    "index add": [index.add_photos],
    "index remove": [index_upkeep.remove_photos],
    "index compact": [index_upkeep.compact_index],
    "index show": [index_upkeep.describe_index],
    "index check": [index_upkeep.check_index],
    "label open": [label.open_session, serve_label],
    "label import": [label_files.import_into],
    "label export": [label_files.export_file, label_stores.open_store],
    "label history": [LabelStore.history, label_stores.open_store],
    "label undo": [partial(LabelStore.undo, None), label_stores.open_store],
    "label diff": [label_files.diff_from],
    "label agreement": [LabelStore.agreement, label_stores.open_store],
    "label backup": [LabelStore.backup, label_stores.open_store],
}
"""What does the work of each command."""

OTHERWISE = {
    ("train", "config"): "a file with the settings themselves",
    ("graph check", "strict"): "the exit code of the command",
    ("graph learn", "max"): "how many cells are printed; Python has them all",
    ("graph suggest", "max"): "how many labels are printed; Python has them all",
    ("data check", "strict"): "the exit code of the command",
    ("demo", "output"): "`out` in Python, as the flag was called",
    ("report", "output"): "`out` in Python, as the flag was called",
    ("study", "output"): "`out` in Python, as the flag was called",
    ("study", "list"): "prints the plan instead of carrying it out",
    ("search", "number"): "`count` in Python and over HTTP, both documented; the short flag is -n",
    ("search", "html"): "writes what was found as a page: `write_search_page`",
    ("predict", "csv"): "writes what was found as a table: `write_predictions`",
    ("teach", "forget"): "another function: `forget_lesson`, which takes the lesson",
    ("teach", "from"): "another function: `teach_list`, which takes the path",
    ("teach", "list"): "another function: `list_lessons`",
    ("suggest-photos", "label"): "opens what was found on the page of `serve`",
    ("suggest-photos", "port"): "of that page",
    ("index make", "exact"): "`method` in Python: one choice, of which the command has two flags",
    ("index make", "approximate"): "`method` in Python: one choice, of which the command has two flags",
    ("index remove", "yes"): "`force` in Python: the command says yes to its own question",
    ("serve", "allow-host"): "`hosts` in Python: there it stands among other names of the server",
    ("label open", "allow-host"): "`hosts` in Python: there it stands among other names of the server",
    ("label history", "max"): "`limit` of the public `LabelStore.history`, beside `before`",
}
"""Flags whose name in Python is another, and why."""

PYTHON_ONLY = {
    "progress": "is told how far it is; the command draws it",
    "watcher": "is told how far it is; the command draws it",
    "on_ready": "is told when the server listens",
    "engine": "the command takes the fastest that is installed",
    "device": "the command takes a GPU where there is one",
    "lesson_id": "for a request that is sent again; the command sends one",
    "size": "of the demo: smaller menus are for tests",
}
"""Parameters with a default that no flag sets, and why."""

STUDY_ONLY = {
    "heads", "amounts", "seeds", "title", "settings", "splits", "views", "test_share", "skip", "training",
    "second_network",  # `coarse_network` in training, where it serves the coarse labels; here ensembles have one too
}  # fmt: skip
"""Names of a study's file that training has not."""

LEAVES = {name.removeprefix("finegraph "): one for name, one in commands() if not hasattr(one, "commands")}


def flags(command):
    """Every flag of a command by its long name, former names left out, and whether it may be repeated."""
    return {
        next(flag for flag in option.opts if flag.startswith("--"))[2:]: option.multiple
        for option in command.params
        if option.param_type_name == "option" and not option.hidden and option.name != "as_json"
    }


def parameters(name):
    return {parameter for one in PYTHON[name] for parameter in inspect.signature(one).parameters}


def python_name(flag, repeated, known):
    plain = flag.replace("-", "_")
    return f"{plain}s" if repeated and plain not in known else plain


def test_every_command_is_looked_at():
    assert set(LEAVES) == set(PYTHON)


@pytest.mark.parametrize("name", LEAVES)
def test_a_flag_has_the_name_of_its_parameter(name):
    known = parameters(name)
    differ = {flag for flag, many in flags(LEAVES[name]).items() if python_name(flag, many, known) not in known}
    assert differ == {flag for command, flag in OTHERWISE if command == name}


@pytest.mark.parametrize("name", [name for name in LEAVES if not name.startswith(("train", "serve", "label "))])
def test_a_keyword_of_python_is_a_flag(name):
    asked = {python_name(flag, many, parameters(name)) for flag, many in flags(LEAVES[name]).items()}
    asked |= {option.name for option in LEAVES[name].params}
    written = " ".join(reason for (command, _), reason in OTHERWISE.items() if command == name)
    for function in PYTHON[name]:
        for parameter in inspect.signature(function).parameters.values():
            keyword = parameter.kind is parameter.KEYWORD_ONLY
            if keyword and parameter.name not in asked and f"`{parameter.name}`" not in written:
                assert parameter.name in PYTHON_ONLY, (function, parameter.name)


def test_settings_of_training_have_one_name_as_flags_in_toml_and_in_python():
    settings = {one.name for one in fields(TrainSettings)}
    asked = {flag.replace("-", "_") for flag in flags(LEAVES["train"])}
    assert settings - {"data"} == asked - {"config", "run", "resume", "report"}
    assert set(TrainSettings(data="photos").to_dict()) <= settings


def test_a_study_says_what_training_says():
    names = {one.name for one in fields(spec.Study)}
    assert names - {one.name for one in fields(TrainSettings)} == STUDY_ONLY
    assert {flag for flag in flags(LEAVES["study"]) if flag not in ("output", "list")} <= names
