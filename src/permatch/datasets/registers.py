"""Two small registers to be linked, which come with the package."""

import csv
from importlib.resources import files
from typing import Any, NamedTuple

from permatch._optional import require


class Registers(NamedTuple):
    """Members of two libraries, and who is a member of both.

    Attributes
    ----------
    north, south : mapping of str to list, or pandas.DataFrame
        One row per member, with columns ``id``, ``name``, ``street``, ``town`` and
        ``born`` (year-month-day), all text.  Cells may be empty.
    links : mapping of str to list, or pandas.DataFrame
        The ids of all members of both, in columns ``north`` and ``south``.

    Examples
    --------
    >>> from permatch.datasets import load_registers
    >>> found = load_registers()
    >>> len(found.north["id"]), len(found.south["id"]), len(found.links["north"])
    (240, 240, 168)
    """

    north: Any
    south: Any
    links: Any


def load_registers(*, as_frame: bool = False) -> Registers:
    """Return the registers of two libraries that share members.

    Each has 240 members, 168 of whom are members of both; 30 % of each register has no
    partner in the other.  The same person may be misspelt, abbreviated, married or moved,
    and families share a name and a street.

    Parameters
    ----------
    as_frame : bool
        Return pandas DataFrames instead of mappings of columns.

    Returns
    -------
    Registers
        ``north``, ``south`` and ``links``.

    Notes
    -----
    The people are made up; the tables are under the licence of the package.

    Examples
    --------
    >>> north, south, links = load_registers()
    >>> list(north)
    ['id', 'name', 'street', 'town', 'born']
    >>> links["north"][0], links["south"][0]
    ('N1000', 'S1415')
    """
    tables = [_read(name) for name in Registers._fields]
    if as_frame:
        pandas = require("pandas", "tables", what="load_registers(as_frame=True)")
        tables = [pandas.DataFrame(table) for table in tables]
    return Registers(*tables)


def _read(name: str) -> Any:
    path = files("permatch.datasets").joinpath("data", f"register_{name}.csv")
    header, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
    columns = zip(*rows, strict=True)
    return {key: list(cells) for key, cells in zip(header, columns, strict=True)}
