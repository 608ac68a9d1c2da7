"""What the commands share: console, help, the report of errors, numbers in words."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from typing import Any

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

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

    With `debug` they keep their traceback, as unexpected ones always do.  Printing belongs
    inside: a full disk is an expected failure too.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except (PermatchError, OSError, MemoryError, UnicodeEncodeError) as err:
        if debug:
            raise
        typer.echo(f"error: {' '.join(_explain(err).split())}", err=True)
        raise typer.Exit(1) from None


def _explain(err: Exception) -> str:
    """Say what went wrong and what to do about it."""
    if isinstance(err, PermatchError):
        return str(err)
    if isinstance(err, MemoryError):
        detail = f" ({err})" if str(err) else ""
        return f"this needs more memory than there is{detail}. Ask for less."
    if isinstance(err, UnicodeEncodeError):
        return (
            f"cannot write {err.object[err.start]!r} to standard output, whose encoding is "
            f"{err.encoding}. Set PYTHONIOENCODING=utf-8."
        )
    if isinstance(err, OSError) and err.filename is not None:
        return f"cannot open {err.filename}: {err.strerror}. Check the path."
    _forget_output()
    reason = err.strerror if isinstance(err, OSError) else err
    return f"cannot write to standard output: {reason}. Send it elsewhere."


def _forget_output() -> None:
    """Drop what standard output still holds, or the interpreter tries again at exit."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Command(TyperCommand):
    """A command whose help calls a flag a flag, and fails in one line."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return the help option."""
        return _as_flag(super().get_help_option(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        with one_line_errors(debug=False):
            super().format_help(ctx, formatter)


class Group(TyperGroup):
    """A group of commands with the same kind of help."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return the help option."""
        return _as_flag(super().get_help_option(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        with one_line_errors(debug=False):
            super().format_help(ctx, formatter)


def _as_flag(option: Any) -> Any:
    if option is not None:
        option.metavar = ""  # or its type would be shown, which nobody can give
    return option


def plural(number: int, noun: str) -> str:
    """Write a number and what it counts: 1 cell, 2 cells."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def percent(probability: float) -> str:
    """Write a probability as a percentage, never rounded to a false 0 or 100."""
    if probability in (0.0, 1.0):
        return f"{100 * probability:.0f} %"
    is_extreme = not 0.01 <= probability <= 0.99
    for digits in range(1 + is_extreme, 4):
        text = f"{100 * probability:.{digits}f}"
        if 0.0 < float(text) < 100.0:
            return f"{text} %"
    return f"{100 * probability:.1e} %" if probability < 0.5 else "> 99.999 %"


def percent_of_log(log_probability: float) -> str:
    """Write the probability with this logarithm, which float64 may round to zero."""
    chance = Decimal(log_probability).exp()
    if chance == 0 and log_probability > -float("inf"):
        return "< 1e-999999 %"  # where even Decimal gives up
    is_tiny = 0 < chance < Decimal("1e-300")
    return f"{100 * chance:.1e} %" if is_tiny else percent(float(chance))


def join_edges(matching: list[int], rows: list[str] | None, cols: list[str] | None) -> str:
    """Write a matching as pairs of labels, or as plain columns where there are none."""
    if rows is None and cols is None:
        return " ".join(map(str, matching))
    return join_pairs(list(enumerate(matching)), rows, cols)


def join_pairs(
    pairs: list[tuple[int, int]], rows: list[str] | None, cols: list[str] | None
) -> str:
    """Write edges as pairs of labels, or of numbers where there are none."""
    return ", ".join(
        f"{rows[row] if rows else row} - {cols[col] if cols else col}" for row, col in pairs
    )
