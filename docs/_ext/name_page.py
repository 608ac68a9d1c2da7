"""Every public name with the first line of its docstring."""

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

INDEX = Path(__file__).resolve().parents[1] / "api" / "index.md"
#: What needs packages that need not be there.
_LEFT_OUT = {"integrations", "nn"}


def page() -> str:
    """Return the names as Markdown, one table per page of the reference."""
    import permatch

    lines: list[str] = []
    for room in re.findall(r"^\| \[\w+\]\((\w+)\.rst\)", INDEX.read_text("utf-8"), re.M):
        if room in _LEFT_OUT:
            continue
        is_top = room == "permatch"
        module = permatch if is_top else importlib.import_module(f"permatch.{room}")
        known = set() if is_top else set(permatch.__all__)
        rows = _rows(module, "pm" if is_top else f"pm.{room}", known)
        if rows:
            title = f"## `{module.__name__}`"
            lines += [title, "", "| name | purpose |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _rows(module: ModuleType, prefix: str, known: set[str]) -> list[str]:
    """Return a row for every class and function that is not known yet."""
    rows = []
    names = getattr(module, "__all__", None) or [n for n in vars(module) if n[0].isupper()]
    for name in sorted(set(names) - known, key=lambda name: (name.lower(), name)):
        thing = getattr(module, name)
        if inspect.isclass(thing) or inspect.isroutine(thing):
            purpose = (inspect.getdoc(thing) or "").partition("\n\n")[0].rstrip(".")
            purpose = " ".join(purpose.split()).replace("``", "`").replace("|", "\\|")
            rows.append(f"| `{prefix}.{name}` | {purpose} |")
    return rows
