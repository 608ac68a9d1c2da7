"""Fixed tasks shared out over threads.

The tasks are cut the same way whatever the number of threads, and every task writes to
its own place, so a result never depends on `n_jobs`.  The calling thread works too: one
job starts no thread at all, and Ctrl-C lands between two tasks.
"""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def run_tasks(
    task: Callable[[int], None],
    n_tasks: int,
    n_jobs: int,
    on_progress: Callable[[int], None] | None = None,
) -> None:
    """Call ``task(0) .. task(n_tasks - 1)``, each once, on `n_jobs` threads.

    `on_progress`, if given, is called from the calling thread with the number of tasks
    begun so far.  The first exception stops every thread before its next task and is
    raised.
    """
    ticket = itertools.count()  # next() on it is atomic
    is_stopped = False

    def work(report: Callable[[int], None] | None) -> None:
        nonlocal is_stopped
        try:
            while not is_stopped and (index := next(ticket)) < n_tasks:
                task(index)
                if report is not None:
                    report(index + 1)
        except BaseException:
            is_stopped = True
            raise

    n_helpers = min(n_jobs, n_tasks) - 1
    if n_helpers <= 0:
        work(on_progress)
        return
    with ThreadPoolExecutor(n_helpers, thread_name_prefix="permatch") as pool:
        helpers = [pool.submit(work, None) for _ in range(n_helpers)]
        work(on_progress)
        for helper in helpers:
            helper.result()
