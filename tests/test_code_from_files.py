"""No file that is read can run code, and nothing is fetched: what the package may not import or call.

Files are safetensors and JSON. Weight files of torch, which are pickles, are read with `weights_only` and nowhere else.
The package speaks to nobody of itself: it has servers and a database, but no client that fetches addresses. (With
`timm:NAME`, timm may fetch weights; that is its own doing, asked for by name.)
"""

import ast
from pathlib import Path

import pytest

import finegraph

ROOT = Path(finegraph.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
RUN_CODE = {
    "pickle",
    "cPickle",
    "_pickle",
    "dill",
    "cloudpickle",
    "joblib",
    "shelve",
    "marshal",
    "yaml",
    "runpy",
    "code",
}
FETCH = {"requests", "httpx", "aiohttp", "urllib3", "ftplib", "smtplib", "telnetlib", "xmlrpc", "huggingface_hub"}
FETCH_PARTS = {"urllib.request", "http.client", "torch.hub"}
BUILT_IN = {"eval", "exec", "compile", "__import__"}


def imports(tree):
    """Every module that is imported, wherever it stands, by its full name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def called(node):
    """The name that is called, with its dots."""
    parts, function = [], node.func
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    return ".".join(reversed([*parts, function.id])) if isinstance(function, ast.Name) else ""


def faults(text, name="a.py"):
    """What a file may not have."""
    tree = ast.parse(text)
    for module in imports(tree):
        top = module.partition(".")[0]
        if top in RUN_CODE | FETCH or any(module == part or module.startswith(part + ".") for part in FETCH_PARTS):
            yield f"{name}: imports {module}"
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        what = called(node)
        given = {word.arg: getattr(word.value, "value", None) for word in node.keywords}
        if what in BUILT_IN:
            yield f"{name}:{node.lineno}: calls {what}"
        if what in ("torch.load", "torch.jit.load") and given.get("weights_only") is not True:
            yield f"{name}:{node.lineno}: {what} without weights_only"
        if given.get("allow_pickle") or given.get("shell"):
            yield f"{name}:{node.lineno}: {what} with allow_pickle or shell"


def test_nothing_of_the_package_runs_or_fetches_what_files_say():
    assert len(FILES) > 150
    assert [fault for path in FILES for fault in faults(path.read_text(encoding="utf-8"), path.name)] == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "def f():\n    from pickle import loads",
        "import urllib.request",
        "from urllib import request",
        "from http import client",
        "import requests.sessions",
        "import yaml",
        "eval('1')",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path, allow_pickle=True)",
        "subprocess.run(text, shell=True)",
    ],
)
def test_each_would_be_found(text):
    assert len(list(faults(text))) >= 1


@pytest.mark.parametrize("text", ["from urllib.parse import urlsplit", "model.eval()", "re.compile('a')"])
def test_what_is_harmless_is_let_through(text):
    assert list(faults(text)) == []
