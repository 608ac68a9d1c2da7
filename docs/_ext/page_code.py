"""Run the code that stands in a page, and keep what it prints and draws.

The pieces of a page are run in order, in one namespace and one empty working folder.
Nothing here knows of Markdown or Sphinx; `page_text` finds the pieces.
"""

import ast
import contextlib
import io
import os
import re
import shlex
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
#: Characters per line of what is printed; wider lines have to be scrolled on a page.
WIDTH = 84
#: Pixels per inch of figures: sharp on a screen with two pixels for one.
DPI = 144

#: The command is there even where the package is not installed.
_PRELUDE = f'permatch() {{ "{sys.executable}" -m permatch "$@"; }}\n'
#: A line with any of these needs a shell.
_FOR_SHELLS = re.compile(r"[|&;<>()$`*?#~\n]")


class PageCodeError(Exception):
    """A step of a page failed; the message has the step and its traceback."""


@dataclass(frozen=True)
class Outcome:
    """What a step printed, and the figures it left open, as PNG."""

    text: str = ""
    figures: list[bytes] = field(default_factory=list)


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

    def __enter__(self) -> "PageCode":
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the working folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

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
            figures = _take_figures()
        return Outcome(_tidy(printed.getvalue()), figures)

    def shell(self, command: str) -> str:
        """Run a command and return what it printed."""
        words = [] if _FOR_SHELLS.search(command) else shlex.split(command)
        is_own = words[:1] == ["permatch"]
        status, told = self._own(words[1:]) if is_own else self._bash(command)
        if status:
            raise PageCodeError(
                f"{self.name}: `{command}` failed with status {status}:\n{told}"
            )
        return _tidy(told)

    def evaluate(self, source: str) -> Any:
        """Return the value of an expression."""
        with self._at_work(source):
            return eval(source, self.names)

    def _own(self, words: list[str]) -> tuple[int, str]:
        """Call the command in this process, where its kernels are loaded already."""
        from typer.testing import CliRunner

        from permatch.cli.main import app

        with self._at_work(shlex.join(["permatch", *words])):
            done = CliRunner().invoke(app, words, env=_PLAIN, prog_name="permatch")
        return done.exit_code, done.output

    def _bash(self, command: str) -> tuple[int, str]:
        source = os.pathsep.join(
            filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")])
        )
        done = subprocess.run(
            ["bash", "-c", _PRELUDE + command],
            cwd=self.folder,
            env={**os.environ, **_PLAIN, "PYTHONPATH": source},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.returncode, done.stdout

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


#: What commands are told: plain output, one width.
_PLAIN = {
    "COLUMNS": str(WIDTH),
    "NO_COLOR": "1",
    "TERM": "dumb",
    "PYTHONIOENCODING": "utf-8",
}


def _tidy(text: str) -> str:
    """Return text without spaces at the ends of lines and empty lines at its end."""
    lines = "\n".join(line.rstrip() for line in text.splitlines()).rstrip()
    return lines + "\n" if lines else ""


def _is_artist(value: Any) -> bool:
    """Tell whether a value is what a plotting call returned."""
    return type(value).__module__.startswith("matplotlib.")


def _take_figures() -> list[bytes]:
    """Return the open figures as PNG and close them."""
    if "matplotlib.pyplot" not in sys.modules:
        return []
    from matplotlib import pyplot

    taken = []
    for number in pyplot.get_fignums():
        buffer = io.BytesIO()
        pyplot.figure(number).savefig(
            buffer,
            dpi=DPI,
            bbox_inches="tight",
            facecolor="white",
            metadata={"Software": None},
        )
        taken.append(buffer.getvalue())
    pyplot.close("all")
    return taken
