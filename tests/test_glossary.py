"""docs/glossary.md against the code: no banned word is in a name, flag, setting, JSON key, route or page."""

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

from finegraph.cli.main import whole_command
from finegraph.training.settings import TrainSettings
from finegraph.workflows.studies.spec import Study

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "finegraph"
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
WORDS, EXCEPTIONS = GLOSSARY.split("## Where another word stays")


def rows(text):
    """The cells of the rows of all tables in a text."""
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| word |")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def parts(name):
    """The words of a name, in lower case: `MaxPixels` and `max_pixels` have the same."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("-", "_"))
    return [word for word in spaced.lower().split("_") if word]


def singular(word):
    return re.sub(
        r"(?<=ss)es$|(?<!s)s$", "", word.replace("categories", "category").replace("directories", "directory")
    )


BANNED = {word for row in rows(WORDS) for word in re.findall(r"`(\w+)`", row[-1])}
PHRASES = {phrase for row in rows(WORDS) for phrase in re.findall(r'"([^"]+)"', row[-1])}
ALLOWED = [(row[0].strip("`"), re.findall(r"`([^`]+)`", row[1])) for row in rows(EXCEPTIONS)]


def banned_in(name):
    """The banned word in a name, if there is one; a word of several parts is looked for as a whole."""
    words = [singular(word) for word in parts(name)]
    for word in BANNED:
        wanted = parts(word)
        if any(words[start : start + len(wanted)] == wanted for start in range(len(words))):
            return word
    return None


def stays(word, name, place):
    """Whether the glossary lists a name, the file that it is in, or both together as one that stays."""
    for known, where in ALLOWED:
        for one in where:
            path, _, only = one.rpartition(":")
            fits = (place.startswith(path) and only == name) if path else one == name or place.startswith(one)
            if known == word and fits:
                return True
    return False


def public(name):
    return not name.startswith("_")


def code_names(tree):
    """The public names of a module: classes, their fields, functions, parameters and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and public(node.name):
            yield node.name
            for part in node.body:
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name) and public(part.target.id):
                    yield part.target.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if public(node.name):
                yield node.name
            own = node.args
            yield from (one.arg for one in (*own.posonlyargs, *own.args, *own.kwonlyargs) if public(one.arg))
    for node in tree.body:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Name) and public(target.id):
                yield target.id


def json_keys(tree):
    """Text keys of dict displays, which is how JSON is made here, and the paths of routes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
            yield from (key for key in keys if re.fullmatch(r"[a-z][a-z0-9_]*", key))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "post"):
            for one in node.args[:1]:
                if isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value.startswith("/"):
                    yield from re.findall(r"\w+", one.value)


MODULES = sorted(PACKAGE.rglob("*.py"))


def test_the_glossary_is_read():
    assert {"fine label", "photo label", "metric", "action", "`max_`", "cache"} <= {row[0] for row in rows(WORDS)}
    assert {"image", "figure", "class", "most"} <= BANNED
    assert "image-level" in PHRASES
    assert banned_in("with_image_labels") == "image"
    assert banned_in("maxImages") == "image"
    assert banned_in("SurenessFigures") == "figure"
    assert banned_in("compost_heap") is None
    assert stays("figure", "figures", "cli/report.py")
    assert not stays("figure", "figures", "cli/evaluate.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_names_and_json_keys(path):
    place = path.relative_to(PACKAGE).as_posix()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {path.stem, *code_names(tree), *json_keys(tree)}
    found = {name: word for name in names if (word := banned_in(name)) and not stays(word, name, place)}
    assert not found


def commands(command, path=()):
    yield path, command
    for name, one in getattr(command, "commands", {}).items():
        yield from commands(one, (*path, name))


COMMANDS = {" ".join(path): command for path, command in commands(whole_command())}


@pytest.mark.parametrize("path", COMMANDS)
def test_flags_and_help(path):
    command = COMMANDS[path]
    shown = [one for one in command.params if not getattr(one, "hidden", False)]
    names = {path, *(flag for one in shown for flag in one.opts), *(one.metavar or "" for one in shown)}
    assert not {name: word for name in names if (word := banned_in(name.strip("-"))) and not stays(word, name, "cli/")}
    for text in (command.help or "", *(one.help or "" for one in shown)):
        assert not phrases_in(text), text


def test_names_of_settings():
    names = [one.name for cls in (TrainSettings, Study) for one in fields(cls)]
    assert len(names) > 60
    assert not [name for name in names if banned_in(name)]
    for one in fields(TrainSettings):
        assert not phrases_in(one.metadata["about"]), one.name


def phrases_in(text):
    return [phrase for phrase in PHRASES if phrase in text.lower()]


PAGES = sorted(path for pattern in ("*.html", "*.js") for path in PACKAGE.rglob(pattern))
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def page_texts(path):
    """What people read on a page: text between tags, and texts in scripts that have a space."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".html":
        return [re.sub(r"<[^>]*>|\{[{%].*?[%}]\}", " ", source)]
    texts = [re.sub(r"\$\{[^}]*\}", " ", text) for text in re.findall(r"\"[^\"\n]*\"|`[^`]*`", source)]
    return [text for text in texts if " " in text]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_texts_of_pages(path):
    for text in page_texts(path):
        assert not phrases_in(text), text
        assert not re.search(r"\b(images?|figures?)\b", text), text


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_texts_of_documents(path):
    text = path.read_text(encoding="utf-8")
    if path.name != "glossary.md":
        assert not phrases_in(text)
        assert not avoided_in(text)


PLAIN = {"attribute", "class", "image", "most", "repository", "user", "way"}
"""Banned words that docstrings may have: "class means", "at most", "Attributes:", the commit of a repository."""


def docstrings(tree):
    """The docstrings of a module: its own, and those of classes, functions, fields and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def docstring_faults(text, place):
    """The banned words of a docstring; code, examples and paths may have them."""
    prose = re.sub(r"`[^`]*`|>>>.*|\S*[/_]\S*", " ", text)
    words = {word: singular(word) for word in re.findall(r"[a-z]+", prose.lower())}
    return {word for word, one in words.items() if one in BANNED - PLAIN and not stays(one, word, place)}


def test_docstrings_are_read():
    text = "How well `told` is told,\n    in figures/ or a diagram.\n    >>> crop"
    assert list(docstrings(ast.parse(f'def f():\n    """{text}"""'))) == [text]
    assert docstring_faults(text, "model/a.py") == {"told", "diagram"}
    assert docstring_faults("figures: a former name", "cli/report.py") == set()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_words_of_docstrings(path):
    place = path.relative_to(PACKAGE).as_posix()
    for text in docstrings(ast.parse(path.read_text(encoding="utf-8"))):
        assert not docstring_faults(text, place), text
        assert not phrases_in(text), text


UNTIDY = ("model/export/", "data/menu/")
"""Packages whose formulas and drawings have names of their own; the test of private names leaves them out."""
NOT_A_NOUN = {"said", "told", "mine", "patient", "turned", "hindered", "now_is", "in_the_way"}
"""Names of variables that say nothing of what they hold; a vote is `vote`, an answer `answer`."""
SUPERLATIVES = {"most", "longest", "largest", "least", "shortest", "smallest", "fewest"}
"""How the names of limits must not begin: they begin with MAX and MIN."""


def private_names(tree):
    """All names that a module binds: variables, parameters and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr


def is_riddle(name):
    """Whether a name needs its comment: no noun, a limit called by a superlative, or `_most_bytes`."""
    words = name.strip("_").lower().split("_")
    is_limit = name.isupper() and words[0] in SUPERLATIVES
    return name in NOT_A_NOUN or is_limit or (name.startswith("_") and words[0] == "most")


def test_riddles_are_recognised():
    assert all(map(is_riddle, ("said", "_most", "_most_bytes", "_LONGEST_PAUSE", "LARGEST_WRITE")))
    assert not any(map(is_riddle, ("largest", "most_frequent", "MAX_PAUSE", "votes", "at_least")))


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if not path.relative_to(PACKAGE).as_posix().startswith(UNTIDY)],
    ids=lambda path: path.relative_to(PACKAGE).as_posix(),
)
def test_private_names_are_nouns(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not sorted({name for name in private_names(tree) if is_riddle(name)})


AVOIDED = {
    "held for": "assumed",
    "shared out": "sharded, or split among processes",
    "anew": "again",
    "so many": "this many",
    "goes on": "continues",
    "looked at": "used, checked or read",
}
"""Phrases that read as translated, and what to write instead."""


def avoided_in(source):
    """The avoided phrases in the text of a module or document; one may be broken over two lines, of a comment too."""
    text = re.sub(r"\s+(?:# )?", " ", source.lower())
    return [phrase for phrase in AVOIDED if re.search(rf"\b{phrase}\b", text)]


def test_avoided_phrases_are_recognised():
    assert avoided_in("# it is held\n    # for nothing, so\n    many are made anew") == ["held for", "anew", "so many"]
    assert not avoided_in("a held_for, canewas")


@pytest.mark.parametrize(
    "path",
    MODULES,
    ids=lambda path: path.relative_to(PACKAGE).as_posix(),
)
def test_avoided_phrases(path):
    assert not avoided_in(path.read_text(encoding="utf-8"))


# ---- scripts of pages -----------------------------------------------------------------------------------------------

SCRIPTS = sorted(PACKAGE.rglob("*.js"))
ENGLISH = {"attribute", "class", "image", "most", "way"}
"""Banned words that comments may have: words of HTML, and parts of "at most", "always" and the like."""


def script_names(source):
    """The names that a script declares, also by destructuring: variables, functions and classes."""
    yield from re.findall(r"\b(?:const|let|function|class) ([A-Za-z_$][\w$]*)", source)
    for declared in re.findall(r"\b(?:const|let) [\[{]([^=;]*?)[\]}] (?:=|of)", source):
        yield from re.findall(r"(?:^|[,:{\[]) *(?:\.\.\.)?([A-Za-z_$][\w$]*) *(?=$|[,}\]])", declared)


def script_comments(source):
    """The comments of a script; several lines of `//` are one."""
    blocks = re.findall(r"/\*\*?(.*?)\*/", source, re.DOTALL)
    lines = re.findall(r"(?:^|[\s;{(])((?://.*\n\s*)+)", source)
    texts = [re.sub(r"\s*\n\s*(?:\*|//)?\s*", " ", text) for text in blocks + lines]
    return [re.sub(r"`[^`]*`", " ", text).removeprefix("//").strip() for text in texts]


def is_script_riddle(name):
    """`is_riddle` for names in camel case."""
    snake = "_".join(parts(name))
    return is_riddle(snake.upper() if name.isupper() else snake) or parts(name)[0] in ("told", "said", "mine")


def comment_faults(comment):
    """Banned words of a comment, and a beginning that is no sentence or noun."""
    words = {singular(word) for word in re.findall(r"[a-z]+", comment.lower())}
    found = words & ((BANNED - ENGLISH) | {"said", "whoever"})
    return found | set(re.findall(r"^(?:What|Whoever|That|From how|Of how) ", comment))


def test_scripts_are_read():
    source = (
        "// One\n// two.\nconst [first, toldBefore] = find(); // what?\n/** The\n * most. */\nlet { a: MOST } = b;\n"
    )
    assert set(script_names(source)) >= {"first", "toldBefore", "MOST"}
    assert script_comments(source) == ["The most.", "One two.", "what?"]
    assert is_script_riddle("toldBefore")
    assert is_script_riddle("LONGEST_PAUSE")
    assert not is_script_riddle("maxRows")
    assert comment_faults("What was told.") == {"What ", "told"}
    assert not comment_faults("At most three rows.")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_names_and_comments_of_scripts(path):
    place = path.relative_to(PACKAGE).as_posix()
    source = path.read_text(encoding="utf-8")
    names = {path.stem, *script_names(source)}
    assert not {name: word for name in names if (word := banned_in(name)) and not stays(word, name, place)}
    assert not sorted(name for name in names if is_script_riddle(name))
    assert not {comment: found for comment in script_comments(source) if (found := comment_faults(comment))}
