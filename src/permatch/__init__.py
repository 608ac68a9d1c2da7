"""Learn to match: probabilities over the matchings of a bipartite graph.

    scores (n, k)  ->  log_partition, marginals (n, k)

    p(matching) ~ exp(scores of its edges + scores of its unmatched nodes)

Sides may be unequal, edges may be missing, and nodes may stay unmatched.

Names are loaded on first use, so ``import permatch`` is fast and loads neither the compiler
nor optional packages.

Examples
--------
>>> import permatch as pm
>>> d = pm.MatchingDistribution([[1.0, 0.0], [0.0, 1.0]])
>>> d.mode().tolist()
[0, 1]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from permatch import errors
from permatch._version import __version__

if TYPE_CHECKING:  # for type checkers and completion; the table below does the work
    from permatch.boosting import (
        BoostedMatching,
        BoostedMatchingCV,
        BoostedRankMatch,
        BoostedRankMatchCV,
    )
    from permatch.decoding import (
        ABSTAINED,
        KBest,
        LinkCosts,
        bayes_matching,
        best_matching,
        k_best,
    )
    from permatch.distribution import MatchingDistribution
    from permatch.estimators import (
        DORM,
        DORMCV,
        FeaturePreparation,
        MAPMatching,
        MAPMatchingCV,
        MarginalIntervals,
        MaxMarginMatching,
        MaxMarginMatchingCV,
        Posterior,
        QueryRidge,
        QueryRidgeCV,
        QueryScaler,
        RankMatch,
        RankMatchCV,
        compare_rankers,
        export,
        load,
        save,
    )
    from permatch.graphs import BipartiteGraph
    from permatch.inference import (
        AutoEngine,
        Bethe,
        Diagnostics,
        Enumeration,
        Frontier,
        Glynn,
        GlynnCuda,
        HuberLaw,
        InferenceResult,
        Nesting,
        PathTree,
        Ryser,
        SmallBatch,
        Sparsified,
        SubsetDP,
        SwapChain,
        infer,
        log_partition,
        log_partition_bounds,
        marginals,
    )
    from permatch.known import Known
    from permatch.labels import EdgeLabels
    from permatch.linking import Links, PartedLinks, fit_links, link
    from permatch.ranking_distribution import RankingDistribution
    from permatch.scores import EdgeScores
    from permatch.tracking import associate

__all__ = [
    "ABSTAINED",
    "DORM",
    "DORMCV",
    "AutoEngine",
    "Bethe",
    "BipartiteGraph",
    "BoostedMatching",
    "BoostedMatchingCV",
    "BoostedRankMatch",
    "BoostedRankMatchCV",
    "Diagnostics",
    "EdgeLabels",
    "EdgeScores",
    "Enumeration",
    "FeaturePreparation",
    "Frontier",
    "Glynn",
    "GlynnCuda",
    "HuberLaw",
    "InferenceResult",
    "KBest",
    "Known",
    "LinkCosts",
    "Links",
    "MAPMatching",
    "MAPMatchingCV",
    "MarginalIntervals",
    "MatchingDistribution",
    "MaxMarginMatching",
    "MaxMarginMatchingCV",
    "Nesting",
    "PartedLinks",
    "PathTree",
    "Posterior",
    "QueryRidge",
    "QueryRidgeCV",
    "QueryScaler",
    "RankMatch",
    "RankMatchCV",
    "RankingDistribution",
    "Ryser",
    "SmallBatch",
    "Sparsified",
    "SubsetDP",
    "SwapChain",
    "__version__",
    "associate",
    "bayes_matching",
    "best_matching",
    "compare_rankers",
    "errors",
    "export",
    "fit_links",
    "infer",
    "k_best",
    "link",
    "load",
    "log_partition",
    "log_partition_bounds",
    "marginals",
    "save",
]

#: Where each lazily loaded name lives.
_HOMES = {
    "ABSTAINED": "permatch.decoding",
    "DORM": "permatch.estimators",
    "DORMCV": "permatch.estimators",
    "AutoEngine": "permatch.inference",
    "Bethe": "permatch.inference",
    "BipartiteGraph": "permatch.graphs",
    "BoostedMatching": "permatch.boosting",
    "BoostedMatchingCV": "permatch.boosting",
    "BoostedRankMatch": "permatch.boosting",
    "BoostedRankMatchCV": "permatch.boosting",
    "Diagnostics": "permatch.inference",
    "EdgeLabels": "permatch.labels",
    "EdgeScores": "permatch.scores",
    "Enumeration": "permatch.inference",
    "FeaturePreparation": "permatch.estimators",
    "Frontier": "permatch.inference",
    "Glynn": "permatch.inference",
    "GlynnCuda": "permatch.inference",
    "HuberLaw": "permatch.inference",
    "InferenceResult": "permatch.inference",
    "KBest": "permatch.decoding",
    "Known": "permatch.known",
    "LinkCosts": "permatch.decoding",
    "Links": "permatch.linking",
    "MAPMatching": "permatch.estimators",
    "MAPMatchingCV": "permatch.estimators",
    "MarginalIntervals": "permatch.estimators",
    "MatchingDistribution": "permatch.distribution",
    "MaxMarginMatching": "permatch.estimators",
    "MaxMarginMatchingCV": "permatch.estimators",
    "Nesting": "permatch.inference",
    "PartedLinks": "permatch.linking",
    "PathTree": "permatch.inference",
    "Posterior": "permatch.estimators",
    "QueryRidge": "permatch.estimators",
    "QueryRidgeCV": "permatch.estimators",
    "QueryScaler": "permatch.estimators",
    "RankMatch": "permatch.estimators",
    "RankMatchCV": "permatch.estimators",
    "RankingDistribution": "permatch.ranking_distribution",
    "Ryser": "permatch.inference",
    "SmallBatch": "permatch.inference",
    "Sparsified": "permatch.inference",
    "SubsetDP": "permatch.inference",
    "SwapChain": "permatch.inference",
    "associate": "permatch.tracking",
    "bayes_matching": "permatch.decoding",
    "best_matching": "permatch.decoding",
    "compare_rankers": "permatch.estimators",
    "export": "permatch.estimators",
    "fit_links": "permatch.linking",
    "infer": "permatch.inference",
    "k_best": "permatch.decoding",
    "link": "permatch.linking",
    "load": "permatch.estimators",
    "log_partition": "permatch.inference",
    "log_partition_bounds": "permatch.inference",
    "marginals": "permatch.inference",
    "save": "permatch.estimators",
}


#: Rooms that can be reached as ``permatch.room`` without an import of their own.
_ROOMS = (
    "boosting",
    "datasets",
    "decoding",
    "estimators",
    "features",
    "inference",
    "linking",
    "metrics",
    "nn",
    "pages",
    "plots",
    "tracking",
)


def __getattr__(name: str) -> Any:
    """Load a public name from its home and keep it."""
    if name in _ROOMS:
        return import_module(f"permatch.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__, *_ROOMS})
