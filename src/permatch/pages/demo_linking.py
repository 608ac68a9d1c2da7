"""The first act of the demo: the members of two libraries, linked one-to-one.

A logistic regression, trained on one half of the people, says of every candidate pair of
the other half how likely it is that both records are the same person.  From these
probabilities, links are taken by a threshold, greedily, and by `permatch.link`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.datasets import load_registers
from permatch.features import Comparison, candidate_pairs, compare_pairs
from permatch.linking import Links, link

#: Features of a pair; none of them needs an optional package.
COMPARISONS = {
    "name": "tfidf",
    "street": "tfidf",
    "born": ["exact", Comparison("days", scale=365.25, cap=3652.5)],
}
METHODS = ("threshold 0.5", "greedy, threshold 0.5", "pm.link")
_SEED = 0


@dataclass(frozen=True, eq=False)
class Linking:
    """What the first act found.

    Attributes
    ----------
    numbers : dict
        Counts of records, candidate pairs and links, and the sum of the probabilities.
    rows : list of dict
        Per method: precision, recall, F1 and Brier score.
    example : list of dict
        The pairs of two people whose link only `permatch.link` finds: both records as text,
        both probabilities, and whether it is a link.
    """

    numbers: dict[str, Any]
    rows: list[dict[str, Any]]
    example: list[dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """Return counts, measures and the example, ready for JSON."""
        return {"numbers": self.numbers, "rows": self.rows, "example": self.example}


def run() -> Linking:
    """Link the two registers; all numbers are computed anew."""
    north, south, truth = load_registers()
    pairs = candidate_pairs(north, south, on=["name", "street"], id="id", n_neighbors=6)
    pairs = compare_pairs(pairs, north, south, COMPARISONS, id="id")
    known = set(zip(truth["north"], truth["south"], strict=True))
    half = _halves(north["id"], south["id"], known)
    of_left, of_right = (np.array([half[k] for k in pairs[s]]) for s in ("left", "right"))
    # Pairs of two halves would let the classifier see a person it is tested on.
    pairs = {name: values[of_left == of_right] for name, values in pairs.items()}
    of_pair = of_left[of_left == of_right]
    left, right = pairs["left"], pairs["right"]
    is_true = np.array([pair in known for pair in zip(left, right, strict=True)])
    chances = _classify(pairs, is_true, of_pair)
    links = link(
        {"north": left, "south": right, "probability": chances}, left="north", right="south"
    )
    is_greedy = greedy(left, right, chances) & (chances >= 0.5)
    taken = (chances >= 0.5, is_greedy, links["decision"] == "link")
    given = (chances, chances, links["probability"])
    rows = [
        {"method": name, **_measure(own, p, is_true, len(known))}
        for name, own, p in zip(METHODS, taken, given, strict=True)
    ]
    numbers = {
        "n_north": len(north["id"]),
        "n_south": len(south["id"]),
        "n_pairs": len(chances),
        "n_links": len(known),
        "sum_of_pairs": float(chances.sum()),
    }
    example = _example(links, is_true, is_greedy, (north, south))
    return Linking(numbers, rows, example)


def _halves(north: Any, south: Any, known: set[tuple[str, str]]) -> dict[str, int]:
    """Put every person into one of two halves, with both of their records."""
    rng = np.random.default_rng(_SEED)
    half = {name: int(rng.integers(2)) for name in [*north, *south]}
    return half | {b: half[a] for a, b in known}


def _classify(pairs: Any, labels: BoolArray, of_pair: IntArray) -> FloatArray:
    """Return the probability of every pair, by a model trained on the other half."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    names = [name for name in pairs if name not in ("left", "right")]
    features = np.column_stack([pairs[name] for name in names])
    chances = np.empty(len(labels))
    for part in (0, 1):
        own, other = of_pair == part, of_pair != part
        model = make_pipeline(StandardScaler(), LogisticRegression())
        model.fit(features[other], labels[other])
        chances[own] = model.predict_proba(features[own])[:, 1]
    return chances


def greedy(left: Any, right: Any, chances: FloatArray) -> BoolArray:
    """Take the most probable pair, strike out its records, and so on."""
    is_taken, used = np.zeros(len(chances), dtype=bool), set()
    for k in np.argsort(-chances, kind="stable").tolist():
        records = {("left", left[k]), ("right", right[k])}
        if not records & used:
            used |= records
            is_taken[k] = True
    return is_taken


def _measure(
    is_taken: BoolArray, chances: FloatArray, is_true: BoolArray, n_true: int
) -> dict[str, float]:
    n_taken, n_right = int(is_taken.sum()), int((is_taken & is_true).sum())
    return {
        "precision": n_right / n_taken,
        "recall": n_right / n_true,
        "f1": 2.0 * n_right / (n_taken + n_true),
        "brier": float(np.mean((chances - is_true) ** 2)),
    }


def _example(
    links: Links, is_true: BoolArray, is_greedy: BoolArray, tables: tuple[Any, Any]
) -> list[dict[str, Any]]:
    """Return the pairs of both records of a link that only `permatch.link` finds."""
    gain = links["probability"] - links["pair_probability"]
    is_found = is_true & ~is_greedy & (links["decision"] == "link")
    best = int(np.argmax(np.where(is_found, gain, -np.inf)))
    sides = ("north", "south")
    near = np.any([links[side] == links[side][best] for side in sides], axis=0)
    texts = [_texts(table) for table in tables]
    return [
        {
            "north": texts[0][links["north"][k]],
            "south": texts[1][links["south"][k]],
            "pair_probability": float(links["pair_probability"][k]),
            "probability": float(links["probability"][k]),
            "is_true": bool(is_true[k]),
        }
        for k in np.flatnonzero(near)[np.argsort(-links["probability"][near])][:4].tolist()
    ]


def _texts(table: Any) -> dict[Any, str]:
    """Return every record as one line of text, by its id."""
    names = ("name", "street", "born")
    lines = zip(*(table[name] for name in names), strict=True)
    texts = (", ".join(filter(None, cells)) for cells in lines)
    return dict(zip(table["id"], texts, strict=True))
