"""``permatch engines``: what ``--engine`` accepts."""

import inspect
import re
from typing import TYPE_CHECKING

from rich.table import Table

from permatch.cli.shared.terminal import printing

if TYPE_CHECKING:
    from permatch.inference import AbstractEngine

_COST = re.compile(r"^Notes\n-+\n.*?(O\([^)]*\)[^.,;:(]*)", re.MULTILINE | re.DOTALL)


def engines() -> None:
    """List the engines that --engine accepts.

    The default, [bold]auto[/bold], chooses by the size of the graph and reports why.

    [bold]Examples[/bold]

      permatch engines
      permatch infer scores.csv --engine subset_dp
    """
    from permatch.inference import ENGINES

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("engine", no_wrap=True)
    table.add_column("gives")
    table.add_column("up to", justify="right")
    table.add_column("what it does")
    table.add_column("cost")
    for name, engine in ENGINES.items():
        summary = (inspect.getdoc(engine) or "").partition("\n")[0]
        table.add_row(name, _gives(engine), str(engine().max_size), summary, _cost(engine))
    with printing() as console:
        console.print(table)


def _gives(engine: "type[AbstractEngine]") -> str:
    from permatch.inference import EXACT_ENGINES, AutoEngine

    what = "log-partition, marginals" if engine.has_marginals else "log-partition"
    if engine is AutoEngine:
        size = AutoEngine().exact_size
        return (
            f"{what}; exact up to size {size} if all nodes must be matched, otherwise up "
            "to a width of about 24"
        )
    return f"{what}; {'exact' if engine.name in EXACT_ENGINES else 'approximate'}"


def _cost(engine: "type[AbstractEngine]") -> str:
    """Return the first cost that an engine's notes name."""
    found = _COST.search(inspect.getdoc(engine) or "")
    return " ".join(found.group(1).split()) if found else ""
