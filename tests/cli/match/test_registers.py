"""Two bibliographies linked by ``permatch match``: real data, one sparse graph."""

import csv
import json
import os
import re
from collections import defaultdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from permatch.cli.match.commands import match

FOLDER = Path(os.environ.get("PERMATCH_DATA", "../shared/data")) / "dblp_acm"
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="DBLP-ACM is not in PERMATCH_DATA"),
]

HEADER = ["dblp", "acm", "same", "title", "authors", "years_apart"]


def read(name):
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="%"))


def words(text):
    return set(re.findall(r"\w+", text.lower()))


def alike(one, other):
    return round(len(one & other) / max(len(one | other), 1), 4)


def candidate_pairs(least):
    """Yield the pairs whose titles share enough words."""
    links = {(row["D1"], row["D2"]) for row in read("gt.csv")}
    sides = [
        [
            (r["id"], words(r["title"]), words(r["authors"]), int(r["year"] or 1998))
            for r in side
        ]
        for side in (read("dblp.csv"), read("acm.csv"))
    ]
    with_word = defaultdict(list)
    for record in sides[1]:
        for word in record[1]:
            with_word[word].append(record)
    for a in sides[0]:
        rare = sorted(a[1], key=lambda word: len(with_word[word]))
        rare = rare[: len(rare) - int(least * len(rare)) + 1]
        others = {b[0]: b for word in rare for b in with_word[word]}
        for b in others.values():
            title = alike(a[1], b[1])
            if title >= least:
                is_link = int((a[0], b[0]) in links)
                yield [a[0], b[0], is_link, title, alike(a[2], b[2]), abs(a[3] - b[3])]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Candidate pairs of even and of odd records."""
    folder = tmp_path_factory.mktemp("dblp_acm")
    pairs = list(candidate_pairs(0.4))
    assert 3000 < len(pairs) < 4000
    for k, name in enumerate(("train.csv", "test.csv")):
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(HEADER)
            writer.writerows(pair for pair in pairs if int(pair[0]) % 2 == k)
    return folder / "train.csv", folder / "test.csv"


def test_bibliographies_are_linked(tables, tmp_path):
    def call(*args):
        result = CliRunner().invoke(match, [*map(str, args)])
        assert result.exit_code == 0, result.output
        return result.stdout

    model = tmp_path / "model.json"
    names = ["--left-column", "dblp", "--right-column", "acm", "--label-column", "same"]
    fitted = json.loads(call("fit", tables[0], "-m", model, *names, "--json"))
    assert fitted["unmatched"] == "any"
    assert fitted["is_converged"]
    coef = {row["feature"]: row["coef"] for row in fitted["coefficients"]}
    assert coef["years_apart"] < 0 < min(coef["title"], coef["authors"])
    found = json.loads(call("evaluate", model, tables[1], "--json"))
    assert found["n_graphs"] == 1
    assert found["precision"] > 0.97
    assert found["recall"] > 0.97
    assert found["expected_calibration_error"] < 0.02
    careful = json.loads(call("evaluate", model, tables[1], "--threshold", 0.95, "--json"))
    assert careful["precision"] >= found["precision"]
    page = tmp_path / "page.html"
    call("show", model, tables[1], "--out", page)
    assert "least certain pair" in page.read_text(encoding="utf-8")
