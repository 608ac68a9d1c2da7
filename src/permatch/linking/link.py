"""`link`: from scored pairs to one-to-one probabilities and decisions."""

from pathlib import Path
from typing import Any, Literal

from permatch._progress import Stages
from permatch._validation import check_count, check_jobs
from permatch.decoding.bayes import LinkCosts
from permatch.distributed.opening import is_dask
from permatch.inference._options import check_budget, check_fraction
from permatch.linking.checks import (
    check_costs,
    check_expected,
    check_score,
    warn_of_one_table,
)
from permatch.linking.constant import OneTable, find_constant
from permatch.linking.link_parts import link_dataset, link_frame
from permatch.linking.models import load_model, model_columns
from permatch.linking.pairs import choose_roles, read_pairs
from permatch.linking.sources import name_ids
from permatch.linking.table import PairTable, Rules, warn_if


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
    out: str | Path | None = None,
) -> Any:
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
        Also more than fits into memory: a Dask DataFrame, or with `out` a folder of Parquet
        files, one such file or a pyarrow Dataset.
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
    out : path, optional
        A folder to write links to, part by part, for pairs on disk or on Dask, whose
        workers all have to see it.  After Ctrl-C the same call goes on where the last one
        stopped.

    Returns
    -------
    Links or PartedLinks
        A table with a row per pair, in the order of `pairs`; of a Dask DataFrame, or with
        `out`, in parts.

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

    In parts, components are found by union-find over the ids, about 40 bytes for every
    record, and each part of about a million pairs is linked on its own; `budget` is for
    every part.  The answer is that in memory: to the last bit where both are exact and no
    `model` scores the pairs, whose sums are rounded differently.

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
    wanted = check_expected(expected_links)
    rules = Rules(
        choose_roles(*name_ids(pairs, left, right), values, named),
        model,
        check_score(unmatched, "unmatched"),
        None if model is not None and wanted == "pairs" else wanted,
        check_costs(costs),
        (capacity_left, capacity_right),
        check_fraction(tol, "tol of link"),
        check_budget(budget, "budget of link"),
        check_count(random_state, "random_state", 0),
        check_jobs(n_jobs),
    )
    if is_dask(pairs):
        return link_frame(pairs, rules, out)
    if out is not None:
        return link_dataset(pairs, rules, out)
    with Stages("reading the pairs") as stages:
        table = PairTable.build(read_pairs(pairs, rules.roles), rules)
        warn_of_one_table(table.pairs)
        stages.say(f"counting the links of {len(table.rows):,} pairs")
        counted = OneTable.of(table.solver, table.chances)
        offset = find_constant(counted, rules.expected, rules.base)
        stages.say(f"computing the probabilities of {len(table.rows):,} pairs")
        links, remark = table.link(offset, stages)
    warn_if(remark)
    return links
