"""Scores of several rankers to measures by query, and to paired tests of these."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from permatch._types import FloatArray, Seed
from permatch.errors import InvalidOptionError, InvalidQueriesError, PermatchError
from permatch.metrics.base import Measure
from permatch.metrics.comparison import (
    ROUNDING,
    ComparedMeasure,
    RankerComparison,
    ScoredLists,
)
from permatch.metrics.lists import check_scores
from permatch.metrics.ranking import MeasureLike, evaluate, find_measures
from permatch.metrics.significance import (
    check_resamples,
    detectable_difference,
    holm,
    paired_tests,
)
from permatch.queries import QueryRows, check_grades, query_rows

#: What rankers are compared by; the first decides on the queries most won and lost.
COMPARED = "NDCG@10,5,1, MAP"

# p-value, interval, and the smallest difference that shows.
_Test = tuple[float, tuple[float, float], float]


def compare_scores(
    scores: Mapping[str, Any],
    y: Any,
    qid: Any = None,
    group: Any = None,
    *,
    measures: str | Iterable[MeasureLike] = COMPARED,
    documents: Sequence[Any] | None = None,
    n_resamples: int = 100_000,
    random_state: Seed = 0,
) -> RankerComparison:
    """Compare the scores of two or more rankers, the baseline first."""
    chosen = find_measures(measures)
    if not chosen:
        raise InvalidOptionError("at least one measure is required; got none.")
    checked = {}
    for name, own in scores.items():
        with naming(name):
            checked[name] = check_scores(own)
    n_documents = len(next(iter(checked.values())))
    for name, own in checked.items():
        if len(own) != n_documents:
            first = next(iter(checked))
            raise InvalidQueriesError(
                "all rankers must score the same documents; "
                f"{first} scores {n_documents}, {name} {len(own)}."
            )
    grades = check_grades(y, n_documents)
    rows = query_rows(qid, group, n_documents)
    if len(rows.ids) < 2:
        raise InvalidQueriesError(
            f"a comparison needs at least two queries; got {len(rows.ids)}. Judge more "
            "queries, or measure a single one with permatch.metrics.evaluate."
        )
    lists = ScoredLists(
        rows.ids,
        rows.starts,
        rows.gather(grades),
        np.stack([rows.gather(own) for own in checked.values()]),
        _names(documents, rows, n_documents),
    )
    values = np.array(
        [
            list(evaluate(chosen, grades, own, qid, group=group, per_query=True).values())
            for own in checked.values()
        ]
    )
    names = list(checked)
    found = _compare(names, chosen, values, n_resamples, random_state)
    return RankerComparison(names, chosen, found, values, lists)


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Say in errors which ranker they are about."""
    try:
        yield
    except PermatchError as err:
        err.args = (f"{name}: {err}",)
        raise


def _names(documents: Any, rows: QueryRows, n_documents: int) -> list[str]:
    if documents is None:
        names = np.arange(1, n_documents + 1)
    else:
        names = np.asarray(documents)
        if names.shape != (n_documents,):
            raise InvalidQueriesError(
                f"documents must have one name per document, shape ({n_documents},); got "
                f"shape {names.shape}."
            )
    return [str(name) for name in rows.gather(names).tolist()]


def _compare(
    rankers: list[str],
    measures: list[Measure],
    values: FloatArray,
    n_resamples: int,
    random_state: Seed,
) -> list[ComparedMeasure]:
    """Test every ranker but the first by every measure."""
    pairs = [(i, j) for i in range(1, len(rankers)) for j in range(len(measures))]
    differences = np.stack([values[i, j] - values[0, j] for i, j in pairs], axis=1)
    is_known = ~np.isnan(differences)
    tests: dict[int, _Test] = {}
    n_tests = int((is_known.sum(axis=0) >= 2).sum())
    n_resamples = check_resamples(n_resamples, n_tests)
    # Tests on the same queries share their draws.
    masks, group_of = np.unique(is_known, axis=1, return_inverse=True)
    for group, mask in enumerate(masks.T):
        if mask.sum() < 2:
            continue
        columns = np.flatnonzero(group_of.ravel() == group)
        own = differences[np.ix_(mask, columns)]
        found = paired_tests(own, n_resamples, random_state)
        least = detectable_difference(own, n_tests)
        for k, test, size in zip(columns.tolist(), found, least, strict=True):
            tests[k] = test.p_value, test.interval, float(size)
    adjusted = dict(zip(tests, holm([test[0] for test in tests.values()]), strict=True))
    return [
        _row(rankers[i], measures[j], values[[0, i], j], tests.get(k), adjusted.get(k))
        for k, (i, j) in enumerate(pairs)
    ]


def _row(
    ranker: str,
    measure: Measure,
    values: FloatArray,
    test: _Test | None,
    p_holm: float | None,
) -> ComparedMeasure:
    """Return the figures of a ranker; `values` (2, q) are those of the baseline and its."""
    nan = float("nan")
    known = values[:, ~np.isnan(values).any(axis=0)]
    means = known.mean(axis=1).tolist() if known.size else [nan, nan]
    gains = known[1] - known[0]
    n_wins, n_losses = int((gains > ROUNDING).sum()), int((gains < -ROUNDING).sum())
    p_value, interval, least = test or (nan, (nan, nan), nan)
    return ComparedMeasure(
        measure=measure,
        ranker=ranker,
        baseline_mean=means[0],
        mean=means[1],
        difference=float(gains.mean()) if test else nan,
        interval=interval,
        p_value=p_value,
        p_holm=nan if p_holm is None else float(p_holm),
        detectable=least,
        n_wins=n_wins,
        n_losses=n_losses,
        n_ties=len(gains) - n_wins - n_losses,
    )
