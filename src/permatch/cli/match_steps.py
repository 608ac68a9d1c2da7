"""What the commands of ``permatch match`` do: read, fit until done or stopped, write."""

import errno
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from permatch._types import FloatArray, IntArray
from permatch.cli.terminal import INTERRUPTED
from permatch.errors import (
    FeatureCountError,
    InvalidOptionError,
    ModelFileError,
    SizeLimitError,
    TableError,
)

if TYPE_CHECKING:
    from permatch.datasets import EdgeTable
    from permatch.estimators import BaseMatcher

Model = TypeVar("Model")


def check_target(path: Path, option: str, *sources: str | None) -> None:
    """Refuse, before any work is done, to write over an input or into no folder."""
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "its folder does not exist", str(path))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise PermissionError(errno.EACCES, "it cannot be written", str(path))
    for source in sources:
        if source and path.exists() and Path(source).exists() and path.samefile(source):
            raise typer.BadParameter(
                f"{option} {path} would replace what is read. Write to another file."
            )


def check_folds(n_folds: int, number: int, things: str, other: str) -> None:
    """Refuse more folds than there are graphs or queries to put into them."""
    if n_folds > number:
        raise InvalidOptionError(
            f"--folds must be at most the number of {things}, {number}; got {n_folds}. "
            f"Ask for fewer, or choose alpha on a second file ({other})."
        )


def read_table(
    edges: str, columns: dict[str, Any], feature_names: list[str] | None = None
) -> "EdgeTable":
    """Read a table, its features in the order of `feature_names`; say what is left out."""
    from permatch.datasets import read_edge_table

    source: Any = edges
    if edges == "-":
        source = sys.stdin
        if source is None:
            raise TableError(
                "standard input must hold a table of edges, and it is closed. Pipe a table "
                "in, or name a file instead of -."
            )
        source.reconfigure(encoding="utf-8-sig", newline="")
    table = read_edge_table(source, **columns)
    if table.ignored:
        names = ", ".join(table.ignored)
        typer.echo(f"note: columns of {edges} that hold no numbers: {names}", err=True)
    if n_unequal := sum(graph.n_extra > 0 for graph in table.graphs):
        typer.echo(
            f"note: {n_unequal} of {len(table.graphs)} graphs of {edges} have sides of "
            "different sizes: on the larger one nodes stay without a partner",
            err=True,
        )
    if feature_names is None:
        return table
    try:
        return table.arrange_features(feature_names)
    except FeatureCountError as err:
        raise FeatureCountError(f"{edges}: {err}") from err


def load_kind(path: Path, kind: type[Model]) -> Model:
    """Read a model, and refuse one that ranks instead of matching, or the reverse."""
    from permatch.estimators import BaseMatcher, load

    model = load(path)
    if isinstance(model, kind):
        return model
    wanted, does, command, other = (
        ("matcher", "ranks", "match", "rank")
        if kind is BaseMatcher
        else ("ranker", "matches", "rank", "match")
    )
    raise ModelFileError(
        f"{path} must hold a {wanted}; it holds a {type(model).__name__}, which {does}. "
        f"Use it with permatch {other}, or fit a {wanted} with permatch {command} fit."
    )


def load_for(
    path: Path, edges: str, columns: dict[str, Any], engine: str | None, jobs: int
) -> "tuple[BaseMatcher, EdgeTable]":
    """Read a model and the table it is to be used on, features matched by name."""
    from permatch.estimators import BaseMatcher

    model = load_kind(path, BaseMatcher)
    model.n_jobs = jobs
    if engine is not None:
        model.engine = engine
    names = model.feature_names_
    if names is not None and columns["features"] is None:
        columns = columns | {"features": names}  # other columns may be there
    return model, read_table(edges, columns, names)


def edge_probabilities(model: "BaseMatcher", table: "EdgeTable") -> list[FloatArray]:
    """Return the marginals of every graph, or name the way round graphs too large."""
    try:
        return model.predict_marginals(table.graphs)
    except SizeLimitError as err:
        raise SizeLimitError(
            f"{err} On the command line: --no-probabilities finds the best matching only."
        ) from err


def decode_matchings(
    model: "BaseMatcher",
    table: "EdgeTable",
    chances: list[FloatArray] | None,
    decode: str,
) -> list[IntArray]:
    """Return a matching for every graph, from marginals that are there already."""
    from permatch.decoding import bayes_matching

    if decode == "bayes" and chances is not None:
        return [
            bayes_matching(graph.weigh_extra(marginals), graph.allowed)
            for marginals, graph in zip(chances, table.graphs, strict=True)
        ]
    return model.predict(table.graphs)


def new_model(kind: str, options: dict[str, Any]) -> Any:
    """Return an estimator by its name on the command line."""
    from permatch import estimators

    classes = {
        "map": "MAPMatching",
        "cv": "MAPMatchingCV",
        "max-margin": "MaxMarginMatching",
    }
    return getattr(estimators, classes[kind])(**options)


def fit_model(model: Any, table: "EdgeTable", held_out: "EdgeTable | None") -> bool:
    """Fit, show warnings as single lines, and tell whether Ctrl-C was pressed."""
    more: dict[str, Any] = {"feature_names": table.feature_names}
    if held_out is not None:
        more["validation"] = (held_out.graphs, held_out.matchings)
    if sys.stderr.isatty() and "verbose" in model.get_params():
        model.set_params(verbose=True)
    with noticing_ctrl_c() as presses, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(table.graphs, table.matchings, **more)
    if "verbose" in model.get_params():
        model.set_params(verbose=False)  # a model file must not make a script talk
    if not presses:
        for message in dict.fromkeys(str(warning.message) for warning in caught):
            typer.echo(f"warning: {' '.join(message.split())}", err=True)
    return bool(presses)


@contextmanager
def noticing_ctrl_c() -> Iterator[list[int]]:
    """Yield a list that grows with every Ctrl-C, which interrupts as it always does.

    A fit that is interrupted keeps its best coefficients and returns as if nothing had
    happened, so it cannot be asked.
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


def leave_early(model: Any, path: Path) -> None:
    """Save an interrupted fit if it got anywhere, say so, and leave."""
    n_alphas = len(model.cv_results_["alphas"]) if hasattr(model, "cv_results_") else None
    if n_alphas == 0 or model.n_iter_ == 0:
        raise KeyboardInterrupt
    model.save(path)
    so_far = f"{model.n_iter_} steps" if n_alphas is None else f"{n_alphas} alphas"
    typer.echo(f"interrupted after {so_far}; the best model so far is in {path}.", err=True)
    raise typer.Exit(INTERRUPTED)


@contextmanager
def nothing_written_if_interrupted() -> Iterator[None]:
    """Say so on Ctrl-C, and leave."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("interrupted; nothing was written.", err=True)
        raise typer.Exit(INTERRUPTED) from None
