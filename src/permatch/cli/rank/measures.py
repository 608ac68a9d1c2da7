"""Measures per query, as ``permatch rank`` reports them."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.cli.rank.options import Columns
from permatch.cli.rank.reading import read_grades
from permatch.cli.rank.scoring import stream_scores
from permatch.datasets.runs import Scored, document_names, is_run, read_source
from permatch.datasets.sources import Copy
from permatch.errors import InvalidQueriesError, LetorFileError
from permatch.metrics import Measure, evaluate, find_measures

#: Default measures: of a fit and a cross-validation, and of an evaluation.
FEW = "NDCG@1,3,5,10, MeanNDCG@10, MAP"
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
    """Grades of all documents in whole files, and their scores by one method or more.

    Documents are in the order of the files; `owners` has the query of each, which comes
    from a file and has an id there.  Documents have names if they are asked for.  Features
    are forgotten as soon as they are scored.
    """

    grades: IntArray
    scores: list[FloatArray]
    owners: IntArray
    queries: list[tuple[str, Any]]
    documents: list[str]

    @property
    def qid(self) -> np.ndarray:
        """The id of the query of every document."""
        return np.array([query for _, query in self.queries])[self.owners]

    @property
    def lengths(self) -> IntArray:
        """Number of documents of every query."""
        return np.bincount(self.owners)


def collect_scores(
    names: Sequence[str | Path | Copy],
    methods: Sequence[Any],
    columns: Columns,
    *,
    is_named: bool = False,
) -> JudgedScores:
    """Score the documents of judged files, by models or by files of scores."""
    files = [method for method in methods if isinstance(method, Path | Copy)]
    models: Any = [method for method in methods if not isinstance(method, Path | Copy)]
    is_named = is_named or any(map(is_run, files))
    grades, owners, queries, documents = [], [], [], []
    predicted: list[list[FloatArray]] = [[] for _ in models]
    for name in names:
        for block in _blocks(name, models, columns):
            grades.append(block.data.y)
            rows = block.rows
            owners.append(rows.scatter(rows.owners) + len(queries))
            queries.extend((str(name), query) for query in rows.ids.tolist())
            if is_named:
                documents += document_names(block)
            for kept, scores in zip(predicted, block.scores, strict=True):
                kept.append(scores)
    if any(map(is_run, files)):
        _check_different(queries)
    joined = iter([np.concatenate(kept) for kept in predicted])
    judged = JudgedScores(
        np.concatenate(grades), [], np.concatenate(owners), queries, documents
    )
    found = []
    for method in methods:
        if isinstance(method, Path | Copy):
            scores = read_source(method, judged.qid, documents or None)
        else:
            scores = next(joined)
        n_documents = len(judged.grades)
        if len(scores) != n_documents:
            raise LetorFileError(
                f"{method} must have one score per document, {n_documents}; it has "
                f"{len(scores)}. Use the scores of exactly these documents, in file order."
            )
        found.append(scores)
    return replace(judged, scores=found)


def _check_different(queries: list[tuple[str, Any]]) -> None:
    """Refuse queries of one id in two files, which a run cannot tell apart."""
    first: dict[Any, str] = {}
    for name, query in queries:
        if first.setdefault(query, name) != name:
            raise InvalidQueriesError(
                "query ids must differ between files where a TREC run has the scores; "
                f"{query!r} is in {first[query]} and in {name}. Measure them one by one."
            )


def _blocks(name: Any, models: Any, columns: Columns) -> Iterable[Scored]:
    if models:
        return stream_scores(name, models, columns)
    return [Scored(read_grades(name, columns), 0, [])]


def describe_evaluation(
    judged: JudgedScores, metric: list[str] | None
) -> tuple[dict[str, Any], dict[Measure, FloatArray]]:
    """Collect the measures of a method, as plain lists and numbers and per query."""
    measures = find_measures(metric or ALL)
    (scores,) = judged.scores
    values = evaluate(measures, judged.grades, scores, judged.owners, per_query=True)
    rows = [{"measure": str(name)} | describe_values(own) for name, own in values.items()]
    summary = describe_judged(judged.grades, judged.owners, measures)
    return summary | {"measures": rows}, values


def describe_judged(
    grades: IntArray, owners: IntArray, measures: list[Measure]
) -> dict[str, int]:
    """Count documents and queries, and queries without a document that is relevant."""
    best = np.zeros(owners.max() + 1, dtype=np.intp)
    np.maximum.at(best, owners, grades)
    relevant_from = min(getattr(measure, "threshold", 1) for measure in measures)
    return {
        "n_documents": len(grades),
        "n_queries": len(best),
        "n_queries_without_relevant": int((best < relevant_from).sum()),
    }


def per_query_rows(
    judged: JudgedScores, values: dict[Measure, FloatArray]
) -> Iterator[list[Any]]:
    """Yield a header and a row per query; empty cells are undefined."""
    yield ["file", "query", "documents", *map(str, values)]
    rows = zip(judged.queries, judged.lengths.tolist(), *values.values(), strict=True)
    for (name, query), length, *cells in rows:
        known = ["" if math.isnan(cell) else repr(float(cell)) for cell in cells]
        yield [name, query, length, *known]
