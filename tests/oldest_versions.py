"""The oldest versions that pyproject.toml allows, as constraints for pip: `make test-oldest` installs them.

    python tests/oldest_versions.py [NAME==VERSION ...]

Every bound `name>=version` of the core and of the extras becomes `name==version`; those of the extra `dev` are tools of
tests and stay free. Arguments replace bounds, for versions that cannot be had.
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
_BOUND = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?>=([0-9.]+)")
_TOOLS = ("dev", "bench")


def oldest(project: dict) -> dict[str, str]:
    """The lowest version of each package that a project may be installed with; the highest of its lower bounds."""
    extras = project["optional-dependencies"]
    listed = [*project["dependencies"], *(need for name in extras if name not in _TOOLS for need in extras[name])]
    found: dict[str, str] = {}
    for need in listed:
        if need.startswith(f"{project['name']}["):
            continue
        bound = _BOUND.match(need)
        if bound is None:
            raise SystemExit(f"{PROJECT}: expected a lower bound such as numpy>=1.26, got {need!r}")
        name, version = bound.groups()
        found[name] = max(found.get(name, "0"), version, key=lambda text: [int(part) for part in text.split(".")])
    return found


def main() -> None:
    """Print the constraints."""
    found = oldest(tomllib.loads(PROJECT.read_text("utf-8"))["project"])
    found |= dict(each.split("==") for each in sys.argv[1:])
    print("\n".join(f"{name}=={version}" for name, version in sorted(found.items())))


if __name__ == "__main__":
    main()
