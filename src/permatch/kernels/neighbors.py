"""The nearest neighbours of sparse vectors, found from both sides in one pass.

    similarity_ij  =  sum_t a_it b_jt

A row i of `a` is multiplied with the columns of `b`, term by term, into a vector over j;
the best k of it are kept for i, and i among the best k of every j.  Ties go to the vector
with the lower number.
"""

from numba import njit


@njit(cache=True, nogil=True)
def _insert(ids, values, new, value):
    """Insert into lists that are sorted from large to small, dropping the last."""
    place = len(ids) - 1
    if value <= values[place]:
        return
    while place > 0 and values[place - 1] < value:
        ids[place], values[place] = ids[place - 1], values[place - 1]
        place -= 1
    ids[place], values[place] = new, value


@njit(cache=True, nogil=True)
def find_neighbors(a, b_columns, blocks, least, of_a, of_b, sums, first, last):
    """Add the neighbours of rows ``first .. last - 1`` of `a`.

    `a` holds the starts, terms and values of its rows, `b_columns` the starts, rows and
    values of the terms of b.  Only pairs with equal `blocks`, (n,) and (k,), and at least
    the similarity `least`, above 0, count.  `of_a` and `of_b` are pairs of arrays with a
    row per vector: neighbours, -1 where there are none, and their similarities, 0 there.
    `sums` is of length k.
    """
    starts, terms, values = a
    b_starts, b_rows, b_values = b_columns
    a_blocks, b_blocks = blocks
    for i in range(first, last):
        sums[:] = 0.0
        for at in range(starts[i], starts[i + 1]):
            term, value = terms[at], values[at]
            for place in range(b_starts[term], b_starts[term + 1]):
                sums[b_rows[place]] += value * b_values[place]
        for j in range(len(sums)):
            if sums[j] >= least and sums[j] > 0.0 and a_blocks[i] == b_blocks[j]:
                _insert(of_a[0][i], of_a[1][i], j, sums[j])
                _insert(of_b[0][j], of_b[1][j], i, sums[j])
