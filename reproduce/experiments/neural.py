"""Landmarks among outliers: an edge network by two losses, and a linear model.

    likelihood  the network, by the exact likelihood of matchings
    sinkhorn    the same network, by the entries of a Sinkhorn plan
    linear      `MAPMatching` on the same pairs: edges by what their shape contexts have
                apart, points by their shape contexts

All see the same training pairs; the options of each are those of the lowest Hamming loss on
the validation pairs; the test pairs have landmarks that nobody has seen.  All decode alike:
the matching with the fewest expected errors by their own probabilities.  The seconds of an
epoch are processor time, of the fastest one: other programs disturb it least.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import permatch as pm
from permatch._types import FloatArray
from reproduce.experiments.outlier_points import Pair, Scenes, draw_pairs

Show = Callable[[float], None]
METHODS = ("likelihood", "sinkhorn", "linear")


@dataclass(frozen=True)
class Config:
    """What is compared, on which pairs."""

    sizes: tuple[int, int, int] = (300, 100, 400)
    scenes: Scenes = field(default_factory=Scenes)
    width: int = 48
    n_epochs: int = 20
    batch_size: int = 25
    rates: tuple[float, ...] = (0.03, 0.1, 0.3)
    decays: tuple[float, ...] = (0.001, 0.1)
    alphas: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0)
    seed: int = 1  # of the pairs and of the networks; options were settled with 0

    @classmethod
    def quick(cls) -> "Config":
        """Return one that takes seconds."""
        return cls(
            sizes=(30, 20, 30), n_epochs=2, rates=(0.03,), decays=(0.01,), alphas=(0.1,)
        )


@dataclass(frozen=True, eq=False)
class Outcome:
    """Probabilities of edges and matchings of pairs, and their errors."""

    edges: Sequence[FloatArray]
    losses: FloatArray
    brier: float
    calibration_error: float

    @property
    def hamming(self) -> float:
        """Share of points treated wrongly, the mean over pairs."""
        return float(self.losses.mean())


def judge(
    pairs: Sequence[Pair], edges: Sequence[FloatArray], left: Any, right: Any
) -> Outcome:
    """Decode and compare with the truth."""
    truths = [pair.matching for pair in pairs]
    found = [
        pm.bayes_matching(p, unmatched_left=u, unmatched_right=v)
        for p, u, v in zip(edges, left, right, strict=True)
    ]
    losses = [np.mean(one != truth) for one, truth in zip(found, truths, strict=True)]
    squares = [
        ((p - (truth[:, None] == np.arange(p.shape[1]))) ** 2).ravel()
        for p, truth in zip(edges, truths, strict=True)
    ]
    error = pm.metrics.calibration(edges, truths).expected_calibration_error
    return Outcome(
        edges, np.array(losses), float(np.concatenate(squares).mean()), float(error)
    )


def run(config: Config, on_progress: Show | None = None) -> list[dict[str, Any]]:
    """Return a row per method: what was chosen, and how it does on new landmarks."""
    parts = draw_pairs(config.scenes, config.sizes, config.seed)
    n_networks = len(config.rates) * len(config.decays)
    n_all, n_done = 2 * n_networks + len(config.alphas), 0
    rows = []
    for method in METHODS:
        best: dict[str, Any] | None = None
        tries = _linear_fits if method == "linear" else _network_fits
        seconds = []
        for options, fitted, per_epoch in tries(config, method, parts[0]):
            n_done += 1
            if on_progress is not None:
                on_progress(n_done / n_all)
            seconds.append(per_epoch)
            valid = judge(parts[1], *fitted(parts[1])).hamming
            if best is None or valid < best["valid_hamming"]:
                best = {"options": options, "valid_hamming": valid, "fitted": fitted}
        assert best is not None
        test = judge(parts[2], *best.pop("fitted")(parts[2]))
        rows.append({"method": method, **best, "test": test, "seconds": min(seconds)})
    return [_as_row(row, rows) for row in rows]


def _as_row(row: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return numbers alone, with the loss less that of the likelihood, paired by pair."""
    test, first = row["test"], rows[0]["test"]
    gaps = test.losses - first.losses
    spread = 1.96 * gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
    return {
        "method": row["method"],
        "options": row["options"],
        "valid_hamming": row["valid_hamming"],
        "hamming": test.hamming,
        "more_than_likelihood": [float(gaps.mean() - spread), float(gaps.mean() + spread)],
        "brier": test.brier,
        "calibration_error": test.calibration_error,
        "seconds_per_epoch": row["seconds"],
    }


Fits = Iterator[tuple[dict[str, float], Callable[[Sequence[Pair]], Any], float]]


def _network_fits(config: Config, loss: str, pairs: Sequence[Pair]) -> Fits:
    from reproduce.experiments.edge_network import pad, probabilities, train

    data = pad(pairs)
    for rate, decay in itertools.product(config.rates, config.decays):
        fit = train(
            data,
            loss,
            width=config.width,
            rate=rate,
            decay=decay,
            n_epochs=config.n_epochs,
            batch_size=config.batch_size,
            seed=config.seed,
        )

        def predict(some: Sequence[Pair], fit: Any = fit) -> Any:
            found = probabilities(fit.network, loss, pad(some))
            edges, left, right = (part.double().numpy() for part in found)
            sizes = [(len(pair.left), len(pair.right)) for pair in some]
            return (
                [edges[g, :n, :k] for g, (n, k) in enumerate(sizes)],
                [left[g, :n] for g, (n, _) in enumerate(sizes)],
                [right[g, :k] for g, (_, k) in enumerate(sizes)],
            )

        yield {"rate": rate, "decay": decay}, predict, min(fit.seconds)


def _linear_fits(config: Config, _: str, pairs: Sequence[Pair]) -> Fits:
    graphs = [as_graph(pair) for pair in pairs]
    truths = [pair.matching for pair in pairs]
    for alpha in config.alphas:
        start = time.process_time()
        model = pm.MAPMatching(alpha=alpha).fit(graphs, truths)
        per_pass = (time.process_time() - start) / max(model.n_iter_, 1)

        def predict(some: Sequence[Pair], model: Any = model) -> Any:
            each = [model.distribution(as_graph(pair)) for pair in some]
            return (
                [
                    one.marginals.reshape(len(pair.left), -1)
                    for one, pair in zip(each, some, strict=True)
                ],
                [one.unmatched_left for one in each],
                [one.unmatched_right for one in each],
            )

        yield {"alpha": alpha}, predict, per_pass


def as_graph(pair: Pair) -> pm.BipartiteGraph:
    """Return a pair as a linear model sees it."""
    left, right = np.sqrt(pair.left), np.sqrt(pair.right)
    n, k = len(left), len(right)
    i, j = np.divmod(np.arange(n * k), k)
    return pm.BipartiteGraph.from_edges(
        i,
        j,
        np.abs(left[i] - right[j]),
        n,
        k,
        left_features=left,
        right_features=right,
    )
