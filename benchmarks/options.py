"""Options that several benchmarks have."""

from __future__ import annotations

import argparse
from pathlib import Path


def parser_of(description: str | None, *, draws: int) -> argparse.ArgumentParser:
    """A parser with the options of benchmarks that fit heads on draws of photos; each adds its own.

    Args:
        description: the text of the module.
        draws: the default number of draws.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=draws)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write all rows to this file")
    return parser
