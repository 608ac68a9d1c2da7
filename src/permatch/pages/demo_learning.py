"""What the demo learns, and finds: to match points on sheared copies of a silhouette.

With N training pairs come N validation pairs, by whose Hamming loss each method chooses
its alpha, and a fixed set of test pairs.  All methods see the same pairs; the pairs of a
smaller N are among those of a larger one; no pair of images is in two of the three sets.

    same landmarks   all three sets have the same landmarks, as in the paper
    new landmarks    each set has landmarks of its own; the test pairs are the same ones

    unweighted   coef = -1 for every feature, no learning
    map          maximum a posteriori with exact gradients
    max_margin   structured hinge with the Hamming loss
"""

import json
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.datasets import Silhouettes, silhouettes
from permatch.decoding import best_matching
from permatch.distribution import MatchingDistribution
from permatch.graphs import BipartiteGraph
from permatch.inference import infer
from permatch.metrics import (
    Calibration,
    calibration,
    hamming_loss,
    node_calibration,
)

METHODS = ("unweighted", "map", "max_margin")

#: The landmarks of training and validation pairs: those of the test pairs, or others.
Landmarks = Literal["same", "new"]

Row = dict[str, Any]


@dataclass(frozen=True)
class Setup:
    """What is drawn and tried; by default a minute or so on two cores.

    The learners choose from their alphas; a MAP fit ends when the largest entry of the
    gradient is below `map_tol`, a max-margin fit when the relative duality gap is below
    `margin_tol`.  For the others see `permatch.datasets.silhouettes`.
    """

    n_train: tuple[int, ...] = (5, 20, 60)
    n_test: int = 500
    map_alphas: tuple[float, ...] = (3.0, 0.3, 0.03)
    margin_alphas: tuple[float, ...] = (30.0, 1.0, 0.03)
    map_tol: float = 1e-4
    margin_tol: float = 1e-3
    n_points: int = 20
    n_images: int = 200
    n_contour: int = 400
    shear: tuple[float, float] = (-2.0, 2.0)
    context: Literal["contour", "landmarks"] = "contour"
    image: str | None = None
    seed: int = 0

    def tasks(self) -> list[tuple[int, str]]:
        """Return what is measured, as (training pairs, method)."""
        sizes = sorted(set(self.n_train))
        return [(0, METHODS[0]), *((n, method) for n in sizes for method in METHODS[1:])]


#: What `permatch demo` does.
SETUP = Setup()


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
    """The silhouettes of a repeat and all its pairs.

    `data` has the copies that are tested on, `images` the numbers of the two copies of
    every pair, those for testing first.  The pairs for N are the first ones of those for
    any larger N.
    """

    data: Silhouettes
    images: IntArray
    test: Pairs
    all_train: Pairs
    all_validation: Pairs

    def train(self, n: int) -> Pairs:
        """Return the first `n` training pairs."""
        return self.all_train.pick(slice(n))

    def validation(self, n: int) -> Pairs:
        """Return the first `n` validation pairs."""
        return self.all_validation.pick(slice(n))


def draw(setup: Setup, repeat: int = 0, landmarks: Landmarks = "same") -> Draw:
    """Return the silhouettes of a repeat, from 0, and the pairs that every method sees.

    The test pairs do not depend on `landmarks`.
    """
    data_seed, pairs_seed, others_seed = seeds(setup, repeat)
    data = copies(setup, setup.image, data_seed)
    if landmarks == "same":
        return deal(setup, data, data, data, pairs_seed)
    rng = np.random.default_rng(others_seed)
    train = data.new_landmarks(rng=rng)
    return deal(setup, data, train, data.new_landmarks(train, rng=rng), pairs_seed)


def seeds(setup: Setup, repeat: int) -> list[np.random.SeedSequence]:
    """Return the seeds of a repeat: of its copies, of its pairs, of what else it needs."""
    return np.random.SeedSequence([setup.seed, repeat]).spawn(3)


def copies(setup: Setup, image: Any, seed: np.random.SeedSequence) -> Silhouettes:
    """Return sheared copies of an image."""
    return silhouettes(
        image,
        n_points=setup.n_points,
        n_images=setup.n_images,
        shear=setup.shear,
        context=setup.context,
        n_contour=setup.n_contour,
        rng=np.random.default_rng(seed),
    )


def deal(
    setup: Setup,
    test: Silhouettes,
    train: Silhouettes,
    validation: Silhouettes,
    seed: np.random.SeedSequence,
) -> Draw:
    """Deal the same pairs of copies, whatever they show, out to the three sets.

    The first ones are for testing; then training and validation take turns.
    """
    n_pairs = setup.n_test + 2 * max(setup.n_train)
    first = test.pairs(n_pairs, np.random.default_rng(seed))

    def take(source: Silhouettes, where: slice) -> Pairs:
        again = np.random.default_rng(seed)
        dealt = first if source is test else source.pairs(n_pairs, again)
        return Pairs(dealt.graphs, dealt.matchings).pick(where)

    return Draw(
        data=test,
        images=first.images,
        test=take(test, slice(setup.n_test)),
        all_train=take(train, slice(setup.n_test, None, 2)),
        all_validation=take(validation, slice(setup.n_test + 1, None, 2)),
    )


def measure(
    setup: Setup,
    drawn: Draw,
    n: int,
    method: str,
    *,
    on_progress: Callable[[float], None] = lambda share: None,
    n_jobs: int | None = None,
) -> Row:
    """Learn from `n` pairs by one of `METHODS`, and return the loss on the test pairs.

    The row of a learner also has ``alpha``, ``validation_loss``, ``n_evaluations``,
    ``seconds`` and ``is_converged`` of the chosen fit, its ``coef``, and ``path``, the
    figures for every alpha tried.  `on_progress` is called with the share of them done.
    """
    from permatch.estimators import MAPMatching, MaxMarginMatching

    test = drawn.test
    if method == "unweighted":
        return {"hamming_loss": test.loss(-np.ones(test.graphs[0].n_features))}
    train, validation = drawn.train(n), drawn.validation(n)
    if method == "map":
        model: Any = MAPMatching(tol=setup.map_tol, warm_start=True, n_jobs=n_jobs)
        alphas = setup.map_alphas
    else:
        model = MaxMarginMatching(tol=setup.margin_tol, warm_start=True, n_jobs=n_jobs)
        alphas = setup.margin_alphas
    path, coef = _fit_by_validation(model, alphas, train, validation, on_progress)
    # Of equally good ones the first, which has the strongest penalty.
    best = min(range(len(path)), key=lambda k: path[k]["validation_loss"])
    result = {"hamming_loss": test.loss(coef[best])} | path[best]
    return result | {"coef": coef[best].tolist(), "path": path}


def _fit_by_validation(
    model: Any,
    alphas: Sequence[float],
    train: Pairs,
    validation: Pairs,
    on_progress: Callable[[float], None],
) -> tuple[list[Row], list[FloatArray]]:
    """Fit from the strongest penalty to the weakest, each from the last; return all."""
    path, coef = [], []
    for number, alpha in enumerate(sorted(alphas, reverse=True), start=1):
        start = time.perf_counter()
        with quiet_fit():
            model.set_params(alpha=alpha).fit(*train)
        seconds = time.perf_counter() - start
        path.append(
            {
                "alpha": alpha,
                "validation_loss": validation.loss(model.coef_),
                "n_evaluations": n_evaluations(model),
                "seconds": round(seconds, 3),
                "is_converged": bool(model.is_converged_),
            }
        )
        coef.append(model.coef_)
        on_progress(number / len(alphas))
    return path, coef


def n_evaluations(model: Any) -> int:
    """Return how often a fit has gone through the training pairs."""
    last = model.history_[-1] if model.history_ else {}
    return int(last.get("evaluations", model.n_iter_))


@contextmanager
def quiet_fit() -> Iterator[None]:
    """Hide warnings of convergence, which rows tell; raise a Ctrl-C again at the end.

    An estimator that is interrupted keeps its best coefficients and returns; a row must
    not be made of them.
    """
    from sklearn.exceptions import ConvergenceWarning

    with keeping_interrupts(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@contextmanager
def keeping_interrupts() -> Iterator[None]:
    """Raise a Ctrl-C again at the end, whatever was made of it meanwhile."""
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
    except Exception as error:  # a database, say, that has an error of its own for it
        if is_interrupted:
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)
    if is_interrupted:
        raise KeyboardInterrupt


@dataclass(frozen=True, eq=False)
class Example:
    """One test pair, matched with unweighted features (before) and learned ones (after).

    `number` is its place among the test pairs; `points` has the landmarks of either side,
    the right ones in the order of the graph's nodes.
    """

    number: int
    outlines: tuple[FloatArray, FloatArray]
    points: tuple[FloatArray, FloatArray]
    truth: IntArray
    before: IntArray
    after: IntArray
    before_marginals: FloatArray
    after_marginals: FloatArray


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demo found; `numbers` is all of it that can be read.

    `rows` is the learning curve, with ``n``, ``method`` and what `measure` returns;
    `reliability` is of the edge probabilities on the test pairs, `node_reliability` of the
    most probable partners, and `example` the pair that learning helped most.
    """

    numbers: dict[str, Any]
    rows: list[Row]
    reliability: Calibration
    node_reliability: Calibration
    example: Example = field(repr=False)

    def to_json(self, **more: Any) -> str:
        """Return all as JSON: numbers, rows and reliability curves, after `more`."""
        own = {
            "numbers": self.numbers,
            "calibration": _curve_json(self.reliability),
            "node_calibration": _curve_json(self.node_reliability),
            "rows": self.rows,
        }
        content = more | own
        return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _curve_json(found: Calibration) -> dict[str, list[float | None]]:
    return {
        name: [None if np.isnan(p) else p for p in getattr(found, name).tolist()]
        for name in ("mean_predicted", "observed", "counts")
    }


def run(
    setup: Setup = SETUP,
    *,
    n_jobs: int | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> Demo:
    """Measure the learning curve, then examine the model trained on the most pairs.

    Training and test pairs have the same landmarks, as in the paper; a last fit learns from
    others.  No number but the times depends on `n_jobs`; `on_progress` is called with the
    share of the work that is done, from 0 to 1.
    """
    start = time.perf_counter()
    drawn = draw(setup)
    show = on_progress or (lambda share: None)
    n_train = max(setup.n_train)
    of_curve = 1.0 - n_train / _work(setup)
    rows = _curve(setup, drawn, n_jobs, lambda share: show(of_curve * share))
    elsewhere = measure(
        setup,
        draw(setup, landmarks="new"),
        n_train,
        "map",
        n_jobs=n_jobs,
        on_progress=lambda share: show(of_curve + (1.0 - of_curve) * share),
    )
    found = {(row["n"], row["method"]): row for row in rows}
    chosen, unweighted = found[n_train, "map"], found[0, "unweighted"]
    test = drawn.test
    coef = np.array(chosen["coef"])
    scores = np.stack([graph.features @ coef for graph in test.graphs])
    marginals = list(infer(scores, n_jobs=n_jobs).marginals)
    after = [best_matching(table) for table in scores]
    curve = calibration(marginals, test.matchings)
    nodes = node_calibration(marginals, test.matchings)
    example = _example(drawn, after, marginals)
    numbers = {
        "n_test": setup.n_test,
        "n_train": n_train,
        "size": setup.n_points,
        "n_features": test.graphs[0].n_features,
        "alpha": chosen["alpha"],
        "evaluations": chosen["n_evaluations"],
        "loss_unweighted": unweighted["hamming_loss"],
        "loss_learnt": hamming_loss(test.matchings, after),
        "loss_new_landmarks": elsewhere["hamming_loss"],
        "calibration_error": curve.expected_calibration_error,
        "n_plausible": int(curve.counts.sum()),
        "confidence": nodes.confidence,
        "accuracy": nodes.accuracy,
        "node_calibration_error": nodes.expected_calibration_error,
        "example": example.number,
        "example_right_before": int((example.before == example.truth).sum()),
        "example_right_after": int((example.after == example.truth).sum()),
        "seconds": round(time.perf_counter() - start, 1),
    }
    return Demo(numbers, rows, curve, nodes, example)


def _work(setup: Setup) -> int:
    """Return the work of a run, in training pairs gone through by all alphas."""
    return sum(n + 1 for n, _ in setup.tasks()) + max(setup.n_train)


def _curve(
    setup: Setup, drawn: Draw, n_jobs: int | None, on_progress: Callable[[float], None]
) -> list[Row]:
    """Return a row per method and number of training pairs."""
    tasks = setup.tasks()
    total = sum(n + 1 for n, _ in tasks)
    rows, done = [], 0

    for n, method in tasks:

        def show(share: float, done: int = done, n: int = n) -> None:
            on_progress((done + share * n) / total)

        found = measure(setup, drawn, n, method, on_progress=show, n_jobs=n_jobs)
        rows.append({"repeat": 0, "n": n, "method": method} | found)
        done += n + 1
        on_progress(done / total)
    return rows


def _example(drawn: Draw, after: list[IntArray], marginals: list[FloatArray]) -> Example:
    """Return the test pair on which learning corrects most edges."""
    test = drawn.test
    coef = -np.ones(test.graphs[0].n_features)
    before = [best_matching(graph.scores(coef)) for graph in test.graphs]
    gain = [
        int((new == true).sum() - (old == true).sum())
        for new, old, true in zip(after, before, test.matchings, strict=True)
    ]
    k = int(np.argmax(gain))
    first, second = (int(image) for image in drawn.images[k])
    truth = test.matchings[k]
    unweighted = MatchingDistribution(test.graphs[k].scores(coef))
    return Example(
        number=k,
        outlines=(drawn.data.outline(first), drawn.data.outline(second)),
        points=(drawn.data.points[first], drawn.data.right_points(second, truth)),
        truth=truth,
        before=before[k],
        after=after[k],
        before_marginals=unweighted.marginals,
        after_marginals=marginals[k],
    )
