"""Cross-validation over queries: the folds of LETOR, or a file split the same way."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from permatch._estimators import Kind
from permatch._types import FloatArray, IntArray
from permatch.cli.rank.measures import FEW, describe_values, mean_values
from permatch.cli.rank.options import Columns
from permatch.cli.rank.reading import read_judged_file
from permatch.cli.rank.steps import new_ranker
from permatch.cli.shared.folds import describe_fold, shuffled_splits
from permatch.cli.shared.steps import fit_model
from permatch.datasets import RankingData, load_letor
from permatch.metrics import RankerComparison, evaluate
from permatch.metrics.comparing import COMPARED, compare_scores
from permatch.queries import QuerySet, check_queries

#: What methods are compared by; the first, by which they choose, decides on the verdict.
AGAINST = f"MeanNDCG@10, {COMPARED}"


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


@dataclass(frozen=True)
class Method:
    """A way to learn: an estimator, what its scores are made by, and its options."""

    name: str
    estimator: str
    made_by: Kind
    options: dict[str, Any]

    def fit(self, fold: QueryFold) -> Any:
        """Return the model of a fold."""
        is_search = fold.validation is not None
        model = new_ranker(self.estimator, self.made_by, self.options, is_search=is_search)
        more = {}
        if fold.validation is not None:
            more["validation"] = _as_data(fold.validation)
        if fit_model(model, *_as_data(fold.train), is_shown=False, **more):
            raise KeyboardInterrupt
        return model


@dataclass(eq=False)
class Tests:
    """What methods make of the test queries of all folds that are finished."""

    methods: list[Method]
    metric: list[str] | None
    grades: list[IntArray] = field(default_factory=list)
    lengths: list[IntArray] = field(default_factory=list)
    scores: list[list[FloatArray]] = field(default_factory=list)

    def run(self, fold: QueryFold) -> dict[str, Any]:
        """Fit and test on one fold; return the results as plain numbers."""
        models = [method.fit(fold) for method in self.methods]
        test = fold.test
        scores = [model.predict(test.documents, group=test.lengths) for model in models]
        own, *other = (
            mean_values(self.metric, test.grades, found, test.lengths) for found in scores
        )
        self.grades.append(test.grades)
        self.lengths.append(test.lengths)
        self.scores.append(scores)
        n_validation = fold.validation.n_queries if fold.validation else 0
        sizes = fold.train.n_queries, n_validation, test.n_queries
        row = describe_fold(fold.name, sizes, models[0], own)
        return row | ({"against": other[0]} if other else {})

    def errors(self) -> dict[str, float | None]:
        """Return the standard error of every measure over the queries of all folds."""
        grades, lengths = np.concatenate(self.grades), np.concatenate(self.lengths)
        scores = np.concatenate([own[0] for own in self.scores])
        values = evaluate(self.metric or FEW, grades, scores, group=lengths, per_query=True)
        return {
            str(name): describe_values(found)["standard_error"]
            for name, found in values.items()
        }

    def compare(self, seed: int) -> RankerComparison:
        """Compare the first method with the second, the baseline, query by query."""
        pooled = [np.concatenate(own) for own in zip(*self.scores, strict=True)]
        scores = {m.name: own for m, own in zip(self.methods, pooled, strict=True)}
        return compare_scores(
            dict(reversed(scores.items())),
            np.concatenate(self.grades),
            group=np.concatenate(self.lengths),
            measures=self.metric or AGAINST,
            random_state=seed,
        )


def _queries(data: RankingData) -> QuerySet:
    return check_queries(data.X, data.y, data.qid)


def _as_data(queries: QuerySet) -> tuple[Any, Any, Any]:
    return queries.documents, queries.grades, queries.owners
