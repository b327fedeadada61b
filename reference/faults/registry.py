# SPDX-License-Identifier: Apache-2.0
"""The faulty rules by name."""

from __future__ import annotations

from dataclasses import dataclass

from kvproof.reference.faults import fold_by_base, row_fold_by_base, row_fold_by_base_and_length, suffix_selection
from kvproof.reference.rules import Rules


@dataclass(frozen=True)
class Fault:
    """A rule that once shipped, or was about to, and the public reports of it."""

    name: str
    title: str
    sources: tuple[str, ...]
    rules: Rules


FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault(
            "suffix-selection",
            "pages are paired from the end of both lists",
            ("vllm#57077",),
            suffix_selection.RULES,
        ),
        Fault(
            "fold-by-base",
            "views that start at one address are one region",
            ("vllm#57661",),
            fold_by_base.RULES,
        ),
        Fault(
            "row-fold-by-base",
            "whole rows for replicated views, then views that start at one address are one region",
            ("vllm#57661",),
            row_fold_by_base.RULES,
        ),
        Fault(
            "row-fold-by-base-and-length",
            "whole rows for replicated views, then views of equal start and length are one region",
            ("vllm#57662",),
            row_fold_by_base_and_length.RULES,
        ),
    )
}
