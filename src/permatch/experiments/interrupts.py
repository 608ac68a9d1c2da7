"""Ctrl-C during a fit that puts up with it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def keeping_interrupts() -> Iterator[None]:
    """Raise a Ctrl-C again at the end, should the body have put up with it.

    An estimator that is interrupted keeps its best coefficients and returns; a row must
    not be made of them.
    """
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield  # nobody listens, or not in this thread
        return
    is_interrupted = False

    def note(number: int, frame: Any) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if is_interrupted:
        raise KeyboardInterrupt
