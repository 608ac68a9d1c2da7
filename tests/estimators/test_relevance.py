"""Probabilities of grades and positions of queries never seen."""

import json

import numpy as np
import pandas as pd
import pytest

import permatch as pm
from permatch import errors
from permatch.inference.ranking.grade_law import GradeLaw
from tests.objectives.graded import draw_grades

COEF = np.array([1.0, -0.5, 0.0])
LEARNED = ("grade_offsets_", "shift_coef_", "shift_std_", "score_slope_")


def judged_lists(n_queries, rng, lengths=(8, 40)):
    """Return lists of which many have no relevant document, and some many."""
    law = GradeLaw(
        grades=np.arange(3),
        levels=np.arange(3.0),
        offsets=np.array([0.0, -2.0, -3.6]),
        coef=np.array([0.4, -0.5]),
        std=2.5,
    )
    sizes = rng.integers(*lengths, size=n_queries)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    qid = np.repeat(np.arange(n_queries), sizes)
    X = rng.normal(size=(len(qid), 3)) + 0.7 * rng.normal(size=(n_queries, 3))[qid]
    return X, draw_grades(law, X @ COEF, starts, rng), qid


@pytest.fixture(scope="module")
def lists():
    return judged_lists(900, np.random.default_rng(5))


@pytest.fixture(scope="module")
def fresh():
    return judged_lists(600, np.random.default_rng(6))


@pytest.fixture(scope="module")
def model(lists):
    return pm.RankMatch(alpha=1e-3).fit(*lists)


def by_shares(model, X, qid):
    """Return probabilities given that every list has the training shares of grades."""
    found = np.zeros((len(X), 3))
    for query in np.unique(qid):
        own = qid == query
        ends = np.round(own.sum() * np.cumsum(model.level_shares_)).astype(int)
        weights = np.repeat(model.level_weights_, np.diff(ends, prepend=0))
        law = pm.RankingDistribution(model.predict(X[own]), weights)
        at = law.level_weights.astype(int)
        found[np.ix_(own, at)] = law.level_marginals
    return found


def gaps(predicted, is_so, qid, n_bins=8):
    """Return predicted less observed shares by bin, in standard errors of whole lists."""
    bins = np.searchsorted(
        np.quantile(predicted, np.linspace(0, 1, n_bins + 1)[1:-1]), predicted
    )
    away, found = predicted - is_so, []
    for k in range(n_bins):
        by_list = np.bincount(qid, np.where(bins == k, away, 0.0))
        found.append(by_list.sum() / np.sqrt((by_list**2).sum()))
    return np.array(found)


def log_loss(chances, y):
    return -np.log(np.maximum(chances[np.arange(len(y)), y], 1e-9)).mean()


# ---- calibration -------------------------------------------------------------------------


def test_probabilities_of_new_queries_are_calibrated(model, fresh):
    X, y, qid = fresh
    n_without = (np.bincount(qid, y > 0) == 0).sum()
    assert n_without > 100
    chances = model.predict_relevance(X, qid)
    assert chances.shape == (len(X), 3)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    old = by_shares(model, X, qid)
    for grade in (1, 2):
        is_so = y >= grade
        now = gaps(chances[:, grade:].sum(axis=1), is_so, qid)
        assert np.abs(now).max() < 4.0
        assert np.abs(gaps(old[:, grade:].sum(axis=1), is_so, qid)).max() > 8.0
    assert log_loss(chances, y) < log_loss(old, y) - 0.02


def test_positions_of_new_queries_are_calibrated(model, fresh):
    # Documents of a grade are in random order: their share of each position is expected.
    X, y, qid = fresh
    predicted, observed, owners = [], [], []
    for query in range(200):
        own = qid == query
        marginals, grades = model.rank_marginals(X[own]), y[own]
        above = (grades[:, None] < grades).sum(axis=1)
        tied = (grades[:, None] == grades).sum(axis=1)
        in_top = np.clip((3.0 - above) / tied, 0.0, 1.0)
        predicted.append(marginals[:, :3].sum(axis=1))
        observed.append(in_top)
        owners.append(np.full(len(grades), query))
    parts = (np.concatenate(part) for part in (predicted, observed, owners))
    assert np.abs(gaps(*parts, n_bins=5)).max() < 3.5


def test_ties_count_one_half(model, fresh):
    X, y, qid = fresh
    rows = np.array([np.flatnonzero(qid == query)[:2] for query in range(600)])
    above = np.concatenate(
        [model.prob_above(X[qid == query], 0, [1]) for query in range(600)]
    )
    first, second = y[rows].T
    is_above = (first > second) + 0.5 * (first == second)
    assert np.abs(gaps(above, is_above, np.arange(600), n_bins=5)).max() < 3.5
    assert model.prob_above(X[:8], 3, 3) == 0.5
    both = model.prob_above(X[:8], [0, 1], [1, 0])
    assert both.sum() == pytest.approx(1.0)


def test_expected_counts_are_those_of_the_query(model, fresh):
    X, _, qid = fresh
    sizes, expected = [], []
    for query in range(40):
        own = X[qid == query]
        law = model.distribution(own)
        sizes.append(np.count_nonzero(law.position_weights))
        expected.append(model.predict_relevance(own, group=[len(own)])[:, 1:].sum())
        np.testing.assert_allclose(law.scores, model.predict(own))
    assert len(set(sizes)) > 5
    np.testing.assert_allclose(sizes, expected, atol=1.0)


def test_lists_held_out_correct_the_slope(fresh, rng):
    X, y, qid = judged_lists(60, rng)
    noise = rng.normal(size=(len(X), 60))  # to overfit to
    wide = np.column_stack([X, noise])
    model = pm.RankMatch(alpha=1e-6).fit(wide, y, qid)
    assert model.score_slope_ == 1.0
    X, y, qid = fresh
    wide = np.column_stack([X, rng.normal(size=(len(X), 60))])
    held, new = qid < 200, qid >= 200
    before, scores = model.predict_relevance(wide[new], qid[new]), model.predict(wide)
    assert model.calibrate(wide[held], y[held], qid[held]) is model
    assert model.score_slope_ < 0.9
    after = model.predict_relevance(wide[new], qid[new])
    assert log_loss(after, y[new]) < log_loss(before, y[new]) - 0.003
    np.testing.assert_array_equal(model.predict(wide), scores)
    is_so = y[new] > 0
    assert np.abs(gaps(after[:, 1:].sum(axis=1), is_so, qid[new])).max() < 4.0
    law = model.distribution(wide[:9])
    np.testing.assert_allclose(law.scores, model.score_slope_ * scores[:9])


# ---- kinds of models ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "levels"),
    [
        ({}, [0, 1, 2]),
        ({"levels": "gains"}, [0, 1, 3]),
        ({"levels": [0, 2, 2]}, [0, 2, 2]),
        ({"subset_size": "grades"}, [0, 1, 2]),
        ({"subset_size": "pairs"}, [0, 0.5, 1]),
        ({"subset_size": 5, "missing_grades": "fill"}, [0, 2, 4]),
    ],
)
def test_levels_of_grades(lists, options, levels):
    X, y, qid = lists
    model = pm.RankMatch(**options).fit(X, y, qid)
    assert model.grades_.tolist() == [0, 1, 2]
    np.testing.assert_allclose(model.grade_levels_, levels)
    # Sums over all documents are right whatever the levels are.
    found = model.predict_relevance(X, qid).mean(axis=0)
    np.testing.assert_allclose(found, np.bincount(y) / len(y), atol=0.02)
    is_fixed = options.get("subset_size", "all") in ("all", "grades")
    assert (model.score_slope_ == 1.0) == is_fixed


def test_levels_of_position_weights_are_means(lists):
    X, y, qid = lists
    model = pm.RankMatch(position_weights="dcg").fit(X, y, qid)
    sums = np.zeros(3)
    for query in range(900):
        grades = np.sort(y[qid == query])[::-1]
        weights = 1.0 / np.log2(np.arange(len(grades)) + 2.0)
        np.add.at(sums, grades, weights)
    np.testing.assert_allclose(model.grade_levels_, sums / np.bincount(y))
    marginals = model.rank_marginals(X[:30])
    np.testing.assert_allclose(marginals.sum(axis=0), 1.0)


def test_chances_with_position_weights_are_calibrated(lists, fresh):
    X, y, qid = fresh
    model = pm.RankMatch(alpha=1e-3, position_weights="dcg").fit(*lists)
    assert abs(model.score_slope_ - 1.0) > 0.1  # mean weights of grades are not the fit's
    chances = model.predict_relevance(X, qid)
    is_so = y > 0
    assert np.abs(gaps(chances[:, 1:].sum(axis=1), is_so, qid)).max() < 5.0
    law = model.distribution(X[:9])  # of the fit, whose factor is 1
    np.testing.assert_allclose(law.scores, model.predict(X[:9]))
    model.score_slope_ = 1.0
    assert log_loss(chances, y) < log_loss(model.predict_relevance(X, qid), y) - 0.003


def test_grades_that_do_not_occur(lists):
    X, y, qid = lists
    model = pm.RankMatch().fit(X, np.array([1, 2, 4])[y], qid)
    found = model.predict_relevance(X, qid)
    assert found.shape == (len(X), 5)
    assert not found[:, [0, 3]].any()
    with pytest.raises(errors.GradeError, match=r"training lists, 1, 2, 4; got 0"):
        model.calibrate(X, y, qid)


def test_order_of_rows_does_not_matter(model, lists, rng):
    X, _, qid = lists
    order = rng.permutation(len(X))
    found = model.predict_relevance(X[order], qid[order])
    np.testing.assert_allclose(found, model.predict_relevance(X, qid)[order], atol=1e-12)


@pytest.mark.parametrize("scaling", ["minmax", "standard"])
def test_scaled_features_and_columns_by_name(lists, scaling):
    X, y, qid = lists
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(query=qid, grade=y)
    model = pm.RankMatch(scaling=scaling, qid="query").fit(frame, "grade")
    plain = pm.RankMatch(scaling=scaling).fit(X, y, qid)
    found = model.predict_relevance(frame)
    np.testing.assert_allclose(found, plain.predict_relevance(X, qid))
    model.calibrate(frame, "grade")


def test_weights_of_queries_count(lists):
    X, y, qid = lists
    weights = 1.0 * (qid % 3 > 0)
    one = pm.RankMatch(alpha=0.1).fit(X, y, qid, sample_weight=weights)
    some = weights > 0.0
    other = pm.RankMatch(alpha=0.1).fit(X[some], y[some], qid[some])
    one.coef_ = other.coef_  # penalised in other units
    for model in (one, other):
        weight = weights if model is one else None
        rows = lists if model is one else (X[some], y[some], qid[some])
        model.calibrate(*rows, sample_weight=weight)
    for name in LEARNED:
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-6)


@pytest.mark.filterwarnings("ignore:the chosen alpha")
def test_the_search_learns_counts_too(lists, model):
    X, y, qid = lists
    found = pm.RankMatchCV(alphas=[1e-3, 1e3], cv=2).fit(X, y, qid)
    for name in LEARNED:
        np.testing.assert_allclose(getattr(found, name), getattr(model, name), atol=1e-3)
    held = qid >= 700
    chosen = pm.RankMatchCV(alphas=[1e-3, 1e3])
    chosen.fit(X[~held], y[~held], qid[~held], validation=(X[held], y[held], qid[held]))
    alone = pm.RankMatch(alpha=1e-3).fit(X[~held], y[~held], qid[~held])
    assert chosen.shift_std_ == pytest.approx(alone.shift_std_, abs=1e-3)


# ---- trees -------------------------------------------------------------------------------


def test_trees_learn_counts_from_validation_lists(lists, fresh):
    pytest.importorskip("lightgbm")
    held = fresh[2] < 200
    X, y, qid = (part[~held] for part in fresh)
    validation = tuple(part[held] for part in fresh)
    few = [part[lists[2] < 80] for part in lists]
    options = {"n_rounds": 60, "learning_rate": 0.2, "num_leaves": 15, "patience": 60}
    alone = pm.BoostedRankMatch(**options).fit(*few)
    found = pm.BoostedRankMatch(**options).fit(*few, validation=validation)
    assert alone.score_slope_ == 1.0
    sure, calm = (model.predict_relevance(X, qid) for model in (alone, found))
    assert log_loss(calm, y) < log_loss(sure, y) - 0.02
    now = gaps(calm[:, 1:].sum(axis=1), y > 0, qid)
    assert np.abs(now).max() < np.abs(gaps(sure[:, 1:].sum(axis=1), y > 0, qid)).max()
    assert alone.calibrate(*validation).score_slope_ < 0.6
    marginals = found.rank_marginals(X[:12])
    np.testing.assert_allclose(marginals.sum(axis=0), 1.0)
    more = pm.BoostedRankMatch(**options).fit(
        few[0], np.minimum(few[1], 1), few[2], validation=validation
    )
    assert more.score_slope_ == 1.0  # the validation lists have a grade it does not know


# ---- files and errors --------------------------------------------------------------------


def test_saved_models_know_it(model, lists, tmp_path):
    X, _, qid = lists
    model.save(tmp_path / "model.json")
    again = pm.load(tmp_path / "model.json")
    for name in LEARNED:
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    found = again.predict_relevance(X, qid)
    np.testing.assert_array_equal(found, model.predict_relevance(X, qid))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("grade_offsets_", np.zeros(2)),
        ("shift_coef_", np.array([np.inf, 0.0])),
        ("shift_std_", -1.0),
        ("shift_std_", 1e6),
        ("score_slope_", 1e300),
        ("score_slope_", float("nan")),
        ("grades_", np.array([0, 2, 1])),
        ("grades_", np.array([-3, 1, 2])),
        ("grades_", np.array([0, 1, 40])),
        ("grade_levels_", np.array([1.0, 1.0, 1.0])),
        ("grade_levels_", np.array([1.0, 0.0, 2.0])),
    ],
)
def test_damaged_files_are_refused(lists, tmp_path, name, value):
    model = pm.RankMatch().fit(*lists)
    setattr(model, name, value)
    model.save(tmp_path / "model.json")
    with pytest.raises(errors.ModelFileError, match="finite and fit together"):
        pm.load(tmp_path / "model.json")


@pytest.mark.parametrize(
    ("left_out", "words"),
    [
        (LEARNED, r"has not learned how many.*calibrate\(X, y, qid=qid\)"),
        ((*LEARNED, "grade_levels_"), "did not keep the levels of grades. Fit it again"),
    ],
)
def test_models_of_earlier_versions(model, lists, tmp_path, left_out, words):
    X, y, qid = lists
    path = tmp_path / "model.json"
    model.save(path)
    content = json.loads(path.read_text())
    for name in left_out:
        del content["fitted"][name]
    path.write_text(json.dumps(content))
    old = pm.load(path)
    weights = [1.0, 0.0, 0.0]
    assert old.distribution(X[:3], weights).size == 3
    assert old.rank_marginals(X[:3], weights).shape == (3, 3)
    for ask in (
        lambda: old.predict_relevance(X, qid),
        lambda: old.rank_marginals(X[:3]),
        lambda: old.prob_above(X[:3], 0, 1),
        lambda: old.distribution(X[:3]),
    ):
        with pytest.raises(errors.NotFittedError, match=words):
            ask()
    if left_out == LEARNED:
        assert old.calibrate(X, y, qid).predict_relevance(X, qid).shape == (len(X), 3)


def test_what_is_refused(model, lists, tmp_path):
    X, y, qid = lists
    with pytest.raises(errors.NotFittedError, match=r"RankMatch is required.*not fitted"):
        pm.RankMatch().predict_relevance(X, qid)
    with pytest.raises(errors.NotFittedError, match="not fitted"):
        pm.RankMatch().calibrate(X, y, qid)
    with pytest.raises(errors.InvalidQueriesError, match="the 3 features .* got 2"):
        model.predict_relevance(X[:, :2], qid)
    for ask in (model.predict_relevance, lambda X: model.calibrate(X, y)):
        with pytest.raises(errors.MissingQueriesError, match=r"group=\[len\(X\)\]"):
            ask(X)
    with pytest.raises(errors.InvalidOptionError, match=r"documents 0 \.\. 4; got 5"):
        model.prob_above(X[:5], 0, 5)
    for weights in (None, [1, 0, 0, 0, 0]):
        assert model.prob_above(X[:5], [], [], weights).shape == (0,)
        with pytest.raises(errors.InvalidOptionError, match=r"broadcast; got \(3,\) and"):
            model.prob_above(X[:5], [0, 1, 2], [0, 1], weights)
    (tmp_path / "part.txt").write_text("1 qid:1 1:1 2:1 3:1\n")
    with pytest.raises(errors.InvalidOptionError, match="need documents in memory"):
        model.predict_relevance(str(tmp_path))


def test_several_queries_are_not_one(lists):
    X, y, qid = (part[:200] for part in lists)
    frame = pd.DataFrame(X, columns=list("abc")).assign(query=[f"q{k}" for k in qid])
    model = pm.RankMatch(qid="query").fit(frame, y)
    words = r"must hold the documents of one query; got 2 in column 'query'. Ask query by"
    two = frame[frame["query"].isin(["q0", "q1"])]
    for ask in (
        model.rank_marginals,
        model.distribution,
        lambda X: model.prob_above(X, 0, 1),
        lambda X: model.rank_marginals(X, np.zeros(len(X))),
    ):
        with pytest.raises(errors.InvalidQueriesError, match=words):
            ask(two)
    assert model.rank_marginals(frame[frame["query"] == "q1"]).shape[0] == (qid == 1).sum()


def test_a_failed_calibration_changes_nothing(lists):
    X, y, qid = lists
    model = pm.RankMatch().fit(X, y, qid)
    before = [getattr(model, name) for name in LEARNED]
    with pytest.raises(errors.GradeError, match="got 3"):
        model.calibrate(X, y + 1, qid)
    weights = np.ones(len(X))
    weights[:3] = 2.0
    with pytest.raises(errors.InvalidQueriesError, match=r"calibrate\(\), which counts"):
        model.calibrate(X, y, qid, sample_weight=weights)
    assert [getattr(model, name) for name in LEARNED] == before


def test_clicks_do_not_say_how_many(lists, rng):
    X, y, qid = lists
    model = pm.RankMatch().fit(X, y, qid)
    model.fit(X, y, qid, sample_weight=rng.choice([1.0, 2.0], size=len(X)))
    with pytest.raises(errors.NotFittedError, match="weights that differ within queries"):
        model.predict_relevance(X, qid)
    assert model.calibrate(X, y, qid).predict_relevance(X, qid).shape == (len(X), 3)
