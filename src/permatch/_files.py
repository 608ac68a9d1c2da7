"""Atomic writing, and reading within limits.

A small file can expand to a large one: gzip packs two gigabytes of newlines into two
megabytes.  What is read is counted, and refused beyond these limits, all of which
`max_bytes` replaces:

    MAX_FILE      a file read in pieces, uncompressed
    MAX_WHOLE     a file read at once
    MAX_LINE      a line, including blank lines before it
    MAX_ARRAYS    the arrays made from it, or `GROWTH` times its numbers if that is more

A CSV field has the limit of Python's `csv`, which `max_bytes` replaces too.
"""

import csv
import io
import operator
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NoReturn, TextIO

from permatch.errors import InvalidOptionError, PermatchError

MAX_FILE = 1 << 34
MAX_WHOLE = 1 << 30
MAX_LINE = 1 << 24
MAX_ARRAYS = 1 << 30
GROWTH = 256

#: Bytes of text looked at together.
PIECE = 1 << 22
_BUFFER = 1 << 18
#: The most that every platform takes as the limit of a CSV field.
_MAX_FIELD = (1 << 31) - 1

_HOW_TO_RAISE = "raise the limit with max_bytes (on the command line --max-bytes)"

# The limit that commands set; `max_bytes` of a call overrides it.
_max_bytes: ContextVar[int | None] = ContextVar("max_bytes", default=None)


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """Yield a text file that replaces `path` once it is written without an error."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        # A pipe or a device is written to, never replaced; a folder is refused by `open`.
        with target.open("w", encoding="utf-8", newline="") as file:
            yield file
        return
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with draft.open("x", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as err:
        if err.filename is not None and str(err.filename) != str(draft):
            raise  # of another file, which was to be read
        raise OSError(err.errno, err.strerror, str(path)) from err  # not the draft's name
    finally:
        draft.unlink(missing_ok=True)


def write_csv(path: str | os.PathLike[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write rows of cells, the header first, as a CSV file."""
    with whole_file(path) as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


@contextmanager
def reading_at_most(max_bytes: int | None) -> Iterator[None]:
    """Let `max_bytes` be the limit of all reading within, unless a call has its own."""
    token = _max_bytes.set(max_bytes)
    try:
        yield
    finally:
        _max_bytes.reset(token)


class Gauge:
    """Count what is read from one file and refuse what exceeds its limits.

    Errors are of the type `error` and name the file; `max_bytes` replaces all limits.
    """

    def __init__(
        self, name: str, error: type[PermatchError], max_bytes: int | None = None
    ) -> None:
        self.name = name
        self.n_bytes = self.n_lines = 0
        self._error = error
        self._given = _check(_max_bytes.get() if max_bytes is None else max_bytes)
        self._file = self._given or MAX_FILE
        self._line = self._given or MAX_LINE
        self._open = 0  # bytes since the last line that is not blank
        self._blank = 0  # bytes of blank lines

    def take(self, piece: bytes) -> bytes:
        """Count a piece of text, and return it."""
        self.n_bytes += len(piece)
        end = b"\n" if b"\n" in piece else b"\r"
        is_blank = piece.isspace()
        self._blank += is_blank * len(piece)
        first = -1 if is_blank else piece.find(end)
        self._open += len(piece) if first < 0 else first
        self._check()
        if first >= 0:
            self._open = len(piece) - 1 - piece.rfind(end)
        self.n_lines += piece.count(end)
        return piece

    @property
    def is_at_line_end(self) -> bool:
        """Whether what was taken ends with a line."""
        return self._open == 0

    def text(self, file: Any) -> TextIO:
        """Return a binary file as UTF-8 text with its line ends unchanged."""
        counted = io.BufferedReader(self.counted(file), _BUFFER)
        return io.TextIOWrapper(counted, encoding="utf-8-sig", newline="")

    def counted(self, file: Any) -> io.RawIOBase:
        """Return a binary file whose bytes are counted."""
        return _Counted(file, self)

    def lines(self, file: Any) -> Iterator[str]:
        """Yield the lines of an open text file; a character counts as a byte."""
        longest = self._line
        readline = file.readline
        while line := readline(longest + 1):
            size = len(line)
            self.n_bytes += size
            self._open += size
            if line.isspace():
                self._blank += size
            if max(self._open, self._blank) > longest or self.n_bytes > self._file:
                self._check()
            if not line.isspace():
                self._open = 0
            self.n_lines += 1
            yield line

    def pieces(self, file: Any) -> Iterator[bytes]:
        """Yield the text of a binary file in pieces that end with a line.

        A lone carriage return ends a line too, and becomes a newline.
        """
        parts: list[bytes] = []
        while piece := file.read(PIECE):
            if piece.endswith(b"\r"):  # perhaps half of a line's end
                piece += file.read(1)
            if b"\r" in piece and piece.count(b"\r") > piece.count(b"\r\n"):
                piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            end = self.take(piece).rfind(b"\n") + 1
            if end:
                yield b"".join([*parts, piece[:end]])
                parts = []
            parts.append(piece[end:])
        yield b"".join(parts)

    def whole(self, file: Any) -> bytes:
        """Return the contents of a binary file, which need not be text."""
        self._file = self._given or MAX_WHOLE
        return b"".join(self.unread(file))

    def unread(self, file: Any) -> Iterator[bytes]:
        """Yield the contents of a binary file in pieces."""
        while piece := file.read(PIECE):
            self.n_bytes += len(piece)
            self._check()
            yield piece

    @contextmanager
    def csv_fields(self) -> Iterator[None]:
        """Let `max_bytes`, where it is given, limit the CSV fields read within."""
        before = csv.field_size_limit()
        if self._given is not None:
            csv.field_size_limit(min(self._given, _MAX_FIELD))
        try:
            yield
        finally:
            csv.field_size_limit(before)

    def check_lines(self, data: bytes) -> None:
        """Refuse text with a line that is too long."""
        self.n_bytes = 0
        for _ in self.pieces(io.BytesIO(data)):
            pass

    def check_arrays(self, n_bytes: int, n_read: int, what: str) -> None:
        """Refuse arrays of `n_bytes` made of `n_read` bytes of numbers."""
        limit = self._given or max(MAX_ARRAYS, GROWTH * n_read)
        if n_bytes > limit:
            raise self._error(
                f"{self.name}: the data may take at most {_size(limit)} of memory; "
                f"{what} take {_size(n_bytes)}. Read less at a time, or {_HOW_TO_RAISE}."
            )

    def _check(self) -> None:
        if self._open > self._line:
            self._refuse(
                f", line {self.n_lines + 1}: a line, including blank lines before it, may "
                f"have at most {_size(self._line)}"
            )
        if self._blank > self._line:
            self._refuse(
                f", line {self.n_lines + 1}: a file may have at most {_size(self._line)} "
                "of blank lines"
            )
        if self.n_bytes > self._file:
            self._refuse(
                f", line {self.n_lines + 1}: a file may have at most {_size(self._file)}, "
                "uncompressed"
            )

    def _refuse(self, what: str) -> NoReturn:
        raise self._error(
            f"{self.name}{what}; this one has more. Check that it is the right file, or "
            f"{_HOW_TO_RAISE}."
        )


def csv_problem(err: csv.Error) -> str:
    """Return what is wrong with delimited text, and what to do about it."""
    if "field limit" in str(err):
        return (
            f"a field may have at most {csv.field_size_limit()} characters, and this one "
            f"has more. Close its quotation mark, or {_HOW_TO_RAISE}."
        )
    return f"{err}. Close the quotation mark, or complete the file if it is cut off."


class _Counted(io.RawIOBase):
    """A binary file whose bytes are counted by a gauge."""

    def __init__(self, file: Any, gauge: Gauge) -> None:
        self._file = file
        self._gauge = gauge

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer as far as the file goes."""
        piece = self._gauge.take(self._file.read(len(buffer)))
        buffer[: len(piece)] = piece
        return len(piece)


def _check(max_bytes: Any) -> int | None:
    if max_bytes is None:
        return None
    try:
        limit = 0 if isinstance(max_bytes, bool) else operator.index(max_bytes)
    except TypeError:
        limit = 0
    if limit < 1:
        raise InvalidOptionError(
            f"max_bytes must be a whole number of at least 1, or None; got {max_bytes!r}."
        )
    return limit


def _size(n_bytes: float) -> str:
    """Write a number of bytes in the largest unit that leaves it at least 1."""
    units = ["TiB", "GiB", "MiB", "KiB", "bytes"]
    while n_bytes >= 1024 and len(units) > 1:
        n_bytes /= 1024
        units.pop()
    return f"{n_bytes:.4g} {units[-1]}"
