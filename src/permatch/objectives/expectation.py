"""What a part of the training graphs says about a model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray
from permatch._validation import MAX_SCORE
from permatch.errors import PrecisionError
from permatch.inference import InferenceResult


@dataclass(frozen=True, eq=False)
class Expectation:
    """Log-partitions of graphs, and their expected features added up."""

    log_partition: FloatArray  # (b,); what is left open by incomplete labels is subtracted
    total: FloatArray  # expected features, likewise, (n_parameters,)
    results: list[InferenceResult]
    bounds: FloatArray | None  # on the error of `total`, if the engine knows any


@dataclass(frozen=True, eq=False)
class Curved:
    """Second derivatives times vectors, and how they were computed."""

    product: FloatArray  # (n_parameters, k)
    methods: frozenset[str]
    error: float  # relative standard error of what comes from samples, else 0


def add_curved(found: Sequence[Curved]) -> Curved:
    """Return the sum over parts, in their order."""
    product = np.zeros_like(found[0].product)
    for one in found:
        product += one.product
    return Curved(
        product,
        frozenset[str]().union(*(one.methods for one in found)),
        max(one.error for one in found),
    )


def projected(rows: FloatArray, vectors: FloatArray | None) -> FloatArray:
    """Return rows (n, p) times vectors (p, k); the rows if there are none."""
    if vectors is None:
        return np.ascontiguousarray(rows)
    return np.einsum("np,pk->nk", rows, vectors)  # not BLAS, as in `FeatureStack`


def check_scores(scores: FloatArray) -> None:
    """Refuse scores beyond float64."""
    if not np.abs(scores).max(initial=0.0) < MAX_SCORE:  # false for NaN too
        raise PrecisionError(
            "scores must stay finite during fitting; features times coefficients exceed "
            "float64. Divide the features by a large number."
        )
