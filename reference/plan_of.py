# SPDX-License-Identifier: Apache-2.0
"""What descriptor ids move, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator

from kvproof.reference import arithmetic
from kvproof.reference.ids import resolve, starts
from kvproof.spec.plan import Copy
from kvproof.spec.tables import Tables


def copies_of(tables: Tables) -> Iterator[Copy]:
    """One copy a pair of ids, in their order. A pair with an id outside its table names nothing and moves nothing."""
    source_starts, target_starts = starts(tables.source), starts(tables.target)
    for source_id, target_id in zip(tables.source_ids, tables.target_ids, strict=True):
        source, source_page = resolve(source_starts, source_id)
        target, target_page = resolve(target_starts, target_id)
        if source_page < tables.source[source].pages and target_page < tables.target[target].pages:
            yield arithmetic.copy_of(tables.source[source], source_page, tables.target[target], target_page)
