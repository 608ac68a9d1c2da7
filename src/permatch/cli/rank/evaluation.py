"""``permatch rank evaluate`` and ``permatch rank cv``: the quality of rankings."""

from pathlib import Path
from typing import Annotated, Any

import typer

from permatch._estimators import options_of
from permatch._files import write_csv
from permatch._optional import require
from permatch.cli.rank.options import Columns, Learner, Metrics
from permatch.cli.rank.steps import load_ranker
from permatch.cli.shared.folds import Folds, report_folds, run_folds, show_folds
from permatch.cli.shared.options import AsJson, argument, optional
from permatch.cli.shared.steps import check_target, nothing_written_if_interrupted
from permatch.cli.shared.terminal import print_summary
from permatch.cli.shared.trees import TreeOptions, refuse_penalty

#: What a method can be compared with by cross-validation.
AGAINST = [*options_of("rank"), "trees"]


def check_against(name: str | None) -> str | None:
    """Refuse a method that is not there."""
    if name not in (None, *AGAINST):
        known = ", ".join(map(repr, AGAINST))
        raise typer.BadParameter(f"{name!r} is not one of {known}.")
    return name


def evaluate(
    paths: Annotated[
        list[str],
        argument(
            "MODEL FILE...",
            "Model file and judged files; with --scores only judged files.",
        ),
    ],
    scores: Annotated[
        Path | None,
        optional(
            "--scores",
            metavar="FILE",
            help="Scores to measure instead of a model: one number per document, or a "
            "TREC run.",
        ),
    ] = None,
    metric: Metrics = None,
    per_query: Annotated[
        Path | None,
        optional(
            "--per-query",
            metavar="CSV",
            help="Output file for the measures per query.",
        ),
    ] = None,
    *,
    columns: Columns,
    as_json: AsJson = False,
) -> None:
    """Measure rankings on judged files the model was not fitted on.

    Prints the mean of every measure over the queries of all files, with its
    standard error.  A query without relevant documents counts 0 (Tau: a query
    with a single grade is left out).  permatch rank compare tests whether two
    models differ.

    [bold]Measures[/bold] (--metric) are NDCG, MeanNDCG, MAP, P, ERR, MRR and Tau, with the
    position after @ and options in parentheses, as in Python:

      NDCG@1,3,5,10                      discount 1/log2(1+j)
      NDCG(discount=letor)@10            that of LETOR's script
      MAP(threshold=2)                   grades of at least 2 are relevant
      P(ties=expected)@5                 the mean over orders of equal scores

    [bold]Examples[/bold]

      permatch rank evaluate model.json test.txt
      permatch rank evaluate model.json test.txt --metric NDCG@1,2,3 --metric MAP
      permatch rank evaluate new.json test.csv --grade label --qid query
      permatch rank evaluate --scores scores.txt test.txt --per-query queries.csv
      permatch rank evaluate model.json test.txt --json | python -m json.tool
    """
    files = paths if scores is not None else paths[1:]
    if not files:
        raise typer.BadParameter(
            "a model and at least one judged file are required: MODEL FILE. For other "
            "scores use --scores SCORES FILE."
        )
    if [*files, str(scores)].count("-") > 1:
        raise typer.BadParameter("standard input can be read only once.")
    source = Path(paths[0]) if scores is None else scores
    with nothing_written_if_interrupted():
        from permatch.cli.rank import measures
        from permatch.cli.rank.report import show_evaluation
        from permatch.datasets.sources import local_file

        if per_query is not None:
            check_target(per_query, "--per-query", *files, str(source))
        if scores is None:
            judged = measures.collect_scores(files, [load_ranker(source)], columns)
        else:
            with local_file(str(source)) as path:
                judged = measures.collect_scores(files, [path], columns)
        found, values = measures.describe_evaluation(judged, metric)
        summary = {"scores_of": str(source), "files": files} | found
        if per_query is not None:
            write_csv(per_query, measures.per_query_rows(judged, values))
        print_summary(summary, as_json, show_evaluation)


def cv(
    data: Annotated[
        str,
        argument(
            "FILE|FOLDER",
            "Judged file (- for stdin), or a folder with Fold1, Fold2, ...",
        ),
    ],
    learner: Learner,
    folds: Folds,
    trees: TreeOptions,
    columns: Columns,
    against: Annotated[
        str | None,
        optional(
            "--against",
            metavar=f"<{'|'.join(AGAINST)}>",
            help="Another method, on the same folds and with the same options as far as "
            "it has them: is the difference more than chance?",
            callback=check_against,
        ),
    ] = None,
    metric: Metrics = None,
    as_json: AsJson = False,
) -> None:
    """Measure a method on queries it has not seen, by cross-validation.

    A folder has its own folds, as in LETOR and MSLR: training, validation and
    test file each.  The queries of a file are split at random in the same way:
    each part is the test part once, the next one chooses alpha, the others
    train.  Alpha is chosen by the mean of NDCG@1 to NDCG@10 on the validation
    part, and so are leaves and number of trees (--model-kind trees).  Ctrl-C
    reports the folds that are finished.

    Spread is the standard deviation over folds; error is the standard error of
    the mean over the test queries of all folds.  With --against another method
    is fitted on the same folds, and both are compared on all test queries by
    paired tests, as permatch rank compare does.

    [bold]Examples[/bold]

      permatch rank cv OHSUMED
      permatch rank cv OHSUMED --estimator dorm --metric "NDCG(discount=letor)@10"
      permatch rank cv judged.txt --folds 10 --subset-size 3 --out folds.csv
      permatch rank cv judged.txt --alphas 100,10,1 --json
      permatch rank cv OHSUMED --model-kind trees --leaves 4,8,16
      permatch rank cv OHSUMED --against ridge
      permatch rank cv train.csv --grade label --qid query
    """
    options = learner.options() | folds.penalty().values()
    if trees.is_trees:
        learner.check_for_trees()
        refuse_penalty(folds.alpha, folds.alphas)
    options |= trees.values("rank", learner.estimator, is_search=folds.is_search)
    if against == ("trees" if trees.is_trees else learner.estimator):
        raise typer.BadParameter(f"--against {against} is the method itself; name another.")
    if against == "trees":
        require("lightgbm", "boosting", what="--against trees")  # before data are read
    with nothing_written_if_interrupted():
        from permatch.cli.rank.comparing import describe_rows, show_against
        from permatch.cli.rank.folds import Method, Tests, read_folds

        if folds.out is not None:
            check_target(folds.out, "--out", data)
        is_search, name = folds.is_search, trees.name(learner.estimator)
        methods = [Method(name, learner.estimator, trees.kind, options)]
        if against == "trees":
            methods.append(Method("rankmatch with trees", "rankmatch", "trees", options))
        elif against is not None:
            methods.append(Method(against, against, "linear", options))
        parts = read_folds(data, columns, folds.folds, learner.seed, is_search=is_search)
        tests = Tests(methods, metric)
        rows = run_folds(parts, tests.run)
        errors = {"standard_error": tests.errors()}
        summary = {"data": data, "estimator": name, "is_search": is_search} | errors
        compared = None
        if against is not None:
            compared = tests.compare(learner.seed)
            summary |= {"against": methods[1].name, "comparisons": describe_rows(compared)}
        names = {name: name.replace("MeanN", "Mean\nN") for name in rows[0]["measures"]}

        def show(console: Any, found: dict[str, Any]) -> None:
            show_folds(console, found, "queries", names)
            if compared is not None:
                show_against(console, compared)

        report_folds(summary, rows, len(parts), folds.out, as_json=as_json, show=show)
