"""Squares whose nodes are all matched, summed by Glynn's formula; NumPy arrays come out."""

import math
from collections.abc import Callable

import numpy as np

from permatch._types import FloatArray
from permatch.cuda.dlpack import View
from permatch.cuda.driver import Device, Pointer, require_device
from permatch.cuda.sums import GLYNN_FROM, Batch, Sums, scale, sum_signs

Allocate = Callable[[int], Pointer]

#: Called with the share that is done.
Show = Callable[[float], None]


def permanents(
    weights: FloatArray, on_launch: Show | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return permanents (b,), marginals (b, m, m) and residuals (b,) of scaled weights."""
    n_graphs, size = weights.shape[:2]
    # Small graphs are extended by edges of weight one that nothing else touches.
    wide = max(size, GLYNN_FROM)
    extended = np.ascontiguousarray(weights)
    if wide > size:
        extended = np.zeros((n_graphs, wide, wide))
        extended[:] = np.eye(wide)
        extended[:, :size, :size] = weights
    device = require_device()
    with device.memory() as allocate:
        pointer = allocate(extended.nbytes)
        device.upload(pointer, extended)
        batch = Batch(n_graphs, wide, wide, pointer, 0, 0, is_perfect=True)
        values, marginals, residuals = _summed(device, batch, allocate, on_launch)
    return values, np.ascontiguousarray(marginals[:, :size, :size]), residuals


def log_permanents(
    scores: View, on_launch: Show | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log-permanents (b,), marginals (b, m, m) and residuals (b,).

    The scores (b, m, m), from m = 9, stay where they are and are scaled there.
    """
    n_graphs, size = scores.shape[:2]
    device = require_device()
    with device.memory() as allocate:
        n_bytes = 8 * n_graphs * size
        weights, shifts = allocate(n_bytes * size), allocate(8 * n_graphs)
        left, right = allocate(n_bytes), allocate(n_bytes)
        batch = Batch(n_graphs, size, size, weights, left, right, is_perfect=True)
        strides = scores.strides[0], scores.strides[1], scores.strides[2]
        scale(device, scores.pointer, strides, (0, 0), batch, shifts)
        values, marginals, residuals = _summed(device, batch, allocate, on_launch)
        offsets = np.empty(n_graphs)
        device.download(offsets, shifts)
    with np.errstate(invalid="ignore", divide="ignore"):  # the residual tells
        return np.log(values) + offsets, marginals, residuals


def _summed(
    device: Device, batch: Batch, allocate: Allocate, on_launch: Show | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    n_graphs, size = batch.n_graphs, batch.k
    values, residuals = np.empty(n_graphs), np.empty(n_graphs)
    marginals = np.empty((n_graphs, size, size))
    found = values, marginals, residuals
    pointers = [allocate(each.nbytes) for each in found]
    out = Sums(pointers[0], pointers[2], 0, pointers[1])
    sum_signs(device, batch, lambda: out, allocate, on_launch=on_launch)
    for each, pointer in zip(found, pointers, strict=True):
        device.download(each, pointer)
    values *= math.ldexp(1.0, 1 - size)
    return values, marginals, residuals
