"""Threads that stop together, and long work in slices."""

import threading
import time

import pytest
from numba import config, njit

import permatch as pm
from permatch._parallel import (
    THREAD_COST,
    Allowance,
    done_within,
    run_slices,
    run_tasks,
    threads_that_pay,
)
from permatch.inference.base import Job


def test_an_interrupt_stops_all_threads_before_their_next_task(rng):
    done = []

    def task(k):
        if k == 3:
            raise KeyboardInterrupt
        done.append(k)

    with pytest.raises(KeyboardInterrupt):
        run_tasks(task, 100_000, 4)
    assert len(done) < 100_000
    # Nothing is left behind: the next call works.
    assert pm.infer(rng.normal(size=(19, 19)), n_jobs=2).is_exact


def test_a_run_within_a_stopped_run_does_not_return_as_if_done():
    both, went_on = threading.Barrier(2), []

    def task(k):
        both.wait()
        if k == 0:
            raise ValueError("the real error")
        run_tasks(lambda _: time.sleep(1e-3), 5000, 1)
        went_on.append(k)

    with pytest.raises(ValueError, match="the real error"):
        run_tasks(task, 2, 2)
    assert went_on == []


def test_an_error_in_a_helper_thread_is_raised():
    with pytest.raises(ZeroDivisionError):
        run_tasks(lambda k: 1 // (500 - k), 1000, 3)


def test_an_error_stops_other_threads_within_their_tasks():
    """Tasks that would never end, on every thread but the one that fails."""
    is_caller = threading.Barrier(3)

    def task(k):
        is_caller.wait()
        if k == 2:
            raise ZeroDivisionError
        run_slices(lambda first, last: time.sleep(0.001), 10**12)

    with pytest.raises(ZeroDivisionError):
        run_tasks(task, 3, 3)


def test_an_error_stops_threads_within_nested_runs():
    both = threading.Barrier(2)

    def endless(k):
        both.wait()
        run_slices(lambda first, last: time.sleep(0.001), 10**12)

    def task(k):
        if k == 0:
            run_tasks(endless, 1, 1)
        both.wait()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_tasks(task, 2, 2)
    run_slices(lambda first, last: None, 10)  # this thread is free again


def test_slices_cover_every_unit_once_and_grow():
    ranges = []
    run_slices(lambda first, last: ranges.append((first, last)), 10_000, 3)
    assert ranges[0] == (0, 3)
    assert ranges[-1][1] == 10_000
    assert all(a[1] == b[0] for a, b in zip(ranges, ranges[1:], strict=False))
    assert len(ranges) < 100


def test_slices_end_when_there_is_no_more_to_do():
    ranges = []

    def work(first, last):
        ranges.append((first, last))
        return last >= 2

    run_slices(work, 10**18)
    assert ranges[-1][1] < 10**18
    run_slices(work, 0)


def test_threads_are_started_only_where_they_pay():
    assert threads_that_pay(16, 0.5 * THREAD_COST) == 1
    assert threads_that_pay(16, 16 * THREAD_COST) == 4
    assert threads_that_pay(16, 1.0) == 16
    assert threads_that_pay(1, 1.0) == 1

    mine = threading.current_thread().name
    names = set()
    job = Job(n_jobs=8)
    job.run(lambda k: names.add(threading.current_thread().name), 64, seconds=THREAD_COST)
    assert names == {mine}
    together = threading.Barrier(2)
    job.run(lambda k: together.wait(60), 2, seconds=1.0)  # one thread would wait in vain


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_nothing_is_compiled_once_the_time_is_over(n_jobs):
    inner = njit(lambda x: x + 1)
    outer = njit(lambda x: inner(x) + 1)
    done = []

    def work():
        run_tasks(lambda k: done.append(outer(float(k))), 4, n_jobs)

    assert not done_within(0.0, work)
    assert not done
    assert outer(1) == 3  # others may, and the kernel is none the worse for it
    assert done_within(60.0, work)
    assert sorted(done) == [2.0, 3.0, 4.0, 5.0]
    assert done_within(0.0, work)  # it is compiled now


def test_errors_of_work_within_a_time_are_raised():
    with pytest.raises(ZeroDivisionError):
        done_within(60.0, lambda: 1 // 0)


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_compiling_counts_in_no_budget_unless_asked_for():
    inner = njit(lambda x: x + 1)
    outer = njit(lambda x: inner(x) + 1)
    free, full = Allowance(60.0), Allowance(60.0, counts_compiling=True)
    with free.free():
        assert outer(1) == 3
    assert outer(1.0) == 3.0
    assert 0.0 <= free.seconds < 0.5 * full.seconds


def test_an_ended_allowance_has_nothing_left():
    time = Allowance(None)
    time.end()
    assert not time.left
