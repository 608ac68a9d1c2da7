"""Console, help and error reports of all commands."""

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

from permatch._files import reading_at_most
from permatch.cli.shared.options import spread
from permatch.errors import PermatchError

#: Exit statuses besides 0, success, and 1, failure.
WRONG_USAGE = 2
INTERRUPTED = 130
#: What is wrong with a command line, wherever this version of typer keeps the class.
UsageError: Any = typer.BadParameter.__mro__[1]
#: Numbers of the errors that writing less, or elsewhere, avoids.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: Widest line printed, on terminals and in pipes alike.
MAX_WIDTH = 100


@contextmanager
def printing() -> Iterator[Console]:
    """Yield a console on standard output; to a pipe it writes plain text."""
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


def standard_output() -> TextIO:
    """Return standard output, if it is open."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, "standard output is closed")
    return sys.stdout


@contextmanager
def one_line_errors(debug: bool) -> Iterator[None]:
    """Turn failures, expected or not, into one line on standard error and exit status 1.

    With `debug` they keep their traceback.  Wrong usage, Ctrl-C and closed pipes pass: the
    application handles them.  Printing belongs inside: a full disk is a failure too.
    """
    try:
        yield
    except (UsageError, typer.Exit, typer.Abort, BrokenPipeError):
        raise
    except Exception as err:
        if debug:
            raise
        complain(_explain(err))
        raise typer.Exit(1) from None


def complain(message: str) -> None:
    """Print an error as one line on standard error."""
    typer.echo(f"error: {' '.join(message.split())}", err=True)


def _explain(err: Exception) -> str:
    """Return what went wrong and what to do."""
    if isinstance(err, PermatchError):
        return str(err)
    if isinstance(err, MemoryError):
        detail = f" ({err})" if str(err) else ""
        return f"this needs more memory than is available{detail}. Ask for less."
    if isinstance(err, UnicodeEncodeError):
        return (
            f"cannot write {err.object[err.start]!r} to standard output, whose encoding is "
            f"{err.encoding}. Set PYTHONIOENCODING=utf-8."
        )
    if isinstance(err, ImportError):
        return f"a required package cannot be loaded: {err}. Install it again."
    if isinstance(err, OSError):
        where = "" if err.filename is None else f" {err.filename}"
        if not where:
            _forget_output()
        found = str(err.strerror or err)
        if found.endswith("."):  # it says itself what to do
            return found
        if err.errno in _NO_ROOM:
            return f"cannot write{where}: {err.strerror}. Make room, or write elsewhere."
        if where:
            return f"cannot open{where}: {err.strerror}. Check the path."
        return f"cannot read or write: {found}. Check the input and the output."
    if isinstance(err, RuntimeError) and "cannot cache function" in str(err):
        return (
            "compiled kernels need a writable folder for their cache, and there is none. "
            "Set NUMBA_CACHE_DIR to one."
        )
    return (
        f"this is a bug in permatch: {type(err).__name__}: {err}. Run the command again "
        "with --debug and report what it prints."
    )


def _forget_output() -> None:
    """Drop what standard output still holds, or the interpreter tries again at exit."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _explain_usage(err: Any) -> str:
    """Return what is wrong with the command line, and how to get help."""
    is_about_several = isinstance(err, typer.BadParameter) and not (
        err.param or err.param_hint
    )
    message = (err.message if is_about_several else err.format_message()).rstrip()
    end = "" if message.endswith((".", "?", "!")) else "."
    command = err.ctx.command_path if err.ctx is not None else "permatch"
    return f"{message}{end} Try '{command} --help'."


class Command(TyperCommand):
    """A command that fails in one line, and whose help calls a flag a flag.

    The options ``--debug`` and ``--max-bytes`` are read only here.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        debug = ctx.params.get("debug") or ctx.find_root().params.get("debug")
        try:
            with (
                one_line_errors(bool(debug)),
                reading_at_most(ctx.params.get("max_bytes")),
            ):
                answer = super().invoke(ctx)
                if sys.stdout is not None:
                    sys.stdout.flush()  # now, while a full disk can still be told
                return answer
        except KeyboardInterrupt:
            typer.echo("interrupted.", err=True)
            raise typer.Exit(INTERRUPTED) from None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line."""
        try:
            return super().parse_args(ctx, args)
        except UsageError as err:
            err.ctx = err.ctx or ctx  # so that the message names the command
            raise

    def get_help_option(self, ctx: Any) -> Any:
        """Return the help option."""
        return _as_flag(super().get_help_option(ctx))


class Group(TyperGroup):
    """A group of commands that reports wrong usage in one line, with the same help."""

    def main(
        self, args: Any = None, *others: Any, standalone_mode: bool = True, **extra: Any
    ) -> Any:
        """Run the command in `args` and exit with its status."""
        if not standalone_mode:
            return super().main(args, *others, standalone_mode=False, **extra)
        debug = "--debug" in (sys.argv if args is None else args)
        try:
            with one_line_errors(debug):
                status = super().main(args, *others, standalone_mode=False, **extra)
        except UsageError as err:
            status = WRONG_USAGE
            if str(err):  # else the help was asked for by giving no arguments
                complain(_explain_usage(err))
        except typer.Exit as err:
            status = err.exit_code
        sys.exit(status)

    def get_help_option(self, ctx: Any) -> Any:
        """Return the help option."""
        return _as_flag(super().get_help_option(ctx))


def _as_flag(option: Any) -> Any:
    if option is not None:
        option.metavar = ""  # or its type would be shown, which nobody can give
    return option


def new_group(**more: Any) -> typer.Typer:
    """Return an empty group of commands."""
    return typer.Typer(
        cls=Group,
        no_args_is_help=True,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        **more,
    )


def add(group: typer.Typer, *commands: Callable[..., None], is_reader: bool = True) -> None:
    """Add commands to a group, called as the functions are."""
    for command in commands:
        group.command(cls=Command)(spread(command, is_reader=is_reader))


def print_summary(
    summary: dict[str, Any], as_json: bool, show: Callable[[Console, dict[str, Any]], None]
) -> None:
    """Print the answer of a command as one JSON object, or for people."""
    if as_json:
        typer.echo(json.dumps(summary, allow_nan=False))
        return
    with printing() as console:
        show(console, summary)
