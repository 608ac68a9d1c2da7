"""Random numbers for compiled kernels: the generator xoshiro256++ of Blackman and Vigna.

A stream is an array of four 64-bit words that the functions advance in place; there is no
global state.  NumPy's own generators work in compiled code too, at five times the cost.

    state = seed_state(random_state, graph, chunk)      # any whole numbers >= 0
    uniform(state)                                      # in [0, 1), 53 random bits
"""

import numpy as np
from numba import njit
from numba.core import config

_UNIT = 2.0**-53
_MASK = (1 << 64) - 1


def seed_state(*key):
    """Return the state of the stream named by some whole numbers; keys do not overlap."""
    return np.random.SeedSequence(key).generate_state(4, np.uint64)


@njit(cache=True, nogil=True)
def next_word(state):
    """Return the next 64 random bits."""
    a, b, c, d = state[0], state[1], state[2], state[3]
    total = a + d
    word = ((total << np.uint64(23)) | (total >> np.uint64(41))) + a
    shifted = b << np.uint64(17)
    c ^= a
    d ^= b
    b ^= c
    a ^= d
    c ^= shifted
    d = (d << np.uint64(45)) | (d >> np.uint64(19))
    state[0], state[1], state[2], state[3] = a, b, c, d
    return word


if config.DISABLE_JIT:  # NumPy's integers warn when they wrap around: the same in Python's

    def next_word(state):  # noqa: F811
        """Return the next 64 random bits."""
        a, b, c, d = (int(word) for word in state)
        total = (a + d) & _MASK
        word = ((total << 23 | total >> 41) + a) & _MASK
        shifted = b << 17 & _MASK
        c ^= a
        d ^= b
        b ^= c
        a ^= d
        c ^= shifted
        d = (d << 45 | d >> 19) & _MASK
        state[:] = a, b, c, d
        return word


@njit(cache=True, nogil=True)
def uniform(state):
    """Return a number in [0, 1)."""
    return (next_word(state) >> 11) * _UNIT
