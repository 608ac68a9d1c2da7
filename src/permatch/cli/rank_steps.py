"""What the commands of ``permatch rank`` do: read, fit until done or stopped, score."""

import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from permatch._files import Gauge
from permatch._types import FloatArray, IntArray
from permatch.cli.match_steps import load_kind, noticing_ctrl_c
from permatch.errors import (
    InvalidOptionError,
    InvalidQueriesError,
    LetorFileError,
)

if TYPE_CHECKING:
    from permatch.datasets import RankingData
    from permatch.estimators import BaseRanker

_CLASSES = {
    "rankmatch": ("RankMatch", "RankMatchCV"),
    "dorm": ("DORM", "DORMCV"),
}
_STANDARD_INPUT = "standard input"
# How the reader ends its complaint about a file with more features than it was told.
_ADVICE = "Give a larger n_features, or a file with these features only."
# Features held in memory at once; bounds it.
_BLOCK_VALUES = 1 << 20


@contextmanager
def local_file(name: str) -> Iterator[Path]:
    """Yield the path of an input; standard input and other pipes are put aside on disk.

    Errors then speak of what was named, not of where it was put.
    """
    given = Path(name)
    if name != "-" and (given.is_file() or given.is_dir() or not given.exists()):
        yield given
        return
    if name == "-" and sys.stdin is None:
        raise LetorFileError(
            "standard input must hold data, and it is closed. Pipe a file in, or name one "
            "instead of -."
        )
    with tempfile.TemporaryDirectory(prefix="permatch-") as folder:
        path = Path(folder, "input")
        source = _STANDARD_INPUT if name == "-" else name
        with ExitStack() as stack:
            copy = stack.enter_context(path.open("wb"))
            pipe = (
                sys.stdin.buffer if name == "-" else stack.enter_context(given.open("rb"))
            )
            copy.writelines(Gauge(source, LetorFileError).unread(pipe))
        try:
            yield path
        except LetorFileError as err:
            raise LetorFileError(str(err).replace(str(path), source)) from err


def read_pair(
    train: str, valid: str | None, n_features: int | None
) -> "tuple[RankingData, RankingData | None]":
    """Read a training file and perhaps a second one, with as many features."""
    from permatch.datasets import read_letor

    if train == valid == "-":
        raise typer.BadParameter("standard input can be read once; name one of the files.")
    names = [train] if valid is None else [train, valid]
    with ExitStack() as stack:
        paths = [stack.enter_context(local_file(name)) for name in names]
        try:
            found = [read_letor(path, n_features=n_features) for path in paths]
        except LetorFileError as err:
            advice = _ADVICE.replace("n_features", "--n-features")
            raise LetorFileError(str(err).replace(_ADVICE, advice)) from err
        width = max(data.n_features for data in found)
        # A feature that is 0 throughout a file need not be mentioned in it.
        for k, data in enumerate(found):
            if data.n_features < width:
                found[k] = read_letor(paths[k], n_features=width)
    return found[0], found[1] if len(found) > 1 else None


def read_feature_names(path: Path | None) -> list[str] | None:
    """Read a name per line; blank lines at the end are none."""
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            data = Gauge(str(path), InvalidOptionError).whole(file)
        return data.decode("utf-8-sig").rstrip().splitlines()
    except UnicodeDecodeError as err:
        raise InvalidOptionError(
            f"{path} must hold the names of the features, one per line, as UTF-8 text; "
            f"got the byte {err.object[err.start]:#x}."
        ) from err


def new_ranker(estimator: str, options: dict[str, Any], *, is_search: bool) -> Any:
    """Return an estimator by its name on the command line, with or without its search."""
    from permatch import estimators

    return getattr(estimators, _CLASSES[estimator][is_search])(**options)


def fit_ranker(
    model: Any, data: tuple[Any, Any, Any], *, is_shown: bool = True, **more: Any
) -> bool:
    """Fit, show warnings as single lines, and tell whether Ctrl-C was pressed."""
    model.set_params(verbose=is_shown and sys.stderr is not None and sys.stderr.isatty())
    with noticing_ctrl_c() as presses, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*data, **more)
    model.set_params(verbose=False)  # a model file must not make a script talk
    if not presses:
        for message in dict.fromkeys(str(warning.message) for warning in caught):
            typer.echo(f"warning: {' '.join(message.split())}", err=True)
    return bool(presses)


def load_ranker(path: Path) -> "BaseRanker":
    """Read a model, and refuse one that matches instead of ranking."""
    from permatch.estimators import BaseRanker

    return load_kind(path, BaseRanker)


@dataclass(frozen=True, eq=False)
class Scored:
    """Consecutive documents of whole queries with the scores of one or two models.

    Attributes
    ----------
    data : RankingData
        The documents; `first` is the number in the file of the first of them, from 0.
    scores : list of ndarray
        One array (n,) per model.
    """

    data: "RankingData"
    first: int
    scores: list[FloatArray]

    @property
    def starts(self) -> IntArray:
        """Where the queries begin, and the end, (q + 1,)."""
        qid = self.data.qid
        changes = np.flatnonzero(qid[1:] != qid[:-1]) + 1
        return np.concatenate([[0], changes, [len(qid)]])


def stream_scores(name: str, models: "list[BaseRanker]") -> Iterator[Scored]:
    """Read documents in blocks of whole queries and score them, in bounded memory."""
    from permatch.datasets import iterate_letor

    n_features = models[0].n_features_in_
    n_documents = max(1, _BLOCK_VALUES // n_features)
    highest = first = 0
    with local_file(name) as path:
        try:
            for data in iterate_letor(path, n_documents, n_features=n_features):
                scores = [model.predict(data.X, qid=data.qid) for model in models]
                highest = max(highest, _highest_feature(data.X))
                yield Scored(data, first, scores)
                first += data.n_documents
        except LetorFileError as err:
            advice = (
                f"The model has {n_features} features: give the file it was made for, or "
                "fit it again, with --n-features."
            )
            raise LetorFileError(str(err).replace(_ADVICE, advice)) from err
    everything = np.ones(n_features)
    if any(np.any(getattr(model, "coef_", everything)[highest:]) for model in models):
        typer.echo(
            f"note: {name} has no feature beyond {highest}, the model {n_features}; the "
            "others are taken as 0.",
            err=True,
        )


def check_same_features(paths: list[Path], models: "list[BaseRanker]") -> None:
    """Refuse to compare models that cannot look at the same file."""
    counts = [model.n_features_in_ for model in models]
    if len(set(counts)) > 1:
        raise InvalidQueriesError(
            f"models to be compared must have as many features; {paths[0]} has "
            f"{counts[0]}, {paths[1]} {counts[1]}. Write the scores of each with permatch "
            "rank predict and compare these (--scores, --against-scores)."
        )


def _highest_feature(documents: FloatArray) -> int:
    """Return the number, from 1, of the last feature that is not 0 throughout."""
    for column in range(documents.shape[1] - 1, -1, -1):
        if documents[:, column].any():
            return column + 1
    return 0
