"""Process-wide settings, which the command makes before torch is loaded, and the library never makes.

Memory. The C library of Linux returns large blocks to the system as soon as they are free, and the next layer of a
network requests them again, page by page. Keeping them makes networks in torch two to three times as fast on the CPU.
The price is that the process stays as large as it once was.

Threads. A container may use fewer cores than the machine has, and libraries count those of the machine. More threads
than cores are far slower than fewer.

What the user has set in the environment is left alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from finegraph.cli.exit_codes import BROKEN_PIPE, INTERRUPTED, OK, exit_code_of
from finegraph.errors import JobError

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
"""Numbers of settings in the header malloc.h of glibc."""
_NEVER = -1
_MORE_AT_ONCE = 64 << 20
_OF_THE_ALLOCATOR = ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES", "LD_PRELOAD")
_OF_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_MOMENT = 4.0
"""How many seconds a process that failed waits for the first one to say why."""
_ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
"""The variable by which torchrun names the file where a process may say why it failed."""
_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def prepare_process() -> None:
    """Choose memory and thread settings that are good for networks on the CPU; call it before torch is imported."""
    keep_memory()
    limit_threads()


def leave(code: int) -> NoReturn:
    """End the process with an exit code.

    One of several processes of a job leaves without the interpreter's own end: threads through which processes talk may
    still be there, and would abort a process whose work is done and saved.
    """
    if job_size() > 1:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def job_size() -> int:
    """How many processes carry out this command; torchrun starts several."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Whether this is the first process of a job, which prints."""
    return os.environ.get("RANK", "0") == "0"


def tell_launcher(lines: Sequence[str]) -> None:
    """Let torchrun end its own long report with the reason why this process failed, where people look first.

    Args:
        lines: the reason; nothing is written if there is none.
    """
    place = os.environ.get(_ERROR_FILE)
    if place is None or not lines:
        return
    content = {"message": {"message": "\n".join(lines), "extraInfo": {"timestamp": str(int(time.time()))}}}
    with contextlib.suppress(OSError):  # the reason was printed
        Path(place).write_text(json.dumps(content), encoding="utf-8")


def wait_for_first(error: BaseException) -> None:
    """In one of several processes that failed, let the one that knows best say why.

    The launcher ends all processes as soon as one has ended. So a fault that all of them see, such as a wrong setting,
    is reported by the first, and the others are gone before they would report it too. A fault of another process makes
    the rest fail because that one is gone; they wait longer than it does.

    Args:
        error: why the command failed.
    """
    if job_size() > 1 and exit_code_of(error) not in (OK, INTERRUPTED, BROKEN_PIPE):
        is_consequence = isinstance(error, JobError)
        if is_consequence or not is_first():
            time.sleep(2 * _MOMENT if is_consequence else _MOMENT)


def keep_memory() -> bool:
    """Let the C library keep large blocks of memory rather than return them; returns whether that was set.

    Only glibc is asked, and only if the environment says nothing of memory.
    """
    if any(name in os.environ for name in _OF_THE_ALLOCATOR) or not _is_glibc():
        return False
    library = ctypes.CDLL(None)
    chosen = {_MMAP_MAX: 0, _TRIM_THRESHOLD: _NEVER, _TOP_PAD: _MORE_AT_ONCE}
    return {library.mallopt(setting, value) for setting, value in chosen.items()} == {1}


def limit_threads() -> None:
    """Let libraries start as many threads as this process has cores, if the machine has more."""
    cores = usable_cores()
    if cores < (os.cpu_count() or 1) and not any(name in os.environ for name in _OF_THREADS):
        os.environ["OMP_NUM_THREADS"] = str(cores)  # the others follow it


def usable_cores() -> int:
    """How many cores this process may keep busy: those it may run on, or what its container is allowed to use."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return max(1, min(cores, _quota(cores)))


def _quota(cores: int) -> int:
    """The share of the processor that a container may use, in cores; `cores` if there is no limit."""
    try:
        quota, period = _CPU_QUOTA.read_text().split()
        return cores if quota == "max" else round(int(quota) / int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return cores


def _is_glibc() -> bool:
    try:
        return bool((os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc"))
    except (AttributeError, ValueError, OSError):
        return False
