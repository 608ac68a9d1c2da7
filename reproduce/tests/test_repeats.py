"""When repeats may end, and that looking often does not mislead."""

import numpy as np
import pytest

from reproduce.experiments.claims import Effect, effect_of
from reproduce.experiments.repeats import LOOKS, NARROW, is_enough, level_of, looks_of


def effect(low, high, **more):
    return Effect("gain", (low + high) / 2, low, high, "5 repeats", **more)


@pytest.mark.parametrize(
    ("effects", "is_settled"),
    [
        ([effect(0.01, 0.2)], True),
        ([effect(-0.2, -0.01)], True),
        ([effect(-0.01, 0.2)], False),
        ([effect(-0.9 * NARROW, 0.9 * NARROW)], True),
        ([effect(-np.inf, np.inf)], False),
        ([effect(0.01, 0.2), effect(-0.01, 0.2)], False),
        ([effect(0.01, 0.2), effect(-0.01, 0.2, is_judged=False)], True),
    ],
)
def test_enough_is_sure_or_narrow(effects, is_settled):
    assert is_enough(effects) == is_settled


def test_a_given_number_has_one_look_and_the_usual_interval():
    assert looks_of(7) == (7,)
    assert level_of(7) == pytest.approx(0.95)
    assert looks_of(None) == LOOKS == (5, 10, 15, 20, 25, 30)
    assert level_of(None) == pytest.approx(1 - 0.05 / 6)
    assert effect_of([0.1, 0.2, 0.3], "gain", level=level_of(None)).level == level_of(None)


def test_looking_often_seldom_finds_what_is_not_there(rng):
    values = rng.normal(0.0, 0.05, (1500, LOOKS[-1]))
    n_wrong = sum(
        any(
            effect_of(run[:n].tolist(), "gain", level=level_of(None)).side != 0
            for n in LOOKS
        )
        for run in values
    )
    assert n_wrong / len(values) < 0.05
