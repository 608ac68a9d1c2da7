"""`link`: from scored pairs to one-to-one probabilities and decisions."""

import math
import warnings
from typing import Any, Literal

import numpy as np

from permatch._parallel import Job
from permatch._progress import Stages
from permatch._types import FloatArray, IntArray
from permatch._validation import check_count, check_jobs
from permatch.decoding.bayes import LinkCosts
from permatch.inference._options import check_budget, check_fraction
from permatch.linking.checks import (
    check_capacity,
    check_costs,
    check_expected,
    check_score,
    warn_of_one_table,
)
from permatch.linking.constant import find_constant
from permatch.linking.decisions import WORDS, decide
from permatch.linking.links import Links, build_table, check_names
from permatch.linking.models import load_model, model_columns, model_odds
from permatch.linking.odds import log_odds
from permatch.linking.pairs import ScoredPairs, choose_roles, read_pairs
from permatch.linking.solving import Answer, Solver
from permatch.linking.sources import name_ids
from permatch.problems import Problem, Structure

# Intervals that leave decisions open are asked to be narrower by this, down to a width.
_FINER, _FINEST = 0.1, 1e-7


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
    partners, and decides.  It needs no training.  It links two tables; to group the
    duplicates of one table, or of three and more, use a clustering.

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
        ``weight``.  Weights and scores must be such that ``1 / (1 + odds**-1)`` is the
        probability of the pair, or the number of links is kept at a wrong value: give
        `expected_links` if they are not.  A probability of 0 forbids a pair; one of 1 is
        taken as the largest number below 1.
    model : fitted MAPMatching or MAPMatchingCV, or path, optional
        Scores the pairs by its features, columns of the same names, in place of a
        probability, weight or score: what `fit_links` has learned, or the file that it was
        saved to.
    unmatched : float
        Score of having no partner, for every record, beside the log-odds of pairs.  It
        makes a difference only where `expected_links` is None or there is a `model`.
    expected_links : "pairs", float or None
        The expected number of links, reached by adding one constant to all log-odds.
        "pairs": the sum of the pair probabilities, which competition between pairs would
        lower; where no constant up to 4 reaches it, a likely one is chosen, with a warning
        if one-to-one links fall far short of the sum.
        None: nothing is added.  With `model`, which has learned the constant, "pairs" adds
        nothing either.
    costs : LinkCosts, optional
        What wrong decisions cost.  Default: a missed or false link 1, a wrong one 2, so
        that pairs above one half are linked.  With `abstain`, records are left to a person
        where that is cheaper: their likeliest pairs are marked "review".  Where records may
        have several links every pair counts by itself: `missed` if it belongs together and
        is not linked, `false` if it is linked and does not.
    capacity_left, capacity_right : int
        Links that a record of either side may have, at most; ``math.inf`` for no limit.
        Records are counted exactly, and components too wide for that are refused; it is
        easy where few records have more candidates than links they may have.
    tol : float
        Width of the intervals asked for where components are too wide to be solved exactly.
        Intervals that leave a decision open are narrowed further, as time allows; if they
        stay too wide the pair is left for review.
    budget : float, optional
        Seconds for those; None for no limit.  It is exceeded by the time that reading,
        counting and a first look at all pairs take, and compiling on first use.  Intervals
        that use it up, and decisions that they leave open, depend on the machine.
    random_state : int
        Seed.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  Exact probabilities do not depend on
        it; intervals that use up `budget` do.

    Returns
    -------
    Links
        A table with a row per pair, in the order of `pairs`.

    Raises
    ------
    TableError
        If columns or cells are missing, a pair has two rows, or there are other than two
        sources; the message names the row.

    Notes
    -----
    The components of the graph of all pairs are solved one by one: those narrow enough
    exactly, by `Frontier`.  A million pairs of 400,000 and 400,000 records take 3 to 10
    seconds and 1 GB.  The constant is found by counting the expected links a few times;
    where components are too wide for exact counts, by belief propagation.  Intervals hold
    for the constant found.  Ctrl-C while intervals are narrowed keeps what is decided.

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
    model = load_model(model)
    named = None if model is None else model_columns(model)
    roles = choose_roles(*name_ids(pairs, left, right), values, named)
    # Of the whole, not of its parts, is shown what goes on.
    job = Job(check_jobs(n_jobs), progress=False)
    costs = check_costs(costs)
    wanted = check_expected(expected_links)
    if model is not None and wanted == "pairs":
        wanted = None
    base = check_score(unmatched, "unmatched")
    tol = check_fraction(tol, "tol of link")
    budget = check_budget(budget, "budget of link")
    seed = check_count(random_state, "random_state", 0)
    with Stages("reading the pairs") as stages:
        found = read_pairs(pairs, roles)
        check_names(found.names)
        warn_of_one_table(found)
        odds, chances = (
            log_odds(found) if model is None else model_odds(model, found.columns)
        )
        problem, rows = _build(found, odds, base, (capacity_left, capacity_right))
        solver = Solver(problem, tol, budget, seed, job)
        stages.say(f"counting the links of {len(odds):,} pairs")
        offset = find_constant(solver, chances[rows], wanted, 2.0 * base)
        stages.say(f"computing the probabilities of {len(odds):,} pairs")
        answer = solver.solve(offset)
        answer, decisions = _decide(solver, problem, answer, costs, tol, stages)
    return _collect(found, chances, problem, rows, answer, decisions, offset, costs)


def _decide(
    solver: Solver,
    problem: Problem,
    answer: Answer,
    costs: LinkCosts,
    tol: float,
    stages: Stages,
) -> tuple[Answer, IntArray]:
    """Decide, narrowing intervals that leave decisions open while there is time."""
    decided = decide(problem, answer, costs)
    is_interrupted = False
    try:
        while len(decided.undecided) and tol > _FINEST:
            tol *= _FINER
            stages.say(f"narrowing the intervals of {len(decided.undecided):,} pairs")
            more = solver.refine(decided.undecided, tol)
            if more is None:
                break
            answer = more
            decided = decide(problem, answer, costs)
    except KeyboardInterrupt:  # what is decided stays
        is_interrupted = True
    if is_interrupted or solver.is_interrupted:
        warnings.warn(
            f"interrupted: intervals may be wider than asked for, and "
            f"{len(decided.undecided):,} pairs that more time might have decided are left "
            "for review.",
            UserWarning,
            stacklevel=3,
        )
    return answer, decided.decisions


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
        check_capacity(capacity, f"capacity_{side}", size)
        for capacity, side, size in zip(capacities, ("left", "right"), (n, k), strict=True)
    ]
    return Problem(structure, scores, *nobody, *room), rows


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
