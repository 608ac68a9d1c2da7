"""`pm.Links`: a table, in files, in words, and what to review."""

import itertools

import numpy as np
import pytest

import permatch as pm
from permatch.errors import InvalidOptionError, TableError
from permatch.linking.review import largest_first
from tests.linking.test_link import random_pairs


@pytest.fixture
def links():
    return pm.link(random_pairs(2, 10, 10, 0.3))


def test_columns_and_rows(links):
    assert "probability" in links
    with pytest.raises(KeyError, match="links have the columns"):
        links["chance"]
    some = links[links["decision"] == "link"]
    assert isinstance(some, pm.Links)
    assert (some["probability"] > 0.5).all()
    assert len(links[:3]) == 3


def test_frames(links):
    frame = links.to_pandas()
    assert list(frame.columns) == links.columns
    assert np.array_equal(frame["low"], links["low"])
    table = links.to_arrow()
    assert table.column_names == links.columns
    import pyarrow as pa

    assert pa.table(links).equals(table)


def test_rows_by_number_and_what_is_no_row(links):
    assert links[0]["left"].tolist() == [links["left"][0]]
    assert links[-1]["right"].tolist() == [links["right"][-1]]
    assert links[[2, 1]]["low"].tolist() == links["low"][[2, 1]].tolist()
    assert len(links[[]]) == 0
    with pytest.raises(IndexError, match=f"there are {len(links)} rows"):
        links[len(links)]
    for key in (["left", "right"], ("left", "right"), 1.5, None):
        with pytest.raises(TypeError, match="by the name of a column, or by rows"):
            links[key]


def test_links_are_not_iterable(links):
    import pandas as pd

    for make in (list, pd.DataFrame):
        with pytest.raises(TypeError, match=r"links\.to_pandas\(\) makes a DataFrame"):
            make(links)


@pytest.mark.parametrize("name", ["links.xlsx", "links.gz", "links.parquet.gz", "a.json"])
def test_unknown_endings_are_refused(links, tmp_path, name):
    with pytest.raises(InvalidOptionError, match=r"end in \.csv, .*Give the file one"):
        links.write(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet"])
def test_files_and_back(links, tmp_path, suffix):
    path = tmp_path / f"links{suffix}"
    links.write(path)
    again = pm.Links.read(path)
    assert again.columns == links.columns
    for name in links.columns[2:]:
        assert np.array_equal(again[name], links[name])
    if suffix == ".parquet":
        assert again.offset == links.offset
        assert again.costs == links.costs
    assert np.allclose(again.review(5)["gain"], links.review(5)["gain"])
    assert [path] == list(tmp_path.iterdir())
    links.review(3).write(path)
    assert pm.Links.read(path)["gain"].shape == (3,)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match="must be a file of links"):
        pm.Links.read(path)


@pytest.mark.parametrize("change", [("True", "perhaps"), (",no link", ""), ("0.", "0,")])
def test_damaged_files_are_refused(links, tmp_path, change):
    path = tmp_path / "links.csv"
    links.write(path)
    path.write_text(path.read_text().replace(*change, 1))
    with pytest.raises(TableError, match="a row is damaged or cut off .* Write it again"):
        pm.Links.read(path)


@pytest.mark.parametrize(
    ("suffix", "message"),
    [
        (".parquet", "must be a complete Parquet file; .* Write or fetch it again"),
        (".csv.gz", "must be a complete gzip file; .* Write or fetch it again"),
        (".csv", "row [0-9]+ has 4 of 10 cells"),
    ],
)
def test_files_cut_off_are_refused(links, tmp_path, suffix, message):
    path = tmp_path / f"links{suffix}"
    links.write(path)
    data = path.read_bytes()
    cut = data.index(b"\n", len(data) // 2) + 1 if suffix == ".csv" else len(data) // 2
    rest = b"a,b,0.5,0.5" if suffix == ".csv" else b""
    path.write_bytes(data[:cut] + rest)
    with pytest.raises(TableError, match=message):
        pm.Links.read(path)


def test_a_summary_says_what_was_added_only_if_something_was():
    pairs = {"left": ["a", "a"], "right": ["x", "y"], "probability": [0.5, 0.3]}
    assert "(pair probabilities add up to 0.8; all odds" in pm.link(pairs).summary()
    for given in ({"expected_links": None}, {"left": "l"}):
        table = pairs if "left" not in given else {"l": ["a", "b"], **pairs}
        assert "multiplied" not in pm.link(table, **given).summary()
    plain = pm.link(pairs, expected_links=None).summary().splitlines()
    assert plain[1].endswith("links expected")


def test_a_summary_says_what_would_decide_more():
    links = pm.link({"left": ["a"], "right": ["x"], "probability": [0.5]})
    assert "0 pairs left undecided" in links.summary()
    assert "raise budget" not in links.summary()
    told = {"decision": ["review"], "is_exact": [False], "low": [0.3], "high": [0.6]}
    told = {name: np.array(cells) for name, cells in told.items()}
    summary = pm.Links({**links.table, **told}).summary()
    assert "1 pair left undecided, marked review" in summary
    assert "raise budget=, or give fewer candidates per record" in summary


def test_words(links):
    text = repr(links)
    assert text.splitlines()[0].split() == links.columns
    assert "more rows" in text
    assert text.splitlines()[-1].startswith(f"{len(links)} pairs: ")
    html = pm.link({"left": ["<a>"], "right": ["x"], "probability": [0.4]})._repr_html_()
    assert "&lt;a&gt;" in html
    summary = links.summary()
    n_left, n_right = (len(set(links[side].tolist())) for side in ("left", "right"))
    assert f"of {n_left} left records and {n_right} right records" in summary
    alone = n_left - links.expected_links
    assert f"{alone:,.1f} of {n_left} left records" in summary
    assert "all probabilities are exact" in summary
    linked = links["probability"][links.is_linked]
    assert f"expected precision {linked.mean():.4f}" in summary


def cost_of_knowing(links, row):
    """Return what is saved on pairs that share a record, by all matchings one by one."""
    problem = links.problem
    structure = problem.structure
    left, right = structure.left, structure.right
    weights, members = [], []
    for size in range(min(structure.n_left, structure.n_right) + 1):
        for chosen in itertools.combinations(range(structure.n_edges), size):
            chosen = list(chosen)
            if len(set(left[chosen])) == len(set(right[chosen])) == size:
                weights.append(np.exp((problem.scores[chosen] + links.offset).sum()))
                members.append(np.isin(np.arange(structure.n_edges), chosen))
    weights, members = np.array(weights) / sum(weights), np.array(members)
    edge = int(np.flatnonzero(links.rows == row)[0])
    near = (left == left[edge]) | (right == right[edge])

    def cost(mask):
        chances = weights[mask] @ members[mask]
        total = weights[mask].sum()
        return np.minimum(chances, total - chances)[near].sum()

    is_in = members[:, edge]
    return cost(np.ones_like(is_in)) - cost(is_in) - cost(~is_in)


@pytest.mark.parametrize("seed", range(3))
def test_gains_are_those_of_all_matchings(seed):
    links = pm.link(random_pairs(seed, 3, 3, 0.7))
    found = links.review()
    assert (np.diff(found["gain"]) <= 1e-9).all()
    for left, right, gain in zip(found["left"], found["right"], found["gain"], strict=True):
        row = int(np.flatnonzero((links["left"] == left) & (links["right"] == right))[0])
        assert gain == pytest.approx(cost_of_knowing(links, row), abs=1e-9)


def test_how_many_to_review_is_checked(links):
    with pytest.raises(InvalidOptionError, match="n must be a number of pairs"):
        links.review(-1)
    assert len(links.review(2)) == 2


def test_gains_that_differ_by_rounding_are_reviewed_in_the_order_of_rows():
    gains = np.array([0.25, 0.0, 0.5, 0.25 + 1e-15, 0.5 + 1e-15, 0.1])
    assert largest_first(gains, np.arange(6)).tolist() == [2, 4, 0, 3, 5]
    assert largest_first(gains, np.arange(6)[::-1]).tolist() == [4, 2, 3, 0, 5]
