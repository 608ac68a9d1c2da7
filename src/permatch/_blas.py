"""BLAS on one thread: our own threads share the work, in an order that never changes.

Matrix products start threads of their own, which wait for work by spinning.  Where others
compute too, each of them waits for the slowest: a fit of a second took up to twenty.  They
also add up in an order that depends on their number.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


class _Holders:
    """How many blocks hold BLAS to one thread, and what the last one puts back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_holders = 0
        self._limit: Any = None

    def enter(self) -> None:
        """Hold BLAS to one thread, if nobody does yet."""
        with self._lock:
            if self._n_holders == 0:
                self._limit = set_blas_threads(1)
            self._n_holders += 1

    def leave(self) -> None:
        """Give BLAS its threads back, if nobody else holds it."""
        with self._lock:
            self._n_holders -= 1
            if self._n_holders == 0:
                self._limit.restore_original_limits()
                _let_go()


_holders = _Holders()


@cache
def _libraries() -> Any:
    """Return the BLAS libraries of this process: looking for them takes milliseconds."""
    import scipy.linalg  # noqa: F401  (its BLAS is not that of NumPy)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def set_blas_threads(number: int) -> Any:
    """Set the number of threads, and return what can restore the one before."""
    limit = _libraries().limit(limits=number, user_api="blas")
    _let_go()
    return limit


def _let_go() -> None:
    """Let any thread be the next to set the number.

    From the first that does on, threadpoolctl ignores the others until that one leaves a
    block of its own.
    """
    with _libraries().limit(limits=None):
        pass


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread in a block or a decorated function, some ten microseconds.

    The number of threads belongs to the whole process: it is set when the first of several
    blocks begins, in whatever threads these are, and put back when the last one ends.

    Examples
    --------
    >>> import numpy as np
    >>> with one_blas_thread():
    ...     float(np.ones(3) @ np.ones(3))
    3.0
    """
    _holders.enter()
    try:
        yield
    finally:
        _holders.leave()
