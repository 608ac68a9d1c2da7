"""Parse one line of a LETOR file, slowly, and explain what is wrong with it."""

import re
from typing import NamedTuple

from permatch.errors import LetorFileError
from permatch.kernels.ranking.letor_text import MAX_FEATURES
from permatch.queries import LARGEST_GRADE

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_BLANKS = re.compile(r"[ \t\r]+")
_FORM = "'grade qid:ID 1:value 2:value ... # comment'"


class Line(NamedTuple):
    """The contents of a line before its comment; features are counted from 0."""

    grade: int
    query: str
    columns: list[int]
    values: list[float]


def parse_line(line: bytes, place: str) -> Line | None:
    """Parse a line; return None if it is blank or only a comment.

    Features are put in ascending order; `place` is file and line number, for errors.
    """
    data = line.rstrip(b"\n").partition(b"#")[0]
    try:
        words = _BLANKS.split(data.decode("utf-8").strip(" \t\r"))
    except UnicodeDecodeError as err:
        shown = line if len(line) <= 40 else line[:37] + b"..."
        raise LetorFileError(
            f"{place}: a LETOR file must be text, plain or gzip; got the bytes {shown!r}. "
            "Unpack or convert the file."
        ) from err
    if words == [""]:
        return None
    grade = _parse_grade(words[0], place)
    if len(words) < 2 or not words[1].lower().startswith("qid:") or len(words[1]) == 4:
        got = f"the word {_short(words[1])!r}" if len(words) > 1 else "the end of the line"
        raise LetorFileError(
            f"{place}: a line must name its query right after the grade, {_FORM}; got "
            f"{got}. Add 'qid:' and an id, the same for all documents of a query."
        )
    entries: dict[int, float] = {}
    for word in words[2:]:
        column, value = _parse_feature(word, place)
        if column in entries:
            raise LetorFileError(
                f"{place}: a feature must be given at most once; feature {column + 1} is "
                "given twice. Drop one of them."
            )
        entries[column] = value
    columns = sorted(entries)
    return Line(grade, words[1][4:], columns, [entries[column] for column in columns])


def _parse_grade(word: str, place: str) -> int:
    required = f"{place}: a line must begin with its grade, a whole number from 0 to"
    if not _NUMBER.fullmatch(word):
        raise LetorFileError(
            f"{required} {LARGEST_GRADE}, as in {_FORM}; got {_short(word)!r}. Correct the "
            "line, or drop it if it is a header."
        )
    grade = float(word)
    if not (0 <= grade <= LARGEST_GRADE and grade == int(grade)):
        raise LetorFileError(
            f"{required} {LARGEST_GRADE}; got {_short(word)}. Map judgements to 0, 1, 2 "
            "..., the best highest."
        )
    return int(grade)


def _parse_feature(word: str, place: str) -> tuple[int, float]:
    index, colon, number = word.partition(":")
    if not colon or not (index.isascii() and index.isdigit()):
        raise LetorFileError(
            f"{place}: features must be written index:value, such as 3:0.25; got "
            f"{_short(word)!r}. Correct the line; perhaps the file was cut off."
        )
    if len(index) > 9 or not 1 <= int(index) <= MAX_FEATURES:
        raise LetorFileError(
            f"{place}: feature indices must be from 1 to {MAX_FEATURES}; got "
            f"{_short(index)}. Number the features from 1."
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
    return int(index) - 1, float(number)


def _short(word: str) -> str:
    return word if len(word) <= 40 else word[:37] + "..."
