"""A process that adds entries to a log until it is killed: `python sealed_log_drill.py FOLDER WRITER`.

It prints the id of each entry once that is acknowledged. Each id is added twice, as a client does that tries again.
"""

import sys
from pathlib import Path

from finegraph.files.sealed_log import SealedLog

OWNER = "a model"


def add(log, name):
    """Add an entry unless it is there."""
    with log.writing():
        if all(entry["id"] != name for entry in log.entries):
            log.append({"id": name, "text": "x" * 5000})


if __name__ == "__main__":
    log = SealedLog(Path(sys.argv[1]), "lessons", OWNER)
    for count in range(1_000_000):
        name = f"{sys.argv[2]}-{count}"
        add(log, name)
        add(log, name)
        print(name, flush=True)
