"""Run the code that stands in a page, and keep what it prints and draws.

A page is Markdown.  Its steps are carried out in order, in one namespace and one empty
working folder:

    ```{run}        Python; what it prints and the value of a last expression are shown
    ```{shell}      commands, one per line; what they print is shown
    {calc}`...`     a Python expression; its value stands in the text

Nothing here knows of Sphinx, so that tests can run a page without building the site.
"""

import ast
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
#: Characters per line of what is printed; wider lines have to be scrolled on the site.
WIDTH = 84

_FENCE = re.compile(
    r"^(?P<ticks>`{3,})\{(?P<kind>run|shell)\}[^\n]*\n(?P<body>.*?)^(?P=ticks)[ ]*$"
    r"|\{calc\}(?P<quote>`+)(?P<expression>.+?)(?P=quote)",
    re.MULTILINE | re.DOTALL,
)
_OPTION = re.compile(r"^:[\w-]+:.*$")
#: The command is there even where the package is not installed.
_PRELUDE = f'permatch() {{ "{sys.executable}" -m permatch "$@"; }}\n'


class PageCodeError(Exception):
    """A step of a page failed; the message has the step and its traceback."""


@dataclass(frozen=True)
class Step:
    """One piece of code of a page: its kind, what to run, and its line in the file."""

    kind: str
    source: str
    line: int


@dataclass(frozen=True)
class Outcome:
    """What a step printed, and the figures it left open, as SVG."""

    text: str = ""
    figures: list[str] = field(default_factory=list)


class PageCode:
    """The namespace and the working folder of one page.

    Parameters
    ----------
    name : str
        The page, for messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.names: dict[str, Any] = {"__name__": "__main__", "ROOT": ROOT}
        os.environ.setdefault("MPLBACKEND", "Agg")
        if str(HERE) not in sys.path:  # pages may use the modules beside this one
            sys.path.append(str(HERE))
        self.folder = Path(tempfile.mkdtemp(prefix="permatch-docs-"))

    def close(self) -> None:
        """Remove the working folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def carry_out(self, step: Step) -> Outcome:
        """Run one step, whatever its kind."""
        if step.kind == "calc":
            return Outcome(self.evaluate(step.source))
        return self.shell(step.source) if step.kind == "shell" else self.run(step.source)

    def run(self, source: str) -> Outcome:
        """Run Python; the value of a last expression is shown as a prompt would show it."""
        with self._at_work(source), contextlib.redirect_stdout(io.StringIO()) as printed:
            tree = ast.parse(source)
            last = None
            if tree.body and isinstance(tree.body[-1], ast.Expr):
                last = ast.Expression(tree.body.pop().value)
            exec(compile(tree, f"<{self.name}>", "exec"), self.names)
            if last is not None:
                value = eval(compile(last, f"<{self.name}>", "eval"), self.names)
                if value is not None and not _is_artist(value):
                    print(repr(value))
        return Outcome(printed.getvalue(), _take_figures())

    def shell(self, source: str) -> Outcome:
        """Run commands, one per line; a line that ends in a backslash goes on."""
        commands = source.replace("\\\n", "\\\0").splitlines()
        shown = []
        for command in (line.replace("\0", "\n") for line in commands if line.strip()):
            done = subprocess.run(
                ["bash", "-c", _PRELUDE + command],
                cwd=self.folder,
                env=_environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            if done.returncode:
                raise PageCodeError(
                    f"{self.name}: `{command}` failed with status {done.returncode}:\n"
                    + done.stdout
                )
            told = "\n".join(line.rstrip() for line in done.stdout.splitlines())
            shown.append(f"$ {command}\n{told}".rstrip())
        return Outcome("\n".join(shown))

    def evaluate(self, source: str) -> str:
        """Return the value of an expression as text."""
        with self._at_work(source):
            return str(eval(source, self.names))

    @contextlib.contextmanager
    def _at_work(self, source: str):
        """Work in the page's folder, with warnings as errors and failures explained."""
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                yield
        except Exception:
            raise PageCodeError(
                f"{self.name}: this step failed:\n\n{source}\n{traceback.format_exc()}"
            ) from None
        finally:
            os.chdir(before)


def steps(text: str) -> list[Step]:
    """Return the steps of a page in order."""
    found = []
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["expression"]:
            found.append(Step("calc", match["expression"].strip(), line))
            continue
        lines = match["body"].splitlines()
        while lines and (_OPTION.match(lines[0]) or not lines[0].strip()):
            lines.pop(0)
        found.append(Step(match["kind"], "\n".join(lines) + "\n", line))
    return found


def without_code(text: str) -> str:
    """Return the prose of a page: no fences, no code, no formulas, no addresses."""
    text = re.sub(r"^(`{3,}).*?^\1[ ]*$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\$\$.*?\$\$|\$[^$\n]+\$", "", text, flags=re.DOTALL)
    text = re.sub(r"(`+)(?!`).+?\1", "", text, flags=re.DOTALL)
    return re.sub(r"\]\([^)]*\)|<[^>]*>", "", text)


def _is_artist(value: Any) -> bool:
    """Tell whether a value is what a plotting call returned."""
    return type(value).__module__.startswith("matplotlib.")


def _take_figures() -> list[str]:
    """Return the open figures as SVG and close them."""
    if "matplotlib.pyplot" not in sys.modules:
        return []
    from matplotlib import pyplot

    from permatch.pages import figure_svg

    svgs = []
    for number in pyplot.get_fignums():
        with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": "permatch"}):
            svgs.append(figure_svg(pyplot.figure(number)))
    pyplot.close("all")
    return svgs


def _environment() -> dict[str, str]:
    """Return the environment of commands: this source, plain output, one width."""
    source = os.pathsep.join(
        filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")])
    )
    return {
        **os.environ,
        "PYTHONPATH": source,
        "COLUMNS": str(WIDTH),
        "NO_COLOR": "1",
        "TERM": "dumb",
        "PYTHONIOENCODING": "utf-8",
    }
