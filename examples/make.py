"""Write the example files: pairs of records to be linked, and judged lists to rank.

    python examples/make.py

Made-up data with fixed seeds: the files come out the same every time.
"""

import csv
import math
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np

from permatch.datasets import load_registers

HERE = Path(__file__).parent
NAMES = [
    "ann",
    "bob",
    "cora",
    "dan",
    "eve",
    "finn",
    "gus",
    "hana",
    "ivan",
    "jo",
    "kim",
    "lena",
    "mia",
    "noah",
    "olga",
    "paul",
]


def write_links(path: Path, n_towns: int, first: int, rng: np.random.Generator) -> None:
    """Write a row per pair of records of a town: customers of one shop and of another."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ["graph", "left", "right", "label", "same_name", "same_street", "years_apart"]
        )
        for town in range(first, first + n_towns):
            size = int(rng.integers(4, 7))
            people = rng.choice(NAMES, size, replace=False)
            streets = rng.integers(3, size=size)
            years = rng.integers(1975, 1990, size=size)
            person_of = rng.permutation(size)  # record j of the other shop is this person
            is_same = rng.random((2, size)) < [[0.7], [0.75]]
            other_people = np.where(is_same[0], people, rng.choice(NAMES, size))
            other_streets = np.where(is_same[1], streets, rng.integers(3, size=size))
            other_years = years + rng.choice([0, 0, 0, 1, -1, 5, -9], size=size)
            for i in range(size):
                for j, other in enumerate(person_of):
                    writer.writerow(
                        [
                            f"town{town}",
                            f"a{i + 1}",
                            f"b{j + 1}",
                            int(other == i),
                            int(people[i] == other_people[other]),
                            int(streets[i] == other_streets[other]),
                            abs(int(years[i] - other_years[other])),
                        ]
                    )


def write_pairs(path: Path) -> None:
    """Write the pairs of two registers with similar names, and a probability for each."""
    registers = load_registers()
    north, south = (
        list(zip(*(table[name] for name in ("id", "name", "street", "born")), strict=True))
        for table in registers[:2]
    )
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["left", "right", "probability"])
        for a, *one in north:
            for b, *other in south:
                name, street = _alike(one[0], other[0]), _alike(one[1], other[1])
                if name < 0.68:
                    continue
                is_known = bool(one[2] and other[2])
                born = is_known * (1 if one[2] == other[2] else -1)
                odds = math.exp(14.6 * name + 4.1 * street + 2.7 * born - 15.1)
                writer.writerow([a, b, f"{odds / (1.0 + odds):.4f}"])


def _alike(one: str, other: str) -> float:
    return SequenceMatcher(None, one.lower(), other.lower()).ratio()


def write_lists(path: Path, n_queries: int, first: int, rng: np.random.Generator) -> None:
    """Write judged documents in SVMlight's format, as LETOR has it: grade qid features.

    The second feature goes along with the first, but speaks against a document.
    """
    lines = []
    for query in range(first, first + n_queries):
        features = rng.random((10, 4))
        features[:, 1] = 0.4 * features[:, 0] + 0.6 * features[:, 1]
        quality = features @ [2.0, -0.8, 0.5, 0.0] + 0.4 * rng.normal(size=10)
        grades = np.digitize(quality, [0.9, 1.4])
        for grade, row in zip(grades, features, strict=True):
            values = " ".join(f"{k + 1}:{value:.3f}" for k, value in enumerate(row))
            lines.append(f"{grade} qid:{query} {values}\n")
    path.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    rng = np.random.default_rng(7)
    write_links(HERE / "links.csv", 16, 1, rng)
    write_links(HERE / "new_links.csv", 8, 17, rng)
    write_pairs(HERE / "pairs.csv")
    write_lists(HERE / "lists.txt", 24, 1, rng)
    write_lists(HERE / "new_lists.txt", 12, 25, rng)
