"""Numbers out of LETOR text, a byte at a time.

    grade qid:ID index:value index:value ... # comment

Files of LightGBM leave out ``qid:ID``; some number the features from 0.

A decimal of at most 2^53 in digits and at most 22 in powers of ten is the exact quotient or
product of two float64 numbers, so one rounding gives the nearest float64, as `float` would.
Other numbers are left to `float`: they are listed as hard.  A line that is not of the plain
form above (indices ascending, grade one digit) is left to the caller as a whole.
"""

import numpy as np
from numba import njit

#: How a scan ended: at the end of the text, or at a line for the caller to look at.
FINISHED, UNUSUAL = 0, 1

#: The most features a document may have; a larger index is a mistake, not a feature.
MAX_FEATURES = 1 << 20

#: What numbers are made of; powers of ten beyond these are no exact float64.
POWERS = 10.0 ** np.arange(23)

_NEWLINE, _SPACE, _HASH, _COLON, _EQUALS = 10, 32, 35, 58, 61
_PLUS, _MINUS, _POINT, _ZERO = 43, 45, 46, 48
_LARGEST_EXACT = 1 << 53
_QID = np.frombuffer(b"qid:", dtype=np.uint8)
_DOCID = np.frombuffer(b"docid", dtype=np.uint8)


@njit(cache=True, nogil=True)
def scan_lines(text, at, n_rows, n_entries, n_hard, grades, ids, docs, places, row_ends,
               columns, values, hard, powers, has_queries, base):  # fmt: skip
    """Read lines from byte `at` on, until the text ends or a line is unusual.

    `has_queries` says whether lines name their query, and `base` what the first feature is
    numbered.
    Row r gets ``grades[r]``, the byte ranges ``ids[r]`` and ``docs[r]`` of the ids of its
    query and document, and ``places[r]``, where its line begins; its entries end at
    ``row_ends[r]``.  A row of `hard` is an entry and the byte range of its number.  Return
    how the scan ended, where, and the three counts.
    """
    size = len(text)
    while at < size:
        line = at
        entry = n_entries
        n_hard_before = n_hard
        at = _skip_blanks(text, at)
        if at == size or text[at] == _NEWLINE:
            at += 1
            continue
        if text[at] == _HASH:
            at = _line_end(text, at) + 1
            continue
        # the grade: one digit
        grade = np.int64(text[at]) - _ZERO
        at += 1
        is_usual = 0 <= grade < 10 and at < size and _is_blank(text[at])
        # the query
        at = _skip_blanks(text, at)
        begin = at
        if has_queries:
            is_usual = is_usual and _starts_with(text, at, _QID)
            begin = at + 4
            at = _word_end(text, begin)
            is_usual = is_usual and at > begin
        if not is_usual:
            return UNUSUAL, line, n_rows, n_entries, n_hard
        ids[n_rows, 0] = begin
        ids[n_rows, 1] = at
        # the features
        last = base - 1
        at = _skip_blanks(text, at)
        while at < size and text[at] != _NEWLINE and text[at] != _HASH:
            index = 0
            first = at
            while at < size and _ZERO <= text[at] < _ZERO + 10 and index <= MAX_FEATURES:
                index = 10 * index + np.int64(text[at]) - _ZERO
                at += 1
            if at == first or index <= last or index > MAX_FEATURES or at >= size:
                is_usual = False
                break
            if text[at] != _COLON:
                is_usual = False
                break
            last = index
            begin = at + 1
            at = _word_end(text, begin)
            is_exact, value = _number(text, begin, at, powers)
            if not is_exact:
                hard[n_hard, 0] = entry
                hard[n_hard, 1] = begin
                hard[n_hard, 2] = at
                n_hard += 1
            columns[entry] = index - base
            values[entry] = value
            entry += 1
            at = _skip_blanks(text, at)
        if not is_usual:
            return UNUSUAL, line, n_rows, n_entries, n_hard_before
        # the comment
        end = _line_end(text, at)
        docs[n_rows, 0], docs[n_rows, 1] = find_document(text, at, end)
        grades[n_rows] = grade
        places[n_rows] = line
        row_ends[n_rows] = entry
        n_rows += 1
        n_entries = entry
        at = end + 1
    return FINISHED, size, n_rows, n_entries, n_hard


@njit(cache=True, nogil=True)
def fill_rows(row_ends, columns, values, out):
    """Write the entries of every row into `out`, which is 0 elsewhere."""
    entry = 0
    for row in range(len(row_ends)):
        while entry < row_ends[row]:
            out[row, columns[entry]] = values[entry]
            entry += 1


@njit(cache=True, nogil=True)
def id_changes(text, ids, is_new):
    """Mark the rows whose query id differs from that of the row before."""
    for row in range(len(ids)):
        begin, length = ids[row, 0], ids[row, 1] - ids[row, 0]
        is_new[row] = row == 0 or length != ids[row - 1, 1] - ids[row - 1, 0]
        if not is_new[row]:
            before = ids[row - 1, 0]
            for k in range(length):
                if text[begin + k] != text[before + k]:
                    is_new[row] = True
                    break


@njit(cache=True, nogil=True)
def _number(text, begin, end, powers):
    """Return whether the bytes are a number read to the last bit, and the number."""
    at = begin
    is_negative = at < end and text[at] == _MINUS
    if at < end and (text[at] == _MINUS or text[at] == _PLUS):
        at += 1
    digits = 0
    n_digits = 0
    power = 0
    is_fraction = False
    while at < end:
        byte = np.int64(text[at])
        if _ZERO <= byte < _ZERO + 10:
            digits = 10 * digits + byte - _ZERO
            if digits > _LARGEST_EXACT:
                return False, 0.0
            n_digits += 1
            power -= is_fraction
        elif byte == _POINT and not is_fraction:
            is_fraction = True
        else:
            break
        at += 1
    if n_digits == 0:
        return False, 0.0
    if at < end:
        if text[at] != 101 and text[at] != 69:  # e, E
            return False, 0.0
        at += 1
        is_small = at < end and text[at] == _MINUS
        if at < end and (text[at] == _MINUS or text[at] == _PLUS):
            at += 1
        begin = at
        exponent = 0
        while at < end and _ZERO <= text[at] < _ZERO + 10 and at - begin < 4:
            exponent = 10 * exponent + np.int64(text[at]) - _ZERO
            at += 1
        if at != end or at == begin:
            return False, 0.0
        power += -exponent if is_small else exponent
    if abs(power) >= len(powers) and digits > 0:
        return False, 0.0
    value = float(digits)
    if digits > 0:
        value = value * powers[power] if power >= 0 else value / powers[-power]
    return True, -value if is_negative else value


@njit(cache=True, nogil=True)
def find_document(text, at, end):
    """Return the byte range of the word after ``docid =``, empty if there is none."""
    while at + 5 < end:
        if _starts_with(text, at, _DOCID):
            begin = _skip_blanks(text, at + 5)
            if begin < end and text[begin] == _EQUALS:
                begin = _skip_blanks(text, begin + 1)
                return begin, _word_end(text, begin)
        at += 1
    return end, end


@njit(cache=True, nogil=True)
def _starts_with(text, at, word):
    """Return whether a word stands at `at`, in upper or lower case."""
    n_same = 0
    while n_same < len(word) and at + n_same < len(text):
        if text[at + n_same] | 32 != word[n_same] | 32:
            break
        n_same += 1
    return n_same == len(word)


@njit(cache=True, nogil=True)
def _is_blank(byte):
    return byte == _SPACE or byte == 9 or byte == 13  # tab, carriage return


@njit(cache=True, nogil=True)
def _skip_blanks(text, at):
    while at < len(text) and _is_blank(text[at]):
        at += 1
    return at


@njit(cache=True, nogil=True)
def _word_end(text, at):
    """Return where the word at `at` ends; a comment may follow without a blank."""
    while at < len(text):
        if text[at] == _NEWLINE or text[at] == _HASH or _is_blank(text[at]):
            break
        at += 1
    return at


@njit(cache=True, nogil=True)
def _line_end(text, at):
    while at < len(text) and text[at] != _NEWLINE:
        at += 1
    return at
