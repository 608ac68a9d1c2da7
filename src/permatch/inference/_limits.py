"""What to do about a graph that is too large for an engine: advice that can be followed."""

import math

from permatch._memory import available_memory

#: Largest dense graph that `auto` takes by default, and at all, and the Bethe engine.
AUTO_SIZE, MOST_AUTO_SIZE, MOST_BETHE_SIZE = 1000, 2000, 10_000
# Log2 of the seconds beyond which nobody is told how to allow them: a week.
_LONGEST = 19.2


def other_engine(size: int) -> str:
    """Return the engine to use instead for a dense graph of any size, if there is one."""
    if size <= AUTO_SIZE:
        return "engine='auto', which also uses samplers"
    if size <= MOST_AUTO_SIZE:
        return f"engine=permatch.AutoEngine(max_size={size}), which also uses samplers"
    if size <= MOST_BETHE_SIZE:
        return f"engine=permatch.Bethe(max_size={size}), which is approximate"
    return ""


def is_worth_allowing(log2_seconds: float, log2_bytes: float) -> bool:
    """Return whether a limit could be raised with a chance to see the end."""
    memory = math.log2(max(available_memory(), 1.0))
    return log2_seconds <= _LONGEST and log2_bytes <= memory


def advice_for(size: int, name: str, raised: str | None) -> str:
    """Return what to do about a dense graph that is too large for the engine `name`.

    `raised` is the class whose limit can be raised, if it can.
    """
    advice = (
        "Fix known edges (given={row: col} of MatchingDistribution makes the graph "
        "smaller), or leave out edges that hardly matter (permatch.EdgeScores)"
    )
    other = other_engine(size)
    is_own = name == ("auto" if size <= MOST_AUTO_SIZE else "bethe")
    if other and not is_own:
        advice += f", or use {other}"
    if raised is not None:
        advice += f", or raise the limit: engine=permatch.{raised}(max_size={size})"
    return f"{advice}."
