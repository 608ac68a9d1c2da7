"""What the commands share: the console, the report of errors, numbers in words."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from permatch.errors import PermatchError

#: Widest line printed, on terminals and in pipes alike.
MAX_WIDTH = 100


@contextmanager
def printing() -> Iterator[Console]:
    """Yield a console on standard output; into a pipe it writes plain text, no padding."""
    console = Console(highlight=False)
    if console.is_terminal:
        yield Console(highlight=False, width=min(console.width, MAX_WIDTH))
        return
    if "COLUMNS" not in os.environ:
        console = Console(highlight=False, width=MAX_WIDTH)
    with console.capture() as captured:
        yield console
    for line in captured.get().splitlines():
        typer.echo(line.rstrip())


@contextmanager
def one_line_errors(debug: bool) -> Iterator[None]:
    """Turn expected failures into one line on standard error and exit status 1.

    With `debug` they keep their traceback, as unexpected ones always do.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except (PermatchError, OSError) as err:
        if debug:
            raise
        if isinstance(err, OSError) and err.filename is not None:
            message = f"cannot read {err.filename}: {err.strerror}. Check the path."
        else:
            message = " ".join(str(err).split())
        typer.echo(f"error: {message}", err=True)
        raise typer.Exit(1) from None


def percent(probability: float) -> str:
    """Write a probability as a percentage, never rounded to a false 0 or 100."""
    if probability in (0.0, 1.0):
        return f"{100 * probability:.0f} %"
    is_extreme = not 0.01 <= probability <= 0.99
    for digits in range(1 + is_extreme, 4):
        text = f"{100 * probability:.{digits}f}"
        if 0.0 < float(text) < 100.0:
            return f"{text} %"
    return "< 0.001 %" if probability < 0.5 else "> 99.999 %"


def join_edges(matching: list[int], rows: list[str] | None, cols: list[str] | None) -> str:
    """Write a matching as pairs of labels, or as plain columns where there are none."""
    if rows is None and cols is None:
        return " ".join(map(str, matching))
    names = rows or [str(row) for row in range(len(matching))]
    goals = cols or [str(col) for col in range(len(matching))]
    return ", ".join(
        f"{name} - {goals[col]}" for name, col in zip(names, matching, strict=True)
    )
