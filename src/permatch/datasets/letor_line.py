"""Parse one line of a LETOR file, slowly, and explain what is wrong with it."""

import re
from typing import NamedTuple

from permatch._types import IntArray
from permatch.errors import LetorFileError
from permatch.kernels.ranking.letor_text import MAX_FEATURES
from permatch.queries import LARGEST_GRADE

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_BLANKS = re.compile(r"[ \t\r]+")
_TABLES = "Tables, CSV and Parquet, are read by permatch.datasets.read_judged."
_FORM = "'grade qid:ID 1:value 2:value ... # comment'"


class LineForm(NamedTuple):
    """How the lines of a file are written.

    `sizes` are the numbers of rows of the queries where lines do not name them, `base` is
    the number of the first feature, and `is_sorted` says whether the rows of a query must
    be together.
    """

    sizes: IntArray | None = None
    base: int = 1
    is_sorted: bool = True


#: The form of LETOR.
LETOR = LineForm()


class Line(NamedTuple):
    """The contents of a line before its comment; features are counted from 0."""

    grade: int
    query: str
    columns: list[int]
    values: list[float]


def parse_line(line: bytes, place: str, form: LineForm = LETOR) -> Line | None:
    """Parse a line; return None if it is blank or only a comment.

    Features are put in ascending order; `place` is file and line number, for errors.
    """
    data = line.rstrip(b"\n").partition(b"#")[0]
    try:
        words = _BLANKS.split(data.decode("utf-8").strip(" \t\r"))
    except UnicodeDecodeError as err:
        shown = line if len(line) <= 40 else line[:37] + b"..."
        advice = _TABLES if line.startswith(b"PAR1") else "Unpack or convert the file."
        raise LetorFileError(
            f"{place}: a LETOR file must be text, plain or gzip; got the bytes {shown!r}. "
            f"{advice}"
        ) from err
    if words == [""]:
        return None
    grade = _parse_grade(words[0], place)
    query, features = _parse_query(words, place, form)
    entries: dict[int, float] = {}
    for word in features:
        column, value = _parse_feature(word, place, form.base)
        if column in entries:
            raise LetorFileError(
                f"{place}: a feature must be given at most once; feature "
                f"{column + form.base} is given twice. Drop one of them."
            )
        entries[column] = value
    columns = sorted(entries)
    return Line(grade, query, columns, [entries[column] for column in columns])


def _parse_query(words: list[str], place: str, form: LineForm) -> tuple[str, list[str]]:
    """Return the query that a line names, and the words of its features."""
    is_named = len(words) > 1 and words[1].lower().startswith("qid:")
    if form.sizes is not None:
        if is_named:
            raise LetorFileError(
                f"{place}: queries must be given once, by the lines or by the number of "
                f"rows of each; got {_short(words[1])!r} and sizes of queries. Leave out "
                "the sizes."
            )
        return "", words[1:]
    if not is_named or len(words[1]) == 4:
        got = f"the word {_short(words[1])!r}" if len(words) > 1 else "the end of the line"
        raise LetorFileError(
            f"{place}: a line must name its query right after the grade, {_FORM}; got "
            f"{got}. Add 'qid:' and an id, the same for all documents of a query, or put "
            "the number of rows of each query into a file of the same name and .query."
        )
    return words[1][4:], words[2:]


def _parse_grade(word: str, place: str) -> int:
    required = f"{place}: a line must begin with its grade, a whole number from 0 to"
    if not _NUMBER.fullmatch(word):
        is_table = any(mark in word for mark in ",;")
        advice = _TABLES if is_table else "Correct the line, or drop it if it is a header."
        raise LetorFileError(
            f"{required} {LARGEST_GRADE}, as in {_FORM}; got {_short(word)!r}. {advice}"
        )
    grade = float(word)
    if not (0 <= grade <= LARGEST_GRADE and grade == int(grade)):
        raise LetorFileError(
            f"{required} {LARGEST_GRADE}; got {_short(word)}. Map judgements to 0, 1, 2 "
            "..., the best highest."
        )
    return int(grade)


def _parse_feature(word: str, place: str, base: int) -> tuple[int, float]:
    index, colon, number = word.partition(":")
    if not colon or not (index.isascii() and index.isdigit()):
        raise LetorFileError(
            f"{place}: features must be written index:value, such as 3:0.25; got "
            f"{_short(word)!r}. Correct the line; perhaps the file was cut off."
        )
    if len(index) > 9 or not base <= int(index) <= MAX_FEATURES:
        advice = "Number the features from 1"
        if base:
            advice += ", or read them as numbered from 0 (zero_based=True, --zero-based)"
        raise LetorFileError(
            f"{place}: feature indices must be from {base} to {MAX_FEATURES}; got "
            f"{_short(index)}. {advice}."
        )
    if not _NUMBER.fullmatch(number) or abs(float(number)) == float("inf"):
        advice = "Correct the line; perhaps the file was cut off."
        if number.lower() in ("null", "nan", "inf", "+inf", "-inf"):
            advice = (
                "Fill in missing values first; LETOR also has versions without them "
                "(QueryLevelNorm, Feature_min)."
            )
        raise LetorFileError(
            f"{place}: the value of a feature must be a finite number; feature {index} is "
            f"{_short(number)!r}. {advice}"
        )
    return int(index) - base, float(number)


def _short(word: str) -> str:
    return word if len(word) <= 40 else word[:37] + "..."
