"""The application: its options and the list of its commands."""

from typing import Annotated

import typer

from permatch._version import __version__
from permatch.cli.demo import demo
from permatch.cli.engines import engines
from permatch.cli.infer import infer
from permatch.cli.link.commands import DefaultGroup, link
from permatch.cli.match.commands import match
from permatch.cli.rank.commands import rank
from permatch.cli.shared.options import Debug
from permatch.cli.shared.terminal import Group, add, new_group

app = new_group(name="permatch", add_completion=False, pretty_exceptions_enable=False)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"permatch {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Exit status: 0 success, 1 failure (explained in one line on standard error), "
    "2 wrong usage, 130 interrupted."
)
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            "-V",
            metavar="",
            help="Print the version and exit.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
    debug: Debug = False,
) -> None:
    """Pair things one-to-one, with the probability of every pair.

    permatch links records, matches points and ranks documents, from scores
    that are given or learned from labelled examples.  Probabilities are
    exact where the graph allows it; elsewhere they come with their errors.

    [bold]Start here[/bold]

      permatch demo                    see it work, with a page of pictures
      permatch link pairs.csv          link two tables, from scored pairs
      permatch match --help            learn the scores from examples
      permatch rank --help             learn to rank from judged lists
      permatch infer scores.csv        probabilities for a matrix of scores
      permatch infer --help            how that matrix is written
    """


add(app, demo, is_reader=False)
add(app, infer)
add(app, engines, is_reader=False)
app.add_typer(
    link, name="link", cls=DefaultGroup, help="Link two tables, from scored pairs."
)
app.add_typer(match, name="match", cls=Group)
app.add_typer(rank, name="rank", cls=Group)
