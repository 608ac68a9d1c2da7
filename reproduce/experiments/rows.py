"""Rows of results in a file of JSON lines, one object a line, added to as they come.

A run that was stopped can only have damaged the end of the last line: that piece is cut off
when the run is resumed, and everything before it is kept.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from permatch.errors import PermatchError
from permatch.pages.demo_learning import keeping_interrupts

Row = dict[str, Any]


class RowFileError(PermatchError, ValueError):
    """A results file with an invalid line; no rows are added to it."""


class RowFile:
    """Rows by key, kept in memory and, if there is a path, in a file.

    Parameters
    ----------
    path : str, path or None
        The file; created with the first row, its folder too.  None keeps rows in memory.
    key : iterable of str
        The fields that together name a row.
    """

    def __init__(self, path: str | PathLike[str] | None, key: Iterable[str]) -> None:
        self.path = None if path is None else Path(path)
        self.key = tuple(key)
        self._rows: dict[tuple[Any, ...], Row] = {}
        self._n_bytes = 0  # up to the end of the last whole line
        if self.path is not None and self.path.exists():
            rows, self._n_bytes = _parse(self.path)
            for number, row in rows:
                if not all(name in row for name in self.key):
                    raise _damaged(self.path, number)
                self._rows[self._key_of(row)] = row

    def find(self, **key: Any) -> Row | None:
        """Return the row with this key, or None if there is none yet."""
        return self._rows.get(self._key_of(key))

    def add(self, row: Row) -> None:
        """Keep a row; it is on its way to the disk when this returns."""
        self._rows[self._key_of(row)] = row
        if self.path is None:
            return
        line = json.dumps(row, allow_nan=False).encode() + b"\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            if file.tell() != self._n_bytes:  # a piece of a line, left by a stopped run
                file.truncate(self._n_bytes)
            file.write(line)
        self._n_bytes += len(line)

    def _key_of(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.key)


def read_rows(path: str | PathLike[str]) -> list[Row]:
    """Return the rows of a file, without the piece of a line that a stopped run may leave.

    Parameters
    ----------
    path : str or path
        A file of JSON lines.

    Returns
    -------
    list of dict
        One per line.

    Raises
    ------
    RowFileError
        If another line than the last is no JSON object.
    """
    return [row for _, row in _parse(Path(path))[0]]


def fingerprint(options: Row, left_out: Sequence[str], **more: Any) -> str:
    """Return a name for all options but those left out, and for whatever else matters."""
    kept = {name: value for name, value in options.items() if name not in left_out}
    text = json.dumps(kept | more, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def moments(values: Iterable[float]) -> Row:
    """Return mean and spread over repeats; the spread of a single one is None."""
    found = list(values)
    spread = float(np.std(found, ddof=1)) if len(found) > 1 else None
    return {"mean": float(np.mean(found)), "spread": spread, "n_repeats": len(found)}


@dataclass(frozen=True)
class Plan:
    """What an experiment computes.

    Parameters
    ----------
    config : str or callable
        Fingerprint of the configuration, or from a task to that of what its row depends on.
    tasks : sequence of tuple
        What else names the rows, in order.
    measure : callable
        From the key of a row, and a callback for the share of it that is done, to the rest
        of the row.
    cost : callable
        Work a key takes, in any unit, for the progress.
    looks : sequence of int
        Numbers of finished tasks after which the rest may turn out not to be needed.
    is_enough : callable
        From all rows so far to whether they are enough; asked at every look.
    """

    config: str | Callable[[tuple[Any, ...]], str]
    tasks: Sequence[tuple[Any, ...]]
    measure: Callable[[Row, Callable[[float], None]], Row]
    cost: Callable[[Row], float]
    looks: Sequence[int] = ()
    is_enough: Callable[[Sequence[Row]], bool] = lambda rows: False

    def keys(self, names: Sequence[str]) -> list[Row]:
        """Return the fields that name every row."""
        of = self.config
        configs = [of(task) if callable(of) else of for task in self.tasks]
        return [
            dict(zip(names, (config, *task), strict=True))
            for config, task in zip(configs, self.tasks, strict=True)
        ]


def experiment(key: Sequence[str]) -> Callable[[Callable[..., Plan]], Callable[..., Any]]:
    """Turn a function from a configuration to a `Plan` into one that yields its rows.

    What it makes takes, besides the configuration and the options of the plan:

        out          a file of JSON lines; rows it has are not computed again, new ones
                     are added
        on_row       called with every row that was computed, not with those the file had
        on_progress  called with the share of the work that is done, from 0 to 1

    Ctrl-C leaves all finished rows in the file.

    Parameters
    ----------
    key : sequence of str
        The fields that together name a row, ``config`` first.
    """

    def decorate(plan_of: Callable[..., Plan]) -> Callable[..., Iterator[Row]]:
        @wraps(plan_of)
        def run(
            config: Any,
            out: str | PathLike[str] | None = None,
            on_row: Callable[[Row], None] = lambda row: None,
            *,
            on_progress: Callable[[float], None] = lambda share: None,
            **options: Any,
        ) -> Iterator[Row]:
            rows = RowFile(out, key)
            return _rows(plan_of(config, **options), rows, on_row, on_progress)

        return run

    return decorate


def _rows(
    plan: Plan,
    rows: RowFile,
    on_row: Callable[[Row], None],
    on_progress: Callable[[float], None],
) -> Iterator[Row]:
    keys = plan.keys(rows.key)
    costs = [plan.cost(key) for key in keys]
    done, total = 0.0, sum(costs)
    found: list[Row] = []
    for key, cost in zip(keys, costs, strict=True):
        if len(found) in plan.looks and plan.is_enough(found):
            on_progress(1.0)
            return

        def show(share: float, done: float = done, cost: float = cost) -> None:
            on_progress(min((done + share * cost) / total, 1.0))

        row = rows.find(**key)
        if row is None:
            with keeping_interrupts():  # no row of a fit that was cut short
                row = key | plan.measure(key, show)
            rows.add(row)
            on_row(row)
        done += cost
        on_progress(1.0 if key is keys[-1] else min(done / total, 1.0))
        found.append(row)
        yield row


def _parse(path: Path) -> tuple[list[tuple[int, Row]], int]:
    """Return numbered rows, and the length in bytes of the whole lines."""
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    rows = []
    for number, line in enumerate(content[:end].splitlines(), start=1):
        try:
            row = json.loads(line)
        except ValueError as err:  # neither text nor JSON
            raise _damaged(path, number) from err
        if not isinstance(row, dict):
            raise _damaged(path, number)
        rows.append((number, row))
    return rows, end


def _damaged(path: Path, number: int) -> RowFileError:
    return RowFileError(
        f"{path} must contain rows of this experiment, one JSON object per line; line "
        f"{number} is not one. Remove the line, or use another file."
    )
