"""``permatch rank evaluate`` and ``permatch rank cv``: how good rankings are."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from permatch.cli.match_options import parse_alphas
from permatch.cli.match_steps import check_target, nothing_written_if_interrupted
from permatch.cli.options import Debug, MaxBytes
from permatch.cli.rank_options import (
    MAX_RESAMPLES,
    Alpha,
    Alphas,
    AsJson,
    Cutoffs,
    Discount,
    DiscountOption,
    Estimator,
    EstimatorOption,
    Form,
    FormOption,
    Jobs,
    MaxIter,
    NSubsets,
    QueryWeightOption,
    Scaling,
    ScalingOption,
    Seed,
    SubsetSize,
    model_options,
    parse_cutoffs,
)
from permatch.cli.rank_steps import check_same_features, load_ranker
from permatch.cli.terminal import printing


class Ties(StrEnum):
    """What ``--ties`` accepts."""

    STABLE = "stable"
    EXPECTED = "expected"


def evaluate(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL FILE...",
            help="Model file, and judged LETOR files; with --scores judged files only.",
            show_default=False,
        ),
    ],
    scores: Annotated[
        Path | None,
        typer.Option(
            "--scores",
            metavar="FILE",
            help="Scores to measure instead of a model's, one number per document.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="MODEL",
            help="A second model to compare with.",
            show_default=False,
        ),
    ] = None,
    against_scores: Annotated[
        Path | None,
        typer.Option(
            "--against-scores",
            metavar="FILE",
            help="Scores to compare with.",
            show_default=False,
        ),
    ] = None,
    discount: DiscountOption = Discount.PAPER,
    cutoffs: Cutoffs = "1,3,5,10",
    ties: Annotated[
        Ties,
        typer.Option("--ties", help="Equal scores keep their order, or are averaged over."),
    ] = Ties.STABLE,
    threshold: Annotated[
        int,
        typer.Option(
            "--relevant-from", min=1, metavar="GRADE", help="Of MAP, P@k and MRR."
        ),
    ] = 1,
    n_resamples: Annotated[
        int,
        typer.Option(
            "--resamples", min=1, max=MAX_RESAMPLES, help="Of the test in a comparison."
        ),
    ] = 100_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of that test.")] = 0,
    per_query: Annotated[
        Path | None,
        typer.Option(
            "--per-query",
            metavar="CSV",
            help="Where to write the measures of every query.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    max_bytes: MaxBytes = None,
    debug: Debug = False,
) -> None:
    """Measure rankings on judged files the model was not fitted on.

    Prints NDCG@k, MAP, P@k, ERR, MRR and Kendall's tau-b, each the mean over
    the queries of all files, with its standard error.  A query without a
    relevant document counts 0 (tau: a query of one grade is left out).

    A comparison (--against) tests the differences by randomisation, paired by
    query.

    [bold]Examples[/bold]

      permatch rank evaluate model.json test.txt
      permatch rank evaluate model.json test.txt --discount letor --at 1,2,3,5,10
      permatch rank evaluate model.json test.txt --against old.json
      permatch rank evaluate --scores scores.txt test.txt --per-query queries.csv
      permatch rank evaluate model.json test.txt --json | python -m json.tool
    """
    if against is not None and against_scores is not None:
        raise typer.BadParameter("--against and --against-scores exclude each other.")
    places = parse_cutoffs(cutoffs)
    files = paths if scores is not None else paths[1:]
    if not files:
        raise typer.BadParameter(
            "a model and at least one judged file are needed: MODEL FILE. For scores from "
            "elsewhere: --scores SCORES FILE."
        )
    if [*files, *map(str, (scores, against_scores))].count("-") > 1:
        raise typer.BadParameter("standard input can be read once.")
    with nothing_written_if_interrupted():
        from permatch.cli.rank_measures import (
            Measuring,
            collect_scores,
            describe_evaluation,
            write_per_query,
        )
        from permatch.cli.rank_report import show_evaluation

        sources = [scores if scores is not None else Path(paths[0])]
        sources += [path for path in (against, against_scores) if path is not None]
        if per_query is not None:
            check_target(per_query, "--per-query", *files, *map(str, sources))
        methods: list[Any] = [
            path if path in (scores, against_scores) else load_ranker(path)
            for path in sources
        ]
        models = [method for method in methods if not isinstance(method, Path)]
        check_same_features(sources, models)
        judged = collect_scores(files, methods)
        measuring = Measuring(places, discount.value, ties.value, threshold)
        found, values = describe_evaluation(judged, measuring, n_resamples, seed)
        summary = {
            "scores_of": str(sources[0]),
            "against": str(sources[1]) if len(sources) > 1 else None,
            "files": files,
        } | found
        if per_query is not None:
            write_per_query(per_query, judged, values)
        if as_json:
            typer.echo(json.dumps(summary, allow_nan=False))
        else:
            with printing() as console:
                show_evaluation(console, summary)


def cross_validation(
    data: Annotated[
        str,
        typer.Argument(
            metavar="FILE|FOLDER",
            help="Judged LETOR file (- is stdin), or a folder with Fold1, Fold2, ...",
            show_default=False,
        ),
    ],
    estimator: EstimatorOption = Estimator.RANKMATCH,
    subset_size: SubsetSize = None,
    n_subsets: NSubsets = 0.4,
    form: FormOption = Form.AUTO,
    query_weight: QueryWeightOption = None,
    scaling: ScalingOption = Scaling.MINMAX,
    max_iter: MaxIter = None,
    alpha: Alpha = None,
    alphas: Alphas = None,
    folds: Annotated[
        int, typer.Option("--folds", min=2, help="Parts a file's queries are cut into.")
    ] = 5,
    seed: Seed = 0,
    jobs: Jobs = 1,
    discount: DiscountOption = Discount.PAPER,
    cutoffs: Cutoffs = "1,3,5,10",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="CSV",
            help="Where to write a row per fold.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    max_bytes: MaxBytes = None,
    debug: Debug = False,
) -> None:
    """Tell how well a method ranks queries it has not seen, by cross-validation.

    A folder has folds already, as LETOR and MSLR have them: train, validation
    and test file each.  The queries of a file are parted at random in the same
    manner: each part tests once, the next one chooses alpha, the others train.
    Alpha is chosen by the mean of NDCG@1 to NDCG@10 on the validation part.

    [bold]Examples[/bold]

      permatch rank cv OHSUMED
      permatch rank cv OHSUMED --estimator dorm --discount letor
      permatch rank cv judged.txt --folds 10 --subset-size 3 --out folds.csv
      permatch rank cv judged.txt --alphas 100,10,1 --json
    """
    if alpha is not None and alphas is not None:
        raise typer.BadParameter("--alpha and --alphas exclude each other.")
    is_search = alpha is None
    options = model_options(
        estimator,
        subset_size,
        n_subsets,
        form,
        query_weight,
        scaling,
        max_iter,
        seed,
        jobs,
    )
    options |= {"alphas": parse_alphas(alphas)} if alphas is not None else {}
    options |= {"alpha": alpha} if alpha is not None else {}
    places = parse_cutoffs(cutoffs)
    with nothing_written_if_interrupted():
        from permatch.cli.rank_folds import (
            cross_validate,
            describe_folds,
            read_folds,
            write_folds,
        )
        from permatch.cli.rank_measures import Measuring
        from permatch.cli.rank_report import show_folds

        if out is not None:
            check_target(out, "--out", data)
        parts = read_folds(data, folds, seed, is_search=is_search)
        measuring = Measuring(places, discount.value, is_short=True)
        rows = list(cross_validate(parts, estimator.value, options, measuring))
        summary = {
            "data": data,
            "estimator": estimator.value,
            "is_search": is_search,
            "discount": discount.value,
        } | describe_folds(rows)
        if out is not None:
            write_folds(out, rows)
        if as_json:
            typer.echo(json.dumps(summary, allow_nan=False))
        else:
            with printing() as console:
                show_folds(console, summary)
