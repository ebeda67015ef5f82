"""Parameter rules: what passes, what is refused, in which words."""

from __future__ import annotations

import numpy as np
import pytest

from rankwright.exceptions import ParameterError
from rankwright.rankers import schema


@pytest.mark.parametrize(
    ("rule", "good", "bad", "words"),
    [
        (schema.at_least(1), [1, np.int32(7)], [0, 1.0, True, "1", None], "an integer >= 1"),
        (schema.positive(), [0.1, 3, np.float32(2)], [0, -1, np.nan, np.inf, True], "a number > 0"),
        (schema.number(), [-2.5, 0], [np.nan, np.inf, "0"], "a finite number"),
        (schema.number(0.0), [0, 2.5], [-1e-9, np.nan], "a number >= 0"),
        (schema.between(0, 1), [0, 0.5, 1], [-0.1, 1.1, np.nan], "a number from 0 to 1"),
        (schema.above_0_up_to(0.5), [1e-300, 0.5], [0, 0.6, np.nan], "a number > 0 and <= 0.5"),
        (schema.one_of("a", "b", 1), ["a", 1], ["c", True, 1.0], "'a', 'b' or 1"),
        (schema.a_flag(), [True, np.False_], [1, "yes"], "True or False"),
        (schema.a_seed(), [None, 0, np.random.RandomState(1)], [-1, 1.5, "s"], "None, an integer"),
        (schema.either(schema.nothing(), schema.at_least(2)), [None, 2], [1], "None or an integer"),
        (schema.a_function(), [len], [3], "a function"),
        (schema.an_instance("a list", list), [[1]], [(1,)], "a list"),
    ],
)
def test_a_rule_tests_what_its_words_say(
    rule: schema.Constraint, good: list[object], bad: list[object], words: str
) -> None:
    for value in good:
        rule.check("Model", "thing", value)
    for value in bad:
        with pytest.raises(ParameterError, match=f"Model\\(thing=.*thing must be .*{words}"):
            rule.check("Model", "thing", value)
