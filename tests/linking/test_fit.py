"""Learning to link from labelled pairs."""

import numpy as np
import pytest

import permatch as pm
from permatch.datasets import read_edge_table
from permatch.errors import InvalidOptionError, NaNFeatureError, TableError
from permatch.linking.models import model_columns, model_odds
from permatch.linking.pairs import PairRoles, read_pairs


def labelled(seed=0, n=30, p=0.6):
    """Pairs of n x n records, a share p of which have partners, with a noisy score."""
    rng = np.random.default_rng(seed)
    partner = np.where(rng.random(n) < p, rng.permutation(n), -1)
    pairs = {(i, j) for i, j in enumerate(partner) if j >= 0}
    pairs |= {(i, int(rng.integers(n))) for i in range(n) for _ in range(2)}
    left, right = np.array(sorted(pairs)).T
    is_link = partner[left] == right
    score = 4.0 * is_link - 2.5 + rng.normal(size=len(left))
    return {
        "left": [f"a{i}" for i in left],
        "right": [f"b{j}" for j in right],
        "label": is_link.astype(int),
        "score": score,
        "noise": rng.normal(size=len(left)),
    }


def chance(score):
    return 1.0 / (1.0 + np.exp(-score))


def test_it_is_the_fit_of_one_graph():
    pairs = labelled()
    model = pm.fit_links(pairs)
    table = read_edge_table(pairs)
    same = pm.MAPMatching(1.0, unmatched="any", tol=1e-4).fit(table.graphs, table.matchings)
    assert type(model) is pm.MAPMatching
    assert model.feature_names_ == ["score", "noise"]
    np.testing.assert_allclose(model.coef_, same.coef_)
    assert model.unmatched_ == "any"


def test_a_probability_is_learned_from_by_its_log_odds():
    pairs = labelled()
    pairs["p"] = chance(pairs["score"])
    by_score = pm.fit_links(pairs, score="score")
    by_chance = pm.fit_links(pairs, probability="p")
    by_weight = pm.fit_links(pairs | {"w": pairs["score"] / np.log(2)}, weight="w")
    assert by_chance.feature_names_ == ["logit(p)"]
    np.testing.assert_allclose(by_chance.coef_, by_score.coef_, rtol=1e-6)
    np.testing.assert_allclose(by_weight.coef_, by_score.coef_ * np.log(2), rtol=1e-6)


def test_certain_pairs_stay_finite():
    pairs = labelled()
    p = chance(pairs["score"])
    p[pairs["label"] == 1], p[0] = 1.0, 0.0
    pairs["label"][0] = 0
    model = pm.fit_links(pairs | {"p": p}, probability="p")
    assert np.isfinite(model.coef_).all()


def test_the_number_of_links_is_right_on_the_training_pairs():
    pairs = labelled()
    model = pm.fit_links(pairs, score="score", tol=1e-7)
    table = read_edge_table(pairs, features=["score"])
    (chances,) = model.predict_marginals(table.graphs)
    assert chances.sum() == pytest.approx(pairs["label"].sum(), abs=1e-4)


def test_what_is_not_known_is_left_out():
    pairs = labelled()
    labels = [str(value) for value in pairs["label"]]
    hidden = [value if k % 3 else "" for k, value in enumerate(labels)]
    model = pm.fit_links(pairs | {"label": hidden}, score="score")
    assert not model.is_convex_
    assert model.coef_[0] > 0
    assert "are expected to have no partner" in model.summary_
    n_blank = hidden.count("")
    assert f"\n{len(hidden) - n_blank} pairs are labelled.\n" in model.summary_


def test_features_that_were_not_named_are_listed():
    pairs = labelled()
    pairs |= {"row": np.arange(len(pairs["left"])), "name": pairs["left"]}
    summary = pm.fit_links(pairs).summary_
    assert "\nFeatures, all other numeric columns: score, noise, row.\n" in summary
    assert "\nNot used: name.\n" in summary
    assert "Features" not in pm.fit_links(pairs, features=["score"]).summary_


def test_the_summary_counts_records_without_partner():
    pairs = labelled()
    n_links = int(pairs["label"].sum())
    n, k = len(set(pairs["left"])), len(set(pairs["right"]))
    first, second = pm.fit_links(pairs, score="score").summary_.splitlines()
    n_pairs = len(pairs["left"])
    assert first == (
        f"Learned from {n_pairs} pairs of {n} left and {k} right records, {n_links} of "
        "them links."
    )
    alone = n - n_links, k - n_links
    assert second == (
        f"Of {n} left records {alone[0]} ({round(100 * alone[0] / n)} %) and of {k} right "
        f"records {alone[1]} ({round(100 * alone[1] / k)} %) are expected to have no "
        "partner."
    )


@pytest.mark.filterwarnings("ignore:the chosen alpha")
def test_alpha_is_chosen_by_entity():
    pairs = labelled(n=40)
    options = {"alphas": [0.1, 1.0, 10.0], "cv": 3, "features": ["score", "noise"]}
    model = pm.fit_links(pairs, **options)
    assert type(model) is pm.MAPMatchingCV
    assert model.cv_results_["scores"].shape == (3, 3)
    again = pm.fit_links(pairs, **options)
    assert (model.coef_ == again.coef_).all()


def test_models_are_saved_with_their_names(tmp_path):
    pairs = labelled()
    pairs["p"] = chance(pairs["score"])
    model = pm.fit_links(pairs, probability="p")
    model.save(tmp_path / "model.json")
    again = pm.load(tmp_path / "model.json")
    assert again.feature_names_ == ["logit(p)"]
    assert again.summary_ == model.summary_
    assert (again.coef_ == model.coef_).all()


def test_the_odds_of_a_model_are_those_of_a_pair_by_itself():
    pairs = labelled()
    pairs["p"] = chance(pairs["score"])
    model = pm.fit_links(pairs, probability="p")
    assert model_columns(model) == ("p",)
    new = {"left": ["x"], "right": ["y"], "p": [0.3]}
    found = read_pairs(new, PairRoles(features=model_columns(model)))
    (odds,), (alone,) = model_odds(model, found.columns)
    assert alone == pytest.approx(chance(odds))
    graph = pm.BipartiteGraph.from_edges([0], [0], [[np.log(0.3 / 0.7)]])
    (chances,) = model.predict_marginals([graph])
    assert chance(odds) == pytest.approx(chances[0])


@pytest.mark.parametrize(
    "options", [{"probability": "p"}, {"features": ["noise", "score"]}]
)
def test_links_by_a_model_are_its_marginals(options, tmp_path):
    pairs = labelled()
    model = pm.fit_links(pairs | {"p": chance(pairs["score"])}, **options)
    model.save(tmp_path / "model.json")
    new = labelled(seed=5, n=12)
    new["p"] = chance(new["score"])
    links = pm.link(new, model=str(tmp_path / "model.json"))
    table = read_edge_table(new | {"logit(p)": new["score"]}, features=model.feature_names_)
    result = model._score(table.graphs).infer(pm.Frontier(), 1)
    chances = dict(
        zip(
            zip(
                np.array(table.left_ids[0])[table.graphs[0].structure.left],
                np.array(table.right_ids[0])[table.graphs[0].structure.right],
                strict=True,
            ),
            table.graphs[0].pick(result.marginals[0]),
            strict=True,
        )
    )
    expected = [chances[pair] for pair in zip(links["left"], links["right"], strict=True)]
    np.testing.assert_allclose(links["probability"], expected, atol=1e-9)
    assert links.is_exact
    assert links.offset == 0.0


def test_a_model_needs_its_columns():
    pairs = labelled()
    model = pm.fit_links(pairs, features=["score", "noise"])
    with pytest.raises(TableError, match="the column 'noise'"):
        pm.link({key: pairs[key] for key in ("left", "right", "score")}, model=model)
    with pytest.raises(InvalidOptionError, match="so that score= is not used"):
        pm.link(pairs, model=model, score="score")
    with pytest.raises(NaNFeatureError, match="'noise'"):
        pm.link(pairs | {"noise": [np.nan] * len(pairs["left"])}, model=model)


def test_the_number_of_links_can_be_set():
    pairs = labelled()
    links = pm.link(pairs, model=pm.fit_links(pairs, score="score"), expected_links=10.0)
    assert links.expected_links == pytest.approx(10.0, abs=1e-3)


def test_other_names_of_columns_are_found():
    pairs = labelled()
    renamed = {"left": "unique_id_l", "right": "unique_id_r", "label": "is_match"}
    other = {renamed.get(key, key): column for key, column in pairs.items()}
    model = pm.fit_links(other, label="is_match", score="score")
    assert (model.coef_ == pm.fit_links(pairs, score="score").coef_).all()


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames(kind):
    library = pytest.importorskip(kind)
    pairs = labelled()
    model = pm.fit_links(library.DataFrame(pairs), features=["score"])
    assert (model.coef_ == pm.fit_links(pairs, features=["score"]).coef_).all()


@pytest.mark.parametrize(
    ("change", "options", "error", "words"),
    [
        ({}, {"label": "truth"}, TableError, "'truth'"),
        ({}, {"left": "u"}, TableError, "'u'"),
        ({}, {"features": ["score", "age"]}, TableError, "'age'"),
        ({}, {"features": []}, InvalidOptionError, "must name at least one column"),
        ({}, {"score": "score", "weight": "noise"}, InvalidOptionError, "Drop all but one"),
        ({}, {"features": ["noise"], "score": "score"}, InvalidOptionError, "got both"),
        ({}, {"probability": "score"}, TableError, "probabilities must be from 0 to 1"),
        ({"label": 2}, {}, TableError, "a label must be 1"),
        ({"label": 0}, {}, TableError, "must have pairs that match"),
    ],
)
def test_messages(change, options, error, words):
    pairs = labelled()
    changed = {key: [value] * len(pairs["left"]) for key, value in change.items()}
    with pytest.raises(error, match=words):
        pm.fit_links(pairs | changed, **options)


def test_a_model_says_what_it_needs_and_takes_tables_without_rows():
    pairs = labelled()
    model = pm.fit_links(pairs, features=["score", "noise"])
    with pytest.raises(TableError, match="model needs 'score', 'noise': make them as"):
        pm.link({key: pairs[key] for key in ("left", "right", "noise")}, model=model)
    empty = {key: [] for key in pairs}
    assert len(pm.link(empty, model=model)) == 0


def test_records_without_partner_are_needed():
    pairs = {"left": [0, 1], "right": [0, 1], "x": [0.1, 0.2], "label": [1, 1]}
    with pytest.raises(TableError, match="no record of the table is known to have none"):
        pm.fit_links(pairs)


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        (lambda g, y: pm.MAPMatching(unmatched="any").fit(g, y), "names of its features"),
        (
            lambda g, y: pm.MaxMarginMatching().fit(g, y, feature_names=["x"]),
            "unmatched_='larger'",
        ),
        (lambda g, y: pm.MAPMatching(), "must be a fitted"),
        (lambda g, y: 3, "must be a fitted .* or the path of its file"),
    ],
)
def test_models_that_do_not_link(fit, words):
    graphs = np.random.default_rng(0).normal(size=(4, 3, 3, 1))
    with pytest.raises(InvalidOptionError, match=words):
        model_columns(fit(graphs, [[0, 1, 2]] * 4))
