"""The check of shapes and types that tests put around the package's functions."""

import functools
import inspect
import types
import typing
from collections.abc import Collection, Mapping
from importlib.util import find_spec
from pathlib import Path

import beartype
from jaxtyping import AbstractArray

TYPES_ARE_CHECKED = ("finegraph.inference.", "finegraph.nn.")
"""Where all types are checked; elsewhere the shapes of tensors and arrays are."""

NOT_CHECKED_YET = ("finegraph.model.", "finegraph.web.", "finegraph.workflows.")
"""Their shapes are stated, but not yet checked."""


def checked_modules():
    """The modules of the package that name shapes, found without importing them."""
    (place,) = find_spec("finegraph").submodule_search_locations
    names = []
    for path in sorted(Path(place).rglob("*.py")):
        name = ".".join(["finegraph", *path.relative_to(place).with_suffix("").parts])
        if name.startswith(NOT_CHECKED_YET):
            continue
        if name.startswith(TYPES_ARE_CHECKED) or "from jaxtyping import" in path.read_text(encoding="utf-8"):
            names.append(name.removesuffix(".__init__"))
    return names


def check(checked, **options):
    """Check the calls of a function, but not of one within a function.

    Functions within functions are made anew on each call, and so would be their checks: that takes longer than what is
    checked. The functions that call them are checked, and so are those that they call.
    """
    if "<locals>" in checked.__qualname__:
        return checked
    if checked.__module__.startswith(TYPES_ARE_CHECKED):
        return beartype.beartype(checked, **options)
    shaped = {name: hint for name, hint in checked.__annotations__.items() if has_shape(hint)}
    return check_shapes(checked, shaped) if shaped else checked


def check_shapes(checked, shaped):
    """Check the arguments and the result that have shapes, and nothing else; unlike beartype, all items of lists."""
    signature = inspect.signature(checked)

    @functools.wraps(checked)
    def call(*args, **kwargs):
        given = signature.bind(*args, **kwargs).arguments
        for name, hint in shaped.items():
            if name in given and not fits(given[name], hint):
                raise TypeError(f"{checked.__qualname__}: {name} is not {hint}: {described(given[name])}")
        result = checked(*args, **kwargs)
        if "return" in shaped and not fits(result, shaped["return"]):
            raise TypeError(f"{checked.__qualname__}: the result is not {shaped['return']}: {described(result)}")
        return result

    return call


def has_shape(hint):
    """Whether a type names the shape of a tensor or array."""
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return True
    return any(has_shape(part) for part in typing.get_args(hint))


def fits(value, hint):
    """Whether a value is of a type, as far as the type names shapes."""
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return isinstance(value, hint)
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if not has_shape(hint):
        kind = origin or hint
        return isinstance(value, kind) if isinstance(kind, type) and not hasattr(kind, "_is_protocol") else True
    if not isinstance(value, origin):
        return False
    if origin is tuple and parts[-1] is not ...:
        return len(value) == len(parts) and all(map(fits, value, parts))
    if issubclass(origin, Mapping):
        return all(fits(item, parts[1]) for item in value.values())
    # Iterators and functions cannot be looked into without using them up or calling them.
    return all(fits(item, parts[0]) for item in value) if issubclass(origin, Collection) else True


def described(value):
    """The type and the shape of a value, or of the values in it."""
    if hasattr(value, "shape"):
        return f"{type(value).__name__} {value.dtype} {tuple(value.shape)}"
    if isinstance(value, Mapping):
        return str({key: described(item) for key, item in value.items()})
    return str([described(item) for item in value]) if isinstance(value, tuple | list) else repr(value)
