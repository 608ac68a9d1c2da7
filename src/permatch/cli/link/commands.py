"""``permatch link``: links from a table of scored pairs, and the commands beside it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from permatch.cli.link.options import Linking, Table
from permatch.cli.link.show import show
from permatch.cli.link.steps import as_options, find_links, going_on_if_interrupted
from permatch.cli.shared.options import Elsewhere, flag, optional, spread
from permatch.cli.shared.steps import check_target, nothing_written_if_interrupted
from permatch.cli.shared.terminal import (
    INTERRUPTED,
    Command,
    Group,
    add,
    new_group,
    standard_output,
)

#: The command that ``permatch link`` runs if none is named.
_DEFAULT = "pairs"


class DefaultGroup(Group):
    """A group whose first argument may be a table instead of a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line."""
        # A table may be called like the command, which is never without one.
        is_table = args[:1] == [_DEFAULT] and (args[1:] or ["-"])[0].startswith("-")
        if not args or is_table or args[0] not in self.commands:
            args = [_DEFAULT, *(args or ["--help"])]
        return super().parse_args(ctx, args)


class DefaultCommand(Command):
    """The command of a group that is run by the name of the group alone."""

    def make_context(
        self, info_name: Any, args: list[str], *others: Any, **more: Any
    ) -> Any:
        """Prepare to run, under the name of the group."""
        parent = more.get("parent")
        if parent is not None and parent.parent is not None:
            info_name, more["parent"] = parent.info_name, parent.parent
        return super().make_context(info_name, args, *others, **more)


link = new_group()


def pairs(
    table: Table,
    out: Annotated[
        Path | None,
        optional(
            "--out",
            "-o",
            metavar="FILE",
            help="Output file, .csv or .tsv, also .gz, or .parquet. Default: standard "
            "output, as CSV. With --from-disk or --dask a folder of Parquet files.",
        ),
    ] = None,
    links_only: Annotated[
        bool, flag("--links-only", help="Write only the pairs that are linked.")
    ] = False,
    review: Annotated[
        int | None,
        optional(
            "--review",
            metavar="N",
            min=1,
            help="Also write the N pairs that a person should look at first.",
        ),
    ] = None,
    review_out: Annotated[
        Path,
        typer.Option("--review-out", metavar="FILE", help="Output file of --review."),
    ] = Path("review.csv"),
    *,
    linking: Linking,
    elsewhere: Elsewhere,
) -> None:
    """Link the records of two tables one-to-one, from scored pairs.

    [bold]The table[/bold] has a row for every pair of records that may belong
    together, with the probability that a linker or a classifier gave it:

      left,right,probability
      a1,b7,0.93
      a1,b9,0.41
      ...

    A splink result needs no options; other columns are named by --left and so
    on.  A pair without a row cannot be linked.  No training is needed; a model
    that was learned from labelled pairs is used by --model.

    [bold]The output[/bold] is the same table, row by row: the probability that
    the pair is a link, no record having two partners; the input probability;
    the probabilities that either record has no partner; the decision (link, no
    link or review); whether the probability is exact, and an interval in which
    it lies for certain.  A pair whose interval leaves the decision open is left
    for review.  A summary goes to standard error.

    The expected number of links is kept: competition between candidates would
    lower it, so one constant is added to all log-odds (--expected-links).

    Ctrl-C while intervals are narrowed writes what is decided so far.

    Pairs that do not fit in memory are a folder of Parquet files: read from disk
    part by part (--from-disk), or linked by the workers of a cluster that see the
    same folders (--dask).  Links are written to a folder, part by part; after
    Ctrl-C the same command goes on where it stopped.

    [bold]Examples[/bold]

      permatch link pairs.csv --out links.csv
      permatch link pairs.csv --left id_a --right id_b --probability p
      permatch link pairs.parquet -o links.parquet --review 50
      permatch link pairs.csv -o links.csv --false 5 --abstain 0.2
      permatch link pairs.csv -o links.csv --expected-links 1200
      permatch link pairs.csv -o links.csv --capacity-right 3
      permatch link show pairs.csv --out link.html
      permatch link pairs/ --from-disk --out links/
      permatch link pairs/ --dask tcp://10.0.0.1:8786 --out links/
    """
    elsewhere.check(table)
    if elsewhere.is_used:
        _link_elsewhere(table, out, links_only, review, review_out, linking, elsewhere)
        return
    with nothing_written_if_interrupted():
        out = None if str(out) == "-" else out
        inputs = table, linking.model and str(linking.model)
        from permatch.linking.files import suffix_of

        if out is not None:
            check_target(out, "--out", *inputs)
            suffix_of(out)
        if review is not None:
            check_target(review_out, "--review-out", *inputs)
            suffix_of(review_out)
            if out is not None and out.absolute() == review_out.absolute():
                raise typer.BadParameter(
                    f"--out and --review-out must be different files; both are {out}."
                )
        links, is_cut_short = find_links(table, linking)
        chosen = links[links.is_linked] if links_only else links
        chosen.write(standard_output() if out is None else out)
        if review is not None:
            links.review(review).write(review_out)
            typer.echo(f"wrote {review_out}: pairs to look at first", err=True)
    typer.echo(as_options(links.summary()), err=True)
    if is_cut_short:
        raise typer.Exit(INTERRUPTED)


def _link_elsewhere(
    table: str,
    out: Path | None,
    links_only: bool,
    review: int | None,
    review_out: Path,
    linking: Linking,
    elsewhere: Elsewhere,
) -> None:
    """Link pairs that do not fit in memory."""
    if out is None or str(out) == "-":
        raise typer.BadParameter(
            "--from-disk and --dask write links part by part; name a folder with --out."
        )
    if links_only:
        raise typer.BadParameter(
            "--links-only is for links in memory; drop it, and read the rows with decision "
            "'link' from the folder."
        )
    from permatch.linking.files import suffix_of

    with going_on_if_interrupted(out), elsewhere.connected():
        if review is not None:
            check_target(review_out, "--review-out")
            suffix_of(review_out)
        links, _ = find_links(
            table, linking, out=out, is_on_dask=elsewhere.dask is not None
        )
        if review is not None:
            links.review(review).write(review_out)
            typer.echo(f"wrote {review_out}: pairs to look at first", err=True)
        typer.echo(as_options(links.summary()), err=True)


link.command(cls=DefaultCommand)(spread(pairs))
add(link, show)
