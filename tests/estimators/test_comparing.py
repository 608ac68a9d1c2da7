"""Comparisons of fitted rankers, in every form they and their data have."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import permatch as pm
from permatch.datasets.runs import find_source, read_run
from permatch.errors import (
    InvalidOptionError,
    InvalidQueriesError,
    LetorFileError,
    ModelFileError,
    PermatchError,
)

QUICK = {"measures": "NDCG@5", "n_resamples": 200}
N, LENGTH = 240, 8


@pytest.fixture(scope="module")
def lists():
    """A table of judged documents, half of them to learn from."""
    rng = np.random.default_rng(6)
    frame = pd.DataFrame(rng.normal(size=(N, 3)), columns=["a", "b", "c"])
    frame["brand"] = rng.choice(["x", "y"], size=N)
    frame["query"] = np.repeat([f"q{k}" for k in range(N // LENGTH)], LENGTH)
    merit = frame["a"] - frame["b"] + (frame["brand"] == "x") + rng.normal(size=N)
    frame["grade"] = np.digitize(merit, [0.0, 1.5])
    frame["id"] = [f"d{k}" for k in range(N)]
    return frame.iloc[: N // 2], frame.iloc[N // 2 :].reset_index(drop=True)


@pytest.fixture(scope="module")
def arrays(lists):
    test = lists[1]
    return test[["a", "b", "c"]].to_numpy(), test["grade"].to_numpy(), test["query"]


@pytest.fixture(scope="module")
def models(lists):
    """A ranker of numbers, one that scales within queries, and a worse one."""
    train = lists[0]
    X, y, qid = train[["a", "b", "c"]], train["grade"], train["query"]
    return {
        "old": pm.RankMatch(alpha=100).fit(X[["c"]].assign(a=0.0, b=0.0), y, qid),
        "new": pm.RankMatch(alpha=1).fit(X, y, qid),
        "scaled": pm.DORM(alpha=1, scaling="minmax").fit(X, y, qid),
    }


def values_of(comparison):
    return comparison.values[:, 0]


def expected(models, arrays):
    X, y, qid = arrays
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    measure = pm.metrics.NDCG @ 5
    return [
        measure(y, model.predict(frame, qid=qid), qid, per_query=True)
        for model in models.values()
    ]


def test_every_form_of_lists_gives_the_same(models, lists, arrays):
    test = lists[1]
    X, y, qid = arrays
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    found = pm.compare_rankers(models, frame, y, qid, **QUICK)
    assert found.rankers == ["old", "new", "scaled"]
    np.testing.assert_allclose(values_of(found), expected(models, arrays))
    group = [LENGTH] * (len(y) // LENGTH)
    shuffled = test.sample(frac=1.0, random_state=0)
    for other in (
        pm.compare_rankers(models, test, "grade", "query", **QUICK),
        pm.compare_rankers(models, test, y, qid, documents="id", **QUICK),
        pm.compare_rankers(models, frame, y, group=group, **QUICK),
        pm.compare_rankers(models, frame, list(y), qid.to_numpy(), **QUICK),
    ):
        np.testing.assert_array_equal(other.values, found.values)
        assert other.rows == found.rows
    other = pm.compare_rankers(models, shuffled, "grade", "query", **QUICK)
    order = [other.lists.queries.tolist().index(one) for one in found.lists.queries]
    np.testing.assert_allclose(other.values[:, :, order], found.values)


def test_a_ranker_may_know_the_column_of_queries(lists):
    train, test = lists
    named = [
        pm.RankMatch(alpha=alpha, qid="query").fit(train, "grade", feature_names=["a", "b"])
        for alpha in (1, 100)
    ]
    found = pm.compare_rankers(named, test, "grade", **QUICK)
    assert found.rankers == ["RankMatch", "RankMatch 2"]
    other = pm.compare_rankers(named, test, "grade", "query", **QUICK)
    assert other.rows == found.rows


def test_pipelines_are_rankers_too(models, lists):
    train, test = lists
    columns = ["a", "b", "brand"]
    preparation = pm.FeaturePreparation(categories=["brand"])
    pipeline = make_pipeline(preparation, pm.RankMatch(alpha=1))
    pipeline.fit(train[columns], train["grade"], rankmatch__qid=train["query"])
    rankers = {"old": models["old"], "pipeline": pipeline}
    found = pm.compare_rankers(rankers, test, "grade", "query", **QUICK)
    measure = pm.metrics.NDCG @ 5
    scores = pipeline.predict(test[columns])
    own = measure(test["grade"], scores, test["query"], per_query=True)
    np.testing.assert_allclose(values_of(found)[1], own)


def test_models_of_others_are_rankers_too(lists, arrays):
    train, (X, y, qid) = lists[0], arrays
    ridge = Ridge().fit(train[["a", "b", "c"]].to_numpy(), train["grade"])
    found = pm.compare_rankers([ridge, X[:, 0], X[:, 1]], X, y, qid, **QUICK)
    assert found.rankers == ["Ridge", "scores", "scores 2"]
    measure = pm.metrics.NDCG @ 5
    own = [measure(y, by, qid, per_query=True) for by in (ridge.predict(X), *X.T[:2])]
    np.testing.assert_allclose(values_of(found), own)


def test_trees_are_rankers_too(lists, arrays, models):
    pytest.importorskip("lightgbm")
    train, test = lists
    X, y, qid = train[["a", "b", "c"]], train["grade"], train["query"]
    trees = pm.BoostedRankMatch(n_rounds=5, min_data_in_leaf=5).fit(X, y, qid)
    found = pm.compare_rankers([models["new"], trees], test, "grade", "query", **QUICK)
    assert found.rankers == ["RankMatch", "BoostedRankMatch"]
    own = (pm.metrics.NDCG @ 5)(
        test["grade"], trees.predict(test), test["query"], per_query=True
    )
    np.testing.assert_allclose(values_of(found)[1], own)


def test_files_of_models_scores_and_runs(models, lists, arrays, tmp_path):
    test, (X, _, qid) = lists[1], arrays
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    scores = models["scaled"].predict(frame, qid=qid)
    models["old"].save(tmp_path / "old.json")
    (tmp_path / "scores.txt").write_text(
        "".join(f"{score!r}\n" for score in scores.tolist())
    )
    lines = [
        f"{query} Q0 {name} 0 {score!r} run\n"
        for query, name, score in zip(qid, test["id"], scores.tolist(), strict=True)
    ]
    np.random.default_rng(0).shuffle(lines)
    (tmp_path / "scores.run").write_text("\n".join(lines))
    paths = [tmp_path / name for name in ("old.json", "scores.txt", "scores.run")]
    assert [find_source(path) for path in paths] == ["model", "scores", "run"]
    found = pm.compare_rankers(paths, test, "grade", "query", documents="id", **QUICK)
    assert found.rankers == ["old.json", "scores.txt", "scores.run"]
    own = expected(models, arrays)
    np.testing.assert_allclose(values_of(found), [own[0], own[2], own[2]])
    assert found.lists.documents[:2] == test["id"].tolist()[:2]
    np.testing.assert_array_equal(read_run(paths[2], qid, test["id"]), scores)


def test_data_in_parts(models, lists, arrays, tmp_path):
    pytest.importorskip("pyarrow")
    test = lists[1][["a", "b", "c", "query", "grade"]]
    test.iloc[:50].to_parquet(tmp_path / "part.0.parquet")
    test.iloc[50:].to_parquet(tmp_path / "part.1.parquet")
    found = pm.compare_rankers(models, tmp_path, "grade", "query", **QUICK)
    whole = pm.compare_rankers(models, test, "grade", "query", **QUICK)
    np.testing.assert_allclose(found.values, whole.values)
    assert found.lists.queries.tolist() == whole.lists.queries.tolist()
    models["old"].save(tmp_path / "old.json")
    (tmp_path / "data").mkdir()
    test.to_parquet(tmp_path / "data" / "all.parquet")
    rankers = [tmp_path / "old.json", models["new"]]
    again = pm.compare_rankers(rankers, tmp_path / "data", "grade", "query", **QUICK)
    np.testing.assert_allclose(again.values, whole.values[:2])
    message = "scored by permatch's own rankers only; x is a ndarray"
    with pytest.raises(InvalidOptionError, match=message):
        pm.compare_rankers(
            {"x": np.zeros(120), "new": models["new"]}, tmp_path / "data", "grade", "query"
        )


def test_what_is_wrong_is_said(models, arrays, lists):
    X, y, qid = arrays
    one = models["new"]
    for rankers, words in (
        (
            one,
            "must be a dict of two or more rankers by name, or a sequence.*RankMatch",
        ),
        ([one], "at least two rankers are required, the baseline first; got 1"),
        (
            [one, one],
            "must be different; 'RankMatch' and 'RankMatch 2' are the same",
        ),
        ({"a": one, "b": one}, "'a' and 'b' are the same object. Fit or load one"),
    ):
        with pytest.raises(InvalidOptionError, match=words):
            pm.compare_rankers(rankers, X, y, qid)
    two = {"old": models["old"], "new": one}
    with pytest.raises(PermatchError, match=r"a comparison needs the query of every"):
        pm.compare_rankers(two, X, y)
    with pytest.raises(InvalidQueriesError, match="grades are required, y"):
        pm.compare_rankers(two, X, qid=qid)
    with pytest.raises(InvalidQueriesError, match="either by qid or by group; got both"):
        pm.compare_rankers(two, X, y, qid, [len(y)])
    with pytest.raises(InvalidQueriesError, match=r"^old: documents must have the 3 feat"):
        pm.compare_rankers(two, X[:, :2], y, qid)
    with pytest.raises(InvalidQueriesError, match=r"^old: X must have the columns.*'a'"):
        pm.compare_rankers(two, lists[1].drop(columns="a"), "grade", "query")
    with pytest.raises(InvalidQueriesError, match="documents are required, X"):
        pm.compare_rankers(two, None, y, qid)
    with pytest.raises(InvalidQueriesError, match="old scores 120, s 2"):
        pm.compare_rankers({"old": models["old"], "s": [1.0, 2.0]}, X, y, qid)
    with pytest.raises(InvalidQueriesError, match="two queries; got 1"):
        pm.compare_rankers(two, X, y, group=[len(y)])
    with pytest.raises(PermatchError, match=r"^b: .*fitted"):
        pm.compare_rankers({"a": one, "b": pm.RankMatch()}, X, y, qid)


def test_rankers_of_others_see_features_only(lists, models, arrays):
    columns = ["a", "b", "c"]
    ridge = Ridge().fit(lists[0][columns], lists[0]["grade"])
    frame = lists[1].drop(columns="brand")
    rankers = {"ridge": ridge, "new": models["new"]}
    found = pm.compare_rankers(rankers, frame, "grade", "query", documents="id", **QUICK)
    plain = {"ridge": ridge.predict(lists[1][columns]), "new": models["new"]}
    own = pm.compare_rankers(plain, arrays[0], *arrays[1:], **QUICK)
    np.testing.assert_array_equal(found.values, own.values)
    more = [*columns, "grade"]  # it knows what it was fitted on
    named = Ridge().fit(lists[0][more], lists[0]["grade"])
    pair = {"named": named, "new": models["new"]}
    found = pm.compare_rankers(pair, lists[1][[*more, "query"]], "grade", "query", **QUICK)
    assert found.row().baseline_mean > 0.999


def test_rankers_that_are_none(models, arrays):
    X, y, qid = arrays
    two = [models["old"], models["new"]]
    words = "unless X is a table; got 'doc', a column, and X is ndarray. Give one name per"
    with pytest.raises(InvalidOptionError, match=words):
        pm.compare_rankers(two, X, y, qid, documents="doc")
    with pytest.raises(InvalidOptionError, match="a column, and X is NoneType"):
        pm.compare_rankers([X[:, 0], X[:, 1]], None, y, qid, documents="doc")
    words = r"rankers must be fitted; b is the class RankMatch. .* RankMatch\(\).fit\("
    with pytest.raises(InvalidOptionError, match=words):
        pm.compare_rankers({"a": two[0], "b": pm.RankMatch}, X, y, qid)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("7 Q0 a 1 0.5 x\n", "there is none for document 'b' of query '7'"),
        (
            "7 Q0 a 1 0.5 x\n7 Q0 b 1 0.5 x\n7 Q0 c 1 1 x\n",
            "document 'c' of query '7' is not judged. Judge it, 0 if it is not relevant",
        ),
        (
            "7 Q0 a 1 0.5 x\n7 Q0 a 1 0.5 x\n",
            "line 2: document 'a' of query '7' has a score",
        ),
        (
            "7 Q0 a 1 0.5 x\n\n7 Q0 b 2 x x\n",
            "line 3: a line of a TREC.*'7 Q0 b 2 x x'",
        ),
        ("7 Q0 a 1 0.5 x\n7 Q0 b 2 0.4\n", "line 2: a line of a TREC run must be 'query"),
        ("7 Q0 a 1 1_0 x\n", "with a finite score; got '7 Q0 a 1 1_0 x'. Correct"),
        ("7 Q0 a 1 nan x\n", "with a finite score; got '7 Q0 a 1 nan x'. Correct"),
    ],
    ids=["too few", "too many", "twice", "text", "short", "1_0", "nan"],
)
def test_runs_that_do_not_fit(tmp_path, text, words):
    path = tmp_path / "bad.run"
    path.write_text(text)
    with pytest.raises(LetorFileError, match=words):
        read_run(path, [7, 7], ["a", "b"])


def test_files_that_are_nothing(tmp_path):
    path = tmp_path / "lists.txt"
    path.write_text("\n2 qid:1 1:0.5 2:3 3:1 4:2\n")
    words = r"lists.txt must be a model.*first line is '2 qid:1 1:0.5 2:3 3:1 4:2'. Judged"
    with pytest.raises(ModelFileError, match=words):
        pm.compare_rankers([path, [1.0, 2.0]], None, [1, 0], [0, 1])
    path.write_text("")
    with pytest.raises(ModelFileError, match="is empty, not a model"):
        pm.compare_rankers([path, [1.0, 2.0]], None, [1, 0], [0, 1])
