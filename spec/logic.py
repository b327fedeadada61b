# SPDX-License-Identifier: Apache-2.0
"""Arithmetic and logic that mean the same on Python ints and on solver terms.

Laws and closed forms are written with these functions only, so one text is evaluated on integers by the judge and
the tests, and turned into formulas by the proofs. No solver is imported here: there can be a term only where
somebody else has imported z3 already.
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

Int: TypeAlias = Any
"""A Python int or an integer term of the solver."""

Bool: TypeAlias = Any
"""A Python bool or a Boolean term of the solver."""


def _solver(*values: Any) -> Any:
    """The z3 module if one of the values is a z3 expression, else None. Never imports it."""
    z3 = sys.modules.get("z3")
    if z3 is not None and any(isinstance(value, z3.ExprRef) for value in values):
        return z3
    return None


def floor_div(dividend: Int, divisor: Int) -> Int:
    """Quotient rounded down. Meaningful for a positive divisor; on ints any other is a ValueError."""
    z3 = _solver(dividend, divisor)
    if z3 is not None:
        # SMT-LIB's div rounds down exactly when the divisor is positive.
        return _term(z3, dividend) / divisor
    _check_divisor(divisor)
    return dividend // divisor


def mod(dividend: Int, divisor: Int) -> Int:
    """Remainder in ``[0, divisor)``. Meaningful for a positive divisor; on ints any other is a ValueError."""
    z3 = _solver(dividend, divisor)
    if z3 is not None:
        return _term(z3, dividend) % divisor
    _check_divisor(divisor)
    return dividend % divisor


def ceil_div(dividend: Int, divisor: Int) -> Int:
    """Quotient rounded up."""
    return floor_div(dividend + divisor - 1, divisor)


def choose(condition: Bool, first: Int, second: Int) -> Int:
    """``first`` where the condition holds, else ``second``."""
    z3 = _solver(condition)
    if z3 is not None:
        return z3.If(condition, first, second)
    return first if condition else second


def minimum(first: Int, second: Int) -> Int:
    """The smaller of two."""
    return choose(first <= second, first, second)


def maximum(first: Int, second: Int) -> Int:
    """The larger of two."""
    return choose(first >= second, first, second)


def all_of(*conditions: Bool) -> Bool:
    """True if each condition is; true of none."""
    z3 = _solver(*conditions)
    return z3.And(*conditions) if z3 is not None else all(conditions)


def any_of(*conditions: Bool) -> Bool:
    """True if one of the conditions is; false of none."""
    z3 = _solver(*conditions)
    return z3.Or(*conditions) if z3 is not None else any(conditions)


def negate(condition: Bool) -> Bool:
    """True where the condition is not."""
    z3 = _solver(condition)
    return z3.Not(condition) if z3 is not None else not condition


def implies(premise: Bool, conclusion: Bool) -> Bool:
    """True unless the premise holds and the conclusion does not."""
    z3 = _solver(premise, conclusion)
    return z3.Implies(premise, conclusion) if z3 is not None else (not premise or bool(conclusion))


def _term(z3: Any, value: Int) -> Any:
    return value if isinstance(value, z3.ExprRef) else z3.IntVal(value)


def _check_divisor(divisor: int) -> None:
    if divisor <= 0:
        raise ValueError(f"divisor {divisor} is not positive")
