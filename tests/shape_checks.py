"""The check of shapes and types that tests put around the package's functions."""

import beartype


def check(checked, **options):
    """Check the calls of a function, but not of one within a function.

    Functions within functions are made anew on each call, and so would be their checks: that takes longer than what is
    checked. The functions that call them are checked, and so are those that they call.
    """
    return checked if "<locals>" in checked.__qualname__ else beartype.beartype(checked, **options)
