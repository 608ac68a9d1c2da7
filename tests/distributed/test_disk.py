"""Training from disk: the same coefficients as in memory, in the memory of a shard."""

import signal
import tempfile

import numpy as np
import pandas as pd
import pytest
from pyarrow import dataset
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import permatch as pm
from permatch._tables import Roles
from permatch.distributed import disk, opening
from permatch.errors import (
    DocumentTypeError,
    GradeError,
    InvalidOptionError,
    InvalidQueriesError,
    NaNDocumentError,
    TableError,
)
from permatch.estimators import BaseRanker
from tests.distributed.judged import (
    FEATURES,
    cut,
    estimators,
    frame_of,
    judged_lists,
    write_letor,
    write_parquet,
)

LISTS = judged_lists()
FRAME = frame_of(*LISTS)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    """Cut what is read into shards of some 60 documents."""
    monkeypatch.setattr(opening, "SHARD_BYTES", 2000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_parquet(tmp_path_factory.mktemp("data") / "parts", FRAME, 7)


@pytest.mark.filterwarnings("ignore:the chosen alpha")
@pytest.mark.parametrize("name", estimators())
def test_the_same_coefficients_as_in_memory(name, folder):
    held = clone(estimators()[name]).fit(*LISTS)
    read = clone(held).fit(folder, "grade", "query", feature_names=FEATURES)
    np.testing.assert_allclose(read.coef_, held.coef_, rtol=0, atol=1e-9)
    assert read.feature_names_ == read.columns_ == FEATURES
    assert getattr(read, "alpha_", 0) == getattr(held, "alpha_", 0)


def test_bits_do_not_depend_on_how_the_rows_are_parted(folder, tmp_path):
    model = pm.RankMatch(alpha=0.1, scaling="minmax")
    sources = [
        folder,
        write_parquet(tmp_path / "two", FRAME, 2),
        write_parquet(tmp_path / "many", FRAME, 32),
        dataset.dataset(folder),
    ]
    fits = [
        clone(model).fit(source, "grade", "query", sample_weight="weight")
        for source in sources
    ]
    X, y, qid = LISTS
    held = clone(model).fit(X, y, qid, sample_weight=FRAME["weight"])
    np.testing.assert_allclose(fits[0].coef_, held.coef_, rtol=0, atol=1e-9)
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.coef_, fits[0].coef_)


def test_svmlight_files_whose_last_features_are_zero(tmp_path):
    X, y, qid = LISTS
    X = np.where(np.arange(len(X))[:, None] < 30, X * [1, 1, 0, 0], X)
    source = write_letor(tmp_path / "letor", X, y, qid, 5)
    held = pm.RankMatch(alpha=0.1).fit(X, y, qid)
    read = pm.RankMatch(alpha=0.1).fit(source, feature_names=FEATURES)
    np.testing.assert_allclose(read.coef_, held.coef_, rtol=0, atol=1e-9)
    assert read.columns_ is None
    again = pm.RankMatch(alpha=0.1).fit(str(source))
    np.testing.assert_array_equal(again.coef_, read.coef_)
    np.testing.assert_array_equal(read.predict(source), read.predict(X))
    assert read.score(source) == pytest.approx(read.score(X, y, qid))


@pytest.mark.parametrize("scaling", [None, "minmax"])
def test_predictions_and_scores(folder, scaling):
    X, y, qid = LISTS
    model = pm.QueryRidge(scaling=scaling).fit(folder, "grade", "query")
    assert model.columns_ == [*FEATURES, "weight"]
    table = FRAME[model.columns_]
    found = model.predict(folder, qid="query")
    np.testing.assert_allclose(found, model.predict(table, qid), rtol=1e-12)
    weighted = model.score(folder, "grade", "query", sample_weight="weight")
    wanted = model.score(table, y, qid, sample_weight=FRAME["weight"])
    assert weighted == pytest.approx(wanted, rel=1e-12)


def test_single_precision_stays_single(tmp_path):
    X, y, qid = LISTS
    frame = frame_of(X.astype(np.float32), y, qid)
    source = write_parquet(tmp_path / "single", frame, 3)
    opened = opening.open_queries(source, Roles("grade", "query", features=FEATURES))
    assert opened.shards.map(lambda queries: queries.documents.dtype)[0] == np.float32
    mixed = opening.open_queries(source, Roles("grade", "query"))
    assert mixed.shards.map(lambda queries: queries.documents.dtype)[0] == np.float64


def test_what_needs_documents_in_memory(folder):
    model = pm.RankMatch().fit(folder, "grade", "query", feature_names=FEATURES)
    for call in (model.rank, model.distribution, model.rank_marginals):
        with pytest.raises(InvalidOptionError, match="need documents in memory; got data"):
            call(folder)


@pytest.mark.filterwarnings("ignore:the chosen alpha")
def test_validation_in_a_folder(folder, tmp_path):
    held_out = frame_of(*judged_lists(7))
    other = write_parquet(tmp_path / "other", held_out, 3)
    model = pm.RankMatchCV(alphas=[0.3, 3.0, 30.0])
    given = (held_out[FEATURES], held_out["grade"], held_out["query"])
    held = clone(model).fit(FRAME[FEATURES], *LISTS[1:], validation=given)
    read = clone(model).fit(
        folder,
        "grade",
        "query",
        feature_names=FEATURES,
        validation=(other, "grade", "query"),
    )
    np.testing.assert_allclose(
        read.cv_results_["scores"], held.cv_results_["scores"], rtol=1e-9
    )


def test_features_are_read_once_per_pass_and_only_where_looked_at(folder, monkeypatch):
    reads = []
    read = disk.Stored.read
    monkeypatch.setattr(disk.Stored, "read", lambda own: (reads.append(1), read(own))[1])
    opened = opening.open_queries(folder, Roles("grade", "query"))
    n_shards = len(opened.shards._readers)
    assert n_shards > 3
    assert not reads
    model = pm.RankMatch(alpha=0.1)
    model._fit_shards(opened.shards)
    n_passes = opened.shards.passes.n_begun
    # One to scale; all others evaluate, or find second derivatives.
    assert len(reads) == n_shards * n_passes
    assert n_passes < 2 * model.history_[-1]["evaluations"] + 1


def test_numbers_of_documents_by_grade_are_learned_from_folders(tmp_path):
    X, y, qid = judged_lists()
    rows = write_parquet(tmp_path / "parts", frame_of(X, y, qid), 3), "grade", "query"
    names = {"feature_names": ["a", "b", "c", "d"]}
    whole = pm.RankMatch(alpha=0.1).fit(X, y, qid)
    parted = pm.RankMatch(alpha=0.1).fit(*rows, **names)
    expected = whole.predict_relevance(X, qid)
    np.testing.assert_allclose(parted.predict_relevance(X, qid), expected, atol=1e-6)
    parted.calibrate(*rows)
    expected = whole.calibrate(X, y, qid).predict_relevance(X, qid)
    np.testing.assert_allclose(parted.predict_relevance(X, qid), expected, atol=1e-6)


def test_no_file_is_left_behind(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pm.QueryRidge().fit(folder, "grade", "query")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_says_what_was_written_where(folder, monkeypatch):
    def fill(self, array):
        raise OSError(28, "No space left on device")

    class Full:
        write = seek = flush = fill

        def close(self):
            pass

    monkeypatch.setattr(disk.tempfile, "TemporaryFile", lambda **options: Full())
    monkeypatch.setattr(Full, "seek", lambda self, place: None)
    with pytest.raises(OSError, match=r"writes its rows to .* Set TMPDIR"):
        pm.QueryRidge().fit(folder, "grade", "query")


def test_ctrl_c_keeps_the_best_so_far(folder, monkeypatch):
    calls = []

    def interrupted(self, function, *arguments):
        calls.append(function)
        if len(calls) == 12:
            signal.raise_signal(signal.SIGINT)
        return whole(self, function, *arguments)

    whole = disk.DiskShards.map
    monkeypatch.setattr(disk.DiskShards, "map", interrupted)
    model = pm.RankMatch(alpha=1e-3)
    with pytest.warns(ConvergenceWarning, match="was interrupted after"):
        model.fit(folder, "grade", "query")
    assert model.coef_.any()
    assert not model.is_converged_


# ---- bad input ---------------------------------------------------------------------------


def changed(**columns):
    return FRAME.assign(**columns)


def fit(source, y="grade", qid="query", **more):
    pm.RankMatch().fit(source, y, qid, **more)


@pytest.mark.parametrize(
    ("frame", "error", "message"),
    [
        (changed(query=LISTS[2] % 70), InvalidQueriesError, "occurs .*after other queries"),
        (FRAME.drop(columns="grade"), InvalidQueriesError, "lacks 'grade'"),
        (changed(grade=-1), GradeError, r"part\.\d.parquet: grades must be .* at row 0"),
        (
            changed(b=FRAME["b"].mask(FRAME.index == 100)),
            NaNDocumentError,
            r"part\.\d\.parquet: features must be finite; got nan at row \d+, column 1",
        ),
        (
            changed(query=FRAME["query"].astype(object).mask(FRAME.index == 5)),
            InvalidQueriesError,
            "parquet: query ids must not be missing",
        ),
    ],
)
def test_bad_tables_are_refused_by_file_and_row(tmp_path, frame, error, message):
    source = write_parquet(tmp_path / "bad", frame, 3)
    with pytest.raises(error, match=message):
        fit(source, sample_weight="weight")


def test_weights_within_a_query_are_refused_by_those_that_weigh_queries(tmp_path):
    source = write_parquet(tmp_path / "unequal", changed(weight=np.arange(len(FRAME))), 3)
    with pytest.raises(InvalidQueriesError, match="must be equal for all documents of a"):
        pm.QueryRidge().fit(source, "grade", "query", sample_weight="weight")


@pytest.mark.parametrize("size", ["all", "pairs"])
def test_a_weight_per_document_as_in_memory(tmp_path, size):
    weights = 1.0 + np.arange(len(FRAME)) % 4
    source = write_parquet(tmp_path / "clicks", changed(weight=weights), 5)
    model = pm.RankMatch(size, alpha=0.1)
    read = clone(model).fit(source, "grade", "query", sample_weight="weight")
    X, y, qid = LISTS
    held = clone(model).fit(X, y, qid, sample_weight=weights)
    np.testing.assert_allclose(read.coef_, held.coef_, rtol=0, atol=1e-9)
    assert read.n_observations_ == held.n_observations_
    if size == "all":
        posterior = held.inference(X, y, qid, sample_weight=weights)
        again = read.inference(source, "grade", "query", sample_weight="weight")
        np.testing.assert_allclose(again.bse, posterior.bse, rtol=1e-6)


def test_sorting_is_explained(tmp_path):
    shuffled = FRAME.sample(frac=1.0, random_state=0)
    source = write_parquet(tmp_path / "unsorted", shuffled, 3)
    with pytest.raises(InvalidQueriesError, match=r"Sort by the query .*sort_values"):
        fit(source)


def test_text_is_no_feature(tmp_path):
    source = write_parquet(tmp_path / "text", changed(title="word"), 2)
    fit(source)  # it is left out
    with pytest.raises(DocumentTypeError, match="'title' is not"):
        fit(source, feature_names=["a", "title"])
    with pytest.raises(InvalidQueriesError, match="lacks 'z'"):
        fit(source, feature_names=["a", "z"])


def test_row_numbers_of_a_data_frame_are_no_feature(tmp_path):
    index = np.random.default_rng(0).permutation(len(FRAME))
    source = write_parquet(tmp_path / "index", FRAME.set_index(index), 2)
    names = {"y": "grade", "qid": "query", "sample_weight": "weight"}
    assert pm.RankMatch().fit(source, **names).feature_names_ == FEATURES
    chosen = pm.RankMatch().fit(source, **names, feature_names=["a", "__index_level_0__"])
    assert chosen.n_features_in_ == 2


def test_files_with_other_columns(folder, tmp_path):
    source = write_parquet(tmp_path / "mixed", FRAME, 1)
    FRAME.drop(columns="c").iloc[:0].to_parquet(source / "part.9.parquet")
    with pytest.raises(InvalidQueriesError, match=r"part\.9\.parquet .*lacks 'c'"):
        fit(source)
    model = pm.RankMatch().fit(folder, "grade", "query")
    with pytest.raises(InvalidQueriesError, match="lacks 'c'"):
        model.predict(source / "part.9.parquet")


def test_damaged_and_missing_files(folder, tmp_path):
    source = tmp_path / "cut"
    source.mkdir()
    whole = next(path for path in folder.iterdir() if path.stat().st_size > 3000)
    (source / "a.parquet").write_bytes(whole.read_bytes()[:-100])
    with pytest.raises(TableError, match=r"a\.parquet must be a complete Parquet file"):
        fit(source)
    (source / "a.parquet").unlink()
    with pytest.raises(TableError, match="it holds none"):
        fit(source)
    with pytest.raises(FileNotFoundError, match="there is nothing of this name"):
        fit(source / "nowhere")
    FRAME.iloc[:0].to_parquet(source / "empty.parquet")
    with pytest.raises(InvalidQueriesError, match="all parts are empty"):
        fit(source)


def test_roles_must_suit_the_files(folder, tmp_path):
    with pytest.raises(InvalidQueriesError, match="y must be the name .* got nothing"):
        pm.RankMatch().fit(folder)
    with pytest.raises(InvalidQueriesError, match="qid must be the name .* got ndarray"):
        pm.RankMatch().fit(folder, "grade", LISTS[2])
    with pytest.raises(InvalidQueriesError, match="given by qid, .*got group"):
        pm.RankMatch().fit(folder, "grade", group=[1])
    letor = write_letor(tmp_path / "letor", *LISTS, 2)
    with pytest.raises(InvalidQueriesError, match="say themselves .* got y='grade'"):
        pm.RankMatch().fit(letor, "grade", "query")


def test_rankers_that_are_not_linear_say_so(folder):
    class Odd(BaseRanker):
        scaling = None

        def _fit(self, queries):
            raise AssertionError

        def _predict(self, documents):
            raise AssertionError

    with pytest.raises(InvalidOptionError, match="Odd learns from data in memory only"):
        Odd().fit(folder, "grade", "query")


def test_natural_order_of_files(tmp_path):
    for k, rows in enumerate(cut(len(FRAME), 12)):
        FRAME.iloc[rows].to_parquet(tmp_path / f"part.{k}.parquet")
    files, is_parquet = opening.list_files(tmp_path)
    assert is_parquet
    assert [path.name for path in files][:3] == [f"part.{k}.parquet" for k in range(3)]
    assert pd.concat(map(pd.read_parquet, files))["query"].is_monotonic_increasing
