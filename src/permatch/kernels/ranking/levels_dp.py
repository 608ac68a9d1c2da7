"""Probability of given level counts, and levels given the counts, by dynamic programming.

Independent documents take level l with probability p_il.  A state is the vector u of counts
so far of all levels but the first, held as a mixed-radix number; the count of level 0 is
what is missing to the number of documents.

    forward_i(u)   probability that the first i documents produce the counts u
                   = p_i0 forward_{i-1}(u) + sum_l p_il forward_{i-1}(u - e_l)
    backward_i(u)  probability that the documents after the first i lead from u to n

    P(n)           = forward_D(n)
    P(document i on level l | n)  ~  p_il sum_u forward_{i-1}(u) backward_i(u + e_l)

Every sum has positive terms only.  Where the p_i are tilted so that n is expected (see
`levels_tilt`), states that underflow carry nothing.  Only states from which n can still be
reached are visited.  The last axis is contiguous, so it should be the longest.
Time and memory O(D prod_l (n_l + 1)) over all levels but the first.
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.ranking.levels_tilt import FAST


@njit(cache=True, nogil=True, error_model="numpy")
def count_cells(counts):
    """Return the number of states, as a float: it may be beyond whole numbers."""
    cells = 1.0
    for k in range(1, counts.shape[0]):
        cells *= counts[k] + 1.0
    return cells


@njit(cache=True, nogil=True, error_model="numpy")
def outer_axes(counts):
    """Return the strides of all levels, and digits and sums of all but the last axis."""
    n_levels = counts.shape[0]
    strides = np.zeros(n_levels, np.int64)
    size = 1
    for k in range(n_levels - 1, 0, -1):
        strides[k] = size
        size *= counts[k] + 1
    length = counts[n_levels - 1] + 1
    n_rows = size // length
    used = np.zeros(n_rows, np.int64)
    has_one = np.zeros((n_levels, n_rows), np.bool_)
    can_add = np.zeros((n_levels, n_rows), np.bool_)
    for row in range(n_rows):
        for k in range(1, n_levels - 1):
            digit = row * length // strides[k] % (counts[k] + 1)
            used[row] += digit
            has_one[k, row] = digit > 0
            can_add[k, row] = digit < counts[k]
    return strides, used, has_one, can_add


@njit(cache=True, nogil=True, fastmath=FAST)
def stay_or_step(new, old, at, low, high, stay, step):
    """Set ``new[u] = stay old[u] + step old[u - 1]`` from `low` to `high`, past `at`."""
    if low == 0:
        new[at] = stay * old[at]
        low = 1
    for u in range(at + low, at + high + 1):
        new[u] = stay * old[u] + step * old[u - 1]


@njit(cache=True, nogil=True, fastmath=FAST)
def add_moved(new, old, begin, end, shift, factor):
    """Add ``factor old[u - shift]`` to ``new[u]``."""
    for u in range(begin, end):
        new[u] += factor * old[u - shift]


@njit(cache=True, nogil=True, error_model="numpy")
def fill_forward(marginals, counts, forward):
    """Fill the forward tables (documents + 1, states), zero on entry; return P(counts)."""
    n_levels = counts.shape[0]
    strides, used, has_one, _ = outer_axes(counts)
    last = n_levels - 1
    longest = counts[last]
    forward[0, 0] = 1.0
    for i in range(1, forward.shape[0]):
        old, new = forward[i - 1], forward[i]
        for row in range(used.shape[0]):
            low = max(0, i - counts[0] - used[row])
            high = min(longest, i - used[row])
            if low > high:
                continue
            at = row * (longest + 1)
            stay, step = marginals[0, i - 1], marginals[last, i - 1]
            stay_or_step(new, old, at, low, high, stay, step)
            for k in range(1, last):
                if has_one[k, row]:
                    factor = marginals[k, i - 1]
                    add_moved(new, old, at + low, at + high + 1, strides[k], factor)
    return forward[forward.shape[0] - 1, forward.shape[1] - 1]


@njit(cache=True, nogil=True, fastmath=FAST)
def dot_moved(before, after, begin, end, shift):
    """Return ``sum_u before[u] after[u + shift]``."""
    result = 0.0
    for u in range(begin, end):
        result += before[u] * after[u + shift]
    return result


@njit(cache=True, nogil=True, fastmath=FAST)
def step_back(table, begin, end, stay, step, shift):
    """Set ``table[u] = stay table[u] + step table[u + shift]``, in rising order."""
    for u in range(begin, end):
        table[u] = stay * table[u] + step * table[u + shift]


@njit(cache=True, nogil=True, error_model="numpy")
def sweep_backward(marginals, counts, forward):
    """Turn the marginals into those given the counts, by way of the forward tables."""
    n_levels = counts.shape[0]
    strides, used, _, can_add = outer_axes(counts)
    last = n_levels - 1
    longest = counts[last]
    table = np.zeros(forward.shape[1] + 1)  # one more: read, with no weight, past the end
    table[forward.shape[1] - 1] = 1.0
    flows = np.empty(n_levels)
    for i in range(forward.shape[0] - 2, -1, -1):
        before = forward[i]
        flows[:] = 0.0
        for row in range(used.shape[0]):
            low = max(0, i - counts[0] - used[row])
            high = min(longest, i - used[row])
            if low > high:
                continue
            begin = row * (longest + 1) + low
            end = row * (longest + 1) + high + 1
            inner = end - 1 if high == longest else end
            flows[0] += dot_moved(before, table, begin, end, 0)
            flows[last] += dot_moved(before, table, begin, inner, 1)
            stay = marginals[0, i]
            step_back(table, begin, inner, stay, marginals[last, i], 1)
            if inner < end:
                table[inner] *= stay
            for k in range(1, last):
                if can_add[k, row]:
                    flows[k] += dot_moved(before, table, begin, end, strides[k])
                    add_moved(table, table, begin, end, -strides[k], marginals[k, i])
        sum_of_flows = 0.0
        for k in range(n_levels):
            flows[k] *= marginals[k, i]
            sum_of_flows += flows[k]
        for k in range(n_levels):
            marginals[k, i] = flows[k] / sum_of_flows


@njit(cache=True, nogil=True, error_model="numpy")
def counting_room(counts, n):
    """Return the length of the array that `infer_by_counting` works in."""
    return (n + 1) * int(count_cells(counts))


@njit(cache=True, nogil=True, error_model="numpy")
def infer_by_counting(marginals, counts, n, work):
    """Turn the marginals p_il of `n` documents into those given the counts.

    Returns the log-probability of the counts.  `work` has `counting_room`.
    """
    forward = work[: counting_room(counts, n)].reshape((n + 1, -1))
    forward[:] = 0.0
    probability = fill_forward(marginals, counts, forward)
    sweep_backward(marginals, counts, forward)
    return math.log(probability)


@njit(cache=True, nogil=True, error_model="numpy")
def draw_levels(marginals, counts, forward, uniforms, levels):
    """Draw levels of all documents given the counts, one uniform number a document.

    The last document is drawn first: with counts u still to be produced it takes level l
    with probability ``p_il forward_{i-1}(u - e_l) / forward_i(u)``.
    """
    n_levels = counts.shape[0]
    strides = outer_axes(counts)[0]
    left = np.empty(n_levels, np.int64)
    for s in range(uniforms.shape[0]):
        left[:] = counts
        state = forward.shape[1] - 1
        for i in range(forward.shape[0] - 2, -1, -1):
            target = uniforms[s, i] * forward[i + 1, state]
            chosen = -1
            for k in range(n_levels):
                if left[k] == 0:
                    continue
                mass = marginals[k, i] * forward[i, state - strides[k]]
                if mass > 0.0 or chosen < 0:
                    chosen = k  # rounding may leave a rest: then the last possible level
                    target -= mass
                    if target < 0.0:
                        break
            levels[s, i] = chosen
            left[chosen] -= 1
            state -= strides[chosen]
