"""Learning from graphs that are sparse, unequal or partial, and from incomplete labels."""

import numpy as np
import pytest
from sklearn.base import clone

import permatch as pm
from permatch import errors
from permatch.graphs import BipartiteGraph
from permatch.labels import check_known

COEF = np.array([1.5, -1.0])
LEFT, RIGHT, INTERCEPT = np.array([0.8]), np.array([-0.5]), 0.3
ENGINE = "frontier"


def all_matchings(scores, left, right):
    """Every matching of a small graph with -1 for unmatched, and its score."""
    n, k = scores.shape
    found, totals = [], []

    def extend(i, matching, total):
        if i == n:
            rest = [j for j in range(k) if j not in matching]
            found.append(matching)
            totals.append(total + sum(right[j] for j in rest))
            return
        extend(i + 1, [*matching, -1], total + left[i])
        for j in range(k):
            if j not in matching:
                extend(i + 1, [*matching, j], total + scores[i, j])

    extend(0, [], 0.0)
    return np.array(found, dtype=int).reshape(len(found), n), np.array(totals)


def planted(rng, n_graphs, shapes=((3, 3), (2, 4), (4, 3)), nodes=True, p_edge=0.8):
    """Graphs made from edges, and partial matchings drawn from the model."""
    graphs, labels = [], []
    for g in range(n_graphs):
        n, k = shapes[g % len(shapes)]
        is_edge = rng.random((n, k)) < p_edge
        x = rng.normal(size=(n, k, 2))
        z, w = rng.normal(size=(n, 1)), rng.normal(size=(k, 1))
        u = INTERCEPT + nodes * (z @ LEFT)
        v = INTERCEPT + nodes * (w @ RIGHT)
        matchings, totals = all_matchings(np.where(is_edge, x @ COEF, -np.inf), u, v)
        odds = np.exp(totals - totals.max())
        labels.append(matchings[rng.choice(len(odds), p=odds / odds.sum())])
        i, j = np.nonzero(is_edge)
        own = {"left_features": z, "right_features": w} if nodes else {}
        graphs.append(BipartiteGraph.from_edges(i, j, x[i, j], n, k, **own))
    return graphs, labels


def hide(rng, labels, share):
    """Return labels with some of their entries unknown."""
    return [np.where(rng.random(len(label)) < share, -2, label) for label in labels]


@pytest.fixture(scope="module")
def data():
    return planted(np.random.default_rng(0), 400)


@pytest.fixture(scope="module")
def model(data):
    return pm.MAPMatching(1e-4, engine=ENGINE).fit(*data)


# ---- what it finds ---------------------------------------------------------------------


def test_planted_weights_are_found_again(model):
    assert model.unmatched_ == "any"
    assert model.is_converged_
    assert model.is_exact_
    np.testing.assert_allclose(model.coef_, COEF, atol=0.2)
    np.testing.assert_allclose(model.unmatched_left_coef_, LEFT, atol=0.2)
    np.testing.assert_allclose(model.unmatched_right_coef_, RIGHT, atol=0.2)
    assert model.unmatched_intercept_ == pytest.approx(INTERCEPT, abs=0.15)


def test_planted_weights_are_found_from_incomplete_labels(data, rng):
    graphs, labels = data
    partly = hide(rng, labels, 0.4)
    model = pm.MAPMatching(1e-4, engine=ENGINE).fit(graphs, partly)
    assert model.is_converged_
    assert not model.is_convex_
    np.testing.assert_allclose(model.coef_, COEF, atol=0.3)
    np.testing.assert_allclose(model.unmatched_left_coef_, LEFT, atol=0.3)
    assert model.unmatched_intercept_ == pytest.approx(INTERCEPT, abs=0.25)


def test_pairs_known_to_be_apart_are_used(data, rng):
    graphs, labels = data
    told, silent = [], []
    for graph, label in zip(graphs, labels, strict=True):
        structure = graph.structure
        is_match = label[structure.left] == structure.right
        is_told = rng.random(len(is_match)) < 0.5
        told.append(pm.EdgeLabels(graph.lay(np.where(is_told, is_match, -1))))
        silent.append(pm.EdgeLabels(graph.lay(np.where(is_told & is_match, 1, -1))))
    model, blind = (
        pm.MAPMatching(1e-4, engine=ENGINE, unmatched="any").fit(graphs, some)
        for some in (told, silent)
    )
    np.testing.assert_allclose(model.coef_, COEF, atol=0.3)
    assert model.unmatched_intercept_ == pytest.approx(INTERCEPT, abs=0.25)
    # Labels that name matches only leave nobody unmatched.
    assert blind.unmatched_intercept_ < INTERCEPT - 1


def test_graphs_without_partners_left_over_learn_no_intercept(rng):
    graphs, labels = planted(rng, 60, nodes=False, p_edge=1.1)
    kept = [
        k
        for k, label in enumerate(labels)
        if (label >= 0).sum() == min(graphs[k].n_left, graphs[k].n_right)
    ]
    graphs, labels = [graphs[k] for k in kept], [labels[k] for k in kept]
    model = pm.MAPMatching(engine=ENGINE).fit(graphs, labels)
    assert model.unmatched_ == "larger"
    assert model.unmatched_intercept_ == 0.0
    for graph, found in zip(graphs, model.predict(graphs), strict=True):
        assert (found >= 0).sum() == min(graph.n_left, graph.n_right)
    forced = pm.MAPMatching(engine=ENGINE, unmatched="any").fit(graphs, labels)
    assert forced.unmatched_ == "any"
    assert forced.unmatched_intercept_ < -3  # nobody was left unmatched who need not be


def test_arrays_and_lists_of_edges_learn_the_same(rng):
    graphs, labels = planted(rng, 40, p_edge=1.1)
    dense = [
        BipartiteGraph(
            g.features, left_features=g.left_features, right_features=g.right_features
        )
        for g in graphs
    ]
    a, b = (pm.MAPMatching(engine=ENGINE).fit(some, labels) for some in (graphs, dense))
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-9)
    assert a.unmatched_intercept_ == pytest.approx(b.unmatched_intercept_, abs=1e-9)
    for one, other in zip(
        a.predict_marginals(graphs), b.predict_marginals(dense), strict=True
    ):
        np.testing.assert_allclose(one, other.ravel(), atol=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_units_and_offsets_of_features_do_not_matter(alpha, rng):
    graphs, labels = planted(rng, 60)
    unit, offset = np.array([10.0, 1e-3]), np.array([3.0, -50.0])
    moved = [
        BipartiteGraph.from_edges(
            g.structure.left,
            g.structure.right,
            g.edge_features * unit + offset,
            g.n_left,
            g.n_right,
            left_features=100 * g.left_features - 7,
            right_features=0.1 * g.right_features + 20,
        )
        for g in graphs
    ]
    a, b = (
        pm.MAPMatching(alpha, engine=ENGINE, tol=1e-9).fit(some, labels)
        for some in (graphs, moved)
    )
    np.testing.assert_allclose(b.coef_ * unit, a.coef_, atol=1e-6)
    np.testing.assert_allclose(
        100 * b.unmatched_left_coef_, a.unmatched_left_coef_, atol=1e-6
    )
    left = b.log_likelihood(moved, labels)
    assert left == pytest.approx(a.log_likelihood(graphs, labels), abs=1e-9)


def test_a_strong_penalty_keeps_the_number_of_links(data):
    graphs, labels = data
    model = pm.MAPMatching(1e4, engine=ENGINE).fit(graphs, labels)
    assert np.abs(model.coef_).max() < 1e-3
    expected = sum(table.sum() for table in model.predict_marginals(graphs))
    assert expected == pytest.approx(sum((label >= 0).sum() for label in labels), rel=1e-4)


# ---- what it answers -------------------------------------------------------------------


def test_answers_against_enumeration(model, data):
    graphs, labels = data[0][:6], data[1][:6]
    modes, tables = model.predict(graphs), model.predict_marginals(graphs)
    total = 0.0
    for graph, mode, table, label in zip(graphs, modes, tables, labels, strict=True):
        scores = np.full((graph.n_left, graph.n_right), -np.inf)
        listed = graph.scores(model.coef_)
        scores[listed.left, listed.right] = listed.score
        ends = (
            model.unmatched_intercept_ + graph.left_features @ model.unmatched_left_coef_,
            model.unmatched_intercept_ + graph.right_features @ model.unmatched_right_coef_,
        )
        matchings, totals = all_matchings(scores, *ends)
        np.testing.assert_array_equal(mode, matchings[np.argmax(totals)])
        odds = np.exp(totals) / np.exp(totals).sum()
        expected = [
            odds[matchings[:, i] == j].sum()
            for i, j in zip(listed.left, listed.right, strict=True)
        ]
        np.testing.assert_allclose(table, expected, atol=1e-12)
        total += np.log(odds[(matchings == label).all(axis=1)][0])
    assert model.log_likelihood(graphs, labels) == pytest.approx(total / 6, rel=1e-10)
    wrong = [np.mean(a != b) for a, b in zip(modes, labels, strict=True)]
    assert model.score(graphs, labels) == pytest.approx(1 - np.mean(wrong))


def test_the_likelihood_of_what_is_known(model, data, rng):
    graphs, labels = data[0][:9], data[1][:9]
    whole = model.log_likelihood(graphs, labels)
    part = model.log_likelihood(graphs, hide(rng, labels, 0.5))
    assert whole < part < 0.0
    nothing = [np.full(len(label), -2) for label in labels]
    assert model.log_likelihood(graphs, nothing) == pytest.approx(0.0, abs=1e-12)


def test_a_model_of_perfect_matchings_gives_others_no_probability(rng):
    graphs = rng.normal(size=(8, 3, 3, 2))
    model = pm.MAPMatching().fit(graphs, [rng.permutation(3) for _ in graphs])
    assert model.log_likelihood(graphs[:1], [[0, -1, 1]]) == -np.inf
    assert model.score(graphs[:1], [[-1, -1, -1]]) == 0.0


@pytest.mark.parametrize(
    "costs", [None, pm.LinkCosts(), pm.LinkCosts(false=3.0), pm.LinkCosts(abstain=0.2)]
)
def test_decoding_agrees_with_the_distribution(costs, model, data):
    graphs = data[0][:12]
    found = model.predict(graphs, decode="bayes", costs=costs)
    assert any((matching < 0).any() for matching in found)
    for graph, matching, marginals in zip(
        graphs, found, model.predict_marginals(graphs), strict=True
    ):
        one = model.distribution(graph)
        np.testing.assert_array_equal(one.bayes_matching(costs), matching)
        np.testing.assert_allclose(one.marginals, marginals, atol=1e-12)
        np.testing.assert_array_equal(one.mode(), model.predict([graph])[0])


def test_unequal_arrays_are_decoded_as_the_distribution_does(rng):
    graphs = [*rng.normal(size=(10, 3, 5, 2)), *rng.normal(size=(10, 4, 2, 2))]
    labels = [
        pm.MatchingDistribution(graph @ COEF).sample(1, rng=k)[0]
        for k, graph in enumerate(graphs)
    ]
    model = pm.MAPMatching(1e-2).fit(graphs, labels)
    assert model.unmatched_ == "larger"
    for graph, found in zip(graphs, model.predict(graphs, decode="bayes"), strict=True):
        one = model.distribution(graph)
        np.testing.assert_array_equal(one.bayes_matching(), found)
        assert (found >= 0).sum() == min(graph.shape[:2])
    log_probs = [
        model.distribution(graph).log_prob(label)
        for graph, label in zip(graphs, labels, strict=True)
    ]
    assert model.log_likelihood(graphs, labels) == pytest.approx(np.mean(log_probs))


def test_samples_are_those_of_the_distribution(model, data):
    graphs = data[0][:3]
    drawn = model.sample(graphs, 3000, rng=0)
    again = model.sample(graphs, 3000, rng=0)
    for graph, one, same in zip(graphs, drawn, again, strict=True):
        np.testing.assert_array_equal(one, same)
        expected = model.distribution(graph).unmatched_left
        np.testing.assert_allclose((one < 0).mean(axis=0), expected, atol=0.05)


def test_links_with_their_expected_precision_and_recall(model, data):
    graphs, labels = data
    table = model.predict_links(graphs)
    assert list(table) == ["graph", "left", "right", "probability", "precision", "recall"]
    assert len(table["graph"]) == sum(graph.n_edges for graph in graphs)
    assert (np.diff(table["probability"]) <= 0).all()
    marginals = model.predict_marginals(graphs)
    for row in (0, 7, 500):
        g, i, j = (int(table[name][row]) for name in ("graph", "left", "right"))
        listed = graphs[g].scores(model.coef_)
        (at,) = np.nonzero((listed.left == i) & (listed.right == j))[0]
        assert table["probability"][row] == marginals[g][at]
        taken = table["probability"][: row + 1]
        assert table["precision"][row] == pytest.approx(taken.mean(), rel=1e-12)
        whole = np.sum(table["probability"])
        assert table["recall"][row] == pytest.approx(taken.sum() / whole, rel=1e-12)
    assert table["recall"][-1] == pytest.approx(1.0)
    # What is expected is what is found.
    sure = model.predict_links(graphs, 0.5)
    assert (sure["probability"] >= 0.5).all()
    is_right = [
        labels[g][i] == j
        for g, i, j in zip(sure["graph"], sure["left"], sure["right"], strict=True)
    ]
    assert np.mean(is_right) == pytest.approx(sure["precision"][-1], abs=0.05)
    n_links = sum((label >= 0).sum() for label in labels)
    assert np.sum(is_right) / n_links == pytest.approx(sure["recall"][-1], abs=0.05)
    with pytest.raises(errors.InvalidOptionError, match="threshold must be a probability"):
        model.predict_links(graphs, 50)


def test_links_of_equal_probability_are_taken_together():
    model = pm.MAPMatching(engine=ENGINE).fit(np.zeros((1, 2, 2, 1)), [[0, 1]])
    table = model.predict_links(np.zeros((1, 2, 2, 1)))
    np.testing.assert_allclose(table["precision"], 0.5)
    np.testing.assert_allclose(table["recall"], 1.0)
    assert len(model.predict_links(np.zeros((1, 2, 2, 1)), 0.6)["left"]) == 0


def test_models_are_saved_whole(model, data, tmp_path):
    model.save(tmp_path / "model.json")
    again = pm.load(tmp_path / "model.json")
    assert again.unmatched_ == "any"
    assert again.unmatched_intercept_ == model.unmatched_intercept_
    for name in ("coef_", "unmatched_left_coef_", "unmatched_right_coef_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    for a, b in zip(
        again.predict_marginals(data[0][:5]),
        model.predict_marginals(data[0][:5]),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_a_warm_start_needs_no_step(data):
    model = pm.MAPMatching(1e-2, engine=ENGINE, warm_start=True).fit(*data)
    assert model.fit(*data).n_iter_ == 0


def test_the_search_for_alpha(rng):
    graphs, labels = planted(rng, 40)
    model = pm.MAPMatchingCV(
        [1e-3, 1e-1, 10.0], engine=ENGINE, cv=3, scoring="log_likelihood"
    )
    model.fit(graphs, labels)
    assert model.coef_path_.shape == (3, 3, 5)
    plain = pm.MAPMatching(model.alpha_, engine=ENGINE).fit(graphs, labels)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-5)
    assert model.unmatched_intercept_ == pytest.approx(plain.unmatched_intercept_, abs=1e-5)
    np.testing.assert_array_equal(clone(model).fit(graphs, labels).coef_, model.coef_)


def test_max_margin(rng):
    graphs, labels = planted(rng, 120)
    model = pm.MaxMarginMatching(1e-3, engine=ENGINE).fit(graphs, labels)
    assert model.unmatched_ == "any"
    assert model.gap_ <= 1e-3
    likely = pm.MAPMatching(1e-3, engine=ENGINE).fit(graphs, labels)
    test = planted(rng, 60)
    assert model.score(*test) > likely.score(*test) - 0.1
    with pytest.raises(errors.InvalidMatchingError, match="graph 0 is incomplete"):
        model.fit(graphs[:2], [[-2] * graphs[0].n_left, labels[1]])


def test_the_search_of_max_margin(rng, tmp_path):
    graphs, labels = planted(rng, 60)
    model = pm.MaxMarginMatchingCV([1e-3, 1e-2, 1e-1, 1.0, 10.0], engine=ENGINE, cv=3)
    model.fit(graphs, labels)
    plain = pm.MaxMarginMatching(model.alpha_, engine=ENGINE).fit(graphs, labels)
    assert model.score(graphs, labels) == pytest.approx(
        plain.score(graphs, labels), abs=0.05
    )
    model.save(tmp_path / "model.json")
    np.testing.assert_array_equal(pm.load(tmp_path / "model.json").coef_, model.coef_)
    with pytest.raises(errors.InvalidOptionError, match="above 0"):
        pm.MaxMarginMatchingCV([0.0]).fit(graphs, labels)


def random_graph(rng, nodes):
    """A graph of up to 4 x 4 nodes, perhaps without edges."""
    n, k = rng.integers(0, 5, size=2)
    is_edge = rng.random((n, k)) < rng.random()
    own = {}
    if nodes:
        own = {"left_features": rng.normal(size=(n, 1)), "right_features": np.ones((k, 2))}
    x = rng.normal(size=(n, k, 2)) * 10.0 ** rng.integers(-2, 3)
    if rng.random() < 0.5:
        return BipartiteGraph(x, is_edge, **own)
    order = rng.permutation(is_edge.sum())
    i, j = (ends[order] for ends in np.nonzero(is_edge))
    return BipartiteGraph.from_edges(i, j, x[i, j], n, k, **own)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_whatever_graphs_there_are_they_are_learned_from_or_refused(rng):
    n_fitted = 0
    for trial in range(15):
        graphs = [random_graph(rng, trial % 3 == 0) for _ in range(rng.integers(1, 5))]
        labels = [
            pm.EdgeLabels(graph.lay(rng.choice([-1, 0, 0], size=graph.n_edges)))
            for graph in graphs
        ]
        unmatched = ("auto", "any", "larger")[trial % 3]
        model = pm.MAPMatching(0.1, engine=ENGINE, unmatched=unmatched, max_iter=8)
        known = check_known(graphs, labels)
        if unmatched == "larger" and any(one.leaves_spare for one in known):
            with pytest.raises(errors.InvalidMatchingError, match="Use unmatched='any'"):
                model.fit(graphs, labels)
            continue
        model.fit(graphs, labels)
        n_fitted += 1
        assert np.isfinite([*model.coef_, model.unmatched_intercept_]).all()
        assert model.log_likelihood(graphs, labels) <= 0.0
        for graph, found in zip(graphs, model.predict(graphs, "bayes"), strict=True):
            assert found.shape == (graph.n_left,)
    assert n_fitted > 5


# ---- what it refuses -------------------------------------------------------------------


def test_labels_that_no_allowed_matching_fits(rng):
    graph = rng.normal(size=(2, 2, 1))
    model = pm.MAPMatching(unmatched="larger")
    with pytest.raises(errors.InvalidMatchingError, match=r"graph 1 \(2 x 2\) .* most 1"):
        model.fit([graph, graph], [[0, 1], [0, -1]])
    with pytest.raises(errors.InvalidOptionError, match="unmatched must be one of 'auto'"):
        pm.MAPMatching(unmatched="left").fit([graph], [[0, 1]])


def test_other_features_of_nodes_than_the_model(model):
    graph = BipartiteGraph(np.zeros((2, 2, 2)))
    with pytest.raises(errors.FeatureCountError, match="left_features; the model was"):
        model.predict([graph])


def test_costs_go_with_bayes(model, data):
    with pytest.raises(errors.InvalidOptionError, match="with decode='bayes'"):
        model.predict(data[0][:1], costs=pm.LinkCosts())
    with pytest.raises(errors.InvalidOptionError, match=r"LinkCosts\(...\)"):
        model.predict(data[0][:1], decode="bayes", costs=1.0)


@pytest.mark.parametrize("kind", [pm.MAPMatching, pm.MaxMarginMatching, pm.MAPMatchingCV])
def test_labels_that_say_nothing_teach_nothing(rng, kind):
    graphs, nothing = rng.normal(size=(6, 3, 3, 2)), [[-2, -2, -2]] * 6
    with pytest.raises(errors.InvalidMatchingError, match="nothing is known"):
        kind().fit(graphs, nothing)
    weights = [0, 1, 1, 1, 1, 1]
    with pytest.raises(errors.InvalidMatchingError, match="any graph with weight"):
        kind().fit(graphs, [[0, 1, 2], *nothing[1:]], sample_weight=weights)


def test_graphs_of_which_nothing_is_known_are_not_scored(rng):
    graphs, labels = rng.normal(size=(6, 3, 3, 2)), [rng.permutation(3) for _ in range(6)]
    model = pm.MAPMatching(0.1).fit(graphs, labels)
    part = [*labels[:2], *[[-2, -2, -2]] * 4]
    assert model.score(graphs, part) == pytest.approx(model.score(graphs[:2], labels[:2]))
    with pytest.raises(errors.InvalidMatchingError, match="the Hamming loss needs"):
        model.score(graphs, [[-2, -2, -2]] * 6)
    search = pm.MAPMatchingCV([0.1, 1.0], cv=3, scoring="hamming")
    with pytest.raises(errors.InvalidMatchingError, match="Use fewer folds"):
        search.fit(graphs, part)


def test_a_threshold_is_a_probability(rng):
    graphs = rng.normal(size=(6, 3, 3, 2))
    model = pm.MAPMatching(0.1).fit(graphs, [rng.permutation(3) for _ in graphs])
    for wrong in (True, 1.5, "0.5"):
        with pytest.raises(errors.InvalidOptionError, match="threshold must be"):
            model.predict_links(graphs, wrong)


def test_every_question_tells_how_nodes_may_stay_unmatched(rng):
    model = pm.MAPMatching().fit(rng.normal(size=(5, 3, 3, 1)), [np.arange(3)] * 5)
    edges = [0, 1, 2, 2], [0, 0, 1, 2]  # left nodes 0 and 1 want the same partner
    graph = pm.BipartiteGraph.from_edges(*edges, np.zeros((4, 1)), 3, 3)
    for ask in (
        model.predict,
        model.predict_marginals,
        lambda one: model.distribution(*one),
    ):
        with pytest.raises(
            pm.errors.InfeasibleGraphError, match="fitted with unmatched='any'"
        ):
            ask([graph])
