"""RankMatch against its definition, and everything around the numbers."""

import itertools
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import permatch as pm
from permatch import errors
from permatch.objectives.rank_losses import draw_training_subsets
from permatch.queries import check_queries


def drawn_by(model, queries):
    """Return the subsets that a model learns from."""
    names = ("subset_size", "n_subsets", "missing_grades", "random_state")
    return draw_training_subsets(queries, *(getattr(model, name) for name in names))


def judged_lists(seed=0, n_queries=12, length=7, n_features=3, n_grades=3, noise=0.7):
    """Return documents, grades and query ids; the first feature says most."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * length, n_features))
    hidden = X[:, 0] - 0.5 * X[:, 1] + noise * rng.normal(size=len(X))
    y = np.digitize(hidden, np.linspace(-0.3, 1.2, n_grades - 1))
    return X, y, np.repeat(np.arange(n_queries), length)


def assignments(kinds, levels):
    """Return every way to give the documents of a list the levels it has, (w, D)."""
    return np.array(sorted(set(itertools.permutations(levels[kinds]))))


def expected_grad(choices, target, scores):
    """Return E[weight] - observed weight of every document, by enumeration."""
    totals = choices @ scores
    chances = np.exp(totals - totals.max())
    return chances @ choices / chances.sum() - target


def brute_force_grad(model, X, y, qid, levels=None):
    """Return the gradient at coef_ of the objective as the docstring defines it."""
    queries = check_queries(X, y, qid)
    scores = X @ model.coef_
    slopes, weight = np.zeros(len(X)), 0.0
    if model.subset_size == "all":
        for first, last in itertools.pairwise(queries.starts):
            kinds = queries.grades[first:last]
            if len(set(kinds)) < 2:
                continue
            choices = assignments(kinds, levels)
            slopes[first:last] += expected_grad(choices, levels[kinds], scores[first:last])
            weight += 1.0
    elif model.subset_size == "pairs":
        for first, last in itertools.pairwise(queries.starts):
            for i, j in itertools.permutations(range(first, last), 2):
                if y[i] > y[j]:
                    chance = 1.0 / (1.0 + np.exp(scores[i] - scores[j]))
                    slopes[i] -= chance
                    slopes[j] += chance
                    weight += 1.0
    else:
        subsets = drawn_by(model, queries)
        for group in subsets.groups:
            c = np.arange(group.size)[::-1].astype(float)
            choices = np.array(list(itertools.permutations(c)))
            for rows in group.rows:
                grades = queries.grades[rows]
                target = np.array([c[grades == grade].mean() for grade in grades])
                np.add.at(slopes, rows, expected_grad(choices, target, scores[rows]))
                weight += 1.0
    return model.alpha * model.coef_ * model.scale_ + X.T @ (slopes / weight) / model.scale_


@pytest.mark.parametrize("n_grades", [2, 3, 4])
@pytest.mark.parametrize("subset_size", ["all", "pairs", "grades", 3, 4])
def test_the_optimum_is_that_of_the_definition(subset_size, n_grades):
    if subset_size == 3 and n_grades == 4:
        pytest.skip("four grades need subsets of four")
    X, y, qid = judged_lists(n_grades=n_grades, length=6, n_queries=9)
    y[qid == 0] = 1  # one grade only
    y[qid == 1] = np.minimum(y[qid == 1], 1)  # a grade is missing
    model = pm.RankMatch(subset_size, alpha=0.05, n_subsets=0.3, tol=1e-9).fit(X, y, qid)
    grad = brute_force_grad(model, X, y, qid, np.arange(4.0))
    assert np.abs(grad).max() < 1e-8
    assert model.is_converged_


def test_whole_lists_with_levels_of_any_kind():
    X, y, qid = judged_lists(length=6)
    for levels, values in (
        ("gains", [0.0, 1.0, 3.0]),
        ([0.0, 0.5, 2.0], [0.0, 0.5, 2.0]),
        ([0, 1, 1], [0.0, 1.0, 1.0]),
    ):
        model = pm.RankMatch(alpha=0.1, levels=levels, tol=1e-9).fit(X, y, qid)
        grad = brute_force_grad(model, X, y, qid, np.array(values))
        assert np.abs(grad).max() < 1e-8


def test_two_levels_are_conditional_logistic_regression():
    X, y, qid = judged_lists(n_grades=2)
    whole = pm.RankMatch(alpha=0.1).fit(X, y, qid)
    scaled = pm.RankMatch(alpha=0.1, levels=[3.0, 4.0]).fit(X, y, qid)
    np.testing.assert_allclose(whole.coef_, scaled.coef_, atol=1e-6)


def test_profile_form_lands_close_to_the_exact_one():
    X, y, qid = judged_lists(length=30, n_queries=20)
    exact = pm.RankMatch(alpha=0.1, form="exact").fit(X, y, qid)
    profile = pm.RankMatch(alpha=0.1, form="profile").fit(X, y, qid)
    distance = np.linalg.norm(exact.coef_ - profile.coef_)
    assert 0.0 < distance < 0.1 * np.linalg.norm(exact.coef_)
    assert exact.forms_ == {"exact": 20, "profile": 0, "skipped": 0}
    assert profile.forms_ == {"exact": 0, "profile": 20, "skipped": 0}


def test_long_lists_of_many_grades_get_the_profile_form_and_say_so():
    X, y, qid = judged_lists(n_grades=5, length=120, n_queries=3)
    model = pm.RankMatch().fit(X, y, qid)
    assert model.forms_["profile"] == 3


def test_queries_of_one_grade_are_skipped_and_counted():
    X, y, qid = judged_lists()
    y[qid < 2] = 1
    kept = qid >= 2
    model = pm.RankMatch(scale_features=False).fit(X, y, qid)
    alone = pm.RankMatch(scale_features=False).fit(X[kept], y[kept], qid[kept])
    assert model.forms_["skipped"] == 2
    assert model.n_observations_ == 10
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-8)


@pytest.mark.parametrize("subset_size", ["all", "pairs", "grades", 3])
def test_a_feature_constant_within_queries_changes_nothing(subset_size):
    X, y, qid = judged_lists()
    more = np.column_stack([X, 100.0 + qid, np.full(len(X), 7.0)])
    options = {"subset_size": subset_size, "alpha": 0.1}
    without, with_it = pm.RankMatch(**options), pm.RankMatch(**options)
    without.fit(X, y, qid)
    with_it.fit(more, y, qid)
    np.testing.assert_allclose(with_it.coef_[:3], without.coef_, atol=1e-6)
    np.testing.assert_allclose(with_it.coef_[3:], 0.0, atol=1e-9)


@pytest.mark.parametrize("subset_size", ["all", "pairs", 3])
def test_ids_groups_frames_sparse_and_shuffled_rows_say_the_same(subset_size, rng):
    pd = pytest.importorskip("pandas")
    X, y, qid = judged_lists()
    options = {"subset_size": subset_size, "alpha": 0.1}
    coef = pm.RankMatch(**options).fit(X, y, qid).coef_
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    by_frame = pm.RankMatch(**options).fit(frame, pd.Series(y), pd.Series(qid))
    assert by_frame.feature_names_ == ["a", "b", "c"]
    others = [
        pm.RankMatch(**options).fit(X, y, group=[7] * 12),
        pm.RankMatch(**options).fit(sparse.csr_matrix(X), y, qid),
        by_frame,
    ]
    for other in others:
        np.testing.assert_allclose(other.coef_, coef, atol=1e-6)
    single = pm.RankMatch(**options).fit(X.astype(np.float32), y, qid).coef_
    np.testing.assert_allclose(single, coef, atol=1e-4)
    if subset_size != 3:  # other rows, other subsets
        order = rng.permutation(len(X))
        mixed = pm.RankMatch(**options).fit(X[order], y[order], qid[order]).coef_
        np.testing.assert_allclose(mixed, coef, atol=1e-6)


def test_units_of_features_do_not_matter_to_the_penalty():
    X, y, qid = judged_lists()
    units = np.array([1.0, 1e6, 1e-6])
    coef = pm.RankMatch(alpha=1.0).fit(X, y, qid).coef_
    np.testing.assert_allclose(
        pm.RankMatch(alpha=1.0).fit(X * units, y, qid).coef_ * units, coef, rtol=1e-4
    )


@pytest.mark.parametrize("query_weight", ["queries", "per_document", "per_relevant"])
def test_query_weights_are_as_said(query_weight):
    X, y, _ = judged_lists(n_queries=4, length=10)
    group = [6, 14, 12, 8]
    model = pm.RankMatch("pairs", query_weight=query_weight, alpha=0.1, tol=1e-9)
    model.fit(X, y, group=group)
    # The same by hand: the slope of every query, weighed.
    slopes, weights = [], []
    for first, last in itertools.pairwise(np.cumsum([0, *group])):
        scores, grades = X[first:last] @ model.coef_, y[first:last]
        above = grades[:, None] > grades
        chance = above / (1.0 + np.exp(scores[:, None] - scores))
        n_relevant = max(int((grades > 0).sum()), 1)
        weight = {"queries": 1.0, "per_document": 1 / (last - first)}
        weights.append(weight.get(query_weight, 1 / n_relevant))
        slopes.append(weights[-1] * (chance.sum(0) - chance.sum(1)) / above.sum())
    slope = np.concatenate(slopes) / sum(weights)
    grad = model.alpha * model.coef_ * model.scale_ + X.T @ slope / model.scale_
    assert np.abs(grad).max() < 1e-7


def test_result_does_not_depend_on_threads():
    X, y, qid = judged_lists(n_queries=60)
    for subset_size in ("all", "pairs", 3):
        one = pm.RankMatch(subset_size, n_jobs=1).fit(X, y, qid)
        two = pm.RankMatch(subset_size, n_jobs=2).fit(X, y, qid)
        np.testing.assert_array_equal(one.coef_, two.coef_)


def test_predict_rank_and_score_agree(rng):
    X, y, qid = judged_lists()
    model = pm.RankMatch().fit(X, y, qid)
    scores = model.predict(X)
    np.testing.assert_allclose(scores, X @ model.coef_, atol=1e-12)
    order = model.rank(X, qid)
    assert (qid[order] == np.sort(qid)).all()
    for query in range(12):
        assert (np.diff(scores[order[qid[order] == query]]) <= 0).all()
    np.testing.assert_allclose(model.score(X, y, qid), pm.metrics.ndcg(y, scores, qid, 10))
    mixed = rng.permutation(len(X))
    assert model.score(X[mixed], y[mixed], qid[mixed]) == pytest.approx(
        model.score(X, y, qid)
    )
    assert qid[mixed][model.rank(X[mixed], qid[mixed])].tolist() != qid.tolist()
    assert sorted(model.rank(X)) == list(range(len(X)))


def test_equal_scores_keep_their_order():
    X, y, qid = judged_lists()
    model = pm.RankMatch().fit(X, y, qid)
    assert model.rank(np.zeros((5, 3))).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("scaling", ["minmax", "standard"])
def test_scaling_within_queries_is_the_transformer_inside(scaling, rng):
    X, y, qid = judged_lists()
    X = X * 10 + rng.normal(size=12)[qid, None] * 100
    model = pm.RankMatch(scaling=scaling).fit(X, y, qid)
    scaled = pm.QueryScaler(scaling).fit_transform(X, qid=qid)
    plain = pm.RankMatch().fit(scaled, y, qid)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-10)
    np.testing.assert_allclose(model.predict(X, qid), plain.predict(scaled), atol=1e-10)
    mixed = rng.permutation(len(X))
    np.testing.assert_allclose(
        model.predict(X[mixed], qid[mixed]), model.predict(X, qid)[mixed], atol=1e-12
    )
    assert model.score(X, y, qid) == pytest.approx(plain.score(scaled, y, qid))
    with pytest.raises(errors.InvalidQueriesError, match=r"group=\[len\(X\)\]"):
        model.predict(X)


def test_rank_marginals_are_those_of_the_matching():
    X, y, qid = judged_lists()
    model = pm.RankMatch(alpha=0.1).fit(X, y, qid)
    one = X[:6]
    weights = np.array([2.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    scores = np.outer(one @ model.coef_, weights)
    np.testing.assert_allclose(
        model.rank_marginals(one, weights), pm.marginals(scores), atol=1e-10
    )
    given = model.distribution(one)
    assert given.is_exact
    assert np.allclose(given.marginals.sum(0), 1.0)
    assert set(given.position_weights) <= {0.0, 1.0, 2.0}
    above = model.prob_above(one, 0, [1, 2, 3])
    assert above.shape == (3,)
    assert model.prob_above(one, 0, 1) + model.prob_above(one, 1, 0) == pytest.approx(1.0)


@pytest.mark.parametrize("weights", ["dcg", [1.0, 0.5, 0.0]], ids=["dcg", "sequence"])
def test_lists_with_position_weights(weights, tmp_path):
    X, y, qid = judged_lists()
    model = pm.RankMatch(position_weights=weights, alpha=0.01).fit(X, y, qid)
    assert model.level_weights_ is None
    assert model.level_shares_.sum() == pytest.approx(1.0)
    for n in (2, 7, 40):
        own = model.distribution(X[:n])
        c = 1.0 / np.log2(np.arange(n) + 2.0) if weights == "dcg" else weights + [0.0] * n
        assert (np.diff(own.position_weights) <= 0.0).all()
        # Every share of the list has the mean of its positions.
        assert own.position_weights.sum() == pytest.approx(sum(c[:n]))
        assert len(own.level_sizes) <= 3
    model.inference(X, y, qid)
    intervals = model.rank_marginals(X[:7], uncertainty=model.posterior_)
    assert (intervals.low <= model.rank_marginals(X[:7])).all()
    model.save(tmp_path / "model.json")
    loaded = pm.load(tmp_path / "model.json")
    assert loaded.level_weights_ is None
    np.testing.assert_array_equal(loaded.rank_marginals(X[:7]), model.rank_marginals(X[:7]))


def test_lists_drawn_by_position_weights_give_the_weights_back(rng):
    # The number of relevant documents varies, so the levels do, twentyfold.
    coef, c = np.array([8.0, -4.0, 0.0]), 1.0 / np.log2(np.arange(30) + 2.0)
    X, y = rng.normal(size=(300, 30, 3)), np.zeros((300, 30), dtype=int)
    for documents, grades, n in zip(X, y, rng.integers(1, 29, size=300), strict=True):
        weights = np.repeat([c[:n].mean(), c[n:].mean()], [n, 30 - n])
        law = pm.RankingDistribution(documents @ coef, weights)
        grades[law.sample(1, rng=rng)[0][:n]] = 1
    rows = X.reshape(-1, 3), y.ravel(), np.repeat(np.arange(300), 30)
    model = pm.RankMatch(position_weights="dcg", alpha=0.0).fit(*rows)
    found = model.inference(*rows)
    assert (np.abs(model.coef_ - coef) < 3.5 * found.bse).all()
    assert found.bse.max() < 1.0


def test_the_search_with_position_weights_tries_smaller_alphas():
    X, y, qid = judged_lists(n_queries=30)
    model = pm.RankMatchCV(position_weights="dcg", cv=3).fit(X, y, qid)
    assert model.cv_results_["alphas"].max() == 10.0
    single = pm.RankMatch(position_weights="dcg", alpha=model.alpha_).fit(X, y, qid)
    np.testing.assert_allclose(model.coef_, single.coef_, atol=1e-4)


@pytest.mark.parametrize("subset_size", ["pairs", "grades", 3, 5])
def test_every_kind_of_model_has_a_distribution(subset_size):
    X, y, qid = judged_lists()
    model = pm.RankMatch(subset_size).fit(X, y, qid)
    marginals = model.rank_marginals(X[:10])
    np.testing.assert_allclose(marginals.sum(axis=1), 1.0)
    best = int(np.argmax(X[:10] @ model.coef_))
    assert marginals[best, 0] == marginals[:, 0].max()


def test_saved_models_come_back_to_the_last_bit(tmp_path):
    X, y, qid = judged_lists()
    model = pm.RankMatch(3, scaling="minmax", alpha=0.1).fit(X, y, qid)
    model.save(tmp_path / "model.json")
    loaded = pm.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(X, qid), model.predict(X, qid))
    np.testing.assert_array_equal(loaded.rank_marginals(X[:7]), model.rank_marginals(X[:7]))
    assert loaded.get_params() == model.get_params()
    assert loaded.n_observations_ == model.n_observations_


def test_warm_start_begins_where_the_last_fit_ended():
    X, y, qid = judged_lists()
    model = pm.RankMatch("pairs", warm_start=True).fit(X, y, qid)
    assert model.fit(X, y, qid).n_iter_ == 0


def test_seeds_choose_the_subsets():
    X, y, qid = judged_lists()
    first, again, other = (
        pm.RankMatch(3, n_subsets=0.1, random_state=seed).fit(X, y, qid).coef_
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3


def test_dorm_learns_from_the_same_subsets():
    X, y, qid = judged_lists()
    queries = check_queries(X, y, qid)
    models = pm.RankMatch(4, random_state=5), pm.DORM(4, random_state=5)
    mine, theirs = (drawn_by(model, queries) for model in models)
    for group, other in zip(mine.groups, theirs.groups, strict=True):
        np.testing.assert_array_equal(group.rows, other.rows)
    fits = [model.fit(X, y, qid) for model in models]
    assert fits[0].n_observations_ == fits[1].n_observations_ == mine.counts.sum()


@pytest.mark.parametrize("subset_size", ["grades", 3, 5, 8, "all"])
def test_dorm_ranks_well(subset_size):
    X, y, qid = judged_lists(n_queries=30)
    model = pm.DORM(subset_size, alpha=0.01).fit(X, y, qid)
    assert model.is_converged_
    assert model.score(X, y, qid) > 0.75
    assert model.coef_[0] > 0 > model.coef_[1]


def test_many_subsets_need_little_memory():
    X, y, qid = judged_lists(n_queries=40, length=100, n_features=50)
    model = pm.RankMatch(5, n_subsets=5.0, max_iter=3)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y, qid)  # compiles
    tracemalloc.start()
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y, qid)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert model.n_observations_ == 100_000
    # The edge features alone, of 100,000 subsets, 5 x 5 edges and 50 features: 1 GB.
    assert peak < 64e6


WRONG = {
    "subset_size": (
        {"subset_size": "some"},
        errors.InvalidOptionError,
        "'all'.*got 'some'",
    ),
    "one document": ({"subset_size": 1}, errors.InvalidOptionError, "at least 2"),
    "too few": ({"subset_size": 2}, errors.GradeError, "at least 3"),
    "too many": ({"subset_size": 40}, errors.SizeLimitError, "at most 20"),
    "alpha": ({"alpha": -1}, errors.InvalidOptionError, "alpha must be a finite number"),
    "levels": (
        {"levels": [0, 1]},
        errors.InvalidOptionError,
        "one number per grade from 0 to 2",
    ),
    "falling": ({"levels": [2, 1, 0]}, errors.InvalidOptionError, "non-decreasing"),
    "level name": ({"levels": "ranks"}, errors.InvalidOptionError, "'grades' or 'gains'"),
    "form": ({"form": "quick"}, errors.InvalidOptionError, "form must be one of"),
    "weight": ({"query_weight": 1}, errors.InvalidOptionError, "query_weight must be one"),
    "scaling": ({"scaling": "max"}, errors.InvalidOptionError, "None or one of 'minmax'"),
    "ties": ({"subset_size": 3, "ties": "no"}, errors.InvalidOptionError, "ties must be"),
    "n_subsets": ({"subset_size": 3, "n_subsets": 0}, errors.InvalidOptionError, "above 0"),
    "rising": (
        {"subset_size": 3, "position_weights": [0, 1, 2]},
        errors.InvalidOptionError,
        "must be non-increasing",
    ),
    "levels of subsets": (
        {"subset_size": 3, "levels": "gains"},
        errors.InvalidOptionError,
        "option of 'all'",
    ),
    "form of pairs": (
        {"subset_size": "pairs", "form": "exact"},
        errors.InvalidOptionError,
        "option of 'all'",
    ),
    "weights of pairs": (
        {"subset_size": "pairs", "position_weights": [1, 0]},
        errors.InvalidOptionError,
        "no effect with subset_size='pairs'",
    ),
    "weights and levels": (
        {"position_weights": "dcg", "levels": "gains"},
        errors.InvalidOptionError,
        "Drop one of the two",
    ),
    "rising weights": (
        {"position_weights": [0, 1]},
        errors.InvalidOptionError,
        "must be non-increasing",
    ),
    "ties of lists": ({"ties": "x"}, errors.InvalidOptionError, "ties must be one of"),
    "share of lists": ({"n_subsets": 0}, errors.InvalidOptionError, "above 0"),
    "generator": (
        {"subset_size": 3, "random_state": np.random.default_rng(0)},
        errors.InvalidOptionError,
        "random_state must be",
    ),
    "tol": ({"tol": 0}, errors.InvalidOptionError, "tol must be"),
    "n_jobs": ({"n_jobs": 0}, errors.InvalidOptionError, "n_jobs"),
}


@pytest.mark.parametrize("case", WRONG)
def test_bad_options_are_refused_in_words(case):
    options, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        pm.RankMatch(**options).fit(*judged_lists())


def test_lists_of_one_grade_teach_nothing():
    X, y, qid = judged_lists()
    for subset_size in ("all", "pairs", "grades", 3):
        with pytest.raises(errors.GradeError, match="grade"):
            pm.RankMatch(subset_size).fit(X, np.ones_like(y), qid)
    with pytest.raises(errors.GradeError, match="grade"):
        pm.DORM("all").fit(X, np.ones_like(y), qid)


def test_new_documents_must_have_the_features_of_the_old():
    pd = pytest.importorskip("pandas")
    X, y, qid = judged_lists()
    with pytest.raises(errors.NotFittedError, match=r"fit\(X, y, qid=qid\)"):
        pm.RankMatch().predict(X)
    model = pm.RankMatch().fit(pd.DataFrame(X, columns=["a", "b", "c"]), y, qid)
    with pytest.raises(errors.InvalidQueriesError, match="3 features.*got 2"):
        model.predict(X[:, :2])


def test_an_interrupted_fit_keeps_the_best_so_far(monkeypatch):
    from permatch.objectives.pairs import PairLikelihood

    X, y, qid = judged_lists()
    whole, calls = PairLikelihood.value_and_slope, []

    def interrupted(self, scores):
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return whole(self, scores)

    monkeypatch.setattr(PairLikelihood, "value_and_slope", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = pm.RankMatch("pairs").fit(X, y, qid)
    assert model.coef_.any()


def test_clones_and_params_follow_the_contract():
    model = pm.RankMatch("grades", alpha=3.0, n_subsets=0.1)
    assert clone(model).get_params() == model.get_params()
    assert "alpha" not in pm.RankMatchCV().get_params()


def test_a_weight_of_two_counts_like_the_query_given_twice():
    X, y, qid = judged_lists(n_queries=6)
    weights = np.where(qid == 2, 2.0, np.where(qid == 3, 0.0, 1.0))
    twice = np.concatenate([np.flatnonzero(qid != 3), np.flatnonzero(qid == 2)])
    ids = np.concatenate([qid[qid != 3], np.full(7, 99)])
    for subset_size in ("all", "pairs"):
        options = {"subset_size": subset_size, "scale_features": False, "tol": 1e-8}
        weighed = pm.RankMatch(**options).fit(X, y, qid, sample_weight=weights)
        repeated = pm.RankMatch(**options).fit(X[twice], y[twice], ids)
        np.testing.assert_allclose(weighed.coef_, repeated.coef_, atol=1e-6)
    score = weighed.score(X, y, qid, sample_weight=weights)
    assert score == pytest.approx(weighed.score(X[twice], y[twice], ids))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([-1.0] * 42, "at least 0"),
        ([0.0] * 42, "above 0 for at least one query"),
        ([1.0] * 7, r"shape \(42,\); got .*\(7,\)"),
    ],
    ids=["negative", "zero", "short"],
)
def test_bad_weights_are_refused_in_words(weights, message):
    X, y, qid = judged_lists(n_queries=6)
    with pytest.raises(errors.InvalidQueriesError, match=message):
        pm.RankMatch().fit(X, y, qid, sample_weight=weights)


def test_whole_list_dorm_refuses_what_it_cannot_do():
    with pytest.raises(errors.InvalidOptionError, match="option of subsets"):
        pm.DORM("all", position_weights=[1, 0]).fit(*judged_lists())
    with pytest.raises(errors.InvalidOptionError, match="loss must be one of"):
        pm.DORM("all", loss="x").fit(*judged_lists())


@pytest.mark.parametrize("size", [1.7e9, 1e14])
def test_large_features_constant_within_queries_do_no_harm(size):
    X, y, qid = judged_lists()
    for subset_size in ("all", "pairs", "grades"):
        plain = pm.RankMatch(subset_size, alpha=0.1).fit(X, y, qid)
        model = pm.RankMatch(subset_size, alpha=0.1)
        model.fit(np.column_stack([X, size + 0.0 * qid]), y, qid)
        np.testing.assert_allclose(model.coef_[:3], plain.coef_, atol=1e-5)


def test_the_exact_form_refuses_lists_it_cannot_count():
    X, _, _ = judged_lists(n_queries=2, length=100)
    y = np.arange(200) % 12
    with pytest.raises(
        errors.SizeLimitError, match="list 0, with 100 documents in 12 grades"
    ):
        pm.RankMatch(form="exact").fit(X, y, group=[100, 100])


def test_scores_beyond_floats_are_refused():
    X, y, qid = judged_lists()
    model = pm.RankMatch().fit(X, y, qid)
    advice = "exceed float64. Divide the features by a large number, in both fit and"
    with pytest.raises(errors.PrecisionError, match=advice):
        model.predict(X * 1e300 * 1e7)
    with pytest.raises(
        errors.PrecisionError, match="Divide the features by a large number"
    ):
        pm.DORM(scale_features=False).fit(X * 1e300, y, qid)
