"""``permatch rank compare``: rankers side by side, query by query."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from permatch.cli.rank.options import Columns, Metrics
from permatch.cli.shared.options import AsJson, argument, optional
from permatch.cli.shared.steps import check_target, nothing_written_if_interrupted
from permatch.cli.shared.terminal import print_summary

#: More resamples no test needs.
MAX_RESAMPLES = 10**7


def compare(
    paths: Annotated[
        list[str],
        argument(
            "MODEL MODEL... FILE",
            "Models or files of scores, the baseline first, and the judged file.",
        ),
    ],
    columns: Columns,
    metric: Metrics = None,
    out: Annotated[
        Path | None,
        optional("--out", "-o", metavar="HTML", help="Output file for the page."),
    ] = None,
    csv: Annotated[
        Path | None,
        optional("--csv", metavar="CSV", help="Output file for the measures per query."),
    ] = None,
    n_resamples: Annotated[
        int,
        typer.Option(
            "--resamples",
            min=1,
            max=MAX_RESAMPLES,
            help="Resamples of the tests and intervals, 20 per test or more.",
        ),
    ] = 100_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the tests.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Compare models on judged queries, and tell what may be chance.

    Each model is compared with the first, the baseline.  For every measure:

      difference     mean of the model less that of the baseline
      95 % interval  of the difference, by bootstrap over queries
      p              how often a difference as large would show by chance, if
                     both were equally good: a paired randomisation test
      p (Holm)       the same, corrected for the number of tests; below 0.05
                     is significant
      won, lost      queries on which the model is better, and worse

    The first measure decides on the verdict and on the queries listed; name
    it before you look.  Default: NDCG@10, NDCG@5, NDCG@1, MAP.  The page (--out)
    shows the documents of the queries that were won and lost, side by side; it
    needs no network.

    A MODEL is written by permatch rank fit, or in Python by permatch.save,
    pipelines included.  Rankings made elsewhere are files of scores: one number
    per document in the order of FILE, or a TREC run.  FILE has the LETOR format,
    or is a table, CSV or Parquet, with the columns the models know by name.
    Use queries that no model was fitted on.

    [bold]Examples[/bold]

      permatch rank compare old.json new.json test.txt
      permatch rank compare old.json new.json test.txt --out compare.html
      permatch rank compare old.json a.json b.json test.txt --metric NDCG@5,10
      permatch rank compare bm25.run new.json test.txt --csv per_query.csv
      permatch rank compare old.json new.json test.csv --grade label --qid query
      permatch rank compare old.json new.json test.txt --json | python -m json.tool
    """
    *sources, judged = paths
    if len(sources) < 2:
        raise typer.BadParameter(
            "two or more models and a judged file are required: MODEL MODEL FILE; got "
            f"{len(paths)} file{'s' * (len(paths) > 1)}."
        )
    if "-" in sources:
        raise typer.BadParameter(
            "only the judged file can be read from standard input; name the others."
        )
    for k, path in enumerate(paths):
        if any(Path(path).resolve() == Path(other).resolve() for other in paths[:k]):
            raise typer.BadParameter(f"{path} is named twice; name different files.")
    with nothing_written_if_interrupted():
        for name, target in (("--out", out), ("--csv", csv)):
            if target is not None:
                check_target(target, name, *paths)
        if out is not None and csv is not None and out.resolve() == csv.resolve():
            raise typer.BadParameter(f"--out and --csv are both {out}; name two files.")
        from permatch.cli.rank.comparing import (
            compare_files,
            describe_comparison,
            show_comparison,
        )

        comparison = compare_files(
            sources,
            judged,
            columns,
            measures=metric or None,
            n_resamples=n_resamples,
            random_state=seed,
        )
        summary = describe_comparison(comparison, sources, judged)
        if csv is not None:
            comparison.write(csv, by_query=True)
        if out is not None:
            from permatch.pages import write_comparison_page

            title = f"Rankers compared on {Path(judged).name}"
            write_comparison_page(comparison, out, title=title)
        written = [str(path) for path in (out, csv) if path is not None]
        summary["written"] = written
        show = partial(show_comparison, comparison=comparison)
        print_summary(summary, as_json, show)
