"""Groups of options in the signature of a command become options of their own."""

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from permatch.cli.shared.options import optional
from permatch.cli.shared.terminal import add, new_group


@dataclass(frozen=True)
class Size:
    """Two options."""

    width: Annotated[int, typer.Option("--width")] = 1
    height: Annotated[int | None, optional("--height")] = None


def group_of(seen, **more):
    group = new_group()

    @group.callback()
    def main() -> None:
        """Make the commands below stand by their names."""

    def draw(name: str, colour: str = "red", *, size: Size) -> None:
        """Draw."""
        seen.append((name, colour, size))

    add(group, draw, **more)
    return group


def test_a_group_is_spread_and_gathered_again():
    seen = []
    result = CliRunner().invoke(group_of(seen), ["draw", "x", "--height", "3"])
    assert result.exit_code == 0, result.output
    assert seen == [("x", "red", Size(1, 3))]


def test_every_command_has_debug_and_readers_a_limit():
    for is_reader in (True, False):
        group = group_of([], is_reader=is_reader)
        text = CliRunner().invoke(group, ["draw", "--help"]).output
        assert "--debug" in text
        assert ("--max-bytes" in text) == is_reader
        assert "--size" not in text
