"""What the explorers show of one graph or one list, as plain numbers for a page.

Arrays travel as base64 of little-endian numbers, so that a page of a hundred nodes a side
stays small and opens at once.
"""

import base64
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.decoding import KBest, bayes_matching
from permatch.distribution import MatchingDistribution
from permatch.errors import InvalidOptionError
from permatch.estimators.linear_ranker import LinearRanker
from permatch.estimators.query_scaler import scale_within_queries
from permatch.estimators.ranker import BaseRanker
from permatch.graphs import BipartiteGraph
from permatch.ranking_distribution import RankingDistribution

#: Most nodes a side, and most documents, that a page shows.
MAX_NODES, MAX_DOCUMENTS = 1000, 1000
#: Most feature values in a page, some 10 MB of it.
MAX_VALUES = 2_000_000
# Most matchings looked through for those that differ in more than extra nodes.
_MOST_ALIKE = 1000
# Numbers that single precision holds without becoming 0 or infinite.
_SINGLE = (1e-37, 1e38)


@dataclass(frozen=True, eq=False)
class MatchView:
    """One graph under one model.

    Attributes
    ----------
    name : str
        Id of the graph.
    left, right : lists of str
        Ids of its nodes.
    features : list of str
        Names of the features.
    coef : ndarray of shape (d,)
        Their coefficients.
    graph : BipartiteGraph
        The graph itself.
    distribution : MatchingDistribution
        Over its matchings.
    truth : ndarray of shape (m,) or None
        The labelled matching.
    n_best : int
        How many of the best matchings to list.
    model : str
        What the estimator is called.
    """

    name: str
    left: list[str]
    right: list[str]
    features: list[str]
    coef: FloatArray
    graph: BipartiteGraph
    distribution: MatchingDistribution
    truth: IntArray | None
    n_best: int
    model: str

    @cached_property
    def mode(self) -> IntArray:
        """The most probable matching, (m,)."""
        return self.distribution.mode()

    @cached_property
    def bayes(self) -> IntArray:
        """The matching with the most edges expected to be right, (m,)."""
        if self.graph.n_extra < 2:
            found = self.distribution.bayes_matching()
        else:
            weights = self.graph.weigh_extra(self.distribution.marginals)
            found = bayes_matching(weights, self.graph.allowed)
        return self.graph.align_extra(found, self.mode)

    @cached_property
    def labelled(self) -> IntArray | None:
        """The labelled matching, dummy nodes as in the mode, if there is one."""
        return None if self.truth is None else self.graph.align_extra(self.truth, self.mode)

    @cached_property
    def best(self) -> KBest:
        """The best matchings, best first; those alike but for extra nodes count once.

        Fewer than asked for where too many are alike.
        """
        n_alike = math.factorial(self.graph.n_extra)
        n_wanted = self.n_best if n_alike == 1 else min(self.n_best * n_alike, _MOST_ALIKE)
        found = self.distribution.k_best(n_wanted)
        n_left, n_right = self.graph.n_sides
        partners = np.minimum(found.matchings[:, :n_left], n_right)
        _, first = np.unique(partners, axis=0, return_index=True)
        kept = np.sort(first)[: self.n_best]
        both = [self.graph.align_extra(found.matchings[k], self.mode) for k in kept]
        return KBest(np.array(both), found.scores[kept])

    def log_prob(self, matchings: IntArray) -> FloatArray:
        """Return the log-probability of matchings, whichever extra nodes they have."""
        return self.distribution.log_prob(matchings) + math.lgamma(1 + self.graph.n_extra)

    @cached_property
    def named(self) -> list[tuple[str, IntArray]]:
        """The matchings with a name, and their names."""
        found = [("mode", self.mode), ("Bayes", self.bayes)]
        return found if self.labelled is None else [*found, ("labelled", self.labelled)]


@dataclass(frozen=True, eq=False)
class RankView:
    """The documents of one query under one model, in the order of their file.

    Attributes
    ----------
    name : str
        Id of the query.
    documents : list of str
        Ids of its documents.
    features : list of str
        Names of the features.
    values : ndarray of shape (n, d)
        Features as they stand in the file.
    pushes : ndarray of shape (n, d)
        What every feature adds to the score, beside its mean over the list.
    scores : ndarray of shape (n,)
        Scores of the documents.
    grades : ndarray of shape (n,)
        Grades in the file.
    distribution : RankingDistribution or None
        Over the rankings of the list; None for models that only score.
    model : str
        What the estimator is called.
    scaling : str or None
        How the model scales features within a list.
    """

    name: str
    documents: list[str]
    features: list[str]
    values: FloatArray
    pushes: FloatArray
    scores: FloatArray
    grades: IntArray
    distribution: RankingDistribution | None
    model: str
    scaling: str | None

    @property
    def order(self) -> IntArray:
        """Documents from the best to the worst; equal scores keep their order, (n,)."""
        return np.argsort(-self.scores, kind="stable")


def rank_view(
    name: str,
    documents: Sequence[str],
    values: FloatArray,
    grades: IntArray,
    model: BaseRanker,
) -> RankView:
    """Return what a linear ranker makes of the documents of one query."""
    if not isinstance(model, LinearRanker):
        raise InvalidOptionError(
            "the page shows the contribution of each feature to the score, which "
            f"requires a linear ranker; got a {type(model).__name__}. "
            "Fit one with permatch rank fit."
        )
    ends = np.array([0, len(values)])
    scaled = values
    if model.scaling is not None:
        scaled = scale_within_queries(values, ends, model.scaling)
    find_distribution = getattr(model, "distribution", None)
    names = model.feature_names_ or [f"feature {k + 1}" for k in range(values.shape[1])]
    return RankView(
        name=name,
        documents=list(documents),
        features=list(names),
        values=values,
        pushes=(scaled - scaled.mean(axis=0)) * model.coef_,
        scores=model.predict(values, group=[len(values)]),
        grades=grades,
        distribution=None if find_distribution is None else find_distribution(values),
        model=type(model).__name__,
        scaling=model.scaling,
    )


def match_data(view: MatchView) -> dict[str, Any]:
    """Return what the script of a matching page needs.

    Features of all edges are included up to `MAX_VALUES` numbers, beyond it those of the
    likeliest edges and of all that some matching of the page uses; ``kept`` lists them.
    """
    law, graph = view.distribution, view.graph
    size, n_features = graph.size, graph.n_features
    values = graph.features.reshape(size * size, n_features)
    kept = None
    if values.size > MAX_VALUES:
        weights = law.marginals.ravel().copy()
        named = [matching for _, matching in view.named]
        for matching in [*named, *view.best.matchings]:
            weights[np.arange(size) * size + matching] = np.inf
        n_kept = max(int(np.isinf(weights).sum()), MAX_VALUES // n_features)
        kept = np.sort(np.argsort(-weights, kind="stable")[:n_kept])
        values = values[kept]
    errors = None if law.is_exact else law.marginal_errors
    return {
        "left": view.left,
        "right": view.right,
        "features": view.features,
        "coef": pack(view.coef, np.float64),
        "chances": pack(law.marginals, np.float64),
        "errors": None if errors is None else pack(errors),
        "scores": pack(law.scores, np.float64),
        "values": pack(values),
        "kept": None if kept is None else pack(kept, np.int32),
        "mode": view.mode.tolist(),
        "bayes": view.bayes.tolist(),
        "truth": None if view.labelled is None else view.labelled.tolist(),
        "best": view.best.matchings.tolist(),
    }


def rank_data(view: RankView) -> dict[str, Any]:
    """Return what the script of a ranking page needs: documents, the best first."""
    order, law = view.order[:MAX_DOCUMENTS], view.distribution
    levels = None
    if law is not None:
        levels = {
            "sizes": law.level_sizes.tolist(),
            "chances": pack(law.level_marginals[order], np.float64),
        }
    return {
        "documents": [view.documents[i] for i in order],
        "features": view.features,
        "grades": view.grades[order].tolist(),
        "scores": pack(view.scores[order], np.float64),
        "values": pack(view.values[order]),
        "pushes": pack(view.pushes[order]),
        "levels": levels,
    }


def pack(array: np.ndarray, kind: Any = None) -> dict[str, str]:
    """Return an array as text; single precision unless told otherwise, or out of reach.

    Examples
    --------
    >>> pack(np.array([1.0, 2.0]))
    {'kind': 'f4', 'bytes': 'AACAPwAAAEA='}
    """
    if kind is None:
        sizes = np.abs(array[array != 0.0])
        is_single = not sizes.size or (
            sizes.min() > _SINGLE[0] and sizes.max() < _SINGLE[1]
        )
        kind = np.float32 if is_single else np.float64
    numbers = np.ascontiguousarray(array, dtype=np.dtype(kind).newbyteorder("<"))
    text = base64.b64encode(numbers.tobytes()).decode("ascii")
    return {"kind": numbers.dtype.str[1:], "bytes": text}


def to_script_json(data: dict[str, Any]) -> str:
    r"""Return JSON that no browser takes for markup, whatever the names in it.

    Examples
    --------
    >>> to_script_json({"id": "</script>"})
    '{"id": "\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, allow_nan=False)  # non-ASCII comes out as \\u....
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def percent(probability: float) -> str:
    """Write a probability as a percentage, never rounded to a false 0 or 100.

    The scripts of the pages write them alike.

    Examples
    --------
    >>> [percent(p) for p in (0.0, 2e-5, 0.5, 0.99996, 1.0)]
    ['0 %', '0.002 %', '50.0 %', '> 99.99 %', '100 %']
    """
    share = 100.0 * probability
    if share in (0.0, 100.0):
        return f"{share:.0f} %"
    if share < 0.0005:
        return "< 0.001 %"
    if share > 99.99:
        return "> 99.99 %"
    digits = 1 if 1.0 <= share <= 99.0 else 2 if share >= 0.01 else 3
    return f"{share:.{digits}f} %"


def percent_of_log(log_probability: float) -> str:
    """Write the probability with this logarithm, which float64 may round to zero.

    Examples
    --------
    >>> [percent_of_log(x) for x in (0.0, -1.0, -30.0, -3000.0)]
    ['100 %', '36.8 %', '9e-12 %', '1e-1301 %']
    """
    if log_probability == -np.inf:
        return "0 %"
    if log_probability >= np.log(5e-6):
        return percent(float(np.exp(log_probability)))
    exponent = log_probability / np.log(10.0) + 2.0  # in per cent
    whole = int(np.floor(exponent))
    lead = round(10.0 ** (exponent - whole))
    return f"1e{whole + 1} %" if lead == 10 else f"{lead}e{whole} %"
