"""Write the two registers that ship with the package: members of two libraries.

    python examples/make_registers.py [folder]

Made-up people with a fixed seed: the files come out the same every time.  Both libraries
know some of them; each also has members that the other does not have.  The same person
may be written differently: misspelt, abbreviated, married, moved, or with a date that is
missing or wrong.  Families share a name and a street, so some pairs look alike and are
different people.
"""

import csv
import sys
from datetime import date, timedelta
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[1] / "src" / "permatch" / "datasets" / "data"
N_SHARED, N_ALONE = 168, 72  # 30 % of each register has no partner in the other
SEED = 23

GIVEN = (
    "Agnes Alan Alice Amelia Andrew Anna Anne Arthur Beatrice Benjamin Carl Caroline "
    "Catherine Charles Clara Daniel David Dora Edith Edward Elena Elizabeth Emily Emma "
    "Erik Felix Frances Frank Fred George Grace Hannah Harold Helen Henry Hugo Ida Irene "
    "Isabel Jacob James Jane Jean Joan John Jonas Joseph Julia Julian Karen Katherine "
    "Laura Leo Lewis Louisa Lucy Margaret Maria Marian Marie Martha Martin Mary Matthew "
    "Max Michael Nina Nora Oliver Oscar Patrick Paul Peter Philip Rachel Rebecca Richard "
    "Robert Rosa Ruth Samuel Sarah Simon Sophia Stephen Susan Thomas Victor Walter William"
)
SHORT = {
    "Andrew": "Andy",
    "Benjamin": "Ben",
    "Catherine": "Cathy",
    "Daniel": "Dan",
    "Edward": "Ted",
    "Elizabeth": "Liz",
    "James": "Jim",
    "John": "Jack",
    "Katherine": "Kate",
    "Margaret": "Peggy",
    "Michael": "Mike",
    "Richard": "Dick",
    "Robert": "Bob",
    "Samuel": "Sam",
    "Thomas": "Tom",
    "William": "Bill",
}
FAMILY = (
    "Adams Andersen Archer Bailey Barnes Becker Bennett Berg Brook Butler Carter Clarke "
    "Cole Cooper Dahl Dawson Dixon Ellis Evans Fischer Fletcher Foster Gardner Gibson "
    "Grant Green Hall Hansen Harris Hart Hayes Hill Holt Hughes Hunt Jansen Jensen Keller "
    "Kelly Knight Lane Larsen Lawson Lind Marsh Mason Meyer Miller Moore Morgan Nielsen "
    "Norris Olsen Page Palmer Parker Pearson Porter Price Reed Roberts Rose Schmidt "
    "Shaw Sommer Stone Svensson Taylor Turner Vogel Walker Ward Weber West Winter Young"
)
STREETS = (
    "Abbey Road,Bridge Street,Castle Hill,Chapel Lane,Church Street,Dock Road,East Street,"
    "Elm Avenue,Garden Row,Green Lane,Harbour Street,High Street,King Street,Lime Avenue,"
    "Market Square,Meadow Way,Mill Lane,Oak Avenue,Orchard Road,Park Road,Quay Street,"
    "River Walk,School Lane,Station Road,Tower Street,Victoria Road,West Street,Willow Way"
)
TOWNS = ("Ashby", "Brackwell", "Colne Ferry", "Dunmore")


def people(rng: np.random.Generator, n: int) -> list[dict[str, str]]:
    """Return people in families of one to four that share a name and an address."""
    found: list[dict[str, str]] = []
    while len(found) < n:
        family, size = (
            rng.choice(FAMILY.split()),
            int(rng.choice(4, p=[0.45, 0.25, 0.18, 0.12])),
        )
        street = f"{rng.integers(1, 60)} {rng.choice(STREETS.split(','))}"
        town = str(rng.choice(TOWNS))
        for given in rng.choice(GIVEN.split(), size + 1, replace=False):
            born = date(1935, 1, 1) + timedelta(days=int(rng.integers(27_000)))
            found.append(
                {
                    "name": f"{given} {family}",
                    "street": street,
                    "town": town,
                    "born": born.isoformat(),
                }
            )
    return found[:n]


def misspell(rng: np.random.Generator, text: str) -> str:
    """Drop, double, replace or exchange small letters."""
    places = [k for k in range(len(text) - 1) if text[k : k + 2].islower()]
    k = int(rng.choice([k for k in places if text[k : k + 2].isalpha()]))
    other = str(rng.choice(list("aeinorst")))
    forms = [
        text[:k] + text[k + 1 :],
        text[:k] + text[k] + text[k:],
        text[:k] + other + text[k + 1 :],
        text[:k] + text[k + 1] + text[k] + text[k + 2 :],
    ]
    return forms[int(rng.integers(4))]


def rewrite_name(rng: np.random.Generator, name: str) -> str:
    """Write a name as another clerk might have."""
    given, family = name.split(" ")
    draw = rng.random()
    if draw < 0.12:
        given = f"{given[0]}."
    elif draw < 0.3:
        given = SHORT.get(given, misspell(rng, given))
    elif draw < 0.36:
        given = f"{given} {rng.choice(list('ABCEFHJLMRST'))}."
    if rng.random() < 0.05:
        family = str(rng.choice(FAMILY.split()))  # married
    elif rng.random() < 0.25:
        family = misspell(rng, family)
    return f"{family}, {given}" if rng.random() < 0.1 else f"{given} {family}"


def rewrite(rng: np.random.Generator, person: dict[str, str]) -> dict[str, str]:
    """Write a person as the other library might have."""
    street, born = person["street"], person["born"]
    if rng.random() < 0.2:
        street = f"{rng.integers(1, 60)} {rng.choice(STREETS.split(','))}"  # moved
    elif rng.random() < 0.3:
        short = street.replace("Street", "St").replace("Road", "Rd").replace("Lane", "Ln")
        street = short.replace("Avenue", "Ave")
    elif rng.random() < 0.15:
        street = misspell(rng, street)
    if rng.random() < 0.12:
        year, month, day = born.split("-")
        wrong = f"{int(day) % 28 + 1:02d}"
        born = f"{year}-{day}-{month}" if int(day) <= 12 else f"{year}-{month}-{wrong}"
    town = str(rng.choice(TOWNS)) if rng.random() < 0.08 else person["town"]
    name = rewrite_name(rng, person["name"])
    return {"name": name, "street": street, "town": town, "born": born}


def write(path: Path, rows: list[dict[str, str]]) -> None:
    """Write rows as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def make(folder: Path) -> None:
    """Write both registers and the links between them."""
    rng = np.random.default_rng(SEED)
    everyone = people(rng, N_SHARED + 2 * N_ALONE)
    order = rng.permutation(len(everyone))
    shared, rest = order[:N_SHARED], order[N_SHARED:]
    ids: list[dict[int, str]] = []
    for name, letter, alone in (
        ("north", "N", rest[:N_ALONE]),
        ("south", "S", rest[N_ALONE:]),
    ):
        members = rng.permutation(np.concatenate([shared, alone])).tolist()
        numbers = np.sort(rng.choice(np.arange(1000, 2000), len(members), replace=False))
        ids.append(
            {k: f"{letter}{number}" for k, number in zip(members, numbers, strict=True)}
        )
        rows = []
        for k in members:
            row = everyone[k] if name == "north" else rewrite(rng, everyone[k])
            born = "" if rng.random() < 0.08 else row["born"]
            rows.append({"id": ids[-1][k]} | row | {"born": born})
        write(folder / f"register_{name}.csv", rows)
    pairs = sorted((ids[0][k], ids[1][k]) for k in shared.tolist())
    links = [{"north": north, "south": south} for north, south in pairs]
    write(folder / "register_links.csv", links)


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
