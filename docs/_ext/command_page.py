"""Every command of ``permatch`` with its help, found by walking the program itself."""

from collections.abc import Iterator
from typing import Any

WIDTH = "84"
#: Helps look a little different with every version; the page is made with this one.
TYPER = "0.29"


def page() -> str:
    """Return the page as Markdown, one heading per command."""
    from typer.main import get_command

    from permatch.cli.main import app

    found = dict(commands(get_command(app)))
    helps = {words: help_of(app, words) for words in found}
    # A command that its group runs by default has the help of the group.
    found = {w: found[w] for w in found if helps[w] != helps.get(w[:-1])}
    lines = ["| command | purpose |", "|---|---|"]
    for words, command in found.items():
        name = " ".join(["permatch", *words])
        purpose = command.get_short_help_str(limit=200).rstrip(".")
        lines.append(f"| [`{name}`](#{name.replace(' ', '-')}) | {purpose} |")
    lines.append("")
    for words in found:
        depth = "#" * (2 + (len(words) > 1))
        lines += [f"{depth} `{' '.join(['permatch', *words])}`", "", "```text"]
        lines += [*helps[words], "```", ""]
    return "\n".join(lines)


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Yield the words and the object of every command below this one."""
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield (*words, name), inner
            yield from commands(inner, (*words, name))


def help_of(app: Any, words: tuple[str, ...]) -> list[str]:
    """Return the lines that ``permatch WORDS --help`` prints."""
    from typer.testing import CliRunner

    plain = {"COLUMNS": WIDTH, "NO_COLOR": "1", "TERM": "dumb"}
    result = CliRunner().invoke(app, [*words, "--help"], env=plain, prog_name="permatch")
    if result.exit_code:
        raise RuntimeError(f"permatch {' '.join(words)} --help failed: {result.output}")
    return [line.rstrip() for line in result.output.strip().splitlines()]
