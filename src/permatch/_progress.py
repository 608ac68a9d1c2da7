"""Progress shown on terminals during long work; scripts see nothing."""

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

logger = logging.getLogger("permatch")
#: What is about to be done; commands show it wherever their messages go.
plans = logging.getLogger("permatch.plans")

#: Seconds of expected work from which a progress bar appears by itself.
PATIENCE = 2.0

_COMPILING = "compiling kernels (once, a few seconds; later runs load them from disk)"


@contextmanager
def progress_bar(
    title: str, n_tasks: int, seconds: float, is_wanted: bool | None
) -> Iterator[Callable[[Any], None] | None]:
    """Yield a callback taking the number of tasks begun, or None to show nothing.

    It also takes text, such as what part of a task is at hand, shown beside the title.
    With ``is_wanted=None`` a bar appears on interactive terminals when `seconds`, the
    expected time, exceeds `PATIENCE`.
    """
    if is_wanted is None:
        is_wanted = seconds > PATIENCE and is_terminal()
    if not is_wanted:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    # Where lines cannot be erased, the finished bar is all there is to see.
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=console.is_terminal) as bar:
        task = bar.add_task(title, total=n_tasks)

        def show(state: int | str) -> None:
            if isinstance(state, str):
                bar.update(task, description=f"{title}: {state}")
            else:
                bar.update(task, completed=state)

        yield show


def tell(message: str, is_wanted: bool | None = None) -> None:
    """Tell a person what is about to be done; by default on terminals only."""
    if plans.disabled:
        return
    plans.info(message)
    if is_terminal() if is_wanted is None else is_wanted:
        sys.stderr.write(f"permatch: {message}\n")


class Stages:
    """Show on terminals what long work is at, once it has taken a while.

    Examples
    --------
    >>> with Stages("reading") as stages:
    ...     stages.say("counting")
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._status: Any = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    def say(self, title: str) -> None:
        """Say what comes next."""
        with self._lock:
            self._title = title
            if self._status is not None:
                self._status.update(title)

    def __enter__(self) -> Self:
        if is_terminal():
            self._timer = threading.Timer(PATIENCE, self._show)
            self._timer.daemon = True
            self._timer.start()
        return self

    def _show(self) -> None:
        from rich.console import Console

        with self._lock:
            if self._timer is not None:
                self._status = Console(stderr=True).status(self._title)
                self._status.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
            if self._status is not None:
                self._status.stop()


def announce_compilations() -> None:
    """Announce once, from now on, that a kernel of permatch is being compiled.

    Kernels are cached on disk, so this happens only on a machine's first use, which would
    otherwise seem to hang.  Compiler events are followed, so kernels loaded from disk, or
    compiled by others, are not announced.
    """
    from numba.core import event

    class Watcher(event.Listener):
        is_told = False

        def on_start(self, event: event.Event) -> None:
            function = getattr((event.data or {}).get("dispatcher"), "py_func", None)
            if self.is_told or not getattr(function, "__module__", "").startswith(
                "permatch."
            ):
                return
            self.is_told = True
            logger.info(_COMPILING)
            if is_terminal():
                sys.stderr.write(f"permatch: {_COMPILING} ...\n")

        def on_end(self, event: event.Event) -> None:
            pass

    event.register("numba:compile", Watcher())


def is_terminal() -> bool:
    """Return whether a person sees standard error."""
    return sys.stderr is not None and sys.stderr.isatty()
