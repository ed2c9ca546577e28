"""Several processes add to one log and are killed at any time: nothing acknowledged is lost, nothing is there twice."""

import random
import signal
import subprocess
import sys
import time

import sealed_log_drill as drill

from finegraph.files.sealed_log import SealedLog


def test_kills_while_two_processes_write(tmp_path):
    randomly = random.Random(0)
    told = []
    for turn in range(6):
        command = [sys.executable, drill.__file__, str(tmp_path)]
        writers = [subprocess.Popen([*command, f"{turn}{name}"], stdout=subprocess.PIPE, text=True) for name in "ab"]
        first = [writer.stdout.readline() for writer in writers]  # both are at work
        time.sleep(randomly.uniform(0.0, 0.2))
        for writer, line in zip(writers, first, strict=True):
            writer.send_signal(signal.SIGKILL)
            rest = writer.communicate()[0]
            told += (line + rest[: rest.rfind("\n") + 1]).split()
    log = SealedLog(tmp_path, "lessons", drill.OWNER)
    with log.writing():
        pass
    kept = [entry["id"] for entry in log.entries]
    assert len(told) > 12
    assert set(told) <= set(kept)
    assert len(set(kept)) == len(kept)
    assert len(kept) <= len(told) + 12  # at most one more per kill
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["lessons.json", "lessons.jsonl"]
