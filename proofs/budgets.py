# SPDX-License-Identifier: Apache-2.0
"""Solver budgets, in each solver's own resource units: the same on a fast and a slow machine, never wall time.

About ten times what the hungriest claim needs (``tests/proofs/test_all_proved.py`` keeps it well below). A proof that
outgrows its budget is to be rewritten, not given more.
"""

from __future__ import annotations

from typing import Literal

Query = Literal["lemma", "theorem", "search"]
"""A lemma is nonlinear; a theorem is lifted to linear form; a search looks for one bounded counterexample."""

Z3_UNITS: dict[Query, int] = {"lemma": 400_000, "theorem": 1_000_000, "search": 4_000_000}
CVC5_UNITS: dict[Query, int] = {"lemma": 100_000, "theorem": 200_000, "search": 100_000}

BOUNDS = (1, 2, 3, 4, 8)
"""Counterexamples are searched with all integers between 0 and the first of these, then the next."""
