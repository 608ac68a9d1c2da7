"""What learned weights are worth on the CMU House when test pairs share less with training.

    in-turn           as in `cmu_house`: neighbours of every test frame are learned from
    early-late        early frames to learn from, the following ones to choose alpha by,
                      late ones to test on; no frame in two parts.  At gaps of 50 and 90
                      the film is too short, and only blocks of pairs follow each other:
                      left frames of the test lie before right frames learned from
    early-late-mixed  the same test pairs; early and following pairs are dealt to learning
                      and choosing in turn, so that alpha is chosen on neighbours
    near-far          early frames a few apart to learn from, the following ones as near to
                      choose by, late frames much further apart to test on
    same-landmarks    half of the landmarks, frames in turn
    new-landmarks     the same test pairs; the other half to learn from (8) and to choose
                      by (7)

    unweighted        coef = -1 for every feature, no learning
    map               maximum a posteriori, drawn to 0
    map_falling       the same, no coefficient above 0
    map_prior         drawn to -1, the unweighted score
    map_scaled        drawn to the multiple of it that fits the training pairs best
    max_margin        structured hinge, drawn to 0
    max_margin_prior  drawn to -1
    boosted           boosted trees, by the likelihood of matchings

All choose by the Hamming loss on the validation pairs; of equally good alphas the
strongest counts.  Graphs of 30 landmarks have gradients of the Bethe approximation, halves
exact ones.
"""

import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import check_count
from permatch.errors import InvalidOptionError
from permatch.graphs import BipartiteGraph
from permatch.inference import Bethe
from permatch.pages.demo_learning import Pairs, quiet_fit
from reproduce.experiments.claims import Effect, effect_of
from reproduce.experiments.house_fits import Fit, learn_map, learn_margin, measure
from reproduce.experiments.house_frames import PARTS, House, load_house
from reproduce.experiments.matching_trees import TreeGrid, learn_trees
from reproduce.experiments.rows import Plan, Row, experiment, fingerprint

#: What together names a row.
KEY = ("config", "protocol", "gap", "repeat", "method")
IN_FILM = ("in-turn", "early-late", "early-late-mixed", "near-far")
ON_HALVES = ("same-landmarks", "new-landmarks")
PROTOCOLS = (*IN_FILM, *ON_HALVES)
METHODS = (
    "unweighted",
    "map",
    "map_falling",
    "map_prior",
    "map_scaled",
    "max_margin",
    "max_margin_prior",
    "boosted",
)

#: MAP with whichever prior has the least validation loss; of equally good ones the first.
CHOSEN = "map_chosen"
_PRIORS = ("map_prior", "map_scaled", "map")

#: So strong at the upper end that nothing is left but what the penalty draws to.
MAP_ALPHAS = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3)
MARGIN_ALPHAS = (1e5, 1e4, 3000.0, 1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)

#: Where near-far cuts the film: frames to learn from, to choose by, and to test on.
_CUTS = (0.27, 0.45)

# Penalty of the one coefficient that scales the unweighted score: next to none.
_SCALE_ALPHA = 1e-3

_SCHEMA = 3

Frames = list[tuple[int, int]]


@dataclass(frozen=True)
class Config:
    """What the experiment depends on.

    Parameters
    ----------
    protocols : tuple of str
        Some of `PROTOCOLS`.
    gaps : tuple of int
        Frames between the two of a pair.
    near : int
        Frames between the two of a pair that near-far learns from.
    far_gaps : tuple of int
        Gaps that it tests on.
    n_halves : int
        Times that the landmarks are cut into halves.
    map_alphas, margin_alphas : tuple of float
        Strengths of the penalty to choose from.
    trees : TreeGrid
        What boosted trees are chosen from.
    map_tol, margin_tol : float
        As in `cmu_house`.
    seed : int
        Seed of the halves.
    data : str, optional
        Where to look for the frames; None looks where ``PERMATCH_DATA`` says.
    """

    protocols: tuple[str, ...] = PROTOCOLS
    gaps: tuple[int, ...] = (10, 50, 90)
    near: int = 10
    far_gaps: tuple[int, ...] = (10, 30, 50)
    n_halves: int = 5
    map_alphas: tuple[float, ...] = MAP_ALPHAS
    margin_alphas: tuple[float, ...] = MARGIN_ALPHAS
    trees: TreeGrid = field(default_factory=TreeGrid)
    map_tol: float = 1e-3
    margin_tol: float = 1e-3
    seed: int = 0
    data: str | None = None

    def __post_init__(self) -> None:
        check_count(self.seed, "seed", 0)
        check_count(self.near, "near", 0)
        check_count(self.n_halves, "n_halves", 1)
        for name in ("gaps", "far_gaps"):
            for gap in getattr(self, name):
                check_count(gap, f"every entry of {name}", 0)
        if not self.protocols or not set(self.protocols) <= set(PROTOCOLS):
            raise InvalidOptionError(
                f"protocols must be some of {PROTOCOLS}; got {self.protocols}."
            )

    @classmethod
    def tiny(cls, data: str | None = None) -> "Config":
        """Return a configuration of a few seconds on a small house, for tests."""
        return cls(
            gaps=(2, 9),
            near=2,
            far_gaps=(4,),
            n_halves=2,
            map_alphas=(100.0, 1.0, 0.1),
            margin_alphas=(100.0, 1.0, 0.1),
            trees=TreeGrid.tiny(),
            data=data,
        )

    @classmethod
    def quick(cls, data: str | None = None) -> "Config":
        """Return a smaller experiment of the same kind, a minute or two."""
        return cls(
            gaps=(50, 90),
            far_gaps=(50,),
            n_halves=2,
            map_alphas=(1000.0, 10.0, 1.0, 0.1, 0.01),
            margin_alphas=(1e4, 100.0, 10.0, 1.0),
            trees=TreeGrid((4,), n_rounds=60, patience=10),
            data=data,
        )

    def fingerprint(self, house: House) -> str:
        """Return what names this configuration, on this data, in its rows."""
        left_out = ("protocols", "gaps", "far_gaps", "n_halves", "data")
        return fingerprint(asdict(self), left_out, schema=_SCHEMA, content=house.digest)

    def tasks(self) -> list[tuple[str, int, int, str]]:
        """Return protocol, gap, repeat and method of all rows."""
        return [
            (protocol, gap, repeat, method)
            for protocol in self.protocols
            for gap in (self.far_gaps if protocol == "near-far" else self.gaps)
            for repeat in range(self.n_halves if protocol in ON_HALVES else 1)
            for method in METHODS
        ]


@experiment(KEY)
def run(config: Config, n_jobs: int | None = None) -> Plan:
    """Yield the rows of the experiment as they are known.

    Yields
    ------
    dict
        ``config``, ``protocol``, ``gap``, ``repeat``, ``method``, ``hamming_loss``, its
        ``standard_error`` over test pairs, ``n_test``, ``losses`` of the single pairs,
        ``n_train`` and ``n_validation``; of linear scores ``why``, see `explain`; of
        learners what `house_fits.Fit` or `matching_trees.TreeFit` say of the choice and, of
        linear ones, ``test_path``, the loss on the test pairs at every alpha; of unweighted
        features their ``validation_loss``.

    Notes
    -----
    Some ten minutes on a core with the default configuration.
    """
    house = load_house(config.data)
    for protocol, gap, *_ in config.tasks():
        frames_of(protocol, len(house.contexts), gap, config.near)  # before anything runs

    @lru_cache(maxsize=1)
    def deal(protocol: str, gap: int, repeat: int) -> dict[str, Pairs]:
        return pairs_of(config, house, protocol, gap, repeat)

    def row(key: Row, _: Any) -> Row:
        parts = deal(key["protocol"], key["gap"], key["repeat"])
        engine = "auto" if key["protocol"] in ON_HALVES else Bethe()
        with quiet_fit(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the row says what they say
            return _measure(config, parts, key["method"], engine, n_jobs)

    return Plan(
        config.fingerprint(house),
        config.tasks(),
        row,
        lambda key: 0.2 if key["protocol"] in ON_HALVES else 1.0,
    )


# ---- the protocols


def frames_of(protocol: str, n_frames: int, gap: int, near: int) -> dict[str, Frames]:
    """Return the frames of the pairs of every part, in the order of time.

    Parameters
    ----------
    protocol : str
        One of `PROTOCOLS`.
    n_frames : int
        Frames of the film.
    gap, near : int
        Frames between the two of a pair; of near-far, when testing and when learning.

    Returns
    -------
    dict
        Pairs of frame numbers for ``"train"``, ``"validation"`` and ``"test"``.

    Raises
    ------
    InvalidOptionError
        If a part would have no pair.

    Notes
    -----
    Early-late needs three parts without a common frame.  They are thirds of the film or,
    where frames are so far apart that this leaves fewer pairs, thirds of those pairs whose
    first frames all come before any second one; those of the test then come before the
    second ones of training.
    """
    if protocol == "near-far":
        cuts = [0, *(round(cut * n_frames) for cut in _CUTS), n_frames]
        gaps = near, near, gap
        parts = [_inside(a, b, g) for a, b, g in zip(cuts, cuts[1:], gaps, strict=False)]
    elif protocol.startswith("early-late"):
        third = n_frames // 3
        parts = [_inside(k * third, (k + 1) * third, gap) for k in range(3)]
        n = min(gap, n_frames - gap) // 3
        if n > len(parts[0]):
            parts = [[(i, i + gap) for i in range(k * n, (k + 1) * n)] for k in range(3)]
        if protocol == "early-late-mixed":
            early = parts[0] + parts[1]
            parts[:2] = early[::2], early[1::2]
    else:
        every = [(i, i + gap) for i in range(n_frames - gap)]
        parts = [every[k::3] for k in range(3)]
    if not all(parts):
        raise InvalidOptionError(
            f"every part of {protocol} needs a pair of frames; a gap of {gap} leaves none "
            f"of {n_frames} frames. Use smaller gaps."
        )
    return dict(zip(PARTS, parts, strict=True))


def _inside(first: int, last: int, gap: int) -> Frames:
    """Return the pairs with both frames from `first` on and before `last`."""
    return [(i, i + gap) for i in range(first, last - gap)]


def landmarks_of(protocol: str, size: int, seed: Sequence[int]) -> dict[str, IntArray]:
    """Return the landmarks of every part: half of them, the same or others, or all."""
    if protocol not in ON_HALVES:
        return {part: np.arange(size) for part in PARTS}
    order = np.random.default_rng(seed).permutation(size)
    test, rest = np.sort(order[: size // 2]), order[size // 2 :]
    n = -(-len(rest) // 2)
    own = [rest[:n], rest[n:]] if protocol == "new-landmarks" else [test, test]
    return dict(zip(PARTS, [*map(np.sort, own), test], strict=True))


def pairs_of(
    config: Config, house: House, protocol: str, gap: int, repeat: int
) -> dict[str, Pairs]:
    """Return the graphs of every part."""
    frames = frames_of(protocol, len(house.contexts), gap, config.near)
    landmarks = landmarks_of(protocol, house.size, (config.seed, repeat))
    return {part: house.between(frames[part], landmarks[part]) for part in PARTS}


# ---- the methods


def _measure(
    config: Config, parts: dict[str, Pairs], method: str, engine: Any, n_jobs: int | None
) -> Row:
    """Return the losses of one method, what it chose and why that is what it is."""
    train, validation, test = (parts[part] for part in PARTS)
    counts = {"n_train": len(train.graphs), "n_validation": len(validation.graphs)}
    unweighted = -np.ones(train.graphs[0].n_features)
    if method == "unweighted":
        losses = {"validation_loss": validation.loss(unweighted)}
        why = {"why": explain(train, test, unweighted)}
        return measure(test, unweighted) | counts | losses | why
    began = time.perf_counter()
    if method == "boosted":
        fit = learn_trees(method, config.trees, train, validation, engine, n_jobs=n_jobs)
        return _of_losses(fit.losses(test)) | counts | fit.to_row()
    linear = _learn(config, train, validation, method, engine, n_jobs)
    seconds = round(time.perf_counter() - began, 3)
    alphas = [alpha for alpha, _ in linear.path]
    losses = [test.loss(coef) for coef in linear.coef_path]
    return (
        measure(test, linear.coef)
        | linear.to_row()
        | counts
        | {"test_path": [list(step) for step in zip(alphas, losses, strict=True)]}
        | {"why": explain(train, test, linear.coef), "seconds": seconds}
    )


def _learn(
    config: Config,
    train: Pairs,
    validation: Pairs,
    method: str,
    engine: Any,
    n_jobs: int | None,
) -> Fit:
    prior = -1.0 if method.endswith("_prior") else 0.0
    if method.startswith("max_margin"):
        how = config.margin_alphas, config.margin_tol, n_jobs
        return learn_margin(train, validation, *how, prior_coef=prior)
    options: dict[str, Any] = {"prior_coef": prior, "budget": None}
    if method == "map_falling":
        options["bounds"] = "non-positive"
    elif method == "map_scaled":
        options["prior_coef"] = scale_of(train, engine, n_jobs)
    how = config.map_alphas, engine, config.map_tol, n_jobs
    return learn_map(train, validation, *how, **options)


def scale_of(train: Pairs, engine: Any, n_jobs: int | None) -> float:
    """Return the multiple of the sum of all features that fits the labels best."""
    from permatch.estimators import MAPMatching

    sums = [BipartiteGraph(g.features.sum(axis=2, keepdims=True)) for g in train.graphs]
    model = MAPMatching(_SCALE_ALPHA, engine=engine, budget=None, tol=1e-4, n_jobs=n_jobs)
    return float(model.fit(sums, train.matchings).coef_[0])


def explain(train: Pairs, test: Pairs, coef: FloatArray) -> Row:
    """Return what may be wrong with learned weights on the test pairs.

    Parameters
    ----------
    train, test : Pairs
        Pairs learned from and tested on.
    coef : ndarray of shape (d,)
        The weights.

    Returns
    -------
    dict
        ``share_beyond``, the share of all that test edges are scored by that comes from
        features above the largest value in training, ``share_beyond_true`` the same of
        true edges, in training and in testing, and ``loss_within``, the loss with test
        features cut off at the largest value of all edges; ``drift_train`` and
        ``drift_test``, how far apart the two nodes of a true edge are, in weighted
        features, as a share of the mean over all edges; ``n_rising`` coefficients above 0,
        their ``share_rising`` of all weights (times the spread of features in training),
        and ``loss_falling``, the loss with these set to 0; ``train_loss``.
    """
    learned = np.concatenate([_rows(graph) for graph in train.graphs])
    seen = np.concatenate([_rows(graph) for graph in test.graphs])
    top, spread = learned.max(axis=0), learned.std(axis=0)
    cut = [BipartiteGraph(np.minimum(graph.features, top)) for graph in test.graphs]
    weights = np.abs(coef) * spread
    all_weights = float(weights.sum())
    return {
        "share_beyond": _share_beyond(learned, seen, coef),
        "share_beyond_true": _share_beyond(_true_rows(train), _true_rows(test), coef),
        "drift_train": _drift(learned, _true_rows(train), coef),
        "drift_test": _drift(seen, _true_rows(test), coef),
        "loss_within": Pairs(cut, test.matchings).loss(coef),
        "n_rising": int((coef > 0).sum()),
        "share_rising": float(weights[coef > 0].sum()) / all_weights
        if all_weights
        else 0.0,
        "loss_falling": test.loss(np.minimum(coef, 0.0)),
        "train_loss": train.loss(coef),
    }


def _share_beyond(learned: FloatArray, seen: FloatArray, coef: FloatArray) -> float:
    """Return the share of weighted features that are above all that was learned from."""
    mass = np.abs(coef) * seen
    total = float(mass.sum())
    return float(mass[seen > learned.max(axis=0)].sum()) / total if total else 0.0


def _drift(every: FloatArray, true: FloatArray, coef: FloatArray) -> float:
    """Return the weighted distance of true edges over that of all edges."""
    apart = float((every @ np.abs(coef)).mean())
    return float((true @ np.abs(coef)).mean()) / apart if apart else 0.0


def _true_rows(pairs: Pairs) -> FloatArray:
    """Return the features of all true edges."""
    found = [
        graph.features[np.arange(len(matching)), matching]
        for graph, matching in zip(*pairs, strict=True)
    ]
    return np.concatenate(found)


def _rows(graph: BipartiteGraph) -> FloatArray:
    return graph.features.reshape(-1, graph.n_features)


def _of_losses(losses: list[float]) -> Row:
    error = float(np.std(losses, ddof=1) / np.sqrt(len(losses))) if losses[1:] else None
    return {
        "hamming_loss": float(np.mean(losses)),
        "standard_error": error,
        "n_test": len(losses),
        "losses": losses,
    }


# ---- what came out


def summarise(rows: Iterable[Row]) -> list[Row]:
    """Return a line per protocol, gap and method, means over repeats.

    Parameters
    ----------
    rows : iterable of dict
        Rows of one configuration.

    Returns
    -------
    list of dict
        ``protocol``, ``gap``, ``method``, ``loss``, ``validation_loss``, ``n_test``,
        ``n_train`` and ``n_validation`` pairs, ``n_repeats``; of learners ``saved``, what
        the method loses less than unweighted features, an effect as in JSON; of linear
        scores ``why``; ``alphas`` by repeat, ``test_path``, the loss on the test pairs by
        alpha, and ``best_alpha``, the least of these, which nobody knows beforehand; of
        trees what was ``chosen``.  One more method is `CHOSEN`, with ``priors`` by repeat.
    """
    rows = list(rows)
    groups: dict[tuple[str, int, str], list[Row]] = {}
    for row in [*rows, *choose_priors(rows)]:
        key = row["protocol"], row["gap"], row["method"]
        groups.setdefault(key, []).append(row)
    lines = []
    for (protocol, gap, method), own in groups.items():
        line: Row = {"protocol": protocol, "gap": gap, "method": method}
        line["loss"] = float(np.mean([row["hamming_loss"] for row in own]))
        line["n_test"], line["n_repeats"] = own[0]["n_test"], len(own)
        line["n_train"], line["n_validation"] = own[0]["n_train"], own[0]["n_validation"]
        line["validation_loss"] = float(np.mean([row["validation_loss"] for row in own]))
        if method != METHODS[0]:
            rival = groups[protocol, gap, METHODS[0]]
            line["saved"] = saved(own, rival).to_json()
        if "why" in own[0]:
            line["why"] = {
                name: float(np.mean([row["why"][name] for row in own]))
                for name in own[0]["why"]
            }
        if method == CHOSEN:
            line["priors"] = [row["prior"] for row in own]
        elif "test_path" in own[0]:
            line["alphas"] = [row["alpha"] for row in own]
            curve = np.mean([[loss for _, loss in row["test_path"]] for row in own], axis=0)
            line["test_path"] = [
                [alpha, float(loss)]
                for (alpha, _), loss in zip(own[0]["test_path"], curve, strict=True)
            ]
            line["best_alpha"] = float(curve.min())
        if "chosen" in own[0]:
            line["chosen"] = [row["chosen"] for row in own]
        lines.append(line)
    return lines


def choose_priors(rows: Iterable[Row]) -> list[Row]:
    """Return rows of MAP with the prior that the validation pairs choose, `CHOSEN`.

    Of equally good ones the first of these counts: -1, its best multiple, 0.
    """
    found: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        if row["method"] in _PRIORS:
            key = tuple(row[name] for name in KEY[:-1])
            found.setdefault(key, {})[row["method"]] = row
    chosen = []
    for own in found.values():
        tried = [own[method] for method in _PRIORS if method in own]
        best = min(tried, key=lambda row: row["validation_loss"])
        chosen.append(best | {"method": CHOSEN, "prior": best["method"]})
    return chosen


def saved(own: Sequence[Row], rival: Sequence[Row]) -> Effect:
    """Return what a method loses less than another: by repeat, of one by test pair."""
    what = "Hamming loss that is saved"
    theirs = {row["repeat"]: row for row in rival}
    if len(own) > 1:
        both = [(theirs[row["repeat"]]["hamming_loss"], row["hamming_loss"]) for row in own]
        return effect_of([a - b for a, b in both], what)
    both = list(zip(theirs[own[0]["repeat"]]["losses"], own[0]["losses"], strict=True))
    return effect_of([a - b for a, b in both], what, "test pair")


def as_data(config: Config, rows: Iterable[Row], day: str) -> dict[str, Any]:
    """Return the results as plain numbers and text, without where the data was found."""
    options = asdict(config)
    options.pop("data")
    return {"date": day, "config": options, "summary": summarise(rows)}
