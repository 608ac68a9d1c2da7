"""Ways from candidate pairs to links: a pair classifier with rules, and permatch.

    classifier   logistic regression on the features of single pairs, tuned threshold
    greedy       its pairs above a tuned threshold, the most probable first, one-to-one
    assignment   the one-to-one links of the largest total probability, tuned threshold
    splink       `cluster_using_single_best_links` on the same probabilities
    link         `pm.link` on the same probabilities: no labels, no threshold
    calibrated   `pm.link`, slope and constant of the logit learned from training labels
    learned      `pm.link` with weights of the features learned from training labels, by
                 `MAPMatching`
    trees             LightGBM on the features of single pairs, tuned threshold
    trees_assignment  as assignment, on its probabilities
    trees_link        `pm.link` on its probabilities
    boosted           `pm.link` with trees grown by the likelihood of all links together,
                      `BoostedMatching`

All see the same candidates.  Thresholds, slope and constant are chosen on the training
pairs, with probabilities from a classifier that has not seen the records in question.  For
trees see `link_trees`.
"""

import logging
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import permatch as pm
from permatch._optional import require
from permatch._types import BoolArray, FloatArray, IntArray
from permatch.pages.demo_linking import greedy
from reproduce.experiments.bibliographies import FEATURES, Candidates
from reproduce.experiments.link_measures import best_threshold
from reproduce.experiments.link_trees import boosted_links, pair_trees

METHODS = (
    "classifier",
    "greedy",
    "assignment",
    "splink",
    "link",
    "calibrated",
    "learned",
    "trees",
    "trees_assignment",
    "trees_link",
    "boosted",
)

_N_FOLDS = 5
_LEFT, _RIGHT = "acm", "dblp"


@dataclass(frozen=True, eq=False)
class Answer:
    """What a method says of the test pairs: links, probabilities, and what it chose."""

    is_taken: BoolArray
    probability: FloatArray
    told: dict[str, Any]


def answers(
    train: Candidates, test: Candidates, rng: np.random.Generator
) -> dict[str, Answer]:
    """Return what every method says of the test pairs."""
    before = _out_of_fold(train, rng)
    after = _classifier().fit(train.features, train.is_link).predict_proba(test.features)
    p = after[:, 1]
    found = {"classifier": _above(p, best_threshold(before, train.is_link, train.n_links))}
    for name, rule in (("greedy", greedy), ("assignment", assignment)):
        taken = rule(train.left, train.right, before)
        cut = best_threshold(before[taken], train.is_link[taken], train.n_links)
        found[name] = _kept(p, rule(test.left, test.right, p), cut)
    # Without ties, links that are mutually the best, again and again, are the greedy ones,
    # so the best threshold is the same.
    cut = found["greedy"].told["threshold"]
    found["splink"] = _kept(p, single_best_links(test.left, test.right, p, cut), cut)
    found["link"] = _linked(test.table(p=p), probability="p")
    known = train.table(p=before, label=train.is_link)
    learn = partial(pm.fit_links, known, left=_LEFT, right=_RIGHT, label="label")
    found["calibrated"] = _linked(test.table(p=p), partial(learn, probability="p"))
    found["learned"] = _linked(test.table(), partial(learn, features=list(FEATURES)))
    return found | _by_trees(train, test, int(rng.integers(2**31)))


def _by_trees(train: Candidates, test: Candidates, seed: int) -> dict[str, Answer]:
    """Return what methods with boosted trees say of the test pairs."""
    trees = pair_trees(train, test, seed)
    before, p = trees.out_of_fold, trees.probability
    found = {"trees": _above(p, best_threshold(before, train.is_link, train.n_links))}
    taken = assignment(train.left, train.right, before)
    cut = best_threshold(before[taken], train.is_link[taken], train.n_links)
    found["trees_assignment"] = _kept(p, assignment(test.left, test.right, p), cut)
    found["trees_link"] = _linked(test.table(p=p), probability="p")
    for answer in found.values():
        answer.told.update(trees.chosen)
    boosted = boosted_links(train, seed)
    found["boosted"] = _linked(test.table(), lambda: boosted)
    chosen = {"num_leaves": boosted.num_leaves_, "n_rounds": boosted.n_rounds_}
    found["boosted"].told.update({name: int(value) for name, value in chosen.items()})
    return found


def assignment(left: IntArray, right: IntArray, values: FloatArray) -> BoolArray:
    """Take the one-to-one pairs whose values have the largest sum."""
    rows, i = np.unique(left, return_inverse=True)
    columns, j = np.unique(right, return_inverse=True)
    edges = pm.EdgeScores(i, j, values, n_left=len(rows), n_right=len(columns))
    matching = pm.best_matching(edges, unmatched_left=0.0, unmatched_right=0.0)
    return matching[i] == j


def single_best_links(
    left: IntArray, right: IntArray, values: FloatArray, threshold: float
) -> BoolArray:
    """Take what splink links one-to-one."""
    splink = require("splink", "reproduce", what="the comparison with splink")
    pandas = require("pandas", "tables")
    logging.getLogger("splink").setLevel(logging.WARNING)
    database = splink.DuckDBAPI()
    tables = [
        database.register(
            pandas.DataFrame({"unique_id": np.unique(ids)}), dataset_display_name=name
        )
        for name, ids in ((_LEFT, left), (_RIGHT, right))
    ]
    settings = splink.SettingsCreator(
        link_type="link_only", comparisons=[], blocking_rules_to_generate_predictions=[]
    )
    linker = splink.Linker(tables, settings, log_level=logging.WARNING)
    pairs = pandas.DataFrame(
        {
            "source_dataset_l": _LEFT,
            "source_dataset_r": _RIGHT,
            "unique_id_l": left,
            "unique_id_r": right,
            "match_probability": values,
        }
    )
    predicted = linker.table_management.register_table_predict(database.register(pairs))
    clusters = linker.clustering.cluster_using_single_best_links(
        predicted,
        duplicate_free_datasets=[_LEFT, _RIGHT],
        threshold_match_probability=threshold,
    ).as_pandas_dataframe()
    of_left, of_right = (
        clusters[clusters.source_dataset == name].set_index("unique_id").cluster_id
        for name in (_LEFT, _RIGHT)
    )
    return of_left.loc[left].to_numpy() == of_right.loc[right].to_numpy()


def _classifier() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def _out_of_fold(train: Candidates, rng: np.random.Generator) -> FloatArray:
    """Return probabilities from classifiers trained without either record of a pair."""
    fold_of_left = rng.integers(0, _N_FOLDS, int(train.left.max()) + 1)
    fold_of_right = rng.integers(0, _N_FOLDS, int(train.right.max()) + 1)
    is_link = train.is_link
    fold_of_right[train.right[is_link]] = fold_of_left[train.left[is_link]]
    of_left, of_right = fold_of_left[train.left], fold_of_right[train.right]
    p = np.empty(len(train))
    for fold in range(_N_FOLDS):
        is_seen = (of_left != fold) & (of_right != fold)
        model = _classifier().fit(train.features[is_seen], is_link[is_seen])
        held_out = of_left == fold
        p[held_out] = model.predict_proba(train.features[held_out])[:, 1]
    return p


def _above(p: FloatArray, threshold: float) -> Answer:
    return Answer(p >= threshold, p, {"threshold": threshold})


def _kept(p: FloatArray, is_chosen: BoolArray, threshold: float) -> Answer:
    """Return the chosen pairs above a threshold; what was not chosen has probability 0."""
    is_taken = is_chosen & (p >= threshold)
    return Answer(is_taken, np.where(is_taken, p, 0.0), {"threshold": threshold})


def _linked(test: Any, model: Any = None, **options: Any) -> Answer:
    """Return what `pm.link` says, with its widest interval and all that was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = model and model()
        links = pm.link(test, left=_LEFT, right=_RIGHT, model=fitted, **options)
    told = {
        "offset": links.offset,
        "share_exact": float(np.mean(links["is_exact"])),
        "widest": float(np.max(links["high"] - links["low"], initial=0.0)),
        "n_review": int(np.sum(links["decision"] == "review")),
        "warnings": [str(one.message) for one in caught],
    }
    return Answer(links["decision"] == "link", links["probability"], told)
