"""``permatch reproduce ohsumed``, ``ohsumed-sample-size`` and ``runtime``."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from permatch.cli.options import check_jobs, make_folder
from permatch.cli.reproduce_report import (
    RANKING_FIELDS,
    RUNTIME_FIELDS,
    SAMPLE_SIZE_FIELDS,
    ranking_lines,
    report_ranking,
    report_runtime,
    report_sample_size,
)
from permatch.cli.reproduce_steps import (
    Debug,
    Jobs,
    Out,
    Repeats,
    draw,
    need,
    run_kept,
    say_written,
    write_csv,
)
from permatch.cli.terminal import one_line_errors, printing


def check_dataset(name: str) -> str:
    """Return a data set as the paper spells it."""
    from permatch.experiments.letor_folds import DATASETS

    known = {known.lower(): known for known in DATASETS}
    if name.lower() not in known:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(DATASETS)}.")
    return known[name.lower()]


Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        "-d",
        metavar="DIR",
        help="Folder that holds OHSUMED with Fold1 ... Fold5, itself or in 'letor'; by "
        "default what the environment variable PERMATCH_DATA says.",
        show_default=False,
    ),
]
Dataset = Annotated[
    str,
    typer.Option(
        "--dataset",
        metavar="NAME",
        help="OHSUMED, or TD2003 or TD2004 if you have them.",
        callback=check_dataset,
    ),
]
Quick = Annotated[
    bool,
    typer.Option("--quick", metavar="", help="A smaller experiment, under a minute."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Where the subsets come from.")]


def ohsumed(
    data: Data = None,
    quick: Quick = False,
    out: Out = Path("results"),
    repeats: Repeats = None,
    dataset: Dataset = "OHSUMED",
    jobs: Jobs = -1,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Learn to rank LETOR's OHSUMED (the paper's Figure 2, right).

    RankMatch on subsets of M = 3 documents and on whole lists, DORM on the
    very subsets of RankMatch, and query-centred ridge regression, each with
    alpha chosen on the validation part of every fold; beside them RankBoost
    and RankSVM as published, where the folder 'published' is there.  Subsets
    are drawn anew in every repeat.

    The folder gets the rows (ohsumed.jsonl), the figure (.png, .svg), the
    table (.csv) and a page with everything, tests included (.html).  Stop it
    at any time with Ctrl-C: the same command goes on where it was, also with
    more repeats.

    The data is Microsoft's LETOR 2.0, which is not part of permatch.

    [bold]Examples[/bold]

      permatch reproduce ohsumed --data ~/letor --quick
      permatch reproduce ohsumed --data ~/letor --repeats 10
      permatch reproduce ohsumed --data ~/letor --dataset TD2003
    """
    from permatch.experiments.ohsumed import BASELINE, Config, run
    from permatch.experiments.ranking_summary import compare, summarise
    from permatch.pages.ohsumed import ohsumed_page
    from permatch.plots import ndcg_curves

    with one_line_errors(debug):
        need("permatch reproduce ohsumed", matplotlib="plots")
        config = _configure(Config, quick, data, dataset, repeats, seed)
        stem = _stem(out, dataset.lower(), quick)
        rows = run_kept(
            dataset,
            stem.with_suffix(".jsonl"),
            lambda kept, show: run(config, kept, on_progress=show, n_jobs=jobs),
        )
        summary, tests = summarise(rows), compare(rows, BASELINE)
        write_csv(stem.with_suffix(".csv"), RANKING_FIELDS, ranking_lines(summary, tests))
        draw(stem, lambda axes: ndcg_curves(summary, axes), width=7.0, height=4.6)
        ohsumed_page(config, rows, tests).write(stem.with_suffix(".html"))
        with printing() as console:
            report_ranking(console, config.n_repeats, summary, tests)
            say_written(console, stem, "jsonl", "csv", "html")


def ohsumed_sample_size(
    data: Data = None,
    quick: Quick = False,
    out: Out = Path("results"),
    repeats: Repeats = None,
    dataset: Dataset = "OHSUMED",
    jobs: Jobs = -1,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Learn to rank from more and more subsets (the paper's Figure 3, right).

    From every training query 0.03 to 1.0 times D M subsets are drawn, D being
    its documents and M the number of grades.  RankMatch and DORM learn from
    the same ones, choose alpha on the validation part of a fold, and are
    compared by NDCG@1.

    The folder gets the rows (ohsumed-sample-size.jsonl), the figure (.png,
    .svg) and the table (.csv).  Stop it at any time with Ctrl-C: the same
    command goes on where it was, also with more repeats.

    [bold]Examples[/bold]

      permatch reproduce ohsumed-sample-size --data ~/letor --quick
      permatch reproduce ohsumed-sample-size --data ~/letor --dataset TD2004
    """
    from permatch.experiments.ohsumed_sample_size import Config, run, summarise
    from permatch.plots import sample_size_curve

    with one_line_errors(debug):
        need("permatch reproduce ohsumed-sample-size", matplotlib="plots")
        config = _configure(Config, quick, data, dataset, repeats, seed)
        stem = _stem(out, f"{dataset.lower()}-sample-size", quick)
        rows = run_kept(
            dataset,
            stem.with_suffix(".jsonl"),
            lambda kept, show: run(config, kept, on_progress=show, n_jobs=jobs),
        )
        summary = summarise(rows)
        write_csv(stem.with_suffix(".csv"), SAMPLE_SIZE_FIELDS, summary)
        draw(stem, lambda axes: sample_size_curve(summary, axes), width=6.0, height=4.0)
        with printing() as console:
            report_sample_size(console, config.n_repeats, summary)
            say_written(console, stem, "jsonl", "csv")


def runtime(
    data: Data = None,
    quick: Quick = False,
    out: Out = Path("results"),
    repeats: Annotated[
        int | None,
        typer.Option(
            "--repeats",
            "-r",
            min=1,
            metavar="N",
            help="Repeats; 3 by default, 1 with --quick.",
        ),
    ] = None,
    dataset: Dataset = "OHSUMED",
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs", "-j", help="Threads, -1 for all processors.", callback=check_jobs
        ),
    ] = 1,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Time the training by the size of the graphs (the paper's Table 1).

    One fit at one alpha, divided by the number of subsets it learns from:
    M = 3, 4 and 5 documents, M = 20, and whole lists; and pairs of images with
    20 points, as in the paper, if scikit-image is installed.  All of it is
    exact; the paper sampled where M = 20.

    The folder gets the rows (runtime.jsonl), the figure (.png, .svg) and the
    table (.csv).  Leave the machine alone meanwhile.

    [bold]Examples[/bold]

      permatch reproduce runtime --data ~/letor --quick
      permatch reproduce runtime --data ~/letor --jobs 2
    """
    from permatch.experiments.rank_runtime import Config, run, summarise
    from permatch.plots import runtime_bars

    with one_line_errors(debug):
        need("permatch reproduce runtime", matplotlib="plots")
        config = _configure(Config, quick, data, dataset, repeats, seed)
        config = replace(config, n_jobs=jobs)
        is_usual = dataset == Config.dataset
        stem = _stem(out, "runtime" if is_usual else f"{dataset.lower()}-runtime", quick)
        rows = run_kept(
            "run times",
            stem.with_suffix(".jsonl"),
            lambda kept, show: run(config, kept, on_progress=show),
        )
        summary = summarise(rows)
        write_csv(stem.with_suffix(".csv"), RUNTIME_FIELDS, summary)
        draw(stem, lambda axes: runtime_bars(summary, axes), width=7.0, height=4.0)
        with printing() as console:
            report_runtime(console, config.n_jobs, summary)
            say_written(console, stem, "jsonl", "csv")


def _configure(
    kind: Any,
    quick: bool,
    data: Path | None,
    dataset: str,
    repeats: int | None,
    seed: int,
) -> Any:
    config = kind.quick() if quick else kind()
    where = None if data is None else str(data)
    config = replace(config, data=where, dataset=dataset, seed=seed)
    return config if repeats is None else replace(config, n_repeats=repeats)


def _stem(out: Path, name: str, quick: bool) -> Path:
    return make_folder(out) / (f"{name}-quick" if quick else name)
