"""Compare fitted rankers on judged lists: their scores, then paired tests by query."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from permatch._cells import column_keys
from permatch._missing_queries import missing_queries
from permatch._tables import Roles, is_table, take_column, take_roles
from permatch._types import FloatArray, IntArray, Seed
from permatch.datasets.ranking_data import query_ids
from permatch.datasets.runs import find_source, read_source
from permatch.distributed import is_in_parts
from permatch.errors import InvalidOptionError, InvalidQueriesError
from permatch.estimators.inputs import Inputs
from permatch.estimators.persistence import load
from permatch.estimators.ranker import BaseRanker
from permatch.metrics import RankerComparison
from permatch.metrics.comparing import COMPARED, compare_scores, naming
from permatch.metrics.ranking import MeasureLike
from permatch.metrics.scorer import last_step, predict_scores
from permatch.queries import QueryRows, QuerySet


def compare_rankers(
    rankers: Mapping[str, Any] | Sequence[Any],
    X: Any,
    y: Any = None,
    qid: Any = None,
    group: Any = None,
    *,
    measures: str | Iterable[MeasureLike] = COMPARED,
    documents: Any = None,
    n_resamples: int = 100_000,
    random_state: Seed = 0,
) -> RankerComparison:
    """Compare rankers on judged lists they were not fitted on, query by query.

    Every ranker but the first is compared with the first, the baseline: the difference of
    the means with a bootstrap interval, a paired randomisation test corrected for their
    number, and the queries won and lost.

    Parameters
    ----------
    rankers : dict or sequence of rankers
        Two or more, by name.  A ranker is a fitted model or pipeline, anything with
        ``predict(X)``; an array of shape (n,) with the score of every document; or the
        path of a saved model, of scores with one number per line, or of a TREC run.
    X : array, sparse matrix or DataFrame of shape (n, d), or data in parts
        The documents, as the rankers take them.  None if there are only scores.  Rankers
        that are not permatch's see a table without the columns named by `y`, `qid` and
        `documents`.
    y, qid, group
        Grades and queries, as in `RankMatch.fit`.
    measures : str or sequence of measures
        Such as ``"NDCG@1,5,10, MAP"``; the first decides on the queries most won and lost.
    documents : array of shape (n,) or str, optional
        Names of the documents, or their column in `X`, by which TREC runs are read and
        pages name documents.  Default: their positions, from 1.
    n_resamples : int
        Resamples of the tests and intervals: at least 20 per test, at most 10,000,000.
    random_state : int, numpy.random.Generator or None
        Seed of the tests.

    Returns
    -------
    RankerComparison
        Printed, a table; ``to_pandas()``, ``write(path)``, ``most_won()`` and
        `permatch.pages.write_comparison_page` show more.

    Notes
    -----
    Among many tests some are significant by chance: ``p_holm`` is corrected for all of the
    comparison, so name few measures.  ``permatch rank compare`` does the same with files.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> rng = np.random.default_rng(0)
    >>> X, queries = rng.normal(size=(900, 3)), np.repeat(np.arange(90), 10)
    >>> grades = np.digitize(X @ [1.0, 0.6, 0.0] + rng.normal(size=900), [0.5, 1.5])
    >>> train, test = queries < 40, queries >= 40
    >>> old = pm.RankMatch(alpha=10).fit(X[train, 1:], grades[train], queries[train])
    >>> new = pm.RankMatch(alpha=10).fit(X[train], grades[train], queries[train])
    >>> rankers = {"old": old.predict(X[test, 1:]), "new": new}
    >>> result = compare_rankers(rankers, X[test], grades[test], queries[test])
    >>> result.measures
    [NDCG@10, NDCG@5, NDCG@1, MAP]
    >>> best = result.row("new", "NDCG@5")
    >>> best.n_wins, best.n_losses, best.n_ties, best.is_significant
    (42, 8, 0, True)
    """
    named = _named(rankers)
    if is_in_parts(X):
        scores, grades, ids = _score_parts(named, X, y, qid, group)
    else:
        grades, ids = _judged(named, X, y, qid, group)
        roles = _role_names(named, y, qid, documents)
        if isinstance(documents, str):
            if not is_table(X):
                raise InvalidOptionError(
                    "documents must be the names of the documents unless X is a table; got "
                    f"{documents!r}, a column, and X is {type(X).__name__}. Give one name "
                    "per document."
                )
            documents = take_column(X, documents)
        scores = {}
        for name, ranker in named.items():
            with naming(name):
                scores[name] = _score(ranker, X, ids, documents, roles)
    return compare_scores(
        scores,
        grades,
        ids,
        measures=measures,
        documents=documents,
        n_resamples=n_resamples,
        random_state=random_state,
    )


def _named(rankers: Any) -> dict[str, Any]:
    """Return two or more different rankers by name."""
    if isinstance(rankers, Mapping):
        found = {str(name): ranker for name, ranker in rankers.items()}
    elif isinstance(rankers, Sequence) and not isinstance(rankers, str):
        found = {}
        for ranker in rankers:
            found[_unused(_called(ranker), found)] = ranker
    else:
        raise InvalidOptionError(
            "rankers must be a dict of two or more rankers by name, or a sequence of them; "
            f"got {type(rankers).__name__}. Put both into one list: [a, b]."
        )
    if len(found) < 2:
        raise InvalidOptionError(
            f"at least two rankers are required, the baseline first; got {len(found)}. To "
            "measure a single one use permatch.metrics.evaluate."
        )
    names = {}
    for name, ranker in found.items():
        if isinstance(ranker, type):
            raise InvalidOptionError(
                f"rankers must be fitted; {name} is the class {ranker.__name__}. Make one "
                f"and fit it: {ranker.__name__}().fit(...)."
            )
        if (other := names.setdefault(id(ranker), name)) != name:
            raise InvalidOptionError(
                f"rankers must be different; {other!r} and {name!r} are the same object. "
                "Fit or load one of them again."
            )
    return found


def _called(ranker: Any) -> str:
    if isinstance(ranker, str | os.PathLike):
        return Path(ranker).name
    return type(last_step(ranker)).__name__ if hasattr(ranker, "predict") else "scores"


def _unused(name: str, taken: Any) -> str:
    tries = (name if k == 1 else f"{name} {k}" for k in range(1, len(taken) + 2))
    return next(one for one in tries if one not in taken)


def _judged(named: dict[str, Any], X: Any, y: Any, qid: Any, group: Any) -> tuple[Any, Any]:
    """Return grades and query ids of documents in memory."""
    if qid is None and group is None:
        columns = (getattr(last_step(own), "qid", None) for own in named.values())
        qid = next(filter(None, columns), None) if is_table(X) else None
        if qid is None:
            how = 'compare_rankers(..., qid="query")'
            raise missing_queries("a comparison", X, with_qid=how)
    grades, ids, _ = take_roles(X, Roles(y, qid))
    if grades is None:
        raise InvalidQueriesError(
            "grades are required, y: one per document, or the name of their column; got "
            "none."
        )
    if ids is not None and group is not None:
        raise InvalidQueriesError(
            "queries must be given either by qid or by group; got both. Leave one out."
        )
    return grades, query_ids(group) if ids is None else ids


def _role_names(named: dict[str, Any], *roles: Any) -> set[str]:
    """Return the columns that are named as no features."""
    of_models = (getattr(last_step(own), "qid", None) for own in named.values())
    return {role for role in (*roles, *of_models) if isinstance(role, str)}


def _features_for(ranker: Any, X: Any, roles: set[str]) -> Any:
    """Return documents as a ranker takes them; only ours tell features from the rest."""
    if not is_table(X) or isinstance(last_step(ranker), BaseRanker):
        return X
    taken = roles - set(getattr(ranker, "feature_names_in_", ()))
    kept = [key for key in column_keys(X) if key not in taken]
    return X.select(kept) if hasattr(X, "select") else X[kept]


def _score(ranker: Any, X: Any, ids: Any, documents: Any, roles: set[str]) -> Any:
    """Return the scores of documents in memory."""
    if isinstance(ranker, str | os.PathLike):
        if find_source(ranker) != "model":
            return read_source(ranker, ids, documents)
        ranker = load(ranker)
    if not hasattr(ranker, "predict"):
        return ranker
    if X is None:
        raise InvalidQueriesError(
            "documents are required, X, to be scored by a model; got None. Pass them, or "
            "the scores."
        )
    return predict_scores(ranker, _features_for(ranker, X, roles), ids)


def _score_parts(
    named: dict[str, Any], X: Any, y: Any, qid: Any, group: Any
) -> tuple[dict[str, FloatArray], IntArray, np.ndarray]:
    """Return the scores of data in parts by ranker, and their grades and query ids."""
    scores = {}
    grades = ids = np.zeros(0, dtype=np.intp)
    for name, given in named.items():
        ranker = given
        if isinstance(given, str | os.PathLike) and find_source(given) == "model":
            ranker = load(given)
        if not isinstance(ranker, BaseRanker):
            raise InvalidOptionError(
                "data in parts are scored by permatch's own rankers only; "
                f"{name} is a {type(ranker).__name__}. Read the data into memory."
            )
        with naming(name):
            roles = ranker._roles(X, y, qid, group)
            shards = ranker._open_new(X, roles, group, Inputs.of(ranker))
            found = zip(*shards.map(_score_lists, ranker), strict=True)
        grades, ids, scores[name] = map(np.concatenate, found)
    return scores, grades, ids


def _score_lists(
    queries: QuerySet, ranker: BaseRanker
) -> tuple[IntArray, np.ndarray, FloatArray]:
    """Return grades, query ids and scores of documents as the model sees them."""
    rows = QueryRows(queries.starts, queries.ids, None)
    scores = ranker._predict_lists(queries.documents, rows)
    return queries.grades, queries.ids[queries.owners], scores
