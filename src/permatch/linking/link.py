"""`link`: from scored pairs to one-to-one probabilities and decisions."""

import math
import warnings
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from permatch._parallel import Job
from permatch._score_checks import check_capacities
from permatch._types import FloatArray, IntArray
from permatch._validation import check_jobs
from permatch.decoding.bayes import LinkCosts
from permatch.errors import InvalidOptionError
from permatch.linking.counting import Count, Search, find_offset, keep_count
from permatch.linking.decisions import WORDS, decide
from permatch.linking.links import Links, build_table, check_names
from permatch.linking.models import model_columns, model_odds
from permatch.linking.odds import log_odds
from permatch.linking.pairs import ScoredPairs, choose_roles, read_pairs
from permatch.linking.solving import Answer, Solver
from permatch.problems import Problem, Structure

# Intervals that leave decisions open are asked to be narrower by this, down to a width.
_FINER, _FINEST = 0.1, 1e-7
# Share of the number of links that is close enough where counting takes long.
_LESS_CLOSE = 1e-5


def link(
    pairs: Any,
    *,
    left: str | None = None,
    right: str | None = None,
    probability: str | None = None,
    weight: str | None = None,
    score: str | None = None,
    model: Any = None,
    unmatched: float = 0.0,
    expected_links: Literal["pairs"] | float | None = "pairs",
    costs: LinkCosts | None = None,
    capacity_left: float = 1,
    capacity_right: float = 1,
    tol: float = 0.01,
    budget: float | None = 5.0,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Links:
    """Link the records of two tables one-to-one, from the probabilities of pairs.

    A pair classifier or a linker says of every pair by itself how likely it is that the two
    records belong together.  `link` computes how likely that is if no record has two
    partners, and decides.

    Parameters
    ----------
    pairs : DataFrame, mapping, path, or the result of a linker
        A row per candidate pair; others cannot be linked.  A data frame (pandas, Polars,
        Arrow, or anything with ``__arrow_c_stream__``), a mapping of columns, a CSV, TSV or
        Parquet file, a result of splink, a pandas object whose MultiIndex holds the ids, as
        recordlinkage's, or an array with the fields ``pairs`` and ``score``, as dedupe's.
    left, right : str, optional
        The columns of the ids of the two records.  Default: ``unique_id_l`` and
        ``unique_id_r``, ``left`` and ``right``, or similar names.
    probability, weight, score : str, optional
        The column that says how likely a pair is by itself: as a probability, as log2 of
        the odds (splink's ``match_weight``, which includes the prior), or as natural log of
        the odds.  Default: ``match_weight``, ``match_probability``, ``probability`` or
        ``weight``.
    model : fitted MAPMatching or MAPMatchingCV, optional
        Scores the pairs by its features, columns of the same names, in place of a
        probability, weight or score: what `fit_links` has learned.
    unmatched : float
        Score of having no partner, for every record.
    expected_links : "pairs", float or None
        The expected number of links, reached by adding one constant to all log-odds.
        "pairs": the sum of the pair probabilities.  None: nothing is added.  With
        `model`, which has learned the constant, "pairs" adds nothing either.
    costs : LinkCosts, optional
        What wrong decisions cost.  Where records may have several links every pair counts
        by itself: `missed` if it belongs together and is not linked, `false` if it is
        linked and does not.
    capacity_left, capacity_right : int
        Links that a record of either side may have, at most; ``math.inf`` for no limit.
        Records are counted exactly, and components too wide for that are refused; it is
        easy where few records have more candidates than links they may have.
    tol : float
        Error asked for where components are too wide to be solved exactly.
    budget : float, optional
        Seconds for those; None for no limit.
    random_state : int
        Seed.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  Results do not depend on it.

    Returns
    -------
    Links
        A table with a row per pair, in the order of `pairs`.

    Examples
    --------
    >>> import permatch as pm
    >>> pairs = {
    ...     "left": ["ann", "ann", "bob", "bob"],
    ...     "right": ["a", "b", "b", "c"],
    ...     "probability": [0.6, 0.5, 0.5, 0.1],
    ... }
    >>> links = pm.link(pairs)
    >>> links["probability"].round(2).tolist()
    [0.78, 0.12, 0.68, 0.12]
    >>> links["decision"].tolist()
    ['link', 'no link', 'link', 'no link']
    >>> round(links.expected_links, 3)
    1.7
    """
    values = {"probability": probability, "weight": weight, "score": score}
    named = None if model is None else model_columns(model)
    roles = choose_roles(left, right, values, named)
    job = Job(check_jobs(n_jobs))
    costs = _check_costs(costs)
    found = read_pairs(pairs, roles)
    check_names(found.names)
    odds, chances = log_odds(found) if model is None else model_odds(model, found.columns)
    if model is not None and expected_links == "pairs":
        expected_links = None
    capacities = capacity_left, capacity_right
    problem, edges = _build(found, odds, float(unmatched), capacities)
    solver = Solver(problem, tol, budget, random_state, job)
    offset = _find(solver, chances[edges], expected_links, 2.0 * float(unmatched))
    answer = solver.solve(offset)
    decided = decide(problem, answer, costs)
    while len(decided.undecided):
        tol *= _FINER
        more = solver.refine(decided.undecided, tol)
        if more is None or tol < _FINEST:
            break
        answer = more
        decided = decide(problem, answer, costs)
    return _collect(
        found, chances, problem, edges, answer, decided.decisions, offset, costs
    )


def _check_costs(costs: LinkCosts | None) -> LinkCosts:
    if costs is None:
        return LinkCosts()
    if not isinstance(costs, LinkCosts):
        raise InvalidOptionError(
            f"costs must be permatch.LinkCosts(...) or None; got {costs!r}."
        )
    return costs


def _build(
    pairs: ScoredPairs,
    odds: FloatArray,
    unmatched: float,
    capacities: tuple[float, float],
) -> tuple[Problem, IntArray]:
    """Return the graph of all pairs that may be linked, and the row of every edge."""
    rows = np.arange(len(odds)) if pairs.order is None else pairs.order
    rows = rows[odds[rows] > -math.inf]
    n, k = (len(values) for _, values in pairs.columns.ids[1:])
    counts = np.bincount(pairs.left[rows], minlength=n)
    structure = Structure(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        pairs.right[rows].astype(np.int64),
        np.array([0, n]),
        np.array([0, k]),
    )
    scores = np.ascontiguousarray(odds[rows])
    nobody = np.full(n, unmatched), np.full(k, unmatched)
    room = [
        _check_capacity(capacity, f"capacity_{side}", size)
        for capacity, side, size in zip(capacities, ("left", "right"), (n, k), strict=True)
    ]
    return Problem(structure, scores, *nobody, *room), rows


def _check_capacity(capacity: float, name: str, n: int) -> IntArray | None:
    if np.ndim(capacity):
        raise InvalidOptionError(
            f"{name} must be one number for all records; got {capacity!r}."
        )
    return check_capacities(capacity, name, "one", np.array([n]))


def _find(
    solver: Solver,
    chances: FloatArray,
    expected_links: Literal["pairs"] | float | None,
    base: float,
) -> float:
    """Return the constant to add to all scores; `chances` are those of edges."""
    if expected_links is None or not len(chances):
        return 0.0
    is_kept = expected_links == "pairs"
    wanted = float(chances.sum()) if expected_links == "pairs" else float(expected_links)
    search = Search(close=_LESS_CLOSE if solver.is_large else Search.close)

    def count(offset: float) -> Count:
        return solver.count(base + offset)

    if (pilot := solver.pilot()) is not None:  # a part of the table says where to begin
        part, edges = pilot
        own = wanted * float(chances[edges].sum() / chances.sum())
        near = find_offset(
            lambda offset: part.count(base + offset),
            own,
            search.bounded() if is_kept else search,
        )
        search = replace(search, start=near.offset, share=near.share)
    if not is_kept:
        return base + find_offset(count, wanted, search).offset
    found = keep_count(count, chances, search)
    if not found.is_reached:
        warnings.warn(
            f"the pair probabilities add up to {wanted:,.1f} links, more than "
            f"{solver.kind} plausibly reach; all odds were multiplied by "
            f"{math.exp(found.offset):.3g}, which gives {found.number:,.1f} links. "
            "The pair probabilities may be too high, or records may have duplicates. If "
            "you know the number of links, set expected_links=.",
            UserWarning,
            stacklevel=3,
        )
    return base + found.offset


def _collect(
    pairs: ScoredPairs,
    chances: FloatArray,
    problem: Problem,
    rows: IntArray,
    answer: Answer,
    decisions: IntArray,
    offset: float,
    costs: LinkCosts,
) -> Links:
    """Put everything into the order of the input."""
    n_rows = len(chances)

    def spread(values: np.ndarray, missing: Any) -> np.ndarray:
        column = np.full(n_rows, missing, dtype=values.dtype)
        column[rows] = values
        return column

    left_ids, right_ids = pairs.ids
    words = np.array(WORDS, dtype=object)
    table = build_table(
        pairs.names,
        (left_ids[pairs.left], right_ids[pairs.right]),
        spread(answer.marginals, 0.0),
        chances,
        answer.left[pairs.left],
        answer.right[pairs.right],
        words[spread(decisions, 0)],
        spread(answer.is_exact, True),
        spread(answer.low, 0.0),
        spread(answer.high, 0.0),
    )
    return Links(table, offset, costs, problem, rows)
