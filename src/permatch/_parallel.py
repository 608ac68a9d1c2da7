"""How work is carried out: fixed tasks over threads, slices of long ones, time budgets.

The tasks are cut the same way whatever the number of threads, and every task writes to
its own place, so a result never depends on `n_jobs`.  The calling thread works too: one
job starts no thread at all.

Compiled code does not hear Ctrl-C.  A kernel that may take long is therefore called for
one range of its units after the other, each short; Ctrl-C lands between two of them, and
threads that other threads wait for stop there too.
"""

import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from permatch._progress import PATIENCE, progress_bar

#: Seconds it takes to start one thread and to wait for its end.
THREAD_COST = 5e-5
#: Seconds that a slice is meant to take.
_SLICE = 0.1
# A slice is at most so many times as long as the one before: early times are rough.
_GROWTH = 8.0
# On Windows a wait without end is deaf to Ctrl-C.
_PATIENCE = 0.5


class _Stopped(BaseException):
    """Another thread has failed or was interrupted: leave, there is nothing to report."""


class _Run:
    """Threads that stop together, each with the runs it is nested in."""

    _local = threading.local()

    def __init__(self) -> None:
        self.outer: _Run | None = self.current()
        self.has_failed = False

    @classmethod
    def current(cls) -> "_Run | None":
        """Return the run that this thread works for."""
        return getattr(cls._local, "run", None)

    @property
    def is_current(self) -> bool:
        """Whether this thread works for it, or for a run within it."""
        own = self.current()
        while own is not None and own is not self:
            own = own.outer
        return own is self

    @property
    def is_stopped(self) -> bool:
        return self.has_failed or (self.outer is not None and self.outer.is_stopped)

    def __call__(self, work: Callable[[], None]) -> None:
        """Work for this run; an exception stops all of its threads."""
        before = self.current()
        self._local.run = self
        try:
            work()
        except BaseException:
            self.has_failed = True
            raise
        finally:
            self._local.run = before


def threads_that_pay(n_jobs: int, seconds: float) -> int:
    """Return how many of `n_jobs` threads to use for work of `seconds` on one.

    On k threads it takes about ``seconds / k + k THREAD_COST``, least where both are equal.
    """
    return max(1, min(n_jobs, round(math.sqrt(seconds / THREAD_COST))))


def run_tasks(
    task: Callable[[int], None],
    n_tasks: int,
    n_jobs: int,
    on_progress: Callable[[int], None] | None = None,
) -> None:
    """Call ``task(0) .. task(n_tasks - 1)``, each once, on `n_jobs` threads.

    `on_progress`, if given, is called from the calling thread with the number of tasks
    begun so far.  The first exception stops every thread before its next task, or its next
    slice of one, and is raised.
    """
    ticket = itertools.count()  # next() on it is atomic
    run = _Run()

    def work(report: Callable[[int], None] | None) -> None:
        # Raised, not returned: the caller of a stopped run within a run must not go on.
        check_stopped()
        while (index := next(ticket)) < n_tasks:
            task(index)
            if report is not None:
                report(index + 1)
            check_stopped()

    n_helpers = min(n_jobs, n_tasks) - 1
    if n_helpers <= 0:
        run(lambda: work(on_progress))
        return
    with ThreadPoolExecutor(n_helpers, thread_name_prefix="permatch") as pool:
        helpers = [pool.submit(run, lambda: work(None)) for _ in range(n_helpers)]

        def work_and_wait() -> None:
            work(on_progress)
            while wait(helpers, _PATIENCE).not_done:
                pass

        try:
            run(work_and_wait)
        except _Stopped:
            wait(helpers)
            _raise_first(helpers)
            raise
    _raise_first(helpers)


def _raise_first(helpers: list[Future[Any]]) -> None:
    """Raise what went wrong in a thread, rather than that others stopped for it."""
    errors = [helper.exception() for helper in helpers]
    for error in errors:
        if error is not None and not isinstance(error, _Stopped):
            raise error


def check_stopped() -> None:
    """Leave the task at hand if another thread has failed or was interrupted."""
    run = _Run.current()
    if run is not None and run.is_stopped:
        raise _Stopped


def interrupt_of(error: SystemError) -> BaseException:
    """Return the Ctrl-C that came while a compiled function returned, or the error itself.

    Making Python objects of its results, Numba overlooks the exception, and Python reports
    "a result with an exception set".
    """
    is_interrupt = isinstance(error.__cause__, KeyboardInterrupt)
    return KeyboardInterrupt() if is_interrupt else error


def run_slices(
    work: Callable[[int, int], object], n_units: int, first_slice: int = 1
) -> None:
    """Call ``work(first, last)`` over consecutive ranges of ``0 .. n_units - 1``.

    The first range has `first_slice` units, which must take well under a second; the others
    as many as take a fraction of a second.  `work` returns True when no more is to be done.
    Where the ranges end depends on the clock, so results must not depend on it.
    """
    first, length = 0, max(first_slice, 1)
    while first < n_units:
        check_stopped()
        last = min(first + length, n_units)
        start = time.perf_counter()
        if work(first, last) is True:
            return
        seconds = time.perf_counter() - start
        pace = min(_SLICE / max(seconds, 1e-9), _GROWTH)
        length = max(int((last - first) * pace), 1)
        first = last


@dataclass(frozen=True)
class Job:
    """How the work is to be carried out: threads and progress, never part of the answer."""

    n_jobs: int = 1
    progress: bool | None = None

    def run(
        self,
        task: Callable[[int], None],
        n_tasks: int,
        title: str = "",
        seconds: float = 0.0,
    ) -> None:
        """Run ``task(0) .. task(n_tasks - 1)`` on the job's threads.

        Where the expected `seconds` on one thread are given, no more threads are started
        than pay.  A `title` is for work worth a progress bar.
        """
        n_jobs = threads_that_pay(self.n_jobs, seconds) if seconds else self.n_jobs
        seconds /= n_jobs
        if not title or not (self.progress or seconds > PATIENCE):
            run_tasks(task, n_tasks, n_jobs)
            return
        with progress_bar(title, n_tasks, seconds, self.progress) as on_progress:
            run_tasks(task, n_tasks, n_jobs, on_progress)

    def run_ranges(
        self,
        task: Callable[[int, int], None],
        n_items: int,
        per_task: int,
        title: str = "",
        seconds: float = 0.0,
    ) -> None:
        """Run ``task(first, last)`` over consecutive ranges of `per_task` items."""

        def run_range(k: int) -> None:
            task(k * per_task, min((k + 1) * per_task, n_items))

        self.run(run_range, -(-n_items // per_task), title, seconds)


_clock = time.perf_counter


class _Compiling:
    """Seconds that this process has spent compiling kernels."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth, self._start = 0, 0.0

    @classmethod
    @cache
    def watched(cls) -> "_Compiling":
        """Return the one that is told of all compiling from now on."""
        from numba.core import event

        own = cls()

        class Watch(event.Listener):
            # Numba compiles one kernel at a time, with those that it calls.
            def on_start(self, event: event.Event) -> None:
                own._depth += 1
                if own._depth == 1:
                    own._start = _clock()

            def on_end(self, event: event.Event) -> None:
                own._depth -= 1
                if own._depth == 0:
                    own.seconds += _clock() - own._start

        event.register("numba:compile", Watch())
        return own


class Allowance:
    """How much of a budget in seconds is left, compiling not counted unless asked for."""

    def __init__(self, budget: float | None, *, counts_compiling: bool = False) -> None:
        self.budget = math.inf if budget is None else budget
        self.is_ended = False
        self._compiling = None if counts_compiling else _Compiling.watched()
        self._start = self._now()

    def _now(self) -> float:
        known = self._compiling
        return _clock() - (0.0 if known is None else known.seconds)

    @property
    def seconds(self) -> float:
        """Seconds spent."""
        return self._now() - self._start

    def end(self) -> None:
        """Leave no time, for good."""
        self.budget, self.is_ended = 0.0, True

    @property
    def left(self) -> float:
        """Seconds left, at least 0; infinite without a budget."""
        return max(0.0, self.budget - self.seconds)

    def affordable(self, n_done: float, n_wanted: float) -> float:
        """Return how many of `n_wanted` more units fit, at the pace of those done."""
        if self.budget == math.inf or n_done == 0:
            return n_wanted
        return min(n_wanted, n_done * self.left / max(self.seconds, 1e-9))

    @contextmanager
    def free(self) -> Iterator[None]:
        """Do something whose time does not count."""
        start = self._now()
        try:
            yield
        finally:
            self._start += self._now() - start


def done_within(seconds: float, work: Callable[[], None]) -> bool:
    """Do work that begins to compile no kernel once `seconds` have passed.

    Return False if it was left for that reason.  Budgets are about results, and compiling
    counts in none of them, but on a machine's first use it may take a minute.
    """
    from numba.core import event

    time, run = Allowance(seconds, counts_compiling=True), _Run()

    class Guard(event.Listener):
        is_hit = False

        def on_start(self, event: event.Event) -> None:
            if not time.left and run.is_current:
                self.is_hit = True
                raise TimeoutError("no time is left to compile a kernel")

        def on_end(self, event: event.Event) -> None:
            pass

    guard = Guard()
    try:
        with event.install_listener("numba:compile", guard):
            run(work)
    except Exception:  # the compiler may have made another one of it
        if not guard.is_hit:
            raise
    return not guard.is_hit
