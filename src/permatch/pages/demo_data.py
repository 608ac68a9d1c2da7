"""The data of the demo's page: a learning curve, and one pair before and after."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.decoding import best_matching
from permatch.distribution import MatchingDistribution
from permatch.inference import infer
from permatch.metrics import Calibration, calibration, hamming_loss
from permatch.pages.demo_learning import Draw, Row, Setup, draw, measure

#: What `permatch demo` does.
SETUP = Setup()


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
    `reliability` is of the edge probabilities on the test pairs, and `example` the pair
    that learning helped most.
    """

    numbers: dict[str, Any]
    rows: list[Row]
    reliability: Calibration
    example: Example = field(repr=False)

    def to_json(self) -> str:
        """Return numbers, rows and the reliability curve as JSON."""
        curve = {
            name: [
                None if np.isnan(p) else p for p in getattr(self.reliability, name).tolist()
            ]
            for name in ("mean_predicted", "observed", "counts")
        }
        content = {"numbers": self.numbers, "calibration": curve, "rows": self.rows}
        return json.dumps(content, indent=1, allow_nan=False) + "\n"


def run(
    setup: Setup = SETUP,
    *,
    n_jobs: int | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> Demo:
    """Measure the learning curve, then examine the model trained on the most pairs.

    No number but the times depends on `n_jobs`; `on_progress` is called with the share of
    the work that is done, from 0 to 1.
    """
    start = time.perf_counter()
    drawn = draw(setup)
    rows = _curve(setup, drawn, n_jobs, on_progress or (lambda share: None))
    n_train = max(setup.n_train)
    found = {(row["n"], row["method"]): row for row in rows}
    chosen, unweighted = found[n_train, "map"], found[0, "unweighted"]
    test = drawn.test
    scores = np.stack([graph.scores(np.array(chosen["coef"])) for graph in test.graphs])
    marginals = list(infer(scores, n_jobs=n_jobs).marginals)
    after = [best_matching(table) for table in scores]
    curve = calibration(marginals, test.matchings)
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
        "calibration_error": curve.expected_calibration_error,
        "example": example.number,
        "example_right_before": int((example.before == example.truth).sum()),
        "example_right_after": int((example.after == example.truth).sum()),
        "seconds": round(time.perf_counter() - start, 1),
    }
    return Demo(numbers, rows, curve, example)


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
