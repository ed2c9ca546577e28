"""Completion by the shell: commands, options, choices and runs; otherwise the shell completes files.

`finegraph completion SHELL` prints a script. On every press of the key it runs the command with `ASKED` in the
environment and the words so far as arguments, the last of them perhaps empty. It gets a line for each completion: a
word, a tab, and its meaning. Without an answer the shell completes files. Cost: that of `--help`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from finegraph.cli.commands import DefaultGroup, choices_of, value_name
from finegraph.cli.shared_options import Json
from finegraph.cli.terminal import print_json

ASKED = "_FINEGRAPH_COMPLETE"
"""The name of the shell that asks, in the environment."""
RUNS = "runs"
"""Where runs are by default."""
_MODELS = ("RUN", "MODEL")
_EXPLAINED = 60

_BASH = """\
_finegraph() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("${line%%$'\\t'*}")
    done < <(_FINEGRAPH_COMPLETE=bash COMP_LINE="${COMP_LINE:0:COMP_POINT}" "${COMP_WORDS[0]}" 2>/dev/null)
}
complete -o default -F _finegraph finegraph
"""
_ZSH = """\
#compdef finegraph
_finegraph() {
    local line
    local -a found
    for line in "${(@f)$(_FINEGRAPH_COMPLETE=zsh "${words[1]}" "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -n $line ]] && found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done
    if (( $#found )); then _describe -V finegraph found; else _files; fi
}
if [[ $funcstack[1] == _finegraph ]]; then _finegraph "$@"; else compdef _finegraph finegraph; fi
"""
_FISH = """\
function __finegraph_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l found (env _FINEGRAPH_COMPLETE=fish $words "$current" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path "$current"
    end
end
complete -c finegraph -f -a '(__finegraph_complete)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion(
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="The shell to complete in.")],
    as_json: Json = False,
) -> None:
    """Print a script that lets a shell complete commands.

    bash: put eval "$(finegraph completion bash)" into ~/.bashrc. zsh: the same with zsh into ~/.zshrc, below compinit.
    fish: finegraph completion fish > ~/.config/fish/completions/finegraph.fish. It holds in the next shell.
    """
    if shell not in SCRIPTS:
        raise typer.BadParameter(f"expected {', '.join(SCRIPTS)}, got {shell!r}", param_hint="'SHELL'")
    if as_json:
        print_json({"shell": shell, "script": SCRIPTS[shell]})
    else:
        typer.echo(SCRIPTS[shell], nl=False)


def answer(command: Any, arguments: Sequence[str]) -> int:
    """Print the completions of a line; returns the exit code.

    Args:
        command: the command with all of its commands.
        arguments: the words after the name of the program. Bash gives none but the line, since it takes words apart at
            colons and equals signs too, and replaces only what comes after the last of these.
    """
    words, cut = list(arguments), 0
    if os.environ[ASKED] == "bash":
        words = split_line(os.environ.get("COMP_LINE", ""))[1:]
        cut = max(words[-1].rfind(":"), words[-1].rfind("=")) + 1 if words else 0
    for word, about in completions(command, words or [""]):
        sys.stdout.write(f"{word[cut:]}\t{about}\n")
    return 0


def split_line(line: str) -> list[str]:
    """The words of a line as a shell splits them; the last one is being typed and may be empty."""
    words, quote, escaped, open_word = [""], "", False, False
    for sign in line:
        if escaped or (quote and sign != quote and not (sign == "\\" and quote == '"')):
            words[-1], escaped = words[-1] + sign, False
        elif sign == "\\":
            escaped = open_word = True
        elif sign == quote:
            quote = ""
        elif sign in "\"'":
            quote, open_word = sign, True
        elif sign.isspace():
            if words[-1] or open_word:
                words.append("")
            open_word = False
        else:
            words[-1] += sign
    return words


def completions(command: Any, words: Sequence[str]) -> list[tuple[str, str]]:
    """The completions of the last word, each with its meaning; none if it may be a file.

    Args:
        command: a group of commands.
        words: the words after the name of the program, the last perhaps empty or begun.
    """
    *before, current = words
    given = 0
    waiting = None
    while before:
        word = before.pop(0)
        if waiting is not None:
            waiting = None
        elif word.startswith("-"):
            waiting = None if "=" in word else _takes_value(command, word)
        elif word in getattr(command, "commands", {}):
            command = command.commands[word]
        elif isinstance(command, DefaultGroup):
            command, given = command.commands[command.default], 1
        else:
            given += 1
    return [(word, " ".join(about.split())) for word, about in _offered(command, waiting, given, current)]


def _offered(command: Any, waiting: Any, given: int, current: str) -> Iterator[tuple[str, str]]:
    """The words that complete the current one."""
    if waiting is not None:
        yield from _values(waiting, current)
    elif current.startswith("-") and "=" in current:
        flag, _, begun = current.partition("=")
        option = _takes_value(command, flag)
        yield from ((f"{flag}={value}", about) for value, about in (_values(option, begun) if option else ()))
    elif current.startswith("-"):
        for option in command.params:
            if getattr(option, "hidden", False):
                continue
            for flag in (*getattr(option, "opts", ()), *getattr(option, "secondary_opts", ())):
                if flag.startswith(current) and flag.startswith("--"):
                    yield flag, _shortened(option.help or "")
        yield from [("--help", "Show this message and exit.")] * "--help".startswith(current)
    elif hasattr(command, "commands"):
        for name in command.list_commands(None):
            if name.startswith(current):
                yield name, command.commands[name].get_short_help_str(_EXPLAINED)
        if isinstance(command, DefaultGroup):
            yield from _offered(command.commands[command.default], None, 0, current)
    else:
        arguments = [param for param in command.params if param.param_type_name == "argument"]
        if arguments and (given < len(arguments) or arguments[-1].nargs != 1):
            yield from _values(arguments[min(given, len(arguments) - 1)], current)


def _takes_value(command: Any, flag: str) -> Any:
    """The option that a flag names, if a value must follow."""
    return next((param for param in command.params if flag in getattr(param, "opts", ()) and value_name(param)), None)


def _values(parameter: Any, current: str) -> Iterator[tuple[str, str]]:
    """The possible values of a parameter, if they can be listed quickly."""
    values = choices_of(parameter)
    if value_name(parameter) in _MODELS:
        values = _runs()
    yield from ((value, "") for value in values if value.startswith(current))


def _runs() -> list[str]:
    """The run folders in the default place."""
    try:
        return sorted(f"{RUNS}/{entry.name}" for entry in Path(RUNS).iterdir() if (entry / "config.toml").is_file())
    except OSError:
        return []


def _shortened(text: str) -> str:
    """The beginning of an explanation."""
    first = text.split(". ")[0].split("; ")[0].rstrip(".")
    return first if len(first) <= _EXPLAINED else first[: _EXPLAINED - 1].rsplit(" ", 1)[0] + " …"
