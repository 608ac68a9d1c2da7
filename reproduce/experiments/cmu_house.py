"""Hamming loss against the gap between two frames of the CMU House.

For every gap, the learners see the training pairs, choose alpha by the Hamming loss on the
validation pairs and are tested once.  Scores are linear in the squared differences of shape
contexts.

    unweighted   coef = -1 for every feature, no learning
    map          maximum a posteriori, gradients of the Bethe approximation
    map_drawn    maximum a posteriori, gradients from weighted draws (nesting)
    map_exact    maximum a posteriori, exact gradients; on a GPU only
    max_margin   structured hinge with the Hamming loss

On a processor, graphs of 30 landmarks are too large for an exact likelihood in every step
of a fit.  How far the Bethe approximation is off where its fit ended is measured on some of
the test pairs, against draws that come with standard errors.
"""

import time
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np

from permatch._validation import check_choice, check_count
from permatch.errors import InvalidOptionError
from permatch.inference import Bethe, GlynnCuda, Nesting
from permatch.pages.demo_learning import quiet_fit
from reproduce.experiments.house_fits import (
    Fit,
    check_marginals,
    learn_map,
    learn_margin,
    measure,
)
from reproduce.experiments.house_frames import House, load_house
from reproduce.experiments.rows import Plan, Row, experiment, fingerprint

#: What together names a row.
KEY = ("config", "gap", "method")
METHODS = ("unweighted", "map", "map_drawn", "max_margin")
ON_GPU = ("map_exact",)

#: Half decades, so wide that validation seldom chooses the first or the last.
MAP_ALPHAS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4)
MARGIN_ALPHAS = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 3e-3)

#: Raised whenever rows of before can no longer be compared with new ones.
_SCHEMA = 4

# Work of a method as a multiple of that of MAP.
_COSTS = {"unweighted": 0.01}


@dataclass(frozen=True)
class Config:
    """What the experiment depends on.

    Parameters
    ----------
    gaps : tuple of int
        Frames between the two frames of a pair.
    map_alphas, margin_alphas : tuple of float
        Strengths of the penalty that the two learners choose from.
    map_tol : float
        Largest entry of the gradient at the end of a fit.
    margin_tol : float
        Duality gap at the end of a fit, relative to the objective.
    n_draws : int
        Draws per graph at the end of a fit with drawn gradients.
    n_checked : int
        Test pairs, per gap, whose Bethe marginals are compared with drawn ones.
    check_tol : float
        Error of the drawn marginals.
    seed : int
        Seed of all draws; nothing else is random.
    data : str, optional
        Where to look for the frames; None looks where ``PERMATCH_DATA`` says.
    device : {"cpu", "cuda"}
        With "cuda", one more method is fitted: with exact gradients.
    """

    gaps: tuple[int, ...] = (0, 10, 20, 30, 40, 50, 60, 70, 80, 90)
    map_alphas: tuple[float, ...] = MAP_ALPHAS
    margin_alphas: tuple[float, ...] = MARGIN_ALPHAS
    map_tol: float = 1e-3
    margin_tol: float = 1e-3
    n_draws: int = 1024
    n_checked: int = 3
    check_tol: float = 0.01
    seed: int = 0
    data: str | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_count(self.seed, "seed", 0)
        check_choice(self.device, "device", ("cpu", "cuda"))
        check_count(self.n_draws, "n_draws", 1)
        check_count(self.n_checked, "n_checked", 0)
        for name in ("gaps", "map_alphas", "margin_alphas"):
            values = tuple(getattr(self, name))
            least = 0 if name == "gaps" else np.nextafter(0, 1)
            if not values or not all(value >= least for value in values):
                raise InvalidOptionError(
                    f"{name} must contain at least one number, all "
                    f"{'of at least' if name == 'gaps' else 'above'} 0; got {values}."
                )
            object.__setattr__(self, name, values)
        for gap in self.gaps:
            check_count(gap, "every entry of gaps", 0)

    @classmethod
    def tiny(cls, data: str | None = None) -> "Config":
        """Return a configuration of a second or two on a small house, for tests."""
        return cls(
            gaps=(2, 6),
            map_alphas=(1.0, 0.1, 0.01),
            margin_alphas=(10.0, 1.0, 0.1),
            n_draws=256,
            n_checked=1,
            data=data,
        )

    @classmethod
    def quick(cls, data: str | None = None) -> "Config":
        """Return a smaller experiment of the same kind, about a minute."""
        return cls(
            gaps=(50, 90),
            map_alphas=(1.0, 0.1, 0.01, 1e-3),
            margin_alphas=(30.0, 3.0, 0.3, 0.03),
            n_draws=1024,
            n_checked=1,
            data=data,
        )

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that are compared."""
        return METHODS + (ON_GPU if self.device == "cuda" else ())

    def fingerprint(self, house: House) -> str:
        """Return what names this configuration, on this data, in its rows.

        Gaps and devices are left out, since rows are named by gap and method, and so is
        the place where the data was found, since it is named by its content.
        """
        left_out = ("gaps", "data", "device")
        return fingerprint(asdict(self), left_out, schema=_SCHEMA, content=house.digest)


@experiment(KEY)
def run(config: Config, n_jobs: int | None = None) -> Plan:
    """Yield the rows of the experiment as they are known.

    Yields
    ------
    dict
        ``config``, ``gap``, ``method``, ``hamming_loss``, its ``standard_error`` over test
        pairs, ``n_test``, ``losses`` of the single pairs; for learners ``n_train``,
        ``alpha``, ``is_edge`` (whether it is the first or last one tried),
        ``validation_loss``, ``coef``, ``path`` (alphas and their validation losses),
        ``n_evaluations`` of the whole path, ``is_converged`` and ``seconds``; for MAP
        ``gradient_error``, None with Bethe gradients, and with these ``check``, how far
        their marginals are off.

    Notes
    -----
    A few minutes on two cores with the default configuration.
    """
    house = load_house(config.data)
    n_frames = len(house.contexts)
    if max(config.gaps) + 3 > n_frames:
        raise InvalidOptionError(
            f"gaps must be at most {n_frames - 3} for {n_frames} frames, so that there is "
            f"a pair each for training, validation and testing; got {max(config.gaps)}."
        )
    return Plan(
        config.fingerprint(house),
        [(gap, method) for gap in config.gaps for method in config.methods],
        lambda key, show: _measure(config, house, key, n_jobs),
        lambda key: (n_frames - key["gap"]) * _COSTS.get(key["method"], 1.0),
    )


def summarise(rows: Iterable[Row]) -> list[Row]:
    """Return the figures of every gap side by side.

    Parameters
    ----------
    rows : iterable of dict
        Rows of one configuration.

    Returns
    -------
    list of dict
        By gap: ``gap``, ``n_train``, ``n_test``; for every method its loss under its own
        name and the standard error as ``..._error``; for learners ``..._alpha`` and
        ``..._seconds``; what the check found as ``check_...``.
    """
    lines: dict[int, Row] = {}
    for row in rows:
        line = lines.setdefault(row["gap"], {"gap": row["gap"]})
        method = row["method"]
        line["n_test"] = row["n_test"]
        line[method], line[f"{method}_error"] = row["hamming_loss"], row["standard_error"]
        if "alpha" in row:
            line["n_train"] = row["n_train"]
            line[f"{method}_alpha"] = row["alpha"]
            line[f"{method}_seconds"] = row["seconds"]
        if row.get("check"):
            line |= {f"check_{name}": value for name, value in row["check"].items()}
    return [lines[gap] for gap in sorted(lines)]


def _measure(config: Config, house: House, key: Row, n_jobs: int | None) -> Row:
    """Return the losses of one method at one gap, and what they took."""
    gap, method = key["gap"], key["method"]
    test = house.pairs(gap, "test")
    if method == "unweighted":
        return measure(test, -np.ones(house.contexts.shape[2]))
    start = time.perf_counter()
    with quiet_fit():
        warnings.simplefilter("ignore")  # the row says what they say
        fit = _learn(config, house, gap, method, n_jobs)
    seconds = round(time.perf_counter() - start, 3)
    row = measure(test, fit.coef) | fit.to_row() | {"seconds": seconds}
    if method == "map" and config.n_checked:
        scores = [graph.scores(fit.coef) for graph in test.graphs[: config.n_checked]]
        drawn = Nesting(tol=config.check_tol, random_state=config.seed)
        row["check"] = check_marginals(np.array(scores), Bethe(), drawn, n_jobs)
    return row


def _learn(config: Config, house: House, gap: int, method: str, n_jobs: int | None) -> Fit:
    train, validation = house.pairs(gap, "train"), house.pairs(gap, "validation")
    if method == "max_margin":
        alphas = config.margin_alphas
        return learn_margin(train, validation, alphas, config.margin_tol, n_jobs)
    engine = Bethe()
    if method == "map_exact":
        engine = GlynnCuda()
    elif method == "map_drawn":
        engine = Nesting(n_samples=config.n_draws, random_state=config.seed)
    return learn_map(train, validation, config.map_alphas, engine, config.map_tol, n_jobs)
