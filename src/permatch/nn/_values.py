"""The look at the values of a batch."""

from __future__ import annotations

import torch
from torch import Tensor

from permatch._validation import MAX_SCORE
from permatch.errors import InfiniteScoreError, NaNScoreError


def check_values(scores: Tensor, unmatched_left: Tensor, unmatched_right: Tensor) -> None:
    """Refuse NaN and scores that are too large; one look at a device where all is well."""
    for name, values in (
        ("scores", scores),
        ("unmatched_left", unmatched_left),
        ("unmatched_right", unmatched_right),
    ):
        if not values.numel():
            continue
        least, most = torch.stack(torch.aminmax(values)).tolist()
        if least >= -MAX_SCORE and most <= MAX_SCORE:  # false for NaN
            continue
        is_wrong = ~((values.abs() <= MAX_SCORE) | (values == -torch.inf))
        if not is_wrong.any():
            continue
        is_nan = values.isnan()
        wrong = torch.nonzero(is_nan if is_nan.any() else is_wrong)[0].tolist()
        where = f"entry {tuple(wrong[1:])} of graph {wrong[0]}"
        free = "nodes that must be matched" if name != "scores" else "forbidden edges"
        if is_nan.any():
            raise NaNScoreError(
                f"{name} must not contain NaN; got {int(is_nan.sum())} of them, the first "
                f"at {where}. Use -inf for {free}, and mask for padding."
            )
        raise InfiniteScoreError(
            f"{name} must be at most {MAX_SCORE:g} in size, or -inf for {free}; got "
            f"{values[tuple(wrong)].item()} at {where}."
        )
