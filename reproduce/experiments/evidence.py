"""From the rows of an experiment to the effects that its claim speaks of.

More of an effect always speaks for the claim: losses and times are turned round.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np

from permatch._types import FloatArray
from reproduce.experiments.claims import (
    LEVEL,
    Effect,
    effect_of,
    ratio_of,
    widest,
)
from reproduce.experiments.cmu_house import METHODS as HOUSE_METHODS
from reproduce.experiments.rank_runtime import METHODS as TIMED
from reproduce.experiments.ranking_summary import query_values
from reproduce.experiments.rows import Row
from reproduce.rivals.table import RIVALS

#: Rivals that the claims on rankings are judged by, and those that are only in the style of
#: what was published, so that a lead over them says little.  The paper speaks of rankers
#: with results on all three data sets.
JUDGED = tuple(r.method for r in RIVALS.values() if r.is_on_all_three and not r.is_style)
STYLED = tuple(r.method for r in RIVALS.values() if r.is_on_all_three and r.is_style)

#: NDCG by which a ranker may be behind and still do fairly well.
FAIRLY_WELL = 0.05

#: From this multiple of another's time on it is much longer, below it competitive: the
#: paper calls its own 1.97 at M = 5 competitive.
MUCH_LONGER = 2.0

#: Subsets of up to so many documents are the paper's small graphs.
SMALL = 5


def silhouette_effects(rows: Sequence[Row], level: float = LEVEL) -> list[Effect]:
    """Return MAP's lead over max-margin with the most pairs; beside it, its growth.

    There is none with a single number of pairs.
    """
    sizes = sorted({row["n"] for row in rows if row["n"] > 0})
    first, last = (
        _savings(rows, (n, "map"), (n, "max_margin")) for n in (sizes[0], sizes[-1])
    )
    ahead = f"Hamming loss by which MAP is ahead with {sizes[-1]} pairs"
    found = [effect_of(last, ahead, level=level)]
    if len(sizes) > 1:
        growth = [b - a for a, b in zip(first, last, strict=True)]
        grown = f"what that lead gained from {sizes[0]} to {sizes[-1]} pairs"
        found.append(_beside(effect_of(growth, grown, level=level)))
    return found


def transfer_effects(rows: Sequence[Row], level: float = LEVEL) -> list[Effect]:
    """Return what learning saves with the most pairs; beside it, MAP's lead."""
    n = max(row["n"] for row in rows)
    saved = [
        effect_of(
            _savings(rows, (n, method), (0, "unweighted")),
            f"Hamming loss that learning from {n} pairs saves ({label})",
            level=level,
        )
        for method, label in (("map", "MAP"), ("max_margin", "max-margin"))
    ]
    return [*saved, _beside(silhouette_effects(rows, level)[0])]


def tree_effects(rows: Sequence[Row]) -> list[Effect]:
    """Return what boosted trees lose less than other methods with the most pairs.

    Over the repeats that have them; none where no repeat has.
    """
    n = max(row["n"] for row in rows)
    names = {
        "map": "MAP",
        "max_margin": "max-margin",
        "pairs": "trees grown pair by pair",
    }
    found = []
    repeats = {row["repeat"] for row in rows if row["method"] == "boosted"}
    own = [row for row in rows if row["repeat"] in repeats]
    for rival, name in names.items() if repeats else ():
        what = f"Hamming loss by which boosted trees are ahead of {name} with {n} pairs"
        leads = _savings(own, (n, "boosted"), (n, rival))
        found.append(_beside(effect_of(leads, what)))
    return found


def _savings(
    rows: Sequence[Row], ours: tuple[int, str], theirs: tuple[int, str]
) -> list[float]:
    """Return by repeat what a method loses less than another; each with its pairs."""
    losses = {(row["repeat"], row["n"], row["method"]): row["hamming_loss"] for row in rows}
    repeats = sorted({row["repeat"] for row in rows})
    return [losses[k, *theirs] - losses[k, *ours] for k in repeats]


def sample_size_effects(rows: Sequence[Row], level: float = LEVEL) -> list[Effect]:
    """Return what RankMatch gains more than DORM; beside it, its lead in the end."""
    shares = sorted({row["n_subsets"] for row in rows})
    first, last = shares[0], shares[-1]

    def lead(part: Iterable[Row], share: float) -> FloatArray:
        chosen = [row for row in part if row["n_subsets"] == share]
        return _leads(chosen, "dorm", lambda ndcg: ndcg[0])

    return [
        _over_queries_and_repeats(
            rows,
            "NDCG@1 that RankMatch gains more than DORM "
            f"from {first:g} to {last:g} D M subsets",
            lambda part: lead(part, last) - lead(part, first),
            level,
        ),
        _beside(
            _over_queries_and_repeats(
                rows,
                f"NDCG@1 by which RankMatch is ahead of DORM with {last:g} D M subsets",
                lambda part: lead(part, last),
                level,
            )
        ),
    ]


def ranking_effects(rows: Sequence[Row], tests: Sequence[Row]) -> list[Effect]:
    """Return RankMatch's lead over measured rivals; beside it, over others and DORM.

    Parameters
    ----------
    rows : sequence of dict
        Rows of one configuration.
    tests : sequence of dict
        The paired tests that `ranking_summary.compare` made of them.

    Returns
    -------
    list of Effect
        Of `JUDGED`, then beside the claim of `STYLED` and of DORM.  A rival that is not
        there leaves its part open.
    """
    judged = [_lead_over(rows, tests, method, RIVALS[method].name) for method in JUDGED]
    told = [_lead_over(rows, tests, method, RIVALS[method].name) for method in STYLED]
    told.append(_lead_over(rows, tests, "dorm", "DORM"))
    return [*judged, *(_beside(effect) for effect in told)]


def weak_start_effects(rows: Sequence[Row]) -> list[Effect]:
    """Return how far RankMatch is behind RankBoost at 1, and that it is not at 10."""
    first = "NDCG@1 by which RankMatch is behind RankBoost"
    last = "NDCG@10 by which RankMatch is ahead of RankBoost"
    if "rankboost" not in query_values(rows):
        effects = [_unknown(what, "no results") for what in (first, last)]
    else:
        effects = [
            _over_queries_and_repeats(
                rows, first, lambda part: -_leads(part, "rankboost", lambda ndcg: ndcg[0])
            ),
            _over_queries_and_repeats(
                rows, last, lambda part: _leads(part, "rankboost", lambda ndcg: ndcg[-1])
            ),
        ]
    return [effects[0], replace(effects[1], null=-FAIRLY_WELL)]


def runtime_effects(rows: Sequence[Row]) -> list[Effect]:
    """Return how much longer the model takes on the largest graphs, not on small ones."""
    sizes = {(row["task"], row["size"]) for row in rows if row["size"] != "all"}
    # Images, as in the paper, where there are any.
    task, size = max(sizes, key=lambda case: (case[0] == "images", case[1]))
    kind = "images" if task == "images" else "subsets"
    what = f"training time of the exponential model over max-margin's, {kind} of {size}"
    effects = [ratio_of(*_times(rows, task, size), what, MUCH_LONGER)]
    for small in sorted(size for task, size in sizes if task == "ranking"):
        if small <= SMALL:
            model, margin = _times(rows, "ranking", small)
            what = f"max-margin's training time over the model's, subsets of {small}"
            effects.append(ratio_of(margin, model, what, 1.0 / MUCH_LONGER))
    return effects


def house_effects(rows: Sequence[Row], gap: int | None = None) -> list[Effect]:
    """Return how much less every learner loses than unweighted features.

    Parameters
    ----------
    rows : sequence of dict
        Rows of one configuration.
    gap : int, optional
        Frames between the two of a pair; the widest by default.

    Returns
    -------
    list of Effect
        One per learner, paired by test pair.
    """
    gap = max(row["gap"] for row in rows) if gap is None else gap
    losses = {row["method"]: row["losses"] for row in rows if row["gap"] == gap}
    names = {"map": "MAP, Bethe", "map_drawn": "MAP, sampled", "max_margin": "max-margin"}
    return [
        effect_of(
            [a - b for a, b in zip(losses["unweighted"], losses[method], strict=True)],
            f"Hamming loss that learning saves at a gap of {gap} ({names[method]})",
            "test pair",
        )
        for method in HOUSE_METHODS[1:]
    ]


def _lead_over(rows: Sequence[Row], tests: Sequence[Row], rival: str, name: str) -> Effect:
    """Return RankMatch's lead in the mean of NDCG@1 to NDCG@10."""
    what = f"mean of NDCG@1 to NDCG@10 by which RankMatch is ahead of {name}"
    test = next((test for test in tests if test["method"] == rival), None)
    if test is None:
        return _unknown(what, "no results")
    over_queries = Effect(
        what,
        -test["difference"],
        -test["high"],
        -test["low"],
        f"{test['n_queries']} queries",
    )
    by_repeat = [float(_leads(part, rival, np.mean).mean()) for part in _repeats(rows)]
    chosen = widest([over_queries, effect_of(by_repeat, what)])
    return replace(chosen, p_holm=test["p_holm"])


def _leads(rows: Iterable[Row], rival: str, of: Callable[[FloatArray], Any]) -> FloatArray:
    """Return what RankMatch has more than a rival, for every query that both have."""
    values = query_values(rows)
    ours, theirs = values["rankmatch"], values[rival]
    return np.array([of(ours[q]) - of(theirs[q]) for q in ours if q in theirs])


def _over_queries_and_repeats(
    rows: Sequence[Row],
    what: str,
    of: Callable[[Iterable[Row]], FloatArray],
    level: float = LEVEL,
) -> Effect:
    """Return a mean over queries: both they and the subsets drawn are chance."""
    by_repeat = [float(of(part).mean()) for part in _repeats(rows)]
    over_queries = effect_of(of(rows).tolist(), what, "query", level)
    return widest([over_queries, effect_of(by_repeat, what, level=level)])


def _repeats(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows by repeat of RankMatch; what was run once belongs to every one."""
    runs: dict[str, set[Any]] = {}
    for row in rows:
        runs.setdefault(row["method"], set()).add(row["repeat"])
    return [
        [row for row in rows if row["repeat"] == k or len(runs[row["method"]]) == 1]
        for k in sorted(runs["rankmatch"])
    ]


def _beside(effect: Effect) -> Effect:
    return replace(effect, is_judged=False)


def _unknown(what: str, why: str) -> Effect:
    return Effect(what, nan, -inf, inf, why)


def _times(rows: Sequence[Row], task: str, size: Any) -> tuple[list[float], list[float]]:
    """Return the times of the model and of max-margin, by repeat."""
    found = {
        (row["method"], row["repeat"]): row["seconds_per_observation"]
        for row in rows
        if (row["task"], row["size"]) == (task, size)
    }
    repeats = sorted({repeat for _, repeat in found})
    model, margin = TIMED[task]
    return [found[model, k] for k in repeats], [found[margin, k] for k in repeats]
