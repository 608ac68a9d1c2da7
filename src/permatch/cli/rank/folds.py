"""Cross-validation over queries: the folds of LETOR, or a file split the same way."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from permatch._progress import progress_bar
from permatch.cli.rank.measures import mean_values
from permatch.cli.rank.steps import new_ranker
from permatch.cli.shared.steps import fit_model
from permatch.datasets import RankingData, load_letor, read_letor
from permatch.datasets.sources import local_file
from permatch.errors import InvalidOptionError
from permatch.queries import QuerySet, check_queries


@dataclass(frozen=True, eq=False)
class QueryFold:
    """Queries to train on, to choose alpha on (None if it is given), and to test on."""

    name: str
    train: QuerySet
    validation: QuerySet | None
    test: QuerySet


def read_folds(name: str, n_folds: int, seed: int, *, is_search: bool) -> list[QueryFold]:
    """Return the folds of a LETOR folder, or of a file."""
    if name != "-" and Path(name).is_dir():
        return [
            QueryFold(
                str(fold.number),
                _queries(fold.train),
                _queries(fold.validation) if is_search else None,
                _queries(fold.test),
            )
            for fold in load_letor(name).folds
        ]
    with local_file(name) as path:
        queries = _queries(read_letor(path))
    return part_queries(queries, n_folds, seed, is_search=is_search)


def part_queries(
    queries: QuerySet, n_folds: int, seed: int, *, is_search: bool
) -> list[QueryFold]:
    """Split queries at random: one part tests, the next chooses alpha, the others train.

    Every part tests once.  Without a search for alpha, all others train.
    """
    n_least = n_folds if n_folds > 2 or not is_search else 3
    if n_least > min(n_folds, queries.n_queries):
        raise InvalidOptionError(
            f"--folds must be at most the number of queries, {queries.n_queries}, and at "
            f"least {3 if is_search else 2} (to test, to choose alpha and to train); got "
            f"{n_folds}."
        )
    shuffled = np.random.default_rng(seed).permutation(queries.n_queries)
    parts = np.array_split(shuffled, n_folds)
    found = []
    for k, test in enumerate(parts):
        held_out = parts[(k + 1) % n_folds] if is_search else test[:0]
        others = np.setdiff1d(shuffled, np.concatenate([test, held_out]))
        found.append(
            QueryFold(
                str(k + 1),
                queries.take(others),
                queries.take(np.sort(held_out)) if is_search else None,
                queries.take(np.sort(test)),
            )
        )
    return found


def cross_validate(
    folds: list[QueryFold],
    estimator: str,
    options: dict[str, Any],
    metric: list[str] | None,
) -> Iterator[dict[str, Any]]:
    """Fit and test on every fold; yield the results as plain numbers."""
    title = "cross-validation"
    with progress_bar(title, len(folds), float("inf"), None) as show:
        for k, fold in enumerate(folds):
            if show is not None:
                show(k)
            model = new_ranker(estimator, options, is_search=fold.validation is not None)
            more = {}
            if fold.validation is not None:
                more["validation"] = _as_data(fold.validation)
            if fit_model(model, *_as_data(fold.train), is_shown=False, **more):
                raise KeyboardInterrupt
            test = fold.test
            scores = model.predict(test.documents, group=test.lengths)
            yield {
                "fold": fold.name,
                "n_train": fold.train.n_queries,
                "n_validation": fold.validation.n_queries if fold.validation else 0,
                "n_test": test.n_queries,
                "alpha": float(getattr(model, "alpha_", model.get_params().get("alpha"))),
                "is_converged": bool(model.is_converged_),
                "measures": mean_values(metric, test.grades, scores, test.lengths),
            }


def describe_folds(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return mean and standard deviation of every measure over the folds."""
    names = list(rows[0]["measures"])
    table = np.array([[row["measures"][name] for name in names] for row in rows], float)
    spread = table.std(axis=0, ddof=1) if len(rows) > 1 else np.full(len(names), np.nan)
    return {
        "folds": rows,
        "mean": dict(zip(names, table.mean(axis=0).tolist(), strict=True)),
        "spread": {
            name: None if np.isnan(value) else float(value)
            for name, value in zip(names, spread, strict=True)
        },
    }


def fold_rows(rows: list[dict[str, Any]]) -> Iterator[list[Any]]:
    """Yield a header and a row per fold."""
    heads = ["fold", "n_train", "n_validation", "n_test", "alpha", "is_converged"]
    yield [*heads, *rows[0]["measures"]]
    for row in rows:
        yield [*(row[name] for name in heads), *row["measures"].values()]


def _queries(data: RankingData) -> QuerySet:
    return check_queries(data.X, data.y, data.qid)


def _as_data(queries: QuerySet) -> tuple[Any, Any, Any]:
    return queries.documents, queries.grades, queries.owners
