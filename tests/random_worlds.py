# SPDX-License-Identifier: Apache-2.0
"""Random worlds for hypothesis: the generator of ``kvproof fuzz``, its decisions drawn by hypothesis."""

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from kvproof.fuzzing.generate import generate
from kvproof.fuzzing.model import SMALL, TINY, Size
from kvproof.fuzzing.source import RandomSource, Source
from kvproof.spec.scope import Covered, assess
from kvproof.spec.vocabulary import Case

Test = TypeVar("Test", bound=Callable[..., Any])


class DrawnSource(Source):
    """Decisions that hypothesis draws, and can shrink."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))


@st.composite
def worlds(draw: st.DrawFn, size: Size = SMALL) -> Case:
    return generate(DrawnSource(draw), size)


@st.composite
def worlds_and_source(draw: st.DrawFn, size: Size = TINY) -> tuple[Case, Source]:
    """A case, and a source of further decisions about it: a seed, so that they can be made while the test runs."""
    return generate(DrawnSource(draw), size), RandomSource(draw(st.integers(0, 2**32)))


def covered(case: Case) -> Covered:
    scope = assess(case)
    assert isinstance(scope, Covered), scope
    return scope


def examples(count: int) -> Callable[[Test], Test]:
    """So many examples, the same each time: a test that CI runs must not fail by chance."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    return settings(max_examples=count, derandomize=True, deadline=None, database=None, suppress_health_check=checks)
