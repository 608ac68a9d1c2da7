"""Candidate pairs of two tables, against all pairs one by one."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from permatch.errors import InvalidOptionError, SizeLimitError, TableError
from permatch.features import candidate_pairs, candidates

NAMES = ["ann", "anna", "annabel", "bob", "bobby", "rob", "robert", "hanna", "joanna"]


def table(rng, n):
    """Two names per record from a few, so that many are alike or equal."""
    words = rng.choice(NAMES, (n, 2))
    return {
        "id": [f"r{k}" for k in range(n)],
        "name": [" ".join(row) for row in words],
        "town": rng.choice(["Ashby", "ashby ", "Berne", ""], n).tolist(),
        "zip": rng.choice([1001, 1002, 2001], n),
    }


def as_set(pairs, left="left", right="right"):
    return set(zip(list(pairs[left]), list(pairs[right]), strict=True))


def cosines(a, b, keys=("name",)):
    parts = [
        TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3))
        .fit_transform([*a[key], *b[key]])
        .toarray()
        for key in keys
    ]
    rows = np.concatenate(parts, axis=1)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    n = len(a["id"])
    return rows[:n] @ rows[n:].T


@pytest.mark.parametrize("k", [1, 3, 50])
@pytest.mark.parametrize("least", [0.0, 0.45])
def test_neighbours_are_the_most_similar_of_either_side(k, least):
    rng = np.random.default_rng(k)
    a, b = table(rng, 30), table(rng, 20)
    similarity = cosines(a, b)
    pairs = candidate_pairs(a, b, on="name", n_neighbors=k, min_similarity=least)
    is_found = np.zeros(similarity.shape, dtype=bool)
    is_found[pairs["left"], pairs["right"]] = True
    np.testing.assert_allclose(pairs["similarity"], similarity[is_found], atol=1e-12)
    # Rounding decides between equal similarities: leave a little room.
    kth = [
        np.sort(np.pad(rows, ((0, 0), (k, 0))), axis=1)[:, -k]
        for rows in (similarity, similarity.T)
    ]
    limit = np.minimum(kth[0][:, None], kth[1])
    is_alike = (similarity >= least - 1e-9) & (similarity > 0.0)
    assert not (is_found & ~(is_alike & (similarity >= limit - 1e-9))).any()
    assert is_found[is_alike & (similarity > np.maximum(limit, least) + 1e-9)].all()


def test_ties_go_to_the_first():
    same = {"name": ["ann"] * 3}
    pairs = candidate_pairs(same, same, on="name", n_neighbors=1)
    assert as_set(pairs) == {(0, 0), (1, 0), (2, 0), (0, 1), (0, 2)}


def test_neighbours_within_blocks():
    rng = np.random.default_rng(0)
    a, b = table(rng, 40), table(rng, 30)
    agree = np.equal.outer(a["zip"], b["zip"])
    pairs = candidate_pairs(a, b, on="name", block="zip", n_neighbors=100, min_similarity=0)
    assert as_set(pairs) == set(zip(*np.nonzero(agree & (cosines(a, b) > 0)), strict=True))
    few = candidate_pairs(a, b, on="name", block="zip", n_neighbors=2, min_similarity=0)
    assert as_set(few) < as_set(pairs)
    # Every record with a candidate keeps its best: blocks come first, neighbours second.
    assert set(few["left"]) == set(pairs["left"])


def test_blocks_agree_without_case_and_spaces_and_empty_cells_never():
    rng = np.random.default_rng(1)
    a, b = table(rng, 25), table(rng, 35)
    clean = [[town.strip().lower() for town in own["town"]] for own in (a, b)]
    expected = {
        (i, j)
        for i, first in enumerate(clean[0])
        for j, second in enumerate(clean[1])
        if first and first == second
    }
    pairs = candidate_pairs(a, b, block="town")
    assert as_set(pairs) == expected
    assert list(pairs) == ["left", "right"]


def test_several_blocks_must_all_agree_and_prefixes_may_do():
    rng = np.random.default_rng(2)
    a, b = table(rng, 25), table(rng, 35)
    both = as_set(candidate_pairs(a, b, block=["zip", "town"]))
    assert both == as_set(candidate_pairs(a, b, block="zip")) & as_set(
        candidate_pairs(a, b, block="town")
    )
    pairs = candidate_pairs(a, b, block={"zip": None, "name": 2})
    assert as_set(pairs) == {
        (i, j)
        for i in range(25)
        for j in range(35)
        if a["zip"][i] == b["zip"][j] and a["name"][i][:2] == b["name"][j][:2]
    }


def test_either_is_the_union():
    rng = np.random.default_rng(3)
    a, b = table(rng, 25), table(rng, 35)
    options = {"on": "name", "n_neighbors": 2}
    near = candidate_pairs(a, b, **options)
    same = candidate_pairs(a, b, block="zip")
    pairs = candidate_pairs(a, b, block="zip", how="either", **options)
    assert as_set(pairs) == as_set(near) | as_set(same)
    found = cosines(a, b)[pairs["left"], pairs["right"]]
    np.testing.assert_allclose(pairs["similarity"], found, atol=1e-12)


def test_several_texts_are_compared_as_one():
    rng = np.random.default_rng(4)
    a, b = table(rng, 20), table(rng, 20)
    for own in (a, b):
        own["town"] = [town or "elsewhere" for town in own["town"]]
    pairs = candidate_pairs(a, b, on=["name", "town"])
    lower = [own | {"town": [t.strip().lower() for t in own["town"]]} for own in (a, b)]
    found = cosines(*lower, keys=("name", "town"))[pairs["left"], pairs["right"]]
    np.testing.assert_allclose(pairs["similarity"], found, atol=1e-12)


def test_swapping_the_tables_swaps_the_pairs():
    rng = np.random.default_rng(5)
    a, b = table(rng, 25), table(rng, 35)
    there = candidate_pairs(a, b, on="name", n_neighbors=50)
    back = candidate_pairs(b, a, on="name", n_neighbors=50)
    assert as_set(there) == {(i, j) for j, i in as_set(back)}


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_frames_of_all_kinds_give_the_same(kind):
    library = pytest.importorskip(kind)
    rng = np.random.default_rng(6)
    a, b = table(rng, 25), table(rng, 35)
    make = library.table if kind == "pyarrow" else library.DataFrame
    options = {"on": "name", "block": "zip", "id": "id", "left": "x", "right": "y"}
    pairs = candidate_pairs(make(a), make(b), **options)
    expected = candidate_pairs(a, b, **options)
    assert type(pairs) is (dict if kind == "pyarrow" else library.DataFrame)
    assert list(expected) == ["x", "y", "similarity"]
    for key in expected:
        assert list(pairs[key]) == list(expected[key])
    assert set(expected["x"]) <= set(a["id"])


def test_whole_numbers_agree_with_floats():
    a, b = {"zip": np.array([1001, 2002])}, {"zip": np.array([2002.0, np.nan])}
    assert as_set(candidate_pairs(a, b, block="zip")) == {(1, 0)}


def test_accents_do_not_matter():
    pairs = candidate_pairs({"name": ["Müller"]}, {"name": ["MULLER"]}, on="name")
    assert pairs["similarity"].tolist() == pytest.approx([1.0])


def test_records_without_text_have_no_neighbours():
    a, b = {"name": ["", "ann", None]}, {"name": ["ann", ""]}
    assert as_set(candidate_pairs(a, b, on="name", min_similarity=0.0)) == {(1, 0)}


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"on": "nam"}, TableError, r"table a must have the column 'nam'; it has 'id', "),
        ({"block": "street"}, TableError, "table a must have the column 'street'"),
        ({"on": None}, InvalidOptionError, "needs on=, .* or block=, .* got neither"),
        ({"min_similarity": 2}, InvalidOptionError, "min_similarity must be from 0 to 1"),
        ({"min_similarity": "2"}, InvalidOptionError, "min_similarity must be from 0 to 1"),
        ({"right": "left"}, InvalidOptionError, "left and right must be different names"),
        ({"left": "similarity"}, InvalidOptionError, "other than 'similarity'"),
        ({"n_neighbors": 0}, InvalidOptionError, "n_neighbors"),
        ({"how": "union"}, InvalidOptionError, "how must be one of 'both', 'either'"),
        ({"block": {"zip": 0}}, InvalidOptionError, "number of letters of block column"),
        (
            {"on": 3},
            TableError,
            "on must be the name of a column or a list of names; got 3",
        ),
        ({"id": "zip"}, TableError, "ids must be different; column 'zip' of table a has "),
        ({"id": "town"}, TableError, "every record needs an id; column 'town' of table a"),
    ],
)
def test_messages(change, error, words):
    rng = np.random.default_rng(7)
    a, b = table(rng, 25), table(rng, 35)
    with pytest.raises(error, match=words):
        candidate_pairs(a, b, **{"on": "name"} | change)


@pytest.mark.parametrize(
    ("a", "words"),
    [
        ({"name": []}, "table a must have at least one row"),
        ({}, "table a must have columns"),
        ([1, 2], "table a must be a data frame .* got list. Read files first"),
        ({"name": ["ann", "bob"], "zip": [1]}, "lists of equal length; 'zip' has shape"),
    ],
)
def test_messages_about_tables(a, words):
    with pytest.raises(TableError, match=words):
        candidate_pairs(a, {"name": ["ann"], "zip": [1]}, on="name", block="zip")


def test_columns_of_one_name_are_refused():
    pandas = pytest.importorskip("pandas")
    a = pandas.DataFrame([["ann", "bob"]], columns=["name", "name"])
    with pytest.raises(TableError, match="different names; got 'name' more than once"):
        candidate_pairs(a, {"name": ["ann"]}, on="name")


def test_lazy_frames_are_collected():
    polars = pytest.importorskip("polars")
    a = polars.LazyFrame({"name": ["ann", "bob"]})
    pairs = candidate_pairs(a, {"name": ["bob"]}, on="name")
    assert pairs.collect().rows() == [(1, 0, pytest.approx(1.0))]


def test_no_candidates():
    a, b = {"name": ["ann"], "zip": [1]}, {"name": ["bob"], "zip": [2]}
    with pytest.raises(TableError, match="0.2 .* lower min_similarity"):
        candidate_pairs(a, b, on="name")
    with pytest.raises(TableError, match=r"agree in the block 'zip'.*block on fewer"):
        candidate_pairs(a, b, block="zip")


def test_no_text_at_all():
    with pytest.raises(TableError, match="no pair of records is a candidate"):
        candidate_pairs({"name": ["", None]}, {"name": [" "]}, on="name")


def test_too_many_pairs_are_refused(monkeypatch):
    monkeypatch.setattr(candidates, "MAX_PAIRS", 5)
    same = {"zip": [1, 1, 1]}
    with pytest.raises(SizeLimitError, match="at most 5 pairs; these have 9"):
        candidate_pairs(same, same, block="zip")
