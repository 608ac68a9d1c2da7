"""Measures per query, as ``permatch rank`` reports them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.cli.rank.steps import stream_scores
from permatch.datasets.letor import read_letor, read_scores
from permatch.datasets.runs import Scored
from permatch.datasets.sources import local_file
from permatch.errors import LetorFileError
from permatch.metrics import Measure, evaluate, find_measures

if TYPE_CHECKING:
    from permatch.estimators import BaseRanker

#: Default measures: of a fit and a cross-validation, and of an evaluation.
FEW = "NDCG@1,3,5,10, MAP"
ALL = f"{FEW}, P@1,3,5,10, ERR@10, MRR, Tau"


def mean_values(
    metric: list[str] | None, grades: IntArray, scores: FloatArray, lengths: IntArray
) -> dict[str, float | None]:
    """Return the mean of every measure over queries; None if no query has it."""
    values = evaluate(metric or FEW, grades, scores, group=lengths, per_query=True)
    return {str(name): describe_values(found)["mean"] for name, found in values.items()}


def describe_values(values: FloatArray) -> dict[str, Any]:
    """Return mean and standard error over the queries that have a value."""
    known = values[~np.isnan(values)]
    n = len(known)
    error = float(known.std(ddof=1) / math.sqrt(n)) if n > 1 else None
    return {
        "mean": float(known.mean()) if n else None,
        "standard_error": error,
        "n_queries": n,
    }


@dataclass(frozen=True, eq=False)
class JudgedScores:
    """Grades of all documents in whole files, and their scores by one method or two.

    Queries have `lengths`, and come from a file and have an id there.  Features are
    forgotten as soon as they are scored.
    """

    grades: IntArray
    scores: list[FloatArray]
    lengths: IntArray
    queries: list[tuple[str, Any]]


def collect_scores(names: list[str], methods: "list[BaseRanker | Path]") -> JudgedScores:
    """Score the documents of judged files, by models or by files of scores."""
    models = [method for method in methods if not isinstance(method, Path)]
    grades, lengths, queries = [], [], []
    predicted: list[list[FloatArray]] = [[] for _ in models]
    for name in names:
        for block in stream_scores(name, models) if models else _read_whole(name):
            grades.append(block.data.y)
            starts = block.starts
            lengths.append(np.diff(starts))
            queries.extend((name, query) for query in block.data.qid[starts[:-1]].tolist())
            for kept, scores in zip(predicted, block.scores, strict=True):
                kept.append(scores)
    joined = iter([np.concatenate(kept) for kept in predicted])
    n_documents = sum(map(len, grades))
    columns = []
    for method in methods:
        if isinstance(method, Path):
            with local_file(str(method)) as path:
                scores = read_scores(path)
        else:
            scores = next(joined)
        if len(scores) != n_documents:
            raise LetorFileError(
                f"{method} must have one score per document, {n_documents}; it has "
                f"{len(scores)}. Use the scores of exactly these documents, in file order."
            )
        columns.append(scores)
    return JudgedScores(np.concatenate(grades), columns, np.concatenate(lengths), queries)


def _read_whole(name: str) -> list[Scored]:
    with local_file(name) as path:
        return [Scored(read_letor(path), 0, [])]


def describe_evaluation(
    judged: JudgedScores, metric: list[str] | None, n_resamples: int, seed: int
) -> tuple[dict[str, Any], list[dict[Measure, FloatArray]]]:
    """Collect the measures of one method, or of two with a test of their difference.

    Returns plain lists and numbers, and the values per query of either method.
    """
    measures = find_measures(metric or ALL)
    values = [
        evaluate(measures, judged.grades, scores, group=judged.lengths, per_query=True)
        for scores in judged.scores
    ]
    rows = [
        {"measure": str(measure)} | describe_values(values[0][measure])
        for measure in measures
    ]
    if len(values) > 1:
        pairs = [[side[measure] for side in values] for measure in measures]
        _compare(rows, pairs, n_resamples, seed)
    best = np.maximum.reduceat(judged.grades, np.cumsum(judged.lengths) - judged.lengths)
    relevant_from = min(getattr(measure, "threshold", 1) for measure in measures)
    summary = {
        "n_documents": len(judged.grades),
        "n_queries": len(judged.lengths),
        "n_queries_without_relevant": int((best < relevant_from).sum()),
        "measures": rows,
    }
    return summary, values


def _compare(
    rows: list[dict[str, Any]],
    pairs: list[list[FloatArray]],
    n_resamples: int,
    seed: int,
) -> None:
    """Add the other method and a paired test to the row of every measure."""
    from permatch.metrics import holm, randomisation_test

    tested = []
    for row, (ours, others) in zip(rows, pairs, strict=True):
        row["against"] = describe_values(others)["mean"]
        is_known = ~(np.isnan(ours) | np.isnan(others))
        if is_known.any():
            test = randomisation_test(
                ours[is_known],
                others[is_known],
                n_resamples=n_resamples,
                random_state=seed,
            )
            row["difference"] = test.difference
            row["interval"] = list(test.interval)
            row["p_value"] = test.p_value
            tested.append(row)
    adjusted = holm([row["p_value"] for row in tested])
    for row, value in zip(tested, adjusted, strict=True):
        row["p_value_holm"] = float(value)


def per_query_rows(
    judged: JudgedScores, values: list[dict[Measure, FloatArray]]
) -> Iterator[list[Any]]:
    """Yield a header and a row per query; empty cells are undefined."""
    columns = {str(measure): column for measure, column in values[0].items()}
    for other in values[1:]:
        columns |= {f"{measure} against": column for measure, column in other.items()}
    yield ["file", "query", "documents", *columns]
    rows = zip(judged.queries, judged.lengths.tolist(), *columns.values(), strict=True)
    for (name, query), length, *cells in rows:
        known = ["" if math.isnan(cell) else repr(float(cell)) for cell in cells]
        yield [name, query, length, *known]
