"""Commands with a plain help text, and groups of commands.

Typer's help shows types (`<list[Path]>`), braces around arguments and ranges as formulas, and can group options only
with a library that takes a quarter of a second to load. Here an option shows the name of its value: its `metavar`, or
else its own name. A `metavar` such as `a|b` lists the choices, which the shell completes too. Options are listed under
the panel they name.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from finegraph.cli.exit_codes import WRONG_USAGE, UsageError
from finegraph.errors import near_matches


class Command(TyperCommand):
    """A command whose help is in plain words."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The arguments in the line of usage."""
        return ["[OPTIONS]", *_usage_of(self, ctx)]

    def invoke(self, ctx: Any) -> Any:
        """Run it; the message about a failure depends on the options of the command."""
        ctx.obj.skips_bad_files = any("--on-bad-file" in parameter.opts for parameter in self.params)
        return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, and the options under their headings."""
        _write_parameters(self, ctx, formatter)


class Group(TyperGroup):
    """A group of commands; without a command it shows its help and is wrong usage."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the command apart, or show the help if there is none."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), err=True)
            raise typer.Exit(WRONG_USAGE)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options and the commands."""
        _write_parameters(self, ctx, formatter)
        self.format_commands(ctx, formatter)


class DefaultGroup(Group):
    """A group with a default command, which is used if the first word is not a command.

    A file or folder that is called like one of the commands is named by its path, `./add`.
    """

    default: ClassVar[str]
    """The command whose name may be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name of the default command in front if none is given."""
        if args and args[0] not in (*self.commands, "-h", "--help"):
            near = near_matches(args[0], list(self.commands))
            if near and not Path(args[0]).exists():
                known = " or ".join(repr(name) for name in near)
                raise UsageError(f"{args[0]!r}: there is no such file, folder or command; did you mean {known}?", ctx)
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write the line of usage without a command above the one with it."""
        formatter.write_usage(ctx.command_path, f"[OPTIONS] {' '.join(_usage_of(self.commands[self.default], ctx))}")
        formatter.write_usage(ctx.command_path, self.subcommand_metavar, prefix="   or: ")


def value_name(parameter: Any) -> str:
    """The name of the value of an argument or option; empty for a flag."""
    if getattr(parameter, "is_flag", False):
        return ""
    return str(parameter.metavar) if parameter.metavar else str(parameter.name.upper()).replace("_", "-")


def choices_of(parameter: Any) -> list[str]:
    """The values that an option can have, if they are few."""
    name = value_name(parameter)
    return name.split("|") if "|" in name else []


def _usage_of(command: Any, ctx: Any) -> Iterator[str]:
    """The arguments of a command as the line of usage shows them."""
    for parameter in command.get_params(ctx):
        if parameter.param_type_name == "argument":
            name = value_name(parameter)
            yield (name if parameter.required else f"[{name}]") + ("..." if parameter.nargs != 1 else "")


def _write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    """Write what a command takes: arguments, then each panel of options, those without a panel first."""
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        if getattr(parameter, "hidden", False):
            continue
        if parameter.param_type_name == "argument":
            sections["Arguments"].append((value_name(parameter), _explained(parameter)))
        else:
            heading = getattr(parameter, "rich_help_panel", None) or "Options"
            sections.setdefault(heading, []).append((_flags(parameter), _explained(parameter)))
    for heading, rows in sections.items():
        if rows:
            with formatter.section(heading):
                formatter.write_dl(rows)


def _flags(option: Any) -> str:
    """The names of an option, and what its value is called."""
    name = ", ".join(sorted(option.opts, key=lambda flag: (flag.startswith("--"), flag)))
    if option.secondary_opts:
        return f"{name} / {', '.join(option.secondary_opts)}"
    value = value_name(option)
    return f"{name} {value}" if value else name


def _explained(parameter: Any) -> str:
    """What a parameter means, its default and its bounds."""
    notes = []
    default = parameter.default
    if parameter.show_default and isinstance(default, int | float | str | Path) and not isinstance(default, bool):
        notes.append(f"default: {default}")
    elif parameter.show_default and isinstance(default, bool) and parameter.secondary_opts:
        notes.append(f"default: {'yes' if default else 'no'}")
    if parameter.envvar:
        notes.append(f"or ${parameter.envvar}")
    notes += [bounds] if (bounds := _bounds(parameter)) else []
    return f"{parameter.help or ''}" + (f" [{'; '.join(notes)}]" if notes else "")


def _bounds(parameter: Any) -> str:
    """The range of a number in words."""
    low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
    if low is not None and high is not None:
        return f"{low:g} to {high:g}"
    return f"at least {low:g}" if low is not None else f"at most {high:g}" if high is not None else ""
