"""Comparisons of pairs of records, one by one."""

from datetime import date

import numpy as np
import pytest

from permatch.errors import InvalidOptionError, MissingDependencyError, TableError
from permatch.features import Comparison, compare_pairs

A = {
    "id": ["x", "y", "z"],
    "name": ["Anna Berg", "Tom Ward", ""],
    "price": [10.0, np.nan, 3.0],
    "born": ["1980-02-01", None, "1999-12-31"],
}
B = {
    "id": [7, 8],
    "name": ["berg anna", " TOM WARD"],
    "price": [12.5, 1e6],
    "born": ["1980-03-01", "2000-01-01"],
}
PAIRS = {"left": ["x", "x", "y", "z"], "right": [7, 8, 8, 8]}


def rows(pairs):
    return {
        "left": [A["id"].index(i) for i in pairs["left"]],
        "right": [B["id"].index(j) for j in pairs["right"]],
    }


def compare(comparisons, **options):
    return compare_pairs(rows(PAIRS), A, B, comparisons, **options)


def test_text_by_rapidfuzz():
    distance = pytest.importorskip("rapidfuzz.distance")
    found = compare({"name": ["jaro_winkler", "levenshtein", "token_sort", "exact"]})
    first = "anna berg", "anna berg", "tom ward"
    second = "berg anna", "tom ward", "tom ward"
    for k, words in enumerate(zip(first, second, strict=True)):
        assert found["name_jaro_winkler"][k] == pytest.approx(
            distance.JaroWinkler.normalized_similarity(*words)
        )
        assert found["name_levenshtein"][k] == pytest.approx(
            distance.Levenshtein.normalized_similarity(*words)
        )
    assert found["name_token_sort"].tolist()[::2] == [1.0, 1.0]
    assert 0.0 < found["name_token_sort"][1] < 0.6
    assert found["name_exact"].tolist() == [0.0, 0.0, 1.0, 0.0]
    assert found["name_missing"].tolist() == [0.0, 0.0, 0.0, 1.0]


def test_tfidf_is_one_for_equal_texts():
    found = compare({"name": "tfidf"})["name_tfidf"]
    assert found[0] == pytest.approx(1.0)  # the order of words does not matter
    assert found.tolist()[1::2] == [0.0, 0.0]


def test_a_column_without_any_text():
    pairs = {"left": [0], "right": [0]}
    found = compare_pairs(pairs, {"name": [""]}, {"name": [None]}, {"name": "tfidf"})
    assert found["name_tfidf"].tolist() == [0.0]
    assert found["name_missing"].tolist() == [1.0]


def test_numbers_and_dates():
    found = compare({"price": "difference", "born": "days"})
    assert found["price_difference"].tolist() == [2.5, 999_990.0, 0.0, 999_997.0]
    assert found["price_missing"].tolist() == [0.0, 0.0, 1.0, 0.0]
    assert found["born_days"].tolist() == [29.0, 7274.0, 0.0, 1.0]
    assert found["born_missing"].tolist() == [0.0, 0.0, 1.0, 0.0]


def test_scale_and_cap():
    found = compare({"price": Comparison("difference", scale=10, cap=20)})
    assert found["price_difference"].tolist() == [0.25, 2.0, 0.0, 2.0]


def test_missing_may_be_nan():
    found = compare({"price": "difference"}, missing="nan")
    assert np.isnan(found["price_difference"]).tolist() == [False, False, True, False]
    assert "price_missing" not in found


def test_dates_of_all_kinds():
    pairs = {"left": [0, 1], "right": [0, 1]}
    text = ["2020-01-01", ""]
    kinds = [
        text,
        np.array(["2020-01-01", "NaT"], dtype="datetime64[ns]"),
        np.array([date(2020, 1, 1), None], dtype=object),
        ["2020-01-01T10:30:00", None],
        ["2020-01-01 10:30", "NaT"],
    ]
    for kind in kinds:
        found = compare_pairs(
            pairs, {"day": kind}, {"day": ["2020-01-03"] * 2}, {"day": "days"}
        )
        assert found["day_days"].tolist() == [2.0, 0.0]
        assert found["day_missing"].tolist() == [0.0, 1.0]


def test_equal_dates_agree_as_text_whatever_their_kind():
    a = {"day": np.array(["2020-01-01", "NaT"], dtype="datetime64[ns]")}
    b = {"day": ["2020-01-01", "2020-01-01"]}
    found = compare_pairs({"left": [0, 1], "right": [0, 1]}, a, b, {"day": "exact"})
    assert found["day_exact"].tolist() == [1.0, 0.0]


def test_ids_and_other_columns_are_kept():
    a, b = dict(A), dict(B) | {"id": ["7", "8"]}
    pairs = {"u": ["x", "z"], "v": ["8", "7"], "weight": [1.5, 2.5]}
    found = compare_pairs(
        pairs, a, b, {"price": "difference"}, id="id", left="u", right="v"
    )
    assert list(found) == ["u", "v", "weight", "price_difference", "price_missing"]
    assert found["price_difference"].tolist() == [999_990.0, 9.5]
    assert found["weight"].tolist() == [1.5, 2.5]


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_frames_of_all_kinds_give_the_same(kind):
    library = pytest.importorskip(kind)
    make = library.table if kind == "pyarrow" else library.DataFrame
    comparisons = {"name": ["tfidf", "exact"], "price": "difference", "born": "days"}
    expected = compare_pairs(rows(PAIRS), A, B, comparisons)
    found = compare_pairs(make(rows(PAIRS)), make(A), make(B), comparisons)
    assert type(found) is (dict if kind == "pyarrow" else library.DataFrame)
    for key, values in expected.items():
        np.testing.assert_allclose(np.asarray(found[key]), values)


@pytest.mark.parametrize(
    ("comparisons", "error", "words"),
    [
        ({"nome": "exact"}, TableError, "table a must have the column 'nome'"),
        ({"name": "soundex"}, InvalidOptionError, "a comparison must be .* got 'soundex'"),
        ({"name": ["exact", "exact"]}, InvalidOptionError, "several different ones"),
        ({"name": []}, InvalidOptionError, "one comparison or several"),
        ({"name": None}, InvalidOptionError, "got None for 'name'"),
        ({}, InvalidOptionError, "a mapping from columns to how they are compared"),
        (
            {"name": "difference"},
            TableError,
            "'name' of table a must hold numbers .* row 0",
        ),
        ({"name": "days"}, TableError, "'name' of table a must hold dates.*'anna berg'"),
    ],
)
def test_messages(comparisons, error, words):
    with pytest.raises(error, match=words):
        compare(comparisons)


def test_unknown_ids_are_named():
    with pytest.raises(TableError, match="row 1 .* has 9, which is not in the row numbers"):
        compare_pairs({"left": [0, 9], "right": [0, 0]}, A, B, {"name": "exact"})
    with pytest.raises(TableError, match="pairs must have the column 'left'"):
        compare_pairs({"a": [0], "right": [0]}, A, B, {"name": "exact"})


def test_results_do_not_replace_columns():
    pairs = rows(PAIRS) | {"name_exact": [1, 2, 3, 4]}
    with pytest.raises(TableError, match="must not have the column 'name_exact' yet"):
        compare_pairs(pairs, A, B, {"name": "exact"})


@pytest.mark.parametrize("options", [{"scale": 0.0}, {"cap": -1.0}, {"cap": np.inf}])
def test_scale_and_cap_are_checked(options):
    with pytest.raises(InvalidOptionError, match="must be numbers above 0"):
        Comparison("days", **options)
    with pytest.raises(InvalidOptionError, match="are for comparisons 'difference'"):
        Comparison("exact", **options)


def test_without_rapidfuzz_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("permatch._optional.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"the extra .link."):
        compare({"name": "jaro_winkler"})
