"""Scored pairs in every form, and what is said of those that will not do."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import permatch as pm
from permatch.errors import InvalidOptionError, TableError

PAIRS = {
    "left": ["a", "a", "b", "c"],
    "right": ["x", "y", "y", "z"],
    "probability": [0.7, 0.2, 0.4, 0.5],
}
FRAME = pd.DataFrame(PAIRS)


@pytest.fixture(scope="module")
def expected():
    return pm.link(PAIRS)["probability"]


def splink_frame():
    odds = np.log2(FRAME.probability / (1 - FRAME.probability))
    return pd.DataFrame(
        {
            "match_weight": odds,
            "match_probability": FRAME.probability,
            "unique_id_l": FRAME.left,
            "unique_id_r": FRAME.right,
            "name_l": [["lists", "too"]] * 4,
        }
    )


def multi_index():
    index = pd.MultiIndex.from_frame(FRAME[["left", "right"]], names=["id_1", "id_2"])
    return pd.Series(PAIRS["probability"], index=index)


def dedupe_array():
    kind = [("pairs", "U4", 2), ("score", "f8")]
    ids = zip(PAIRS["left"], PAIRS["right"], strict=True)
    return np.array(list(zip(ids, PAIRS["probability"], strict=True)), dtype=kind)


class Stream:
    def __arrow_c_stream__(self, requested_schema=None):
        return pa.table(PAIRS).__arrow_c_stream__(requested_schema)


class SplinkDataFrame:
    def as_pandas_dataframe(self):
        return splink_frame()


FORMS = {
    "mapping": lambda: PAIRS,
    "pandas": lambda: FRAME,
    "shuffled index": lambda: FRAME.set_index(pd.Index([7, 7, 3, 1])),
    "arrow": lambda: pa.table(PAIRS),
    "stream": Stream,
    "splink": splink_frame,
    "SplinkDataFrame": SplinkDataFrame,
    "MultiIndex": multi_index,
    "MultiIndex frame": lambda: multi_index().to_frame("probability"),
    "dedupe": dedupe_array,
    "structured": lambda: FRAME.to_records(index=False).view(np.ndarray),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read(form, expected):
    links = pm.link(FORMS[form]())
    assert np.allclose(links["probability"], expected, atol=1e-9)
    left, right = links.id_columns
    assert links[left].tolist() == PAIRS["left"]
    assert links[right].tolist() == PAIRS["right"]


def test_polars_is_read(expected):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(PAIRS)
    for form in (frame, frame.lazy(), frame.cast({"left": polars.Categorical})):
        assert np.allclose(pm.link(form)["probability"], expected)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_files_are_read(tmp_path, suffix, expected):
    path = tmp_path / f"pairs{suffix}"
    if suffix == ".parquet":
        FRAME.to_parquet(path)
    else:
        FRAME.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
    assert np.allclose(pm.link(path)["probability"], expected)


def test_weights_and_scores_are_log_odds(expected):
    p = np.array(PAIRS["probability"])
    table = {key: PAIRS[key] for key in ("left", "right")}
    log_odds = np.log(p / (1 - p))
    for name, values in (("weight", log_odds / np.log(2)), ("score", log_odds)):
        links = pm.link(table | {"x": values}, **{name: "x"})
        assert np.allclose(links["probability"], expected)
        assert np.allclose(links["pair_probability"], p)


def test_names_of_columns_can_be_given(expected):
    table = {"A": PAIRS["left"], "B": PAIRS["right"], "p": PAIRS["probability"]}
    links = pm.link(table, left="A", right="B", probability="p")
    assert links.id_columns == ("A", "B")
    assert np.allclose(links["probability"], expected)


@pytest.mark.parametrize(
    "ids",
    [
        [10, 10, 20, 30],
        np.array([1, 1, 2, 3], dtype=np.uint8),
        [2**70, 2**70, 5, 6],
        [("t", 1), ("t", 1), ("t", 2), ("t", 3)],
        np.array(["2020-01-01", "2020-01-01", "2020-02-01", "2020-03-01"], "datetime64[D]"),
    ],
    ids=["int", "uint8", "huge", "tuples", "dates"],
)
def test_ids_of_any_kind(ids, expected):
    if isinstance(ids, list) and isinstance(ids[0], tuple):
        column = np.empty(4, dtype=object)
        column[:] = ids
        ids = column
    links = pm.link(PAIRS | {"left": ids})
    assert np.allclose(links["probability"], expected)
    wanted = np.asarray(ids)
    wanted = wanted.astype(str) if wanted.dtype.kind == "M" else wanted
    assert links["left"].tolist() == wanted.tolist()


def test_a_probability_of_0_forbids_and_1_leaves_room():
    table = {"left": ["a", "a", "b"], "right": ["x", "y", "y"]}
    links = pm.link(table | {"probability": [1.0, 0.0, 0.3]})
    assert links["probability"][0] == pytest.approx(1.0)
    assert links["probability"][1] == 0.0
    assert links["low"][1] == links["high"][1] == 0.0
    assert links["probability"][2] == pytest.approx(0.3)
    assert links["decision"].tolist() == ["link", "no link", "no link"]
    weights = pm.link(table | {"w": [np.inf, -np.inf, 2.0]}, weight="w")
    assert weights["pair_probability"].tolist() == [1.0, 0.0, pytest.approx(0.8)]
    assert weights["decision"].tolist() == ["link", "no link", "link"]


def test_a_table_without_rows_has_no_links(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("left,right,probability\n")
    for source in (path, {"left": [], "right": [], "probability": []}, FRAME.iloc[:0]):
        links = pm.link(source)
        assert len(links) == 0
        assert links.expected_links == 0.0
        assert "0 pairs" in repr(links)
        assert len(links.review(3)) == 0
        assert "0 left records" in links.summary()


def test_nothing_but_forbidden_pairs():
    links = pm.link(PAIRS | {"probability": [0.0] * 4})
    assert (links["decision"] == "no link").all()
    assert (links["no_partner_left"] == 1.0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"probability": [0.7, np.nan, 0.4, 0.5]},
            r"must be numbers; 'probability' is mis",
        ),
        (
            {"probability": [0.7, 1.7, 0.4, 0.5]},
            r"from 0 to 1; 'probability' is 1\.7 for .*w",
        ),
        (
            {"probability": [0.7, "x", 0.4, 0.5]},
            "must hold numbers such as 0.9; 'probability' is 'x' at row 1",
        ),
        (
            {"left": ["a", "a", None, "c"]},
            "every pair needs a 'left'; the cell is empty at row 2",
        ),
        ({"right": ["x", "x", "y", "z"]}, r"one row; pair \('a', 'x'\) has two, at row 0"),
        ({"left": ["a"]}, "lists of equal length"),
    ],
)
def test_what_is_wrong_with_cells_is_said(change, message):
    with pytest.raises(TableError, match=message):
        pm.link(PAIRS | change)


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (
            {"a": [1], "b": [2], "p": [0.5]},
            {},
            "ids of the two records.*'a', 'b', 'p'.*left=",
        ),
        (
            {"left": [1], "right": [2], "x": [0.5]},
            {},
            "a probability, weight or score.*'x'",
        ),
        (PAIRS, {"left": "id"}, "the column 'id'"),
        (PAIRS, {"probability": "left"}, "different columns; got 'left', 'right', 'left'"),
    ],
)
def test_missing_columns_are_named(table, options, message):
    with pytest.raises(TableError, match=message):
        pm.link(table, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"probability": "probability", "weight": "w"}, "probability= and weight="),
        ({"left": 3}, "left must be the name of a column; got 3"),
        ({"expected_links": -1}, "expected_links must be 'pairs'"),
        ({"expected_links": "all"}, "expected_links must be 'pairs'.*got 'all'"),
        ({"expected_links": 3.0}, "must be below 3, the most links that these pairs allow"),
        ({"unmatched": np.inf}, "unmatched must be a finite number"),
        ({"costs": 2}, r"costs must be permatch.LinkCosts"),
        ({"tol": 2.0}, "tol of link must be a number above 0 and below 1"),
        ({"budget": 0}, "budget of link must be a number of seconds above 0"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(InvalidOptionError, match=message):
        pm.link(PAIRS, **options)


def test_ids_may_not_be_called_like_a_result():
    with pytest.raises(TableError, match="must not be called like those of the result"):
        pm.link({"low": [1], "right": [2], "p": [0.5]}, left="low", probability="p")


def test_levels_and_columns_of_one_name_are_refused():
    frame = multi_index().to_frame("probability").assign(id_1=[1, 2, 3, 4])
    with pytest.raises(TableError, match="'id_1' is both"):
        pm.link(frame)


def test_ids_of_several_kinds_are_not_for_arrow(tmp_path):
    links = pm.link(PAIRS | {"left": np.array([1, 1, "b", 2.5], dtype=object)})
    with pytest.raises(TableError, match="column 'left' holds several.*write CSV"):
        links.write(tmp_path / "links.parquet")
    assert list(tmp_path.iterdir()) == []
    links.write(tmp_path / "links.csv")
    assert pm.Links.read(tmp_path / "links.csv")["left"].tolist() == ["1", "1", "b", "2.5"]


def test_a_table_without_columns_says_so():
    with pytest.raises(
        TableError, match="it has no columns. Name the columns .* left= and"
    ):
        pm.link(pd.DataFrame())


def test_what_is_missing_is_what_is_to_be_named():
    with pytest.raises(
        TableError, match="Name the columns that hold them: left= and right=.$"
    ):
        pm.link({"a": [1], "b": [2], "p": [0.5]})
    with pytest.raises(TableError, match="Name the column that holds it: probability= "):
        pm.link({"left": [1], "right": [2], "p": [0.5]})


def test_percentages_are_recognised():
    table = {"left": [1, 2, 3], "right": [1, 2, 3], "probability": [80.0, 35.0, 0.5]}
    with pytest.raises(TableError, match="in 1 more row. Divide percentages by 100"):
        pm.link(table)
    table["probability"][0] = -3.0
    with pytest.raises(TableError, match="in 1 more row. If the column holds log2"):
        pm.link(table)


def test_links_are_not_linked_twice(tmp_path):
    links = pm.link({"left": [1, 1], "right": [1, 2], "probability": [0.8, 0.35]})
    links.write(tmp_path / "links.csv")
    for source in (links, links.to_pandas(), tmp_path / "links.csv"):
        with pytest.raises(
            TableError, match="it is the result of link, one-to-one already"
        ):
            pm.link(source)
        again = pm.link(source, probability="pair_probability")
        assert again["probability"].tolist() == links["probability"].tolist()


def test_a_plain_array_is_refused():
    with pytest.raises(TableError, match="structured"):
        pm.link(np.zeros((3, 3)))


def test_one_table_compared_with_itself_is_noticed():
    left, right = np.triu_indices(8, 1)
    table = {"left": left, "right": right, "probability": np.full(len(left), 0.05)}
    with pytest.warns(UserWarning, match="as if one table had been compared with itself"):
        pm.link(table)


@pytest.mark.parametrize("kind", [int, str])
@pytest.mark.parametrize("is_turned", [False, True])
def test_pairs_with_themselves_and_in_both_orders_are_noticed(rng, kind, is_turned):
    """As candidate_pairs(a, a) lists them."""
    left, right = np.triu_indices(8)
    chances = rng.uniform(0.01, 0.1, len(left))
    if is_turned:
        two = left != right
        left, right = np.append(left, right[two]), np.append(right, left[two])
        chances = np.append(chances, chances[two])
    order = rng.permutation(len(left))
    left, right = ([kind(key) for key in ids[order]] for ids in (left, right))
    table = {"left": left, "right": right, "probability": chances[order]}
    with pytest.warns(UserWarning, match="as if one table had been compared with itself"):
        pm.link(table)


def test_two_tables_with_the_same_ids_are_fine(rng):
    left, right = np.indices((8, 8)).reshape(2, -1)
    pm.link({"left": left, "right": right, "probability": rng.uniform(0.01, 0.1, 64)})
    own = np.arange(20)
    pm.link({"left": own, "right": own, "probability": np.full(20, 0.9)})


def test_three_sources_are_refused(tmp_path):
    table = splink_frame().assign(
        source_dataset_l=["a", "a", "a", "b"], source_dataset_r=["b", "b", "c", "c"]
    )
    words = "two sources; got 3: 'a', 'b', 'c'"
    path = tmp_path / "pairs.csv"
    table.drop(columns="name_l").to_csv(path, index=False)
    for form in (table, pa.Table.from_pandas(table), path):
        with pytest.raises(TableError, match=words):
            pm.link(form)
    with pytest.raises(TableError, match=words):
        pm.fit_links(table.assign(label=[1, 0, 0, 0]), weight="match_weight")
    table["source_dataset_r"] = ["a", "b", "b", "b"]
    with pytest.raises(TableError, match="link_only"):
        pm.link(table)
    table["source_dataset_l"], table["source_dataset_r"] = "a", "b"
    assert len(pm.link(table)) == 4
