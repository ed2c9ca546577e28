"""`finegraph train`: every setting is a flag of the same name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import Field, asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer

from finegraph.cli.exit_codes import INTERRUPTED, UsageError
from finegraph.cli.failures import AGAIN, interruptible
from finegraph.cli.next_commands import resume_command
from finegraph.cli.terminal import print_json
from finegraph.training.recipes import RECIPES
from finegraph.training.settings import (
    FORMER_NAMES,
    TrainSettings,
    check_settings_used,
    read_settings,
    setting_type,
    with_current_names,
)

if TYPE_CHECKING:
    from finegraph.workflows.train import TrainResult

_FLAGS = {"data"}
"""Settings that have a place of their own on the command line."""
_PANELS = {
    "graph": "Data",
    "network": "Network and head",
    "tune": "Fit",
    "recipe": "Training the whole network (--tune all)",
    "device": "Running",
}
"""Where each heading of the help begins, in the order of the settings."""
_VALUES = {
    "comparisons": "FILE",
    "kinds": "KIND",
    "train_split": "SPLIT",
    "val_split": "SPLIT",
    "coarse_network": "NETWORK",
    "coarse_weights": "WEIGHTS",
    "cache": "FOLDER",
    int: "N",
    float: "X",
}
"""What the values of some settings, or of all of a type, are called."""


def _train(
    source: str | None, config: Path | None, run: Path | None, resume: bool, report: bool, as_json: bool, **given: Any
) -> None:
    """Train a model on photos.

    The quick way, `--tune head`, computes what the pretrained network sees in each photo once and fits the last layer:
    minutes on a laptop. `--tune all` trains the whole network. Settings come from a TOML file, then from flags; what is
    in neither comes from the recipe. Ctrl-C saves and stops; `--resume` continues.
    """
    values = with_current_names({name: value for name, value in given.items() if value not in (None, [])})
    if source is not None:
        values["data"] = source
    if config is not None:
        values = {**read_settings(config), **values}
    if not resume and not values.get("data"):
        raise UsageError("Missing argument 'SOURCE': the photos to train on")

    from finegraph.cli.training_display import TrainingDisplay, print_result

    display = TrainingDisplay(quiet=as_json)
    with interruptible(lambda: _kept(display.folder or (str(run) if resume else None))):
        from finegraph.workflows.train import resume_settings, train_run

        if resume:
            if run is None:
                raise typer.BadParameter("name the run to resume with --run", param_hint="--resume")
            settings = resume_settings(run, values)
        else:
            settings = TrainSettings.from_dict(values)
            check_settings_used(values)
        _use_threads(settings.threads)
        with display:
            result: TrainResult = train_run(settings, display, run=run, resume=resume, report=report)
    if display.prints:
        if as_json:
            print_json({**asdict(result), "figures": result.metrics})  # `figures` is the former name
        else:
            print_result(result, report=report)
    if not result.finished:
        raise typer.Exit(INTERRUPTED)


def _kept(run: str | None) -> str:
    """What an interrupted training leaves."""
    if run is None:
        return f"no run was begun; {AGAIN}"
    return f"what was computed so far is kept; continue with: {resume_command(run)}"


def _use_threads(threads: int | None) -> None:
    """Set the threads of torch if the settings say how many."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def _option(setting: Field[Any], panel: str) -> inspect.Parameter:
    """The flag of a setting, below a heading. All default to None, which means: not given."""
    kind, _ = setting_type(setting.name)
    about, value = setting.metadata["about"], _VALUES.get(setting.name, _VALUES.get(kind))
    if get_origin(kind) is Literal:
        kind, value = str, "|".join(get_args(kind))
    elif get_origin(kind) is tuple:
        about += "; repeat the flag for more"
        kind = list[str]
    shown = _shown_default(setting)
    flag = f"--{setting.name.replace('_', '-')}"
    names = [f"{flag}/--no-{flag[2:]}"] if kind is bool else [flag]
    about = about[0].upper() + about[1:] + (f" [{shown}]" if shown else "") + "."
    option = typer.Option(*names, metavar=value, help=about, rich_help_panel=panel)
    return inspect.Parameter(
        setting.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def _former_option(former: str, name: str) -> inspect.Parameter:
    """The flag of a setting by its former name, which the help does not show."""
    kind, _ = setting_type(name)
    about = f"The former name of --{name.replace('_', '-')}."
    option = typer.Option(f"--{former.replace('_', '-')}", hidden=True, help=about)
    plain = str if get_origin(kind) is Literal else kind
    return inspect.Parameter(
        former, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[plain | None, option]
    )


def _shown_default(setting: Field[Any]) -> str:
    """The default of a setting as the help shows it."""
    by_recipe = {name: getattr(recipe, setting.name, None) for name, recipe in RECIPES.items()}
    if any(value is not None for value in by_recipe.values()):
        return "; ".join(f"{name}: {_word(value)}" for name, value in by_recipe.items() if value is not None)
    return "" if setting.default is None else _word(setting.default)


def _word(value: object) -> str:
    return (
        {True: "yes", False: "no"}[value]
        if isinstance(value, bool)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def _command() -> Callable[..., None]:
    """The command with one flag per setting."""
    place = typer.Argument(
        metavar="SOURCE",
        help="The photos: a folder per class, a manifest (.csv), cub:FOLDER, cars:FOLDER or grocery:FOLDER; "
        "cub+orders: and cars+numbers: for a graph with orders or numbers.",
        show_default=False,
    )
    only = inspect.Parameter.KEYWORD_ONLY
    arguments = [
        inspect.Parameter("source", only, default=None, annotation=Annotated[str | None, place]),
        inspect.Parameter(
            "config",
            only,
            default=None,
            annotation=Annotated[Path | None, typer.Option(metavar="FILE", help="A TOML file with settings.")],
        ),
        inspect.Parameter(
            "run",
            only,
            default=None,
            annotation=Annotated[
                Path | None,
                typer.Option(
                    "--run",
                    "--run-folder",  # under torchrun, which takes --run for a flag of its own
                    metavar="FOLDER",
                    help="The run folder; by default a new one in runs/, named after the data.",
                ),
            ],
        ),
        inspect.Parameter(
            "resume",
            only,
            default=False,
            annotation=Annotated[bool, typer.Option("--resume", help="Continue the run of --run where it stopped.")],
        ),
        inspect.Parameter(
            "report",
            only,
            default=True,
            annotation=Annotated[
                bool,
                typer.Option(
                    "--report/--no-report", help="At the end judge the model on its validation photos: report.html."
                ),
            ],
        ),
        inspect.Parameter(
            "as_json",
            only,
            default=False,
            annotation=Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")],
        ),
    ]
    flags, panel = [], ""
    for setting in fields(TrainSettings):
        panel = _PANELS.get(setting.name, panel)
        flags += [_option(setting, panel)] if setting.name not in _FLAGS else []
    flags += [_former_option(former, name) for former, name in FORMER_NAMES.items()]

    def train(**values: Any) -> None:
        _train(**values)

    train.__doc__ = _train.__doc__
    # The command-line library reads the signature for the order and the annotations for the types.
    train.__signature__ = inspect.Signature([*arguments, *flags])  # type: ignore[attr-defined]
    train.__annotations__ = {setting.name: setting.annotation for setting in [*arguments, *flags]}
    return train


train = _command()
