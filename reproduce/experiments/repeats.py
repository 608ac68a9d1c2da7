"""When an experiment has been repeated often enough.

Unless a number of repeats is given, there is a look at the verdict after every fifth one,
and the repeats end as soon as one of these holds:

    settled   the interval of what is judged lies on one side of its bound
    narrow    the interval reaches less than 0.003 to either side
    all       there are 30 repeats

Whoever looks six times is misled more often than whoever looks once.  The intervals are
therefore wider (Bonferroni): the error of one look is that of all, divided by their number.
"""

from collections.abc import Sequence

from reproduce.experiments.claims import LEVEL, Effect

#: Numbers of repeats after which there is a look.
LOOKS = (5, 10, 15, 20, 25, 30)

#: An interval that reaches less far to either side is narrow.
NARROW = 0.003

#: The rule in words, for pages.
RULE = (
    f"Repeats go on until the interval excludes zero or reaches less than {NARROW:g} to "
    f"either side, with a look after every {LOOKS[0]}, and end with {LOOKS[-1]}. For "
    f"{len(LOOKS)} looks to be right together in {100 * LEVEL:.0f} % of cases, each takes "
    f"an interval of {100 - 100 * (1 - LEVEL) / len(LOOKS):.1f} % (Bonferroni)."
)


def looks_of(n_repeats: int | None) -> tuple[int, ...]:
    """Return after which repeats there is a look; a given number of them has one."""
    return LOOKS if n_repeats is None else (n_repeats,)


def level_of(n_repeats: int | None) -> float:
    """Return the level of an interval that allows for all looks."""
    return 1.0 - (1.0 - LEVEL) / len(looks_of(n_repeats))


def is_enough(effects: Sequence[Effect]) -> bool:
    """Return whether the effects that are judged need no further repeats."""
    judged = [effect for effect in effects if effect.is_judged]
    return all(
        effect.side != 0 or effect.high - effect.low < 2.0 * NARROW for effect in judged
    )
