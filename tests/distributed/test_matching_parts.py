"""Matchers on tables in parts find what they find in memory."""

import dask
import dask.dataframe
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from sklearn.model_selection import TimeSeriesSplit

import permatch as pm
from permatch.datasets import read_edge_table
from permatch.distributed import opening_graphs
from permatch.errors import (
    FeatureCountError,
    FeatureTypeError,
    InvalidMatchingError,
    InvalidOptionError,
    NaNFeatureError,
    NoGraphsError,
    PermatchError,
    TableError,
)

COEF = np.array([1.0, -1.0, 0.5])
FEATURES = ["x0", "x1", "x2"]


def make_table(*, is_square, n_graphs=33):
    """Return candidate pairs whose matchings follow a model, sorted by graph."""
    rng = np.random.default_rng(int(is_square))
    rows = []
    for g in range(n_graphs):
        n, k = (3, 3) if is_square else rng.integers(2, 5, 2)
        features = rng.normal(5.0, 1.0, (n, k, 3))
        alone = {} if is_square else {"unmatched_left": 2.5, "unmatched_right": 0.0}
        law = pm.MatchingDistribution(features @ COEF, **alone)
        (matching,) = law.sample(1, rng=g)
        for i, j in np.ndindex(n, k):
            if is_square or matching[i] == j or rng.random() < 0.8:
                label = float(matching[i] == j)
                rows.append((f"g{g:02d}", f"l{i}", f"r{j}", label, *features[i, j]))
    table = pd.DataFrame(rows, columns=["graph", "left", "right", "label", *FEATURES])
    return table.sample(frac=1.0, random_state=0).sort_values("graph", kind="stable")


@pytest.fixture(scope="module")
def table():
    """Return pairs of unequal graphs, whose nodes may stay unmatched."""
    return make_table(is_square=False).reset_index(drop=True)


@pytest.fixture
def folder(table, tmp_path, monkeypatch):
    """Return the pairs in files that cut graphs, read in shards of some graphs."""
    monkeypatch.setattr(opening_graphs, "SHARD_ROWS", 60)
    return write(table, tmp_path / "pairs")


def write(table, folder, n_files=4):
    folder.mkdir()
    for k, rows in enumerate(np.array_split(np.arange(len(table)), n_files)):
        part = pa.Table.from_pandas(table.iloc[rows], preserve_index=False)
        pq.write_table(part, folder / f"{k}.parquet")
    return folder


def weights_in_memory(model, table):
    known = read_edge_table(table)
    model.fit(known.graphs, known.matchings, feature_names=known.feature_names)
    return model._weights().copy()


def on_dask(table, n_partitions):
    return dask.dataframe.from_pandas(table, npartitions=n_partitions, sort=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        pm.MAPMatching(0.1, tol=1e-9),
        pm.MAPMatching(
            0.1,
            tol=1e-9,
            scale_features=False,
            bounds="non-negative",
            prior_coef={"x1": -1.0},
        ),
        pm.MaxMarginMatching(0.1, tol=1e-6, prior_coef=[1.0, 2.0, 3.0]),
    ],
)
@pytest.mark.parametrize("is_square", [False, True])
def test_coefficients_do_not_depend_on_parts(model, is_square, tmp_path, monkeypatch):
    table = make_table(is_square=is_square)
    expected = weights_in_memory(model, table)
    monkeypatch.setattr(opening_graphs, "SHARD_ROWS", 70)
    model.fit(write(table, tmp_path / "in"))
    assert model.feature_names_ == FEATURES
    assert np.allclose(model._weights(), expected, rtol=0.0, atol=1e-9)
    is_first = isinstance(model, pm.MAPMatching) and model.scale_features and not is_square
    with dask.config.set(scheduler="synchronous"):
        for n_partitions in (2, 7, 32) if is_first else (4,):
            found = model.fit(on_dask(table, n_partitions))._weights()
            assert np.allclose(found, expected, rtol=0.0, atol=1e-9), n_partitions


@pytest.mark.filterwarnings("ignore:the chosen alpha")
def test_alpha_is_chosen_on_later_graphs(table, folder):
    known = read_edge_table(table)
    search = pm.MAPMatchingCV([1.0, 0.01], cv=TimeSeriesSplit(3), prior_coef=-1.0)
    search.fit(known.graphs, known.matchings, feature_names=known.feature_names)
    expected = search.cv_results_["scores"], search.coef_
    search.fit(folder)
    np.testing.assert_allclose(search.cv_results_["scores"], expected[0], atol=1e-12)
    np.testing.assert_allclose(search.coef_, expected[1], atol=1e-4)


@pytest.mark.filterwarnings("ignore:the chosen alpha")
@pytest.mark.parametrize("scoring", ["hamming", "log_likelihood"])
def test_alpha_is_chosen_on_a_validation_set(scoring, table, folder, tmp_path):
    known = read_edge_table(table)
    later = make_table(is_square=False, n_graphs=9)
    held_out = read_edge_table(later)
    search = pm.MAPMatchingCV([1.0, 0.1], scoring=scoring, tol=1e-9)
    validation = held_out.graphs, held_out.matchings
    names = {"feature_names": known.feature_names}
    search.fit(known.graphs, known.matchings, validation=validation, **names)
    expected = search.cv_results_["scores"], search.coef_
    parted = write(later, tmp_path / "later")
    with dask.config.set(scheduler="synchronous"):
        for source, second in (
            ((folder,), (parted, None)),
            ((folder, "label"), (on_dask(later, 2), "label")),
            ((folder,), validation),
            ((known.graphs, known.matchings), (parted, "label")),
        ):
            search.fit(*source, validation=second, **names)
            np.testing.assert_allclose(
                search.cv_results_["scores"], expected[0], rtol=1e-6, atol=1e-9
            )
            np.testing.assert_allclose(search.coef_, expected[1], atol=1e-8)
    narrow = write(later.drop(columns="x2"), tmp_path / "narrow")
    with pytest.raises(TableError, match="it lacks x2"):
        search.fit(folder, validation=(narrow, None))


def test_unknown_labels(table, tmp_path):
    blank = table.copy()
    blank.loc[::9, "label"] = np.nan
    model = pm.MAPMatching(0.1, tol=1e-9)
    expected = weights_in_memory(model, blank)
    found = model.fit(write(blank, tmp_path / "in"))
    assert not found.is_convex_
    assert np.allclose(found._weights(), expected, rtol=0.0, atol=1e-8)
    with pytest.raises(InvalidMatchingError, match=r"of graph \d+ is incomplete"):
        pm.MaxMarginMatching().fit(tmp_path / "in")


def test_the_same_parts_in_any_order_of_arrival(table):
    frame = on_dask(table, 7)
    with dask.config.set(scheduler="synchronous"):
        one = pm.MAPMatching(0.1).fit(frame)._weights()
    with dask.config.set(scheduler="threads", num_workers=4):
        other = pm.MAPMatching(0.1).fit(frame)._weights()
    assert np.array_equal(one, other)


def test_delayed_parts_and_node_features(rng):
    graphs = [
        pm.BipartiteGraph(
            rng.normal(size=(3, 4, 2)),
            left_features=rng.normal(size=(3, 1)),
            right_features=rng.normal(size=(4, 2)),
        )
        for _ in range(12)
    ]
    matchings = [np.where(rng.random(3) < 0.4, -1, np.arange(3)) for _ in graphs]
    parts = [dask.delayed((graphs[k::3], matchings[k::3])) for k in range(3)]
    for model in (pm.MAPMatching(0.1, tol=1e-9), pm.MaxMarginMatching(0.1, tol=1e-6)):
        expected = model.fit(graphs, matchings)._weights().copy()
        with dask.config.set(scheduler="synchronous"):
            found = model.fit(parts, feature_names=["a", "b"])
            (predicted,) = dask.compute(*found.predict([dask.delayed(graphs[:2])]))
        assert found.feature_names_ == ["a", "b"]
        assert np.allclose(found._weights(), expected, rtol=0.0, atol=1e-9)
        assert [own.tolist() for own in predicted] == [
            own.tolist() for own in found.predict(graphs[:2])
        ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        pm.MAPMatchingCV([0.1, 0.3], cv=2, tol=1e-9, scoring="log_likelihood"),
        pm.MaxMarginMatchingCV([0.1, 0.3], cv=2, tol=1e-6),
    ],
)
@pytest.mark.filterwarnings("ignore:the chosen alpha")
def test_alpha_is_chosen_as_in_memory(model, table, folder):
    expected = weights_in_memory(model, table)
    scores = model.cv_results_["scores"]
    with dask.config.set(scheduler="synchronous"):
        for source in (folder, on_dask(table, 2)):
            found = model.fit(source)
            assert np.allclose(found.cv_results_["scores"], scores, rtol=0.0, atol=1e-9)
            assert np.allclose(found._weights(), expected, rtol=0.0, atol=1e-8)


def test_predictions_are_like_the_table(table, folder):
    model = pm.MAPMatching(0.1).fit(folder)
    known = read_edge_table(table)
    chances = model.predict_marginals(folder)
    by_pair = {}
    for k, (own, matching) in enumerate(
        zip(model.predict_marginals(known.graphs), model.predict(known.graphs), strict=True)
    ):
        structure = known.graphs[k].structure
        for chance, i, j in zip(own, structure.left, structure.right, strict=True):
            pair = known.graph_ids[k], known.left_ids[k][i], known.right_ids[k][j]
            by_pair[pair] = chance, matching[i] == j
    pairs = list(table[["graph", "left", "right"]].itertuples(index=False, name=None))
    assert chances.tolist() == [by_pair[pair][0] for pair in pairs]
    is_matched = model.predict(folder)
    assert is_matched.tolist() == [by_pair[pair][1] for pair in pairs]
    frame = on_dask(table.drop(columns="label"), 5)
    with dask.config.set(scheduler="synchronous"):
        series = model.predict_marginals(frame).compute()
        matched = model.predict(frame, "bayes").compute()
    assert series.tolist() == chances.tolist()
    assert series.index.equals(table.index)
    assert matched.dtype == bool


def test_parts_are_measured_as_in_memory(table, folder):
    known = read_edge_table(table)
    model = pm.MAPMatching(0.1).fit(folder)
    expected = [
        measure(known.graphs, known.matchings)
        for measure in (model.score, model.log_likelihood)
    ]
    delayed = [
        dask.delayed((known.graphs[own], known.matchings[own]))
        for own in (slice(0, 9), slice(9, None))
    ]
    with dask.config.set(scheduler="synchronous"):
        for source in (folder, on_dask(table, 5), delayed):
            found = model.score(source), model.log_likelihood(source)
            assert found == pytest.approx(expected, rel=1e-12)
        predicted = sum(dask.compute(*model.predict(delayed)), [])
    assert [own.tolist() for own in predicted] == [
        own.tolist() for own in model.predict(known.graphs)
    ]
    renamed = on_dask(table.rename(columns={"label": "same"}), 2)
    with dask.config.set(scheduler="synchronous"):
        assert model.score(renamed, "same") == pytest.approx(expected[0], rel=1e-12)
    trees = pytest.importorskip("lightgbm", reason="needs lightgbm (extra 'boosting')")
    assert trees
    boosted = pm.BoostedMatching(n_rounds=3).fit(known.graphs, known.matchings)
    boosted.feature_names_ = known.feature_names
    expected = boosted.score(known.graphs, known.matchings)
    assert boosted.score(folder) == pytest.approx(expected, rel=1e-12)


def test_what_needs_graphs_in_memory(table, folder):
    model = pm.MAPMatching(0.1).fit(folder)
    costs = pm.LinkCosts(abstain=0.1)
    with pytest.raises(InvalidOptionError, match=r"to a person; got costs\.abstain=0\.1"):
        model.predict(folder, "bayes", costs=costs)
    for call in (
        lambda: model.predict_links(folder),
        lambda: model.sample(str(folder), 2),
        lambda: model.distribution(folder),
    ):
        with pytest.raises(InvalidOptionError, match="need graphs in memory; got data"):
            call()
    with pytest.raises(InvalidOptionError, match="equal weights; got sample_weight"):
        model.score(folder, sample_weight=[1.0])
    with pytest.raises(InvalidOptionError, match="matchings must be the name of the"):
        model.score(folder, [0, 1])
    files = sorted(map(str, folder.iterdir()))
    with pytest.raises(FeatureTypeError, match=r"graph 0 is a path, .*0\.parquet.* folder"):
        pm.MAPMatching().fit(files)
    ids = {"graph": "all"} | {
        side: table["graph"] + table[side] for side in ("left", "right")
    }
    single = write(table.assign(**ids), folder.parent / "single")
    alone = pm.MAPMatching(0.1).fit(single)
    with pytest.raises(
        InvalidOptionError, match="got a single graph. Load the graph, whos"
    ):
        alone.inference(single)
    assert alone.inference(single, cov_type="laplace").nobs == 1.0
    narrow = [dask.delayed(([np.zeros((2, 3, 1))], [[0, 1]]))]
    for call in (model.score, model.inference):
        with (
            dask.config.set(scheduler="synchronous"),
            pytest.raises(FeatureCountError, match=r"\(3, 0, 0\); part 0 has \(1, 0, 0\)"),
        ):
            call(narrow)


def test_abstaining_on_delayed_parts(table):
    known = read_edge_table(table)
    model = pm.MAPMatching(0.1).fit(known.graphs, known.matchings)
    how = {"decode": "bayes", "costs": pm.LinkCosts(abstain=0.1)}
    with dask.config.set(scheduler="synchronous"):
        (found,) = dask.compute(*model.predict([dask.delayed(known.graphs)], **how))
    expected = model.predict(known.graphs, **how)
    assert [own.tolist() for own in found] == [own.tolist() for own in expected]
    assert any((own == pm.ABSTAINED).any() for own in found)


def test_columns_are_those_of_the_last_fit(table, folder, tmp_path):
    renamed = write(table.rename(columns={"graph": "day"}), tmp_path / "renamed")
    known = read_edge_table(table)
    model = pm.MAPMatching(0.1).fit(renamed, {"graph": "day"})
    assert model.columns_["graph"] == "day"
    model.inference(known.graphs, known.matchings)
    assert model.columns_["graph"] == "day"
    model.fit(known.graphs, known.matchings, feature_names=known.feature_names)
    assert model.columns_ is None
    assert len(model.predict(folder)) == len(table)


def test_other_names_of_columns(table, folder, tmp_path):
    names = {"graph": "day", "left": "a", "right": "b", "label": "same"}
    renamed = write(table.rename(columns=names), tmp_path / "renamed")
    expected = pm.MAPMatching(0.1).fit(folder, feature_names=["x0", "x1"])
    found = pm.MAPMatching(0.1).fit(renamed, names, feature_names=["x0", "x1"])
    assert np.array_equal(found._weights(), expected._weights())
    dataset = pyarrow.dataset.dataset(folder)
    again = pm.MAPMatching(0.1).fit(dataset, "label", feature_names=["x0", "x1"])
    assert np.array_equal(again._weights(), expected._weights())
    assert found.columns_ == names
    chances = expected.predict_marginals(folder)
    assert np.array_equal(found.predict_marginals(renamed), chances)
    found.save(tmp_path / "model.json")
    loaded = pm.load(tmp_path / "model.json")
    assert np.array_equal(loaded.predict_marginals(renamed), chances)
    assert np.array_equal(found.inference(renamed).bse, expected.inference(folder).bse)


def test_columns_of_a_cut_graph(table):
    def framed(*parts):
        delayed = list(map(dask.delayed, parts))
        return dask.dataframe.from_delayed(delayed, meta=table[:0], verify_meta=False)

    whole, part = table.assign(x0=1.0), table[:50].astype({"label": int}).assign(x0=1)
    with dask.config.set(scheduler="synchronous"):
        expected = pm.MAPMatching(0.1).fit(framed(whole[:50], whole[50:]))
        found = pm.MAPMatching(0.1).fit(framed(part, whole[50:]))
        with pytest.raises(TableError, match=r"partition 1 must have .* it lacks label\."):
            pm.MAPMatching().fit(framed(table[:50], table[50:].drop(columns="label")))
    assert np.array_equal(found._weights(), expected._weights())


def test_an_empty_partition_has_the_type_of_the_others(table):
    model = pm.MAPMatching(0.1)
    parts = [dask.delayed(own) for own in (table[:50], table[50:50], table[50:])]
    frame = dask.dataframe.from_delayed(parts, meta=table[:0], verify_meta=False)
    with dask.config.set(scheduler="synchronous"):
        matched = model.fit(frame).predict(frame).compute()
    assert matched.dtype == bool
    assert len(matched) == len(table)


def test_row_numbers_of_a_data_frame_are_no_feature(table, tmp_path):
    (tmp_path / "in").mkdir()
    numbered = table.set_index(np.random.default_rng(0).permutation(len(table)))
    numbered.to_parquet(tmp_path / "in" / "0.parquet")
    assert pm.MAPMatching().fit(tmp_path / "in").feature_names_ == FEATURES


@pytest.mark.parametrize("first", ["bool", "int8", "float32", "int64"])
def test_files_may_hold_numbers_of_several_types(table, tmp_path, first):
    counts = (10.0 * table["x0"]).round()
    table = table.assign(x0=counts if first == "float32" else counts.astype("int64"))
    head, rest = table.iloc[:80].copy(), table.iloc[80:]
    head["x0"] = (head["x0"] % 2 if first == "bool" else head["x0"] % 100).astype(first)
    if first == "int64":
        rest = rest.assign(x0=rest["x0"] / 3.0)
    (tmp_path / "in").mkdir()
    for k, part in enumerate([head, rest]):
        part.to_parquet(tmp_path / "in" / f"{k}.parquet")
    model = pm.MAPMatching(0.1, tol=1e-9)
    expected = weights_in_memory(model, pd.concat([head, rest]).astype({"x0": float}))
    found = model.fit(tmp_path / "in")._weights()
    assert np.allclose(found, expected, rtol=0.0, atol=1e-9)


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_a_file_without_labels(table, folder):
    part = pa.Table.from_pandas(table.iloc[-9:].drop(columns="label"), preserve_index=False)
    pq.write_table(part, folder / "3.parquet")
    with pytest.raises(TableError, match=r"3\.parquet must have .* it lacks label\."):
        pm.MAPMatching().fit(folder)
    with pytest.raises(TableError, match=r"3\.parquet must have .* it lacks label\."):
        pm.MAPMatching().fit(pyarrow.dataset.dataset(folder))
    with (
        dask.config.set(scheduler="synchronous"),
        pytest.raises(TableError, match=r"parts with columns of the same .*label"),
    ):
        pm.MAPMatching().fit(dask.dataframe.read_parquet(folder))


def test_a_column_with_two_roles(table, folder):
    words = r"a column must have one role; 'left' was given two"
    with dask.config.set(scheduler="synchronous"):
        for source in (folder, on_dask(table, 3)):
            for named, features in (
                ({"right": "left"}, None),
                ({"label": "left"}, None),
                ({"graph": "left"}, None),
                ({}, ["x0", "left"]),
            ):
                with pytest.raises(TableError, match=words):
                    pm.MAPMatching().fit(source, named, feature_names=features)


def test_what_is_no_folder_of_parquet_files(table, tmp_path):
    table.to_csv(tmp_path / "table.csv")
    wanted = "must be a folder of Parquet files; it "
    with pytest.raises(TableError, match=wanted + "is a file"):
        pm.MAPMatching().fit(tmp_path / "table.csv")
    with pytest.raises(TableError, match=wanted + r"holds table\.csv"):
        pm.MAPMatching().fit(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(TableError, match="must hold Parquet files; it holds none"):
        pm.MAPMatching().fit(tmp_path / "empty")


def test_a_key_that_names_no_column(table, folder):
    model = pm.MAPMatching().fit(folder)
    with pytest.raises(InvalidOptionError, match=r"no other keys .*; got 'lable'\."):
        model.score(folder, {"lable": "label"})


def test_bad_tables(table, tmp_path):
    def refused(bad, error, message, model=None, **more):
        folder = tmp_path / f"in{len(list(tmp_path.iterdir()))}"
        with pytest.raises(error, match=message):
            (model or pm.MAPMatching()).fit(write(bad, folder), **more)

    mixed = pd.concat([table, table.iloc[:1].assign(left="new")])
    refused(mixed, TableError, r"sorted by graph: .*graph 'g00' occurs .*Sort by the graph")
    refused(
        table.drop(columns="graph"), TableError, "a column with the graph of every pair"
    )
    refused(table.drop(columns="label"), TableError, "it lacks label")
    refused(table.assign(label=0.0), TableError, "must have pairs that match, with 1 in")
    refused(table.iloc[:0], TableError, "at least one pair is required")
    refused(table.assign(label=2.0), TableError, r"a label must be 1 .* row 0 \(counted")
    bad = table.copy()
    bad.loc[77, "x1"] = np.nan
    refused(bad, NaNFeatureError, r"'x1' is missing for pair .*, row 77 \(counted from 0\)")
    bad = table.copy()
    bad.loc[9, "graph"] = None
    refused(bad, TableError, r"every pair needs a 'graph'; the cell is empty at row 9")
    larger = pm.MAPMatching(unmatched="larger")
    refused(table, InvalidMatchingError, r"the label of graph \d+ \(\d x \d\)", larger)
    refused(
        table, InvalidOptionError, "equal weights; got sample_weight", sample_weight=[1]
    )
    refused(table, InvalidOptionError, "matchings must be the name", matchings=[1, 2])
    damaged = write(table, tmp_path / "damaged")
    whole = (damaged / "0.parquet").read_bytes()
    (damaged / "0.parquet").write_bytes(whole[:-100])
    with pytest.raises(TableError, match=r"0\.parquet must be a complete Parquet file"):
        pm.MAPMatching().fit(damaged)
    search = pm.MAPMatchingCV(cv="five")
    refused(
        table, InvalidOptionError, "cv must be a number of folds, .* got 'five'", search
    )
    search = pm.MAPMatchingCV(cv=[([0, 1], [99])])
    refused(table, InvalidOptionError, r"graphs 0 \.\. 32; split 0 does not", search)
    search = pm.MAPMatchingCV(cv=[([0, 1], [])])
    refused(table, InvalidOptionError, "split 0 lacks one", search)
    search = pm.MAPMatchingCV()
    refused(table, NoGraphsError, "at least one graph", search, validation=([], []))
    refused(table, InvalidOptionError, "a pair .* got str", search, validation="folder")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.csv").write_text("left,right\n")
    with pytest.raises(TableError, match="Convert the table to Parquet"):
        pm.MAPMatching().fit(tmp_path / "text")


def test_bad_parts_on_dask(table):
    with dask.config.set(scheduler="synchronous"):
        with pytest.raises(TableError, match="graph 'g00' occurs in partition 0 and again"):
            pm.MAPMatching().fit(on_dask(pd.concat([table, table.iloc[:1]]), 3))
        turned = on_dask(pd.concat([table[2:], table[:2]]), 3)
        model = pm.MAPMatching(0.1).fit(on_dask(table, 2))
        chances = model.predict_marginals(turned)
        with pytest.raises(TableError, match=r"partition 2.*ddf\.sort_values\('graph'\)"):
            chances.compute()
        numbered = table.assign(graph=table["graph"].str[1:].astype(int))
        parts = [dask.delayed(own) for own in (numbered[:50], table[50:])]
        mixed = dask.dataframe.from_delayed(parts, meta=table[:0], verify_meta=False)
        with pytest.raises(TableError, match="the ids of 'graph' must be of one type"):
            pm.MAPMatching().fit(mixed)
        with pytest.raises(InvalidOptionError, match="must be a DataFrame, whose columns"):
            pm.MAPMatching().fit(on_dask(table[FEATURES], 3).to_dask_array())
        with pytest.raises(
            InvalidOptionError, match=r"a pair \(graphs, matchings\); part 0"
        ):
            pm.MAPMatching().fit([dask.delayed(3)])
        graphs = np.zeros((2, 3, 3, 2)), np.zeros((2, 3, 3, 1))
        labels = [np.arange(3)] * 2
        with pytest.raises(FeatureCountError, match="part 1 has"):
            pm.MAPMatching().fit([dask.delayed((own, labels)) for own in graphs])
        with pytest.raises(PermatchError, match="part 1: "):
            pm.MAPMatching().fit(
                [dask.delayed((graphs[0], labels)), dask.delayed(([], []))]
            )


def test_ctrl_c_keeps_the_best_so_far(folder, monkeypatch):
    from permatch.objectives.sharded import ShardedLikelihood

    evaluate, calls = ShardedLikelihood.evaluate, []

    def interrupted(self, coef):
        calls.append(coef)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return evaluate(self, coef)

    monkeypatch.setattr(ShardedLikelihood, "evaluate", interrupted)
    with pytest.warns(UserWarning, match="interrupted"):
        model = pm.MAPMatching(0.1).fit(folder)
    assert not model.is_converged_
    assert model._weights().any()
