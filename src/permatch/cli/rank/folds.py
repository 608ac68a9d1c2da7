"""Cross-validation over queries: the folds of LETOR, or a file split the same way."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from permatch._estimators import Kind
from permatch.cli.rank.measures import mean_values
from permatch.cli.rank.options import Columns
from permatch.cli.rank.reading import read_judged_file
from permatch.cli.rank.steps import new_ranker
from permatch.cli.shared.folds import describe_fold, shuffled_splits
from permatch.cli.shared.steps import fit_model
from permatch.datasets import RankingData, load_letor
from permatch.queries import QuerySet, check_queries


@dataclass(frozen=True, eq=False)
class QueryFold:
    """Queries to train on, to choose alpha on (None if it is given), and to test on."""

    name: str
    train: QuerySet
    validation: QuerySet | None
    test: QuerySet


def read_folds(
    name: str, columns: Columns, n_folds: int, seed: int, *, is_search: bool
) -> list[QueryFold]:
    """Return the folds of a LETOR folder, or of a file."""
    if name != "-" and Path(name).is_dir():
        columns.check(name, is_table=False)
        return [
            QueryFold(
                str(fold.number),
                _queries(fold.train),
                _queries(fold.validation) if is_search else None,
                _queries(fold.test),
            )
            for fold in load_letor(name).folds
        ]
    queries = _queries(read_judged_file(name, columns))
    return part_queries(queries, n_folds, seed, is_search=is_search)


def part_queries(
    queries: QuerySet, n_folds: int, seed: int, *, is_search: bool
) -> list[QueryFold]:
    """Split queries at random into folds."""
    splits = shuffled_splits(
        queries.n_queries, "queries", n_folds, seed, is_search=is_search
    )
    return [
        QueryFold(
            split.name,
            queries.take(split.train),
            queries.take(split.validation) if is_search else None,
            queries.take(split.test),
        )
        for split in splits
    ]


def run_fold(
    fold: QueryFold,
    estimator: str,
    made_by: Kind,
    options: dict[str, Any],
    metric: list[str] | None,
) -> dict[str, Any]:
    """Fit and test on one fold; return the results as plain numbers."""
    is_search = fold.validation is not None
    model = new_ranker(estimator, made_by, options, is_search=is_search)
    more = {}
    if fold.validation is not None:
        more["validation"] = _as_data(fold.validation)
    if fit_model(model, *_as_data(fold.train), is_shown=False, **more):
        raise KeyboardInterrupt
    test = fold.test
    scores = model.predict(test.documents, group=test.lengths)
    n_validation = fold.validation.n_queries if fold.validation else 0
    return describe_fold(
        fold.name,
        (fold.train.n_queries, n_validation, test.n_queries),
        model,
        mean_values(metric, test.grades, scores, test.lengths),
    )


def _queries(data: RankingData) -> QuerySet:
    return check_queries(data.X, data.y, data.qid)


def _as_data(queries: QuerySet) -> tuple[Any, Any, Any]:
    return queries.documents, queries.grades, queries.owners
