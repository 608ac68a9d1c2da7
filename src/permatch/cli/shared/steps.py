"""Shared steps of commands: check outputs, load, fit until done or interrupted."""

import errno
import logging
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn, TextIO, TypeVar

import numpy as np
import typer

from permatch._files import whole_file
from permatch._progress import is_terminal, plans
from permatch.cli.shared.report import as_options, plural
from permatch.cli.shared.terminal import INTERRUPTED, standard_output
from permatch.errors import (
    InvalidOptionError,
    ModelFileError,
    PermatchError,
    ServingWarning,
    TableError,
)

Model = TypeVar("Model")

#: Ids named in a message.
_FEW = 5


def check_target(path: Path, option: str, *sources: str | None) -> None:
    """Refuse early to overwrite an input or to write to a missing folder."""
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "its folder does not exist", str(path))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise PermissionError(errno.EACCES, "it cannot be written", str(path))
    for source in sources:
        if source and path.exists() and Path(source).exists() and path.samefile(source):
            raise typer.BadParameter(
                f"{option} {path} would overwrite an input. Write to another file."
            )


@contextmanager
def output(path: Path | None) -> Iterator[TextIO]:
    """Yield standard output, or a file that is written completely or not at all."""
    if path is None or str(path) == "-":
        yield standard_output()
        return
    with whole_file(path) as file:
        yield file


def table_source(name: str, what: str) -> Any:
    """Return the path of a table, or standard input, ready to be read, for ``-``."""
    if is_terminal():  # before packages that take long to load
        typer.echo(f"reading {'standard input' if name == '-' else name}", err=True)
    if name != "-":
        return name
    source: Any = sys.stdin
    if source is None:
        raise TableError(
            f"standard input must hold {what}; it is closed. Pipe in a table, or name a "
            "file instead of -."
        )
    source.reconfigure(encoding="utf-8-sig", newline="")
    return source


def refuse_folder(name: str | PathLike[str]) -> None:
    """Refuse a folder where one file is read."""
    if Path(name).is_dir():
        raise TableError(
            f"{name} must be one file; it is a folder. Name a file of it; whole folders "
            "are for fit and link, with --from-disk or --dask, and in Python for predict "
            "and score."
        )


def check_folds(n_folds: int, number: int, things: str, other: str) -> None:
    """Refuse more folds than there are graphs or queries to put into them."""
    if n_folds > number:
        raise InvalidOptionError(
            f"--folds must be at most the number of {things}, {number}; got {n_folds}. "
            f"Use fewer, or choose alpha on a second file ({other})."
        )


def load_kind(path: Path, kind: type[Model]) -> Model:
    """Read a model, and refuse one that ranks instead of matching, or the reverse."""
    from permatch.estimators import load

    return check_kind(load(path), path, kind)


def check_kind(model: Any, path: Any, kind: type[Model]) -> Model:
    """Return a model that was read, and refuse one of another kind."""
    from permatch.estimators import BaseMatcher, BaseRanker

    if isinstance(model, kind):
        return model
    wanted, does, command, other = (
        ("matcher", "ranks", "match", "rank")
        if kind is BaseMatcher
        else ("ranker", "matches", "rank", "match")
    )
    if not isinstance(model, BaseMatcher | BaseRanker):
        raise ModelFileError(
            f"{path} must be a {wanted}; it is a {type(model).__name__}, which prepares "
            "the features of tables. permatch rank takes it in a pipeline with a ranker."
        )
    raise ModelFileError(
        f"{path} must be a {wanted}; it is a {type(model).__name__}, which {does}. "
        f"Use it with permatch {other}, or fit a {wanted} with permatch {command} fit."
    )


def fit_model(
    model: Any, *data: Any, is_shown: bool = True, is_told: bool = True, **more: Any
) -> bool:
    """Fit, show warnings as single lines, and return whether Ctrl-C was pressed.

    `is_shown`: a progress bar, on terminals; `is_told`: what is about to be done.
    """
    can_talk = "verbose" in model.get_params()
    if can_talk:
        is_watched = is_shown and is_terminal()
        model.set_params(verbose=is_watched)
    with (
        noticing_ctrl_c() as presses,
        warnings.catch_warnings(record=True) as caught,
        telling_plans(is_told),
    ):
        warnings.simplefilter("always")
        model.fit(*data, **more)
    if can_talk:
        model.set_params(verbose=False)  # a model file must not make a script talk
    if not presses:
        # What cannot be served stands in the report.
        told = [own for own in caught if not issubclass(own.category, ServingWarning)]
        for message in dict.fromkeys(str(warning.message) for warning in told):
            typer.echo(f"warning: {' '.join(message.split())}", err=True)
    return bool(presses)


def fit_and_save(
    model: Any,
    path: Path,
    *data: Any,
    attributes: dict[str, Any] | None = None,
    **more: Any,
) -> float:
    """Fit and save a model, even if interrupted, and return the seconds the fit took.

    `attributes` are set between the two.
    """
    began = time.perf_counter()
    try:
        is_interrupted = fit_model(model, *data, **more)
    except KeyboardInterrupt:  # between two steps: what is kept is there already
        is_interrupted = True
    vars(model).update(attributes or {})
    if is_interrupted:
        leave_early(model, path)
    seconds = time.perf_counter() - began
    with ctrl_c_waits() as presses:
        model.save(path)
    if presses:
        leave_written(path)
    return seconds


def infer_and_save(model: Any, path: Path, cov_type: str, *data: Any) -> None:
    """Find out how sure the weights of a fitted model are, and save that with it."""
    try:
        model.inference(*data, cov_type=cov_type)
    except PermatchError as err:
        err.args = (as_options(str(err)),)
        raise
    model.save(path)


class _Notes(logging.Handler):
    """Prints what is about to be done."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(f"note: {record.getMessage()}", err=True)


@contextmanager
def telling_plans(is_told: bool) -> Iterator[None]:
    """Print what a fit is about to do, also where standard error is no terminal."""
    handler = logging.NullHandler() if is_terminal() else _Notes()
    level, was_disabled = plans.level, plans.disabled
    plans.addHandler(handler)
    plans.setLevel(logging.INFO)
    plans.disabled = not is_told
    try:
        yield
    finally:
        plans.removeHandler(handler)
        plans.setLevel(level)
        plans.disabled = was_disabled


@contextmanager
def noticing_ctrl_c() -> Iterator[list[int]]:
    """Yield a list that grows with every Ctrl-C, which still interrupts.

    An interrupted fit keeps its best coefficients and returns normally, so it cannot tell.
    """
    presses: list[int] = []

    def interrupt(number: int, frame: Any) -> None:
        presses.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield presses
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def ctrl_c_waits() -> Iterator[list[int]]:
    """Yield a list that grows with every Ctrl-C, which does nothing else meanwhile."""
    presses: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: presses.append(number))
    try:
        yield presses
    finally:
        signal.signal(signal.SIGINT, before)


def leave_early(model: Any, path: Path) -> NoReturn:
    """Save an interrupted fit if it has coefficients, say so, and exit."""
    coef = getattr(model, "coef_", np.zeros(0))
    is_begun = coef.any() or getattr(model, "unmatched_intercept_", 0.0) != 0.0
    is_begun = is_begun or hasattr(model, "trees_")
    if not is_begun or not hasattr(model, "feature_names_"):
        typer.echo(
            "interrupted before the first step; there is no model yet, and nothing was "
            "written.",
            err=True,
        )
        raise typer.Exit(INTERRUPTED)
    with ctrl_c_waits():
        model.save(path)
    typer.echo(f"interrupted {_when(model)}; the best model so far is in {path}.", err=True)
    raise typer.Exit(INTERRUPTED)


def _when(model: Any) -> str:
    """Say how far an interrupted fit came."""
    if hasattr(model, "trees_"):
        if not hasattr(model, "cv_results_"):
            return f"after {plural(len(model.history_), 'round')}"
        tried = model.cv_results_["num_leaves"].tolist()
        return f"after trying {', '.join(map(str, tried))} leaves"
    if not hasattr(model, "cv_results_"):
        return f"after {plural(int(model.n_iter_), 'step')}"
    n_done = len(model.cv_results_["alphas"])
    if n_done == 0:
        return f"within the first alpha, {model.alpha_:g}, fitted to one of the folds"
    return f"after {plural(n_done, 'alpha')}"


def leave_written(path: Path) -> NoReturn:
    """Say that the model was written before Ctrl-C, and exit."""
    typer.echo(f"interrupted; the fit had ended, and its model is in {path}.", err=True)
    raise typer.Exit(INTERRUPTED)


@contextmanager
def written_if_interrupted(path: Path) -> Iterator[None]:
    """On Ctrl-C after a model was written, say so and exit."""
    try:
        yield
    except KeyboardInterrupt:
        leave_written(path)


@contextmanager
def nothing_written_if_interrupted() -> Iterator[None]:
    """On Ctrl-C, say so and exit."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("interrupted; nothing was written.", err=True)
        raise typer.Exit(INTERRUPTED) from None


def refuse_id(option: str, wanted: str | None, names: list[str], lack: str) -> NoReturn:
    """Report wrong usage and name some existing ids."""
    close = get_close_matches(wanted, names, _FEW, 0.7) if wanted is not None else []
    words = f"{option} ID is required" if wanted is None else f"{lack} {wanted!r}"
    if close:
        words += f"; did you mean {', '.join(close)}?"
    else:
        more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
        words += f"; there are {', '.join(names[:_FEW])}{more}."
    raise typer.BadParameter(words)
