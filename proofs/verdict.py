# SPDX-License-Identifier: Apache-2.0
"""What becomes of a claim. Only ``proved`` is a pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Verdict = Literal["proved", "refuted", "vacuous", "unknown", "disagreement", "error"]

WORST_FIRST: tuple[Verdict, ...] = ("error", "disagreement", "refuted", "vacuous", "unknown", "proved")


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of several; a claim nothing of which ran is an error."""
    found = set(verdicts)
    return next((verdict for verdict in WORST_FIRST if verdict in found), "error")
