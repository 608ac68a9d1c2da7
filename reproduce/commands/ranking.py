"""``python -m reproduce ohsumed``, ``ohsumed-sample-size`` and ``runtime``."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from permatch.cli.shared.options import Debug, check_jobs, make_folder
from reproduce.commands.ranking_parts import (
    ohsumed_part,
    runtime_part,
    sample_size_part,
)
from reproduce.commands.steps import (
    Jobs,
    Out,
    Quick,
    Repeats,
    RepeatsUntilSettled,
    data_option,
    finish,
    need,
)


def check_dataset(name: str) -> str:
    """Return a data set as the paper spells it."""
    from reproduce.experiments.letor_folds import DATASETS

    known = {known.lower(): known for known in DATASETS}
    if name.lower() not in known:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(DATASETS)}.")
    return known[name.lower()]


Data = Annotated[
    Path | None,
    data_option("that contains OHSUMED/Fold1 ... Fold5, or letor/OHSUMED"),
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
Seed = Annotated[int, typer.Option("--seed", min=0, help="Random seed of the subsets.")]


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

    Compares RankMatch on subsets of M = 3 documents and on whole lists, DORM
    on the same subsets, query-centred ridge regression, and the rankers of the
    paper's figure: RankBoost, RankSVM, FRank, ListNet, AdaRank, QBRank,
    IsoRank, SortNet and StructRank.  All run on the same folds and choose
    their options on the validation part.  Published results of RankBoost and
    RankSVM are added if the folder 'published' exists.  Every repeat draws new
    subsets for RankMatch and DORM; the others run once.  Takes about ten
    minutes of one processor.

    Writes the rows (ohsumed.jsonl), the figure (.png, .svg), the table (.csv)
    and a page with all results and significance tests (.html).  You can stop
    at any time with Ctrl-C; the same command resumes, also with more repeats.

    The data is Microsoft's LETOR 2.0, which is not part of permatch.

    [bold]Examples[/bold]

      python -m reproduce ohsumed --data ~/letor --quick
      python -m reproduce ohsumed --data ~/letor --repeats 10
      python -m reproduce ohsumed --data ~/letor --dataset TD2003
    """
    from reproduce.experiments.ohsumed import Config

    need("reproduce ohsumed", matplotlib="plots")
    config = _configure(Config, quick, data, dataset, repeats, seed)
    finish(ohsumed_part(config, make_folder(out), quick, jobs))


def ohsumed_sample_size(
    data: Data = None,
    quick: Quick = False,
    out: Out = Path("results"),
    repeats: RepeatsUntilSettled = None,
    dataset: Dataset = "OHSUMED",
    jobs: Jobs = -1,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Learn to rank from a growing number of subsets (the paper's Figure 3, right).

    Draws 0.03 to 1.0 times D M subsets per training query, where D is the
    number of documents and M the number of grades.  RankMatch and DORM learn
    from the same subsets, choose alpha on the validation part of a fold, and
    are compared by NDCG@1.

    Writes the rows (ohsumed-sample-size.jsonl), the figure (.png, .svg) and
    the table (.csv).  You can stop at any time with Ctrl-C; the same command
    resumes, also with more repeats.

    [bold]Examples[/bold]

      python -m reproduce ohsumed-sample-size --data ~/letor --quick
      python -m reproduce ohsumed-sample-size --data ~/letor --dataset TD2004
    """
    from reproduce.experiments.ohsumed_sample_size import Config

    need("reproduce ohsumed-sample-size", matplotlib="plots")
    config = _configure(Config, quick, data, dataset, repeats, seed)
    finish(sample_size_part(config, make_folder(out), quick, jobs))


def runtime(
    data: Data = None,
    quick: Quick = False,
    out: Out = Path("results"),
    repeats: Repeats = None,
    dataset: Dataset = "OHSUMED",
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs", "-j", help="Number of threads; -1 for all.", callback=check_jobs
        ),
    ] = 1,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Measure training time by graph size (the paper's Table 1).

    Times one fit at one alpha, divided by the number of subsets: M = 3, 4 and
    5 documents, M = 20, and whole lists; and pairs of images with 20 points,
    as in the paper, if scikit-image is installed.  All fits are exact; the
    paper used sampling for M = 20.

    Writes the rows (runtime.jsonl), the figure (.png, .svg) and the table
    (.csv).  Do not use the machine meanwhile.

    [bold]Examples[/bold]

      python -m reproduce runtime --data ~/letor --quick
      python -m reproduce runtime --data ~/letor --jobs 2
    """
    from reproduce.experiments.rank_runtime import Config

    need("reproduce runtime", matplotlib="plots")
    config = _configure(Config, quick, data, dataset, repeats, seed)
    config = replace(config, n_jobs=jobs)
    finish(runtime_part(config, make_folder(out), quick))


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
