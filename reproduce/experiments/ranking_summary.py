"""Means, spreads, paired tests and comparisons with what is published, from rows.

A mean is taken over the queries of a fold, then over folds, as LETOR does, then over
repeats; the spread is the standard deviation over repeats of the mean over folds.  Tests
are paired by query: every query is averaged over repeats first, the measure is the mean of
NDCG@1 to NDCG@10, the rival is one baseline, and p-values are corrected for the number of
methods measured.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from permatch._types import FloatArray
from permatch.metrics import holm, randomisation_test
from permatch.metrics.significance import detectable_difference
from reproduce.experiments.letor_folds import CUTS
from reproduce.experiments.published_rankings import PUBLISHED, PUBLISHED_OF
from reproduce.experiments.rival_fits import RUN
from reproduce.experiments.rows import Row

#: Order of the methods in tables and figures; what is published stands last.
METHODS = (
    "rankmatch",
    "rankmatch_list",
    "rankmatch_pairs",
    "dorm",
    "ridge",
    *RUN,
    *PUBLISHED,
)


def summarise(rows: Iterable[Row]) -> list[Row]:
    """Return mean and spread of NDCG@1 to NDCG@10 by method.

    Parameters
    ----------
    rows : iterable of dict
        Rows of one configuration.

    Returns
    -------
    list of dict
        ``method``, ``subset_size`` (None where nothing is drawn), ``ndcg`` and ``spread``,
        (10 numbers each, the spread None for a single repeat), ``mean`` and
        ``mean_spread`` of the mean of NDCG@1 to NDCG@10; ``ndcg_letor`` and
        ``mean_letor``; ``variant``, the discount of ``ndcg``, which is LETOR's where no
        other was published; ``n_repeats``; for learners ``n_edge``, how many of their
        choices are at an end of the grid, ``n_open``, how many fits did not converge,
        ``n_fits`` of a fold, and the processor time of one of them, ``fit_seconds``, and of
        those of all folds, ``seconds`` (means over repeats); for rivals ``chosen`` (by
        fold), for the others ``alphas`` (by fold, one per repeat) and ``n_observations``
        (mean over fits).
    """
    return [_line(method, found) for method, found in _by_method(rows).items()]


def compare(rows: Iterable[Row], baseline: str, *, n_resamples: int = 100_000) -> list[Row]:
    """Return paired tests of every method that was measured here.

    Parameters
    ----------
    rows : iterable of dict
        Rows of one configuration.
    baseline : str
        The method that all others are compared with.
    n_resamples : int
        Sign patterns drawn for a p-value.

    Returns
    -------
    list of dict
        ``method``, ``difference`` of the mean of NDCG@1 to NDCG@10 (more than the
        baseline is positive), ``low`` and ``high`` of its 95 % interval, ``p_value``,
        ``p_holm`` corrected for the number of these methods, ``n_queries``, ``sd`` of the
        differences over queries and ``detectable``, the smallest true difference that so
        many queries show four times in five.  What is published has no test: its options
        were not chosen like those of the others.
    """
    values = {
        method: found
        for method, found in query_values(rows).items()
        if method not in PUBLISHED
    }
    if baseline not in values:
        return []
    reference = values.pop(baseline)
    lines = []
    for method, found in values.items():
        shared = [query for query in reference if query in found]
        a = np.array([found[query].mean() for query in shared])
        b = np.array([reference[query].mean() for query in shared])
        test = randomisation_test(a, b, n_resamples=n_resamples)
        is_one = len(shared) == 1
        lines.append(
            {
                "method": method,
                "difference": test.difference,
                "low": test.interval[0],
                "high": test.interval[1],
                "p_value": test.p_value,
                "n_queries": test.n,
                "sd": 0.0 if is_one else float(np.std(a - b, ddof=1)),
                "detectable": 0.0 if is_one else float(detectable_difference(a - b)),
            }
        )
    corrected = holm([line["p_value"] for line in lines])
    return [line | {"p_holm": float(p)} for line, p in zip(lines, corrected, strict=True)]


def beside_published(rows: Iterable[Row]) -> list[Row]:
    """Return how near the methods run here come to what is published of them.

    Parameters
    ----------
    rows : iterable of dict
        Rows of one configuration.

    Returns
    -------
    list of dict
        ``method``; ``mean``, the mean of NDCG@1 to NDCG@10 as measured, ``published``, the
        same as published, and ``difference``, the first less the second; ``variant``, the
        discount of the three, which is LETOR's where no other was published; ``error``, the
        standard error of the measured mean over ``n_queries`` queries (with the paper's
        discount), and ``is_within``, whether the difference is at most that; where single
        queries were published, ``paired_error``, that of the difference over queries, and
        ``by_fold``, measured and published means of every fold.
    """
    rows = list(rows)
    lines = {line["method"]: line for line in summarise(rows)}
    values = query_values(rows)
    found = []
    for method, other in PUBLISHED_OF.items():
        if method not in lines or other not in lines:
            continue
        variant = lines[other]["variant"]
        name = "mean" if variant == "paper" else "mean_letor"
        own = np.array([value.mean() for value in values[method].values()])
        difference = lines[method][name] - lines[other][name]
        line = {
            "method": method,
            "mean": lines[method][name],
            "published": lines[other][name],
            "difference": difference,
            "variant": variant,
            "error": _error(own),
            "n_queries": len(own),
            "is_within": bool(abs(difference) <= _error(own)),
        }
        if other in values:
            theirs = np.array([values[other][query].mean() for query in values[method]])
            line["paired_error"] = _error(own - theirs)
            line["by_fold"] = _by_fold(rows, method, other)
        found.append(line)
    return found


def query_values(rows: Iterable[Row]) -> dict[str, dict[Any, FloatArray]]:
    """Return NDCG@1 to NDCG@10 of every query, averaged over repeats, by method.

    Parameters
    ----------
    rows : iterable of dict
        Rows of one configuration.

    Returns
    -------
    dict of dict of ndarray of shape (10,)
        By method, then by (fold, query).  Methods known by their means only are left out.
    """
    values: dict[str, dict[Any, FloatArray]] = {}
    for method, found in _by_method(rows).items():
        by_query: dict[Any, list[Any]] = {}
        for row in found:
            for query, value in zip(
                row.get("queries", ()), row.get("per_query", ()), strict=True
            ):
                by_query.setdefault((row["fold"], query), []).append(value)
        if by_query:
            values[method] = {
                query: np.mean(list_, axis=0) for query, list_ in by_query.items()
            }
    return values


def detectable_at(rows: Iterable[Row], baseline: str, method: str) -> FloatArray:
    """Return the smallest differences from the baseline that show at each cut, (10,).

    Parameters
    ----------
    rows : iterable of dict
        Rows of one configuration.
    baseline, method : str
        The two methods.

    Returns
    -------
    ndarray of shape (10,)
        For NDCG@1 to NDCG@10, four times in five, at 5 %.
    """
    values = query_values(rows)
    shared = [query for query in values[baseline] if query in values[method]]
    differences = np.array(
        [values[method][query] - values[baseline][query] for query in shared]
    )
    return detectable_difference(differences)


def _by_method(rows: Iterable[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["method"], []).append(row)
    ordered = [method for method in METHODS if method in groups]
    ordered += [method for method in groups if method not in METHODS]
    return {method: groups[method] for method in ordered}


def _line(method: str, found: list[Row]) -> Row:
    is_paper = found[0]["ndcg"] is not None
    means = _means(found, "ndcg" if is_paper else "ndcg_letor")
    letor = _means(found, "ndcg_letor")
    line: Row = {
        "method": method,
        "subset_size": found[0].get("subset_size"),
        "variant": "paper" if is_paper else "letor",
        "n_repeats": len(means),
        "ndcg": means.mean(axis=0).tolist(),
        "spread": _spread(means),
        "mean": float(means.mean()),
        "mean_spread": _spread(means.mean(axis=1)),
        "ndcg_letor": letor.mean(axis=0).tolist(),
        "mean_letor": float(letor.mean()),
    }
    if "fit_seconds" not in found[0]:
        return line
    line |= {
        "n_edge": sum(row["is_edge"] for row in found),
        "n_open": sum(not row["is_converged"] for row in found),
        "n_fits": found[0]["n_fits"],
        "fit_seconds": float(np.mean([row["fit_seconds"] for row in found])),
        "seconds": sum(row["n_fits"] * row["fit_seconds"] for row in found) / len(means),
    }
    if "chosen" in found[0]:
        return line | {"chosen": {row["fold"]: row["chosen"] for row in found}}
    alphas: dict[int, list[float]] = {}
    for row in found:
        alphas.setdefault(row["fold"], []).append(row["alpha"])
    n_observations = float(np.mean([row["n_observations"] for row in found]))
    return line | {"alphas": alphas, "n_observations": n_observations}


def _by_fold(rows: list[Row], method: str, other: str) -> dict[int, list[float]]:
    means: dict[int, list[float]] = {}
    for name in (method, other):
        for row in rows:
            if row["method"] == name:
                means.setdefault(row["fold"], []).append(float(np.mean(row["ndcg"])))
    return means


def _error(values: FloatArray) -> float:
    """Return the standard error of a mean."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def _means(found: list[Row], name: str) -> FloatArray:
    """Return the means over folds, (repeats, 10)."""
    by_repeat: dict[int, list[Any]] = {}
    for row in found:
        by_repeat.setdefault(row["repeat"], []).append(row[name])
    return np.array([np.mean(values, axis=0) for values in by_repeat.values()]).reshape(
        -1, len(CUTS)
    )


def _spread(values: FloatArray) -> Any:
    if len(values) < 2:
        return None
    return np.std(values, axis=0, ddof=1).tolist()
