"""Run the benchmarks: ``python -m benchmarks [--quick] [--only NAME] [--out FILE]``."""

import argparse
import importlib
import sys
from pathlib import Path

from rich.console import Console

from benchmarks.harness import save, show

NAMES = (
    "glynn",
    "accuracy",
    "small",
    "sampling",
    "large",
    "partial",
    "path_tree",
    "k_best",
    "learning",
    "curvature",
    "linking",
    "linking_parts",
    "tracking",
    "ranking",
    "boosting",
    "parts",
    "footprint",
)
#: Those that need a GPU run only when they are named.
ON_GPU = ("gpu",)


def main() -> int:
    """Run the chosen benchmarks, show and save their rows; 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats, smaller sizes")
    parser.add_argument(
        "--only", choices=NAMES + ON_GPU, action="append", help="run this one (repeatable)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("benchmarks/results.json"),
        help="where rows are saved",
    )
    args = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 180)
    reports = []
    for name in args.only or NAMES:
        with console.status(f"benchmark {name} ..."):
            reports.append(
                importlib.import_module(f"benchmarks.bench_{name}").run(args.quick)
            )
        show(reports[-1:], console)
    save(reports, args.out)
    missed = [row for report in reports for row in report.rows if row.is_met is False]
    console.print(f"rows saved to {args.out}; {len(missed)} target(s) missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
