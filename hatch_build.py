"""Leave out of the wheel what only readers of the repository look for.

Many small modules compress badly, and a good part of them is comments and docstrings of
what is not public.  In the wheel their lines are empty; all lines keep their numbers, so
that tracebacks fit the repository.  Editable installs have everything.
"""

import ast
import io
import tempfile
import tokenize
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Rooms whose docstrings nobody asks `help` for.
INTERNAL = ("kernels", "objectives", "optimizers", "pages", "experiments")


class LeanWheel(BuildHookInterface):
    """Puts lean copies of the modules in the place of the modules."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the copies, and have the builder take them."""
        if version == "editable":
            return
        self.copies = tempfile.TemporaryDirectory()
        sources = Path(self.root, "src")
        for source in sorted(sources.glob("permatch/**/*.py")):
            name = source.relative_to(sources)
            copy = Path(self.copies.name, name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            room = name.parts[1]
            is_internal = room in INTERNAL or (room[0] == "_" and room[1] != "_")
            text = lean(source.read_text(encoding="utf-8"), is_internal=is_internal)
            copy.write_text(text, encoding="utf-8", newline="\n")
            build_data["force_include"][str(copy)] = name.as_posix()

    def finalize(self, version: str, build_data: dict[str, Any], artifact: str) -> None:
        """Remove the copies."""
        if version != "editable":
            self.copies.cleanup()


def lean(source: str, *, is_internal: bool) -> str:
    """Return a module without comments and without the docstrings of what is not public."""
    lines = source.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, col = token.start
            lines[row - 1] = lines[row - 1][:col].rstrip() + "\n"
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            continue
        is_private = getattr(node, "name", "").startswith("_")
        if ast.get_docstring(node) is None or not (is_internal or is_private):
            continue
        words = node.body[0]
        last = words.end_lineno or words.lineno
        blank = ["\n"] * (last - words.lineno)
        lines[words.lineno - 1 : last] = [" " * words.col_offset + '""\n', *blank]
    return "".join(lines)
