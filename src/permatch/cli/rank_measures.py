"""How good rankings are, query by query, as ``permatch rank`` reports it."""

import csv
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from permatch._files import whole_file
from permatch._types import FloatArray, IntArray
from permatch.cli.rank_steps import Scored, local_file, stream_scores
from permatch.errors import LetorFileError

if TYPE_CHECKING:
    from permatch.estimators import BaseRanker


@dataclass(frozen=True)
class Measuring:
    """How rankings are measured; see `permatch.metrics`."""

    cutoffs: list[int]
    discount: str = "paper"
    ties: str = "stable"
    threshold: int = 1
    is_short: bool = False

    def per_query(
        self, grades: IntArray, scores: FloatArray, lengths: IntArray
    ) -> dict[str, FloatArray]:
        """Return every measure by its name, each with a value per query, NaN if undefined.

        The short list has NDCG and MAP only.
        """
        from permatch import metrics

        lists: dict[str, Any] = {"group": lengths, "ties": self.ties, "per_query": True}
        binary: dict[str, Any] = lists | {"threshold": self.threshold}
        discount: Any = self.discount
        values: Any = metrics.ndcg(
            grades, scores, k=self.cutoffs, discount=discount, **lists
        )
        found: dict[str, Any] = self._by_cutoff("NDCG", values)
        found["MAP"] = metrics.average_precision(grades, scores, **binary)
        if self.is_short:
            return found
        values = metrics.precision_at(grades, scores, k=self.cutoffs, **binary)
        found |= self._by_cutoff("P", values)
        last = self.cutoffs[-1]
        found[f"ERR@{last}"] = metrics.expected_reciprocal_rank(
            grades, scores, k=last, **lists
        )
        found["MRR"] = metrics.reciprocal_rank(grades, scores, **binary)
        found["tau"] = metrics.kendall_tau(grades, scores, group=lengths, per_query=True)
        return found

    def means(
        self, grades: IntArray, scores: FloatArray, lengths: IntArray
    ) -> dict[str, float | None]:
        """Return the mean of every measure over queries; None if no query has it."""
        values = self.per_query(grades, scores, lengths)
        return {name: describe_values(row)["mean"] for name, row in values.items()}

    def _by_cutoff(self, name: str, values: Any) -> dict[str, FloatArray]:
        columns = np.asarray(values).T
        return {
            f"{name}@{k}": column for k, column in zip(self.cutoffs, columns, strict=True)
        }


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


@dataclass(eq=False)
class JudgedScores:
    """Grades and scores of whole files; features are forgotten as soon as they are scored.

    Attributes
    ----------
    grades : ndarray of shape (n,)
        Of all documents.
    scores : list of ndarray of shape (n,)
        Of one method, or of two to be compared.
    lengths : ndarray of shape (q,)
        Documents of every query.
    queries : list of (file, id)
        Where every query comes from.
    """

    grades: IntArray
    scores: list[FloatArray]
    lengths: IntArray
    queries: list[tuple[str, Any]] = field(default_factory=list)


def collect_scores(names: list[str], methods: "list[BaseRanker | Path]") -> JudgedScores:
    """Score the documents of judged files, by models or by files of scores."""
    from permatch.datasets import read_scores

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
                f"{len(scores)}. Give the scores of just these documents, in their order."
            )
        columns.append(scores)
    return JudgedScores(np.concatenate(grades), columns, np.concatenate(lengths), queries)


def _read_whole(name: str) -> list[Scored]:
    from permatch.datasets import read_letor

    with local_file(name) as path:
        return [Scored(read_letor(path), 0, [])]


def describe_evaluation(
    judged: JudgedScores, measuring: Measuring, n_resamples: int, seed: int
) -> tuple[dict[str, Any], list[dict[str, FloatArray]]]:
    """Collect the measures of one method, or of two with a test of their difference.

    Returns plain lists and numbers, and the values per query of either method.
    """
    values = [
        measuring.per_query(judged.grades, scores, judged.lengths)
        for scores in judged.scores
    ]
    measures = [{"measure": name} | describe_values(values[0][name]) for name in values[0]]
    starts = np.concatenate([[0], np.cumsum(judged.lengths)[:-1]])
    best = np.maximum.reduceat(judged.grades, starts)
    if len(values) > 1:
        _compare(measures, values, n_resamples, seed)
    summary = {
        "n_documents": len(judged.grades),
        "n_queries": len(judged.lengths),
        "n_queries_without_relevant": int((best < measuring.threshold).sum()),
        "discount": measuring.discount,
        "ties": measuring.ties,
        "relevant_from": measuring.threshold,
        "measures": measures,
    }
    return summary, values


def _compare(
    measures: list[dict[str, Any]],
    values: list[dict[str, FloatArray]],
    n_resamples: int,
    seed: int,
) -> None:
    """Add the other method and a paired test to every measure."""
    from permatch.metrics import holm, randomisation_test

    tests = []
    for row in measures:
        ours, others = (side[row["measure"]] for side in values)
        row["against"] = describe_values(others)["mean"]
        is_known = ~(np.isnan(ours) | np.isnan(others))
        test = None
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
        tests.append(test)
    adjusted = iter(holm([test.p_value for test in tests if test is not None]))
    for row, test in zip(measures, tests, strict=True):
        if test is not None:
            row["p_value_holm"] = float(next(adjusted))


def write_per_query(
    path: Path, judged: JudgedScores, values: list[dict[str, FloatArray]]
) -> None:
    """Write a CSV file with a row per query; empty cells are undefined."""
    columns = dict(values[0])
    for other in values[1:]:
        columns |= {f"{name} against": column for name, column in other.items()}
    rows = zip(judged.queries, judged.lengths.tolist(), *columns.values(), strict=True)
    with whole_file(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["file", "query", "documents", *columns])
        for (name, query), length, *cells in rows:
            known = ["" if math.isnan(cell) else repr(float(cell)) for cell in cells]
            writer.writerow([name, query, length, *known])
