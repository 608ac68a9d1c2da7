"""From the rows of an experiment to the effects that its claim speaks of.

More of an effect always speaks for the claim: losses and times are turned round.
"""

from collections.abc import Callable, Iterable, Sequence
from math import hypot, inf, nan
from typing import Any

import numpy as np

from permatch.experiments.claims import Effect, effect_of, from_error, ratio_of, widest
from permatch.experiments.cmu_house import METHODS as HOUSE_METHODS
from permatch.experiments.rank_runtime import METHODS as TIMED
from permatch.experiments.ranking_summary import query_values
from permatch.experiments.rows import Row

# After Holm's correction a p-value below this is no chance.
_SIGNIFICANT = 0.05

#: Rivals of RankMatch that the paper has too, by the names they have in sentences.
RIVALS = {"dorm": "DORM", "rankboost": "RankBoost"}


def silhouette_effects(rows: Sequence[Row]) -> list[Effect]:
    """Return MAP's lead over max-margin with the most pairs, and how it has grown."""
    sizes = sorted({row["n"] for row in rows if row["n"] > 0})
    losses = {(row["repeat"], row["n"], row["method"]): row["hamming_loss"] for row in rows}
    repeats = sorted({row["repeat"] for row in rows})
    leads = {
        n: [losses[k, n, "max_margin"] - losses[k, n, "map"] for k in repeats]
        for n in (sizes[0], sizes[-1])
    }
    first, last = leads[sizes[0]], leads[sizes[-1]]
    growth = [b - a for a, b in zip(first, last, strict=True)]
    return [
        effect_of(last, f"Hamming loss by which MAP is ahead with {sizes[-1]} pairs"),
        effect_of(growth, f"what that lead gained from {sizes[0]} to {sizes[-1]} pairs"),
    ]


def sample_size_effects(rows: Sequence[Row]) -> list[Effect]:
    """Return RankMatch's lead over DORM with the most subsets, and how it has grown."""
    shares = sorted({row["n_subsets"] for row in rows})
    first, last = shares[0], shares[-1]

    def lead(share: float, part: Iterable[Row]) -> np.ndarray:
        """Return the differences of NDCG@1, query by query."""
        values = query_values(row for row in part if row["n_subsets"] == share)
        ours, theirs = values["rankmatch"], values["dorm"]
        return np.array([ours[query][0] - theirs[query][0] for query in ours])

    def measure(what: str, of: Callable[[Iterable[Row]], np.ndarray]) -> Effect:
        by_repeat = [
            float(of([row for row in rows if row["repeat"] == k]).mean())
            for k in sorted({row["repeat"] for row in rows})
        ]
        over_queries = effect_of(of(rows).tolist(), what, "query")
        return widest([over_queries, effect_of(by_repeat, what)])

    return [
        measure(
            f"NDCG@1 by which RankMatch is ahead with {last:g} D M subsets",
            lambda part: lead(last, part),
        ),
        measure(
            f"what that lead gained from {first:g} to {last:g} D M subsets",
            lambda part: lead(last, part) - lead(first, part),
        ),
    ]


def ranking_effects(tests: Sequence[Row]) -> list[Effect]:
    """Return RankMatch's lead over the rivals that the paper has too.

    A rival that is known by its means only, or not at all, leaves its part open.
    """
    by_method = {test["method"]: test for test in tests}
    effects = []
    for method, name in RIVALS.items():
        what = f"mean of NDCG@1 to NDCG@10 by which RankMatch is ahead of {name}"
        test = by_method.get(method)
        effects.append(_unknown(what) if test is None else _from_test(what, test))
    return effects


def weak_start_effects(rows: Sequence[Row]) -> list[Effect]:
    """Return by how much RankMatch is behind RankBoost at the first position."""
    what = "NDCG@1 by which RankMatch is behind RankBoost"
    values = query_values(rows)
    if "rankboost" not in values:
        return [_unknown(what)]
    ours, theirs = values["rankmatch"], values["rankboost"]
    differences = [float(theirs[query][0] - ours[query][0]) for query in ours]
    return [effect_of(differences, what, "query")]


def runtime_effects(rows: Sequence[Row]) -> list[Effect]:
    """Return how many times slower the exponential model is on the largest graphs."""
    sizes = {(row["task"], row["size"]) for row in rows if row["size"] != "all"}
    # Images, as in the paper, where there are any.
    task, size = max(sizes, key=lambda case: (case[0] == "images", case[1]))
    model, margin = (_times(rows, task, size, method) for method in TIMED[task])
    kind = "images" if task == "images" else "subsets"
    what = f"training time of the exponential model over max-margin's, {kind} of {size}"
    return [ratio_of(model, margin, what)]


def house_effects(summary: Sequence[Row]) -> list[Effect]:
    """Return how much less every learner loses than unweighted features, far apart."""
    line = max(summary, key=lambda line: line["gap"])
    names = {"map": "MAP, Bethe", "map_drawn": "MAP, sampled", "max_margin": "max-margin"}
    effects = []
    for method in HOUSE_METHODS[1:]:
        errors = line["unweighted_error"], line[f"{method}_error"]
        error = inf if None in errors else hypot(*errors)
        effects.append(
            from_error(
                f"Hamming loss that learning saves at a gap of {line['gap']} "
                f"({names[method]})",
                line["unweighted"] - line[method],
                error,
                line["n_test"] - 1,
                f"{line['n_test']} test pairs",
            )
        )
    return effects


def _from_test(what: str, test: Row) -> Effect:
    return Effect(
        what,
        -test["difference"],
        -test["high"],
        -test["low"],
        f"{test['n_queries']} queries",
        is_certain=test["p_holm"] < _SIGNIFICANT,
    )


def _unknown(what: str) -> Effect:
    return Effect(what, nan, -inf, inf, "no single queries published")


def _times(rows: Sequence[Row], task: str, size: Any, method: str) -> list[float]:
    found = {
        row["repeat"]: row["seconds_per_observation"]
        for row in rows
        if (row["task"], row["size"], row["method"]) == (task, size, method)
    }
    return [found[repeat] for repeat in sorted(found)]
