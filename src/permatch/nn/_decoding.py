"""Matchings of the graphs of a batch: the best ones, and samples.

By the engines of the CPU, all graphs side by side as one problem; tensors on other devices
are copied there and back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from permatch.errors import ScoreTypeError
from permatch.nn._batch import Batch


def best_matchings(batch: Batch) -> Tensor:
    """Return the likeliest matching (b, n) of every graph."""
    from permatch.assignment import best_assignment

    return _as_matchings(best_assignment(_problem(batch)).matching, batch)[0]


def cheapest_matchings(batch: Batch, marginals: Tensor, left: Tensor, costs: Any) -> Tensor:
    """Return the matching (b, n) of every graph with the least expected loss."""
    from permatch.decoding.bayes import bayes_assignment

    problem = _problem(batch)
    is_edge = _array(batch.scores) > -np.inf
    chances = _array(marginals).reshape(is_edge.shape)[is_edge]
    found = bayes_assignment(problem, chances, _array(left).ravel(), costs)
    return _as_matchings(found, batch)[0]


def draw_matchings(batch: Batch, n_samples: int, seed: int) -> Tensor:
    """Return matchings (n_samples, b, n), independent and exact."""
    from permatch.assignment import best_assignment
    from permatch.inference import AutoEngine
    from permatch.inference.sampling.problem_samples import find_samples

    reduced = best_assignment(_problem(batch)).reduced  # or says which graph has none
    source = find_samples(reduced, AutoEngine())
    drawn = source.sample(n_samples, np.random.default_rng(seed), torch.get_num_threads())
    return _as_matchings(drawn, batch)


def check_plain(batch: Batch) -> None:
    """Refuse tensors within `torch.func`, whose values cannot be looked at."""
    for values in batch.tables:
        if is_functorch_wrapped_tensor(values):
            raise ScoreTypeError(
                "mode, sample and bayes_matching take batches as they are, outside of "
                "torch.func.vmap and torch.func.grad; got scores within one of them. Build "
                "the distribution from the whole batch: its batch dimensions do what vmap "
                "would."
            )


def _problem(batch: Batch) -> Any:
    from permatch.nn._values import check_values
    from permatch.scores import stacked_problem

    check_plain(batch)
    check_values(*batch.tables)
    return stacked_problem(*map(_array, batch.tables))


def _array(values: Tensor) -> Any:
    return values.detach().cpu().contiguous().numpy()


def _as_matchings(nodes: Any, batch: Batch) -> Tensor:
    """Return right nodes (..., all left nodes) as matchings (r, b, n) of the graphs."""
    b, n, k = batch.scores.shape
    table = np.reshape(nodes, (len(nodes) if np.ndim(nodes) > 1 else 1, b, n))
    first = np.arange(b)[:, None] * k
    matchings = torch.from_numpy(
        np.where(table >= 0, table - first, table).astype(np.int64)
    )
    matchings = matchings.to(batch.scores.device)
    if batch.is_left is not None:
        matchings = torch.where(batch.is_left, matchings, -1)
    return matchings
