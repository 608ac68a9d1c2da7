"""Candidate pairs of two tables: neighbours by text, and records of the same block."""

from collections.abc import Mapping
from numbers import Real
from typing import Any, Literal

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import check_choice, check_count
from permatch.errors import InvalidOptionError, SizeLimitError, TableError
from permatch.features.records import Records, as_names, table_like
from permatch.features.text import neighbor_pairs, similarities, text_vectors

#: More pairs than this do not come from one call.
MAX_PAIRS = 20_000_000
_HOW = ("both", "either")


def candidate_pairs(
    a: Any,
    b: Any,
    *,
    on: str | list[str] | None = None,
    block: str | list[str] | Mapping[str, int | None] | None = None,
    how: Literal["both", "either"] = "both",
    id: str | None = None,
    n_neighbors: int = 10,
    min_similarity: float = 0.2,
    left: str = "left",
    right: str = "right",
) -> Any:
    """Return the pairs of records of two tables that may be the same thing.

    Records are candidates if their texts are alike, if they share a block, or both.  All
    other pairs are ruled out, so be generous: a link that is not a candidate is lost.

    Parameters
    ----------
    a, b : data frame or mapping
        One row per record: pandas, Polars, Arrow, or a mapping from names to columns.
    on : str or list of str, optional
        Columns of text.  A pair is a candidate if one record is among the `n_neighbors`
        most similar of the other.  Several columns are compared as one text.
    block : str, list of str or mapping, optional
        Columns in which both records must agree, in all of them; a mapping tells how many
        first letters must agree, None for all: ``{"zip": None, "name": 3}``.  Case and
        outer spaces do not matter; an empty cell agrees with nothing.
    how : {"both", "either"}
        With `on` and `block`: neighbours are sought within blocks, or pairs are taken that
        are neighbours or share a block.
    id : str, optional
        The column with the id of a record, in both tables; default: its row number.
    n_neighbors : int
        Neighbours of every record of either table.
    min_similarity : float
        Leave out neighbours less similar than this, from 0 to 1.
    left, right : str
        Names of the columns for the ids in the result.

    Returns
    -------
    data frame or mapping
        A row per pair: the two ids and, with `on`, their ``similarity``.  A pandas or
        Polars frame if `a` is one, else a mapping from names to arrays.

    Raises
    ------
    TableError
        If a column is missing, an id occurs twice, a table is empty, or no pair is found.
    SizeLimitError
        If the blocks have more than 20 million pairs.

    Notes
    -----
    The similarity is the cosine of TF-IDF vectors of letter triples: 1 for equal texts, 0
    for texts that share none.  All records are compared with all, so time grows with the
    product of the sizes: two tables of 10,000 names take a few seconds.  For millions of
    records make pairs by splink or dedupe, and give them to `permatch.link`.  Of records
    that are equally similar those that come first are taken: where many texts are equal,
    name more columns in `on`, or raise `n_neighbors`.

    Examples
    --------
    >>> from permatch.features import candidate_pairs
    >>> a = {"name": ["Anna Berg", "Tom Ward"]}
    >>> b = {"name": ["Tom Wards", "Ana Berg", "Eve Stone"]}
    >>> pairs = candidate_pairs(a, b, on="name")
    >>> pairs["left"].tolist(), pairs["right"].tolist()
    ([0, 1], [1, 0])
    """
    check_choice(how, "how", _HOW)
    n_neighbors = check_count(n_neighbors, "n_neighbors", 1)
    if not (isinstance(min_similarity, Real) and 0.0 <= min_similarity <= 1.0):
        raise InvalidOptionError(
            f"min_similarity must be from 0 to 1; got {min_similarity!r}."
        )
    if len({left, right, "similarity"}) < 3:
        raise InvalidOptionError(
            "left and right must be different names, other than 'similarity'; got "
            f"{left!r} and {right!r}."
        )
    if not on and not block:
        raise InvalidOptionError(
            "candidate_pairs needs on=, columns of text to find neighbours by, or block=, "
            "columns in which both records agree; got neither."
        )
    tables = Records(a, "table a"), Records(b, "table b")
    ids = tables[0].ids(id), tables[1].ids(id)
    if on:
        rows, values = _neighbors(tables, on, block, how, (n_neighbors, min_similarity))
    else:
        rows, values = block_pairs(*_blocks(tables, block)), None
    if not len(rows[0]):
        raise _no_pairs(on, block, min_similarity)
    columns = {left: ids[0][rows[0]], right: ids[1][rows[1]]}
    return table_like(a, columns if values is None else columns | {"similarity": values})


def _neighbors(
    tables: tuple[Records, Records],
    on: Any,
    block: Any,
    how: str,
    limits: tuple[int, float],
) -> tuple[tuple[IntArray, IntArray], FloatArray]:
    """Return pairs by text, within blocks or with those of the blocks, and similarities."""
    vectors = text_vectors(*tables, as_names(on, "on"))
    n, k = map(len, tables)
    blocks = _blocks(tables, block) if block else None
    everywhere = np.zeros(n, dtype=np.int64), np.zeros(k, dtype=np.int64)
    if blocks is None or how == "both":
        rows = neighbor_pairs(vectors, blocks or everywhere, *limits)
    else:
        near, same = neighbor_pairs(vectors, everywhere, *limits), block_pairs(*blocks)
        codes = np.concatenate([near[0] * k + near[1], same[0] * k + same[1]])
        rows = np.divmod(np.unique(codes), k)
    return rows, similarities(vectors, *rows)


def _blocks(tables: tuple[Records, Records], block: Any) -> tuple[IntArray, IntArray]:
    """Return a number per record, equal for those that agree and for no others."""
    lengths = (
        block
        if isinstance(block, Mapping)
        else dict.fromkeys(as_names(block, "block"), None)
    )
    for key, length in lengths.items():
        if length is not None:
            check_count(length, f"the number of letters of block column {key!r}", 1)
    code_of: dict[Any, int] = {}
    found = []
    for records, alone in zip(tables, (-1, -2), strict=True):
        columns = [
            [cell[:length] for cell in records.text(key)] for key, length in lengths.items()
        ]
        # A record with an empty cell shares its block with none of the other table.
        codes = [
            code_of.setdefault(cells, len(code_of)) if all(cells) else alone
            for cells in zip(*columns, strict=True)
        ]
        found.append(np.array(codes, dtype=np.int64))
    return found[0], found[1]


def block_pairs(a: IntArray, b: IntArray) -> tuple[IntArray, IntArray]:
    """Return all pairs of rows with equal numbers, sorted."""
    order = np.argsort(b, kind="stable")
    starts = np.searchsorted(b[order], a, side="left")
    counts = np.searchsorted(b[order], a, side="right") - starts
    n_pairs = int(counts.sum())
    if n_pairs > MAX_PAIRS:
        raise SizeLimitError(
            f"blocks must have at most {MAX_PAIRS:,} pairs; these have {n_pairs:,}. Block "
            "on more columns or letters, or name texts by on= to keep the most similar."
        )
    left = np.repeat(np.arange(len(a)), counts)
    within = np.arange(n_pairs) - np.repeat(np.cumsum(counts) - counts, counts)
    return left, order[np.repeat(starts, counts) + within]


def _no_pairs(on: Any, block: Any, min_similarity: float) -> TableError:
    required, advice = [], []
    if on:
        required.append(f"have texts of similarity {min_similarity:g} or more in {on!r}")
        advice.append("lower min_similarity")
    if block:
        required.append(f"agree in the block {block!r}")
        advice.append("block on fewer columns or letters")
    return TableError(
        f"no pair of records is a candidate: none {' and '.join(required)}. Check that "
        f"both tables are written alike, or {' or '.join(advice)}."
    )
