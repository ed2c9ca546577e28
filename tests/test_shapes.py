"""Public functions say the shapes of their tensors and arrays, in the axis words of docs/idea.md."""

import importlib
import inspect
import os
import pkgutil
import re
import typing
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path

import jaxtyping
import numpy as np
import pytest
import torch

import finegraph
import shape_checks

ROOT = Path(__file__).parents[1]
IDEA = (ROOT / "docs" / "idea.md").read_text(encoding="utf-8")
PACKAGES = sorted(
    module.name for module in pkgutil.iter_modules(finegraph.__path__) if module.ispkg and module.name != "timm"
)
ARRAYS = (torch.Tensor, np.ndarray)


def axis_words():
    """The closed list of axis words in docs/idea.md."""
    text = IDEA[IDEA.index("Axis words of shapes") :]
    return set(re.findall(r"`([a-z_]+)`", text[: text.index("\n\n")]))


WORDS = axis_words()


def modules(package):
    """All modules of a package that can be imported here."""
    root = importlib.import_module(f"finegraph.{package}")
    yield root
    for module in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
        try:
            yield importlib.import_module(module.name)
        except ModuleNotFoundError as missing:  # of an extra that is not installed
            if (missing.name or "").startswith("finegraph"):
                raise


def public(owner, module):
    """The public functions and methods that a module or class defines, with their names."""
    for name, value in list(vars(owner).items()):
        if name.startswith("_") and name not in ("__init__", "__call__"):
            continue
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        if isinstance(value, property):
            value = value.fget
        value = getattr(value, "func", value)  # cached properties
        value = inspect.unwrap(value) if callable(value) else value
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(value) and owner is not value:
            if is_dataclass(value) or hasattr(value, "_fields"):
                yield f"{name} (fields)", value
            yield from ((f"{name}.{inner}", found) for inner, found in public(value, module))
        elif inspect.isfunction(value) and not _is_made_for_fields(owner, name):
            yield name, value


def _is_made_for_fields(owner, name):
    """Whether a method was written by `dataclass`; the fields are looked at instead."""
    return name == "__init__" and is_dataclass(owner) and owner.__dataclass_params__.init


def annotations(found):
    """The annotations of a function, or of the fields of a class, evaluated."""
    own = inspect.get_annotations(found)
    space = vars(importlib.import_module(found.__module__))
    values = {}
    for name, annotation in own.items():
        text = getattr(annotation, "__forward_arg__", annotation)  # of named tuples
        if name.startswith("_"):
            continue
        if isinstance(text, str) and not re.search(r"[A-Z]", text):
            continue  # a plain type such as int
        try:
            values[name] = eval(text, dict(space)) if isinstance(text, str) else text  # noqa: S307
        except (NameError, TypeError):  # what is imported for type checks alone, or is no type at run time
            assert not re.search(r"Tensor|ndarray|NDArray", text), f"{found.__module__}.{found.__qualname__}: {text}"
    return values


def shapes(annotation) -> Iterator[str | None]:
    """The shapes within an annotation; None for each tensor or array without one."""
    if isinstance(annotation, type) and issubclass(annotation, jaxtyping.AbstractArray):
        yield annotation.dim_str
        return
    origin = typing.get_origin(annotation)
    if annotation in ARRAYS or origin in ARRAYS:
        yield None
        return
    for part in typing.get_args(annotation):
        for inner in part if isinstance(part, list) else [part]:
            yield from shapes(inner)


def unknown_words(shape):
    """The axis words of a shape that docs/idea.md does not list."""
    names = [re.sub(r"^[*#?]+", "", axis).split("=")[0] for axis in shape.split()]
    return [name for name in names if name not in ("...", "_", "") and not name.isdigit() and name not in WORDS]


def faults(package):
    """What lacks a shape, or names an axis that is not in the list."""
    for module in modules(package):
        for name, found in public(module, module):
            for argument, annotation in annotations(found).items():
                for shape in shapes(annotation):
                    place = f"{module.__name__.removeprefix('finegraph.')} {name}: {argument}"
                    if shape is None:
                        yield f"{place} has no shape"
                    elif unknown_words(shape):
                        yield f"{place} is {shape!r}, but docs/idea.md lists no axis {unknown_words(shape)}"


@pytest.mark.parametrize("package", PACKAGES)
def test_public_tensors_and_arrays_have_shapes_in_known_words(package):
    assert sorted(set(faults(package))) == []


class Fake:
    """A stand-in for a module whose functions are checked."""

    @staticmethod
    def doubled(values: jaxtyping.Float[torch.Tensor, "batch fine"]) -> jaxtyping.Float[torch.Tensor, "batch fine"]:
        return values.repeat(1, 2) if len(values) == 3 else values


def decorated(function):
    """A function as tests see those of the package; its name is that of a function of a module."""
    function.__qualname__ = function.__name__
    return shape_checks.check_first_calls(typechecker=shape_checks.check)(function)


@pytest.mark.parametrize("wrong", [torch.zeros(4), torch.zeros(4, 2, dtype=torch.int64), torch.zeros(3, 2)])
def test_arguments_and_results_of_wrong_shapes_are_found(wrong):
    with pytest.raises(jaxtyping.TypeCheckError, match="doubled"):
        decorated(Fake.doubled)(wrong)


def test_the_first_calls_in_each_test_are_checked():
    doubled = decorated(Fake.doubled)
    for _ in range(2):
        shape_checks.begin_test()
        for _ in range(shape_checks.CALLS_CHECKED - 1):
            doubled(torch.zeros(4, 2))
        with pytest.raises(jaxtyping.TypeCheckError):
            doubled(torch.zeros(4))
        doubled(torch.zeros(4))


def test_functions_without_shapes_and_within_functions_stay_as_they_are():
    def inner(values: jaxtyping.Float[torch.Tensor, "batch fine"]) -> None: ...

    decorate = shape_checks.check_first_calls(typechecker=shape_checks.check)
    assert decorate(inner) is inner
    assert decorate(axis_words) is axis_words


def test_every_module_that_names_shapes_is_checked():
    places = [Path(place) for place in finegraph.__path__]
    named = {
        path.relative_to(place)
        for place in places
        for path in place.rglob("*.py")
        if "from jaxtyping import" in path.read_text(encoding="utf-8")
    }
    checked = {Path(*name.split(".")[1:]) for name in shape_checks.checked_modules()}
    assert {path.with_suffix("") for path in named if path.name != "__init__.py"} <= checked


@pytest.mark.parametrize(("value", "right"), [(True, True), (torch.zeros(2), False)])
def test_a_type_guard_returns_a_truth_value(value, right):
    guard = typing.TypeGuard[jaxtyping.Float[torch.Tensor, " batch"]]
    assert shape_checks.fits(value, guard) is right


@pytest.mark.skipif(os.environ.get("FINEGRAPH_CHECK_SHAPES") == "0", reason="shapes are not checked")
def test_functions_of_the_package_are_checked():
    with pytest.raises(jaxtyping.TypeCheckError):
        finegraph.Posterior(finegraph.LabelGraph(["a", "b"]), torch.zeros(2, 2, 2))
