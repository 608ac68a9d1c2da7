"""Time things fairly on a shared machine, and hold the figures against their targets.

A claim is a ratio of two times taken in the same run.  The two sides take turns, each is
run several times, the best of each counts, and the spread (slowest over fastest) is shown
beside it.  Accuracy stands in the same row as time, so that a fast wrong answer shows.
"""

import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Timing:
    """Seconds of the runs of one side."""

    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def spread(self) -> float:
        return max(self.seconds) / min(self.seconds)


@dataclass(frozen=True)
class Row:
    """One claim: what was measured, against what, the figure and its target."""

    what: str
    rival: str
    ours: str
    theirs: str
    figure: float | None
    unit: str
    target: float | None
    is_lower_better: bool = True
    accuracy: str = ""
    spread: str = ""
    note: str = ""

    @property
    def is_met(self) -> bool | None:
        if self.target is None or self.figure is None:
            return None
        if self.is_lower_better:
            return bool(self.figure <= self.target)
        return bool(self.figure >= self.target)


@dataclass
class Report:
    """Rows of one benchmark file."""

    title: str
    rows: list[Row] = field(default_factory=list)

    def add(self, *args, **kwargs) -> None:
        self.rows.append(Row(*args, **kwargs))


def race(*sides: Callable[[], object], repeats: int = 7) -> tuple[Timing, ...]:
    """Time callables in turn, `repeats` rounds after one untimed round."""
    for side in sides:
        side()
    seconds: list[list[float]] = [[] for _ in sides]
    for _ in range(repeats):
        for side, taken in zip(sides, seconds, strict=True):
            start = time.perf_counter()
            side()
            taken.append(time.perf_counter() - start)
    return tuple(Timing(tuple(taken)) for taken in seconds)


def against_slow(
    ours: Callable[[], object], theirs: Callable[[], object], rounds: int
) -> tuple[Timing, Timing, object]:
    """Time a slow rival once a round, and ours five times; return what it found too."""
    ours()
    own: list[float] = []
    others: list[float] = []
    found = None
    for _ in range(rounds):
        timing, found = timed(theirs)
        others += timing.seconds
        own += [timed(ours)[0].best for _ in range(5)]
    return Timing(tuple(own)), Timing(tuple(others)), found


def timed(side: Callable[[], object]) -> tuple[Timing, object]:
    """Time a single call, for what is too slow to repeat; return what it returned too."""
    start = time.perf_counter()
    found = side()
    return Timing((time.perf_counter() - start,)), found


def memory_bytes(which: str) -> int:
    """Return the memory of this process: now, "VmRSS", or at its peak, "VmHWM".

    Unlike ``ru_maxrss``, which begins with that of the process this was started from, the
    peak is reset when a program starts.
    """
    with open("/proc/self/status") as status:
        (line,) = (line for line in status if line.startswith(which))
    return 1024 * int(line.split()[1])


def run_python(code: str, **env: str) -> str:
    """Run code in a fresh interpreter and return what it prints."""
    import os

    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **env},
    )
    return done.stdout.strip()


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.2f} s"


def spreads(*timings: Timing) -> str:
    return " / ".join(f"{timing.spread:.2f}" for timing in timings)


def show(reports: list[Report], console: Console) -> None:
    for report in reports:
        table = Table(title=report.title, title_justify="left", title_style="bold")
        for name, justify in (
            ("what", "left"), ("ours", "right"), ("rival", "left"), ("theirs", "right"),
            ("figure", "right"), ("target", "right"), ("", "left"), ("accuracy", "left"),
            ("spread", "right"),
        ):  # fmt: skip
            table.add_column(name, justify=justify)
        for row in report.rows:
            sign = "<=" if row.is_lower_better else ">="
            target = f"{sign} {row.target:g}" if row.target is not None else ""
            verdict = {True: "met", False: "NOT MET", None: ""}[row.is_met]
            figure = ""
            if row.figure is not None:
                digits = ",.0f" if abs(row.figure) >= 1000 else ".3g"
                figure = f"{row.figure:{digits}} {row.unit}"
            table.add_row(
                row.what, row.ours, row.rival, row.theirs, figure, target, verdict,
                row.accuracy, row.spread,
            )  # fmt: skip
        console.print(table)
        for row in report.rows:
            if row.note:
                console.print(f"  {row.what}: {row.note}")
        console.print()


def save(reports: list[Report], path: Path) -> None:
    """Write all rows with the date and the kind of machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {_processor()}",
        "python": platform.python_version(),
        "reports": [
            {
                "title": r.title,
                "rows": [asdict(row) | {"is_met": row.is_met} for row in r.rows],
            }
            for r in reports
        ],
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else "unknown processor"
