"""The memory available, so that larger requests are refused instead of killed.

Linux grants allocations it cannot keep and kills the process when they are used.  What is
available is in ``/proc/meminfo``; a container may be allowed less, by the limits of its
control group and those above it (version 1 or 2).
"""

import math
import os
from pathlib import Path, PurePosixPath
from typing import Any

_ROOT = Path("/")
#: Less than this is not worth asking for.
LITTLE = 2.0**28
# Items of a list that are asked for their size, about.
_ASKED = 100
# Limit, use, and the part of the use that can be given back at once, by version.
_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}


def available_memory(root: Path | None = None) -> float:
    """Return the bytes available, ``inf`` if unknown."""
    root = _ROOT if root is None else root
    return min(_of_machine(root), *_of_groups(root))


def _of_machine(root: Path) -> float:
    """Return what the machine has left, or all it has where no more is known."""
    left = _numbers(root / "proc/meminfo").get("MemAvailable:")
    if left is not None:
        return 1024.0 * left
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return math.inf


def _of_groups(root: Path) -> list[float]:
    """Return what the control groups of this process leave it."""
    left = [math.inf]
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            version, mounts = 2, ["sys/fs/cgroup", "sys/fs/cgroup/unified"]
        elif "memory" in controllers.split(","):
            version, mounts = 1, ["sys/fs/cgroup/memory"]
        else:
            continue
        # In a container the group may be seen as the root of what is mounted.
        inside = PurePosixPath(path.lstrip("/"))
        for mount in mounts:
            for group in (inside, *inside.parents):
                left.append(_of_group(root / mount / group, version))
    return left


def _of_group(folder: Path, version: int) -> float:
    """Return what one control group leaves, ``inf`` if it has no limit."""
    limit, used, idle = _FILES[version]
    try:
        most = float(_text(folder / limit))
        taken = float(_text(folder / used))
    except ValueError:  # "max", or no such group
        return math.inf
    return max(most - taken + _numbers(folder / "memory.stat").get(idle, 0.0), 0.0)


def _text(path: Path) -> str:
    """Return a file's text, nothing if it cannot be read."""
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _numbers(path: Path) -> dict[str, float]:
    """Return the numbers of a file of lines ``name number ...``."""
    rows = (line.split() for line in _text(path).splitlines())
    return {row[0]: float(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def held_bytes(value: Any) -> int:
    """Return about how many bytes the arrays take that a value holds at any depth.

    Of a long list some items are asked.

    Examples
    --------
    >>> import numpy as np
    >>> held_bytes({"a": [np.zeros(10), np.zeros(30)], "b": "text"})
    320
    """
    nbytes = getattr(value, "nbytes", None)
    if isinstance(nbytes, int):
        return nbytes
    if isinstance(value, dict):
        return sum(map(held_bytes, value.values()))
    if isinstance(value, list | tuple):
        asked = value[:: max(1, len(value) // _ASKED)]
        return sum(map(held_bytes, asked)) * len(value) // max(1, len(asked))
    return held_bytes(vars(value)) if hasattr(value, "__dict__") else 0
