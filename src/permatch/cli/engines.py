"""``permatch engines``: what ``--engine`` accepts."""

import inspect

from rich.table import Table

from permatch.cli.terminal import one_line_errors, printing


def engines() -> None:
    """List the engines that can be asked for by name.

    Without a choice, [bold]auto[/bold] picks by the size of the graph and says why.
    """
    from permatch.inference import ENGINES

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("engine", no_wrap=True)
    table.add_column("what it does")
    for name, engine in ENGINES.items():
        table.add_row(name, (inspect.getdoc(engine) or "").partition("\n")[0])
    with one_line_errors(debug=False), printing() as console:
        console.print(table)
