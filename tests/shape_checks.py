"""The check of shapes and types that tests put around the package's functions.

`install` lets jaxtyping decorate the functions of the package as they are imported. Each function is checked in its
first calls in each test alone: a fit calls the same few functions thousands of times, with the same shapes, and a check
takes longer than most of them. Functions that name no shapes, and functions within functions, are left as they are.
"""

import contextlib
import functools
import inspect
import types
import typing
from collections.abc import Callable, Collection, Mapping
from importlib.util import find_spec
from pathlib import Path

import beartype
import jaxtyping
from jaxtyping import AbstractArray

CALLS_CHECKED = 3
"""How many calls of a function are checked in a test."""

TYPES_ARE_CHECKED = ("finegraph.inference.", "finegraph.nn.")
"""Where all types are checked; elsewhere the shapes of tensors and arrays are."""


def checked_modules():
    """The modules of the package that name shapes, found without importing them."""
    (place,) = find_spec("finegraph").submodule_search_locations
    names = []
    for path in sorted(Path(place).rglob("*.py")):
        name = ".".join(["finegraph", *path.relative_to(place).with_suffix("").parts])
        if name.startswith(TYPES_ARE_CHECKED) or "from jaxtyping import" in path.read_text(encoding="utf-8"):
            names.append(name.removesuffix(".__init__"))
    return names


_jaxtyped = jaxtyping.jaxtyped
_called: list[Callable[[], None]] = []
"""For each function that was checked in this test, what lets its next calls be checked again."""


def install():
    """Check what is imported from now on."""
    jaxtyping.jaxtyped = check_first_calls  # what the hook puts above functions and classes
    jaxtyping.install_import_hook(checked_modules(), "shape_checks.check")


def begin_test():
    """Check the first calls of every function again."""
    for check_again in _called:
        check_again()
    _called.clear()


def check_first_calls(*, typechecker):
    """Decorate a function so that its first calls in a test are checked, or the fields of a dataclass."""

    def decorate(found):
        if not inspect.isfunction(found):
            return _jaxtyped(found, typechecker=typechecker)
        if "<locals>" in found.__qualname__:
            return found  # it is made anew by each call of the function around it, which is checked
        if not found.__module__.startswith(TYPES_ARE_CHECKED) and not any(map(has_shape, hints(found).values())):
            return found
        return limited(found, functools.cache(lambda: _jaxtyped(found, typechecker=typechecker)))

    return decorate


def limited(found, make_checked):
    """A function that is checked in its first calls in a test.

    What checks it is made at the first call: that takes milliseconds, and a process that runs some of the tests calls
    some of the functions.
    """
    left = CALLS_CHECKED

    def check_again():
        nonlocal left
        left = CALLS_CHECKED

    @functools.wraps(found)
    def call(*args, **kwargs):
        nonlocal left
        if jaxtyping.config.jaxtyping_disable or left == 0:
            return found(*args, **kwargs)
        if left == CALLS_CHECKED:
            _called.append(check_again)
        left -= 1
        return make_checked()(*args, **kwargs)

    return call


def hints(found):
    """The annotations of a function, evaluated, without those that name what only type checkers import."""
    evaluated = {}
    for name, hint in found.__annotations__.items():
        with contextlib.suppress(NameError):
            one = types.SimpleNamespace(__annotations__={name: hint})
            evaluated |= typing.get_type_hints(one, found.__globals__)
    return evaluated


def check(checked, **options):
    """Check every call of a function: all types or its shapes alone, by the module that it is from."""
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
    if origin is typing.TypeGuard:
        return isinstance(value, bool)
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
