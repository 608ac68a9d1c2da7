"""Hamming loss against the number of training pairs, on sheared copies of a silhouette.

For every repeat, landmarks, shears and pairs are drawn anew.  With N training pairs come N
validation pairs, by whose Hamming loss each method chooses its alpha, and a fixed set of
test pairs.  All methods see the same pairs; the pairs of a smaller N are among those of a
larger one; no pair of images is in two of the three sets.

    unweighted   coef = -1 for every feature, nothing learnt
    map          maximum a posteriori with exact gradients
    max_margin   structured hinge with the Hamming loss
"""

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import check_count
from permatch.datasets import Silhouettes, silhouettes
from permatch.decoding import best_matching
from permatch.errors import InvalidOptionError
from permatch.experiments.interrupts import keeping_interrupts
from permatch.experiments.rows import Row, RowFile
from permatch.graphs import BipartiteGraph
from permatch.metrics import hamming_loss

#: What together names a row; `n` is 0 for the method that learns nothing.
KEY = ("config", "repeat", "n", "method")
METHODS = ("unweighted", "map", "max_margin")

#: Raised whenever rows of before can no longer be compared with new ones.
_SCHEMA = 2


@dataclass(frozen=True)
class Config:
    """What the experiment depends on.

    Parameters
    ----------
    n_train : tuple of int
        Numbers of training pairs.
    n_test : int
        Test pairs.
    n_repeats : int
        Repeats, each with landmarks, shears and pairs of its own.
    map_alphas, margin_alphas : tuple of float
        Strengths of the penalty that the two learners choose from.
    map_tol : float
        Largest entry of the gradient at the end of a fit.
    margin_tol : float
        Duality gap at the end of a fit, relative to the objective.
    n_points, n_images, n_contour : int
        Landmarks, sheared copies, and points of the outline.
    shear : pair of float
        Lowest and highest shear.
    context : {"contour", "landmarks"}
        What the shape contexts count.
    image : str, optional
        Path of an image; None is scikit-image's horse.
    seed : int
        Where all randomness comes from.
    """

    n_train: tuple[int, ...] = (5, 10, 20, 40, 60)
    n_test: int = 500
    n_repeats: int = 5
    # As many for either.  With few pairs validation chooses strong ones, with many weak
    # ones; a grid that ends too early costs the method that wants to go on.
    map_alphas: tuple[float, ...] = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
    margin_alphas: tuple[float, ...] = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
    map_tol: float = 1e-4
    margin_tol: float = 1e-3
    n_points: int = 20
    n_images: int = 200
    n_contour: int = 400
    shear: tuple[float, float] = (-2.0, 2.0)
    context: Literal["contour", "landmarks"] = "contour"
    image: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("n_test", "n_repeats"):
            check_count(getattr(self, name), name, 1)
        check_count(self.seed, "seed", 0)
        for name in ("n_train", "map_alphas", "margin_alphas"):
            values = tuple(getattr(self, name))
            if not values or not all(value > 0 for value in values):
                raise InvalidOptionError(
                    f"{name} must hold at least one number, all above 0; got {values}."
                )
            object.__setattr__(self, name, values)
        for n in self.n_train:
            check_count(n, "every entry of n_train", 1)

    @classmethod
    def tiny(cls) -> "Config":
        """Return a configuration that takes a second or two, for tests."""
        return cls(
            n_train=(2, 4),
            n_test=10,
            n_repeats=2,
            map_alphas=(1.0, 0.1),
            margin_alphas=(1.0, 0.1),
            n_points=6,
            n_images=12,
            n_contour=60,
        )

    @classmethod
    def quick(cls) -> "Config":
        """Return a smaller experiment of the same kind, well under a minute."""
        return cls(
            n_train=(5, 10, 20),
            n_test=100,
            n_repeats=2,
            map_alphas=(10.0, 1.0, 0.1),
            margin_alphas=(10.0, 1.0, 0.1),
        )

    def fingerprint(self) -> str:
        """Return what names this configuration in its rows.

        Repeats and training sizes are left out, since rows are named by their own: the file
        of a run can be resumed with more of either.
        """
        what = asdict(self) | {"schema": _SCHEMA}
        del what["n_train"], what["n_repeats"]
        if self.image is not None:
            what["image"] = hashlib.sha256(Path(self.image).read_bytes()).hexdigest()
        text = json.dumps(what, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


class Pairs(NamedTuple):
    """Graphs and their true matchings."""

    graphs: list[BipartiteGraph]
    matchings: list[IntArray]

    def pick(self, where: slice) -> "Pairs":
        """Return some of the pairs."""
        return Pairs(self.graphs[where], self.matchings[where])

    def loss(self, coef: FloatArray) -> float:
        """Return the Hamming loss of the best matchings under `coef`."""
        predicted = [best_matching(graph.scores(coef)) for graph in self.graphs]
        return hamming_loss(self.matchings, predicted)


@dataclass(frozen=True, eq=False)
class Draw:
    """The silhouettes of a repeat and all its pairs, those for testing first.

    Training and validation pairs are taken in turn from the rest, so that those for N are
    the first ones of those for any larger N.
    """

    data: Silhouettes
    pairs: Pairs
    images: IntArray
    n_test: int

    @property
    def test(self) -> Pairs:
        """The test pairs."""
        return self.pairs.pick(slice(self.n_test))

    @property
    def test_images(self) -> IntArray:
        """The numbers of the two copies of every test pair."""
        return self.images[: self.n_test]

    def train(self, n: int) -> Pairs:
        """Return the first `n` training pairs."""
        return self.pairs.pick(slice(self.n_test, self.n_test + 2 * n, 2))

    def validation(self, n: int) -> Pairs:
        """Return the first `n` validation pairs."""
        return self.pairs.pick(slice(self.n_test + 1, self.n_test + 2 * n, 2))


def run(
    config: Config,
    out: str | PathLike[str] | None = None,
    on_row: Callable[[Row], None] | None = None,
    *,
    on_progress: Callable[[float], None] | None = None,
    n_jobs: int | None = None,
) -> Iterator[Row]:
    """Yield the rows of the experiment as they are known.

    Parameters
    ----------
    config : Config
        What to do.
    out : str or path, optional
        A file of JSON lines.  Rows it has are not computed again; new ones are added.
    on_row : callable, optional
        Called with every row that was computed, not with those the file had.
    on_progress : callable, optional
        Called with the share of the work that is done, from 0 to 1.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  No loss depends on it.

    Yields
    ------
    dict
        ``config``, ``repeat``, ``n``, ``method``, ``hamming_loss``; and for the learners
        ``alpha``, ``validation_loss``, ``n_evaluations``, ``seconds`` and ``is_converged``
        of the chosen fit, its ``coef``, and ``path``, the figures for every alpha tried.

    Notes
    -----
    Some ten minutes on two cores with the default configuration.  Ctrl-C leaves all
    finished rows in the file.
    """
    rows = RowFile(out, KEY)
    name = config.fingerprint()
    return _run(config, name, rows, on_row, _Progress(config, on_progress), n_jobs)


def summarise(rows: Iterable[Row]) -> list[Row]:
    """Return mean and spread of the loss over repeats, by training pairs and method.

    Parameters
    ----------
    rows : iterable of dict
        Rows of one configuration.

    Returns
    -------
    list of dict
        ``n``, ``method``, ``mean`` and ``spread`` (standard deviation over repeats; None
        for a single one) of the Hamming loss, ``n_repeats``; for learners also the mean
        ``seconds`` and ``n_evaluations`` of the chosen fit.  With both learners there is a
        ``map - max_margin``, the differences within repeats.
    """
    groups: dict[tuple[int, str], dict[int, Row]] = {}
    for row in rows:
        groups.setdefault((row["n"], row["method"]), {})[row["repeat"]] = row
    summary = []
    for (n, method), by_repeat in sorted(groups.items(), key=lambda item: item[0][0]):
        found = list(by_repeat.values())
        line = {"n": n, "method": method} | _moments(row["hamming_loss"] for row in found)
        if n > 0:
            for name in ("seconds", "n_evaluations"):
                line[name] = float(np.mean([row[name] for row in found]))
        summary.append(line)
        rival = groups.get((n, "map"), {})
        both = [k for k in by_repeat if method == "max_margin" and k in rival]
        if both:
            differences = (
                rival[k]["hamming_loss"] - by_repeat[k]["hamming_loss"] for k in both
            )
            summary.append({"n": n, "method": "map - max_margin"} | _moments(differences))
    return summary


def _moments(values: Iterable[float]) -> Row:
    found = list(values)
    spread = float(np.std(found, ddof=1)) if len(found) > 1 else None
    return {"mean": float(np.mean(found)), "spread": spread, "n_repeats": len(found)}


def _run(
    config: Config,
    name: str,
    rows: RowFile,
    on_row: Callable[[Row], None] | None,
    progress: "_Progress",
    n_jobs: int | None,
) -> Iterator[Row]:
    for repeat in range(config.n_repeats):
        drawn: Draw | None = None
        for n, method in _tasks(config):
            row = rows.find(config=name, repeat=repeat, n=n, method=method)
            if row is None:
                drawn = drawn or draw(config, repeat)
                result = _measure(config, drawn, n, method, progress, n_jobs)
                row = {"config": name, "repeat": repeat, "n": n, "method": method} | result
                rows.add(row)
                if on_row is not None:
                    on_row(row)
            progress.end_task(n)
            yield row


def _tasks(config: Config) -> list[tuple[int, str]]:
    """Return what a repeat consists of, as (training pairs, method)."""
    learners = [(n, method) for n in sorted(set(config.n_train)) for method in METHODS[1:]]
    return [(0, METHODS[0]), *learners]


def draw(config: Config, repeat: int) -> Draw:
    """Return the silhouettes of a repeat and the pairs that every method sees.

    Parameters
    ----------
    config : Config
        What to do.
    repeat : int
        Number of the repeat, from 0.

    Returns
    -------
    Draw
        The data, the test pairs, and training and validation pairs for any N.
    """
    data_rng, pairs_rng = np.random.default_rng([config.seed, repeat]).spawn(2)
    data = silhouettes(
        config.image,
        n_points=config.n_points,
        n_images=config.n_images,
        shear=config.shear,
        context=config.context,
        n_contour=config.n_contour,
        rng=data_rng,
    )
    n_pairs = config.n_test + 2 * max(config.n_train)
    graphs, matchings, images = data.pairs(n_pairs, pairs_rng)
    return Draw(data, Pairs(graphs, matchings), images, config.n_test)


def _measure(
    config: Config,
    drawn: Draw,
    n: int,
    method: str,
    progress: "_Progress",
    n_jobs: int | None,
) -> Row:
    """Return the losses of one method with `n` training pairs, and what they took."""
    from permatch.estimators import MAPMatching, MaxMarginMatching

    test = drawn.test
    if method == "unweighted":
        return {"hamming_loss": test.loss(-np.ones(test.graphs[0].n_features))}
    train, validation = drawn.train(n), drawn.validation(n)
    if method == "map":
        model = MAPMatching(tol=config.map_tol, warm_start=True, n_jobs=n_jobs)
        alphas = config.map_alphas
    else:
        model = MaxMarginMatching(tol=config.margin_tol, warm_start=True, n_jobs=n_jobs)
        alphas = config.margin_alphas
    path, coef = _fit_by_validation(model, alphas, train, validation, progress)
    # Of equally good ones the first, which has the strongest penalty.
    best = min(range(len(path)), key=lambda k: path[k]["validation_loss"])
    result = {"hamming_loss": test.loss(coef[best])} | path[best]
    return result | {"coef": coef[best].tolist(), "path": path}


def _fit_by_validation(
    model: Any,
    alphas: Sequence[float],
    train: Pairs,
    validation: Pairs,
    progress: "_Progress",
) -> tuple[list[Row], list[FloatArray]]:
    """Fit from the strongest penalty to the weakest, each from the last; return all."""
    from sklearn.exceptions import ConvergenceWarning

    path, coef = [], []
    for number, alpha in enumerate(sorted(alphas, reverse=True), start=1):
        start = time.perf_counter()
        with keeping_interrupts(), warnings.catch_warnings():
            # The row says whether it converged.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.set_params(alpha=alpha).fit(*train)
        seconds = time.perf_counter() - start
        path.append(
            {
                "alpha": alpha,
                "validation_loss": validation.loss(model.coef_),
                "n_evaluations": _n_evaluations(model),
                "seconds": round(seconds, 3),
                "is_converged": bool(model.is_converged_),
            }
        )
        coef.append(model.coef_)
        progress.within_task(len(train.graphs), number / len(alphas))
    return path, coef


def _n_evaluations(model: Any) -> int:
    """Return how often a fit has gone through the training pairs."""
    last = model.history_[-1] if model.history_ else {}
    return int(last.get("evaluations", model.n_iter_))


class _Progress:
    """Adds up the work done, in units of one training pair gone through by all alphas."""

    def __init__(self, config: Config, on_progress: Callable[[float], None] | None) -> None:
        self.total = config.n_repeats * sum(n + 1 for n, _ in _tasks(config))
        self.done = 0.0
        self.on_progress = on_progress

    def end_task(self, n: int) -> None:
        """Count a finished row."""
        self.done += n + 1
        self.within_task(0, 0.0)

    def within_task(self, n: int, share: float) -> None:
        """Report, with a share of the task at hand."""
        if self.on_progress is not None:
            self.on_progress((self.done + share * n) / self.total)
