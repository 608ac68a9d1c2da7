"""The application: its options and the list of its commands."""

from typing import Annotated

import typer

from permatch._version import __version__
from permatch.cli.demo import demo
from permatch.cli.engines import engines
from permatch.cli.infer import infer

app = typer.Typer(
    name="permatch",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"permatch {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Exit status: 0 all is well, 1 failure (one line on standard error says why), "
    "2 wrong usage, 130 interrupted."
)
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and leave.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Probabilities over the perfect matchings of a bipartite graph.

    Give every edge of a graph with as many rows as columns a score; permatch
    then knows how probable each one-to-one matching is, and each single edge,
    exactly.

    [bold]Start here[/bold]

      permatch demo                    a worked example, one minute to read
      permatch infer scores.csv        the same for a matrix of your own
      permatch infer --help            how that matrix is written
    """


app.command()(demo)
app.command()(infer)
app.command()(engines)
