"""Objectives of labelled matchings over shards: sums, added in the order of the shards.

Every shard has an objective of its own, without a penalty, over its graphs with their
shares of the whole.
"""

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from permatch._shards import Shards
from permatch._types import FloatArray
from permatch.inference import AbstractEngine
from permatch.objectives.likelihood import Curvature, Evaluation, MatchingLikelihood
from permatch.objectives.margin import MatchingHinge
from permatch.objectives.parameters import Parameters
from permatch.objectives.parts import Part

# Seeds asked for stay clear of those that parts and evaluations are told apart by.
_SEED_STRIDE = 1_000_000


class ShardedLikelihood(MatchingLikelihood):
    """The likelihood over shards: each a number and a likelihood without a penalty."""

    def __init__(
        self,
        shards: Shards,
        parameters: Parameters,
        alpha: float,
        engine: AbstractEngine,
        n_jobs: int,
        n_shards: int,
        prior: FloatArray | float = 0.0,
    ) -> None:
        self.shards = shards
        self.prior = prior
        self.n_shards = n_shards
        self.alpha = alpha
        self.engine = engine
        self.n_jobs = n_jobs
        self._penalised = parameters.is_penalised

    @property
    def is_convex(self) -> bool:
        """Whether the objective is convex: whether all labels are complete."""
        return all(self.shards.map(_is_convex))

    @property
    def is_exact(self) -> bool:
        """Whether the engine is exact for all graphs, as far as is known beforehand."""
        return all(self.shards.map(_is_exact, self.engine))

    def settled(self) -> "ShardedLikelihood":
        """Return the objective over the nodes whose labels are known, which is convex."""
        other = copy.copy(self)
        other.shards = self.shards.derive(_settled)
        return other

    def map(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return ``function(likelihood, *arguments)`` for every shard with graphs."""
        found = self.shards.map(_apply, function, arguments)
        return [one for one in found if one is not None]

    def evaluate(self, coef: FloatArray) -> Evaluation:
        """Return the objective and its gradient at `coef`, and how exact they are."""
        held = (coef - self.prior) * self._penalised
        found: list[Evaluation] = self.shards.map(_evaluate, coef, self.engine)
        grad, bounds = self.alpha * held, np.zeros(len(coef))
        for one in found:
            grad += one.grad
            bounds += one.grad_bounds
        penalty = 0.5 * self.alpha * float(held @ held)
        return Evaluation(
            math.fsum([penalty, *(one.value for one in found)]),
            grad,
            bounds,
            all(one.is_exact for one in found),
            tuple(size for one in found for size in one.doubts),
        )

    def gradients(self, coef: FloatArray) -> FloatArray:
        """Return what every graph adds to the gradient, in the order of shards, (n, p)."""
        found = self.shards.map(_gradients, coef, self.engine)
        return np.concatenate(found)

    def curvature(self, coef: FloatArray, vectors: FloatArray | None = None) -> Curvature:
        """Return the second derivatives times vectors (p, k), by default those of axes."""
        along = np.eye(len(coef)) if vectors is None else vectors
        every = self.shards.map(_curvature, coef, vectors, self.engine)
        found: list[Curvature] = [one for one in every if one is not None]
        product = (self.alpha * self._penalised)[:, None] * along
        for one in found:
            product = product + one.product
        return Curvature(
            product,
            " and ".join(sorted({one.method for one in found})),
            max(one.error for one in found),
            all(one.is_exact for one in found),
        )


#: A shard of a likelihood: its number, and the likelihood of its graphs, if it has any.
Numbered = tuple[int, MatchingLikelihood | None]


def likelihood_of(
    shard: tuple[int, tuple[list[Part], FloatArray]], engine: AbstractEngine, n_jobs: int
) -> Numbered:
    """Return the shard of a likelihood, from its number, settled parts and shares."""
    number, (parts, shares) = shard
    if not parts:
        return number, None
    return number, MatchingLikelihood(parts, shares, 0.0, engine, n_jobs)


def _apply(
    shard: Numbered, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    return None if shard[1] is None else function(shard[1], *arguments)


def _evaluate(shard: Numbered, coef: FloatArray, engine: AbstractEngine) -> Evaluation:
    number, likelihood = shard
    if likelihood is None:
        return Evaluation(0.0, np.zeros(len(coef)), np.zeros(len(coef)), True)
    own = engine.with_seed(_SEED_STRIDE * number)
    return likelihood.with_engine(own).evaluate(coef)


def _gradients(shard: Numbered, coef: FloatArray, engine: AbstractEngine) -> FloatArray:
    number, likelihood = shard
    if likelihood is None:
        return np.zeros((0, len(coef)))
    own = engine.with_seed(_SEED_STRIDE * number)
    return likelihood.with_engine(own).gradients(coef)


def _curvature(
    shard: Numbered, coef: FloatArray, vectors: FloatArray | None, engine: AbstractEngine
) -> Curvature | None:
    number, likelihood = shard
    if likelihood is None:
        return None
    own = engine.with_seed(_SEED_STRIDE * number)
    return likelihood.with_engine(own).curvature(coef, vectors)


def _is_convex(shard: Numbered) -> bool:
    return shard[1] is None or shard[1].is_convex


def _is_exact(shard: Numbered, engine: AbstractEngine) -> bool:
    return shard[1] is None or shard[1].with_engine(engine).is_exact


def _settled(shard: Numbered) -> Numbered:
    return shard[0], None if shard[1] is None else shard[1].settled()


def hinge_of(
    shard: tuple[int, tuple[list[Part], FloatArray]], n_jobs: int
) -> MatchingHinge | None:
    """Return the shard of a hinge, from its number, settled parts and shares."""
    parts, shares = shard[1]
    return MatchingHinge(parts, shares, n_jobs) if parts else None


class ShardedHinge:
    """The hinge over shards, each a `MatchingHinge`."""

    def __init__(self, shards: Shards) -> None:
        self.shards = shards

    def risk_and_subgradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the mean of the hinge by shares, and a subgradient there."""
        risk, slope = self.shards.total(_risk, weights)
        return risk, slope


def _risk(hinge: MatchingHinge | None, weights: FloatArray) -> tuple[float, FloatArray]:
    if hinge is None:
        return 0.0, np.zeros(len(weights))
    return hinge.risk_and_subgradient(weights)
