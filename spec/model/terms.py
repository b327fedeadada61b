# SPDX-License-Identifier: Apache-2.0
"""Concrete data as terms: a list that a symbolic index looks up, tables and storages made of that."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import z3

from kvproof.spec.cells import BlockTable, PageView
from kvproof.spec.logic import Int
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy
from kvproof.spec.world import NOWHERE, LayerView

Codes = dict[str, int]
"""A number for each storage id: terms compare numbers."""


def pick(index: Int, values: Sequence[Int], otherwise: Int) -> Int:
    """The value at a symbolic index: nested choices over a concrete list."""
    result = otherwise if isinstance(otherwise, z3.ExprRef) else z3.IntVal(otherwise)
    for position, value in reversed(list(enumerate(values))):
        result = z3.If(index == position, value, result)
    return result


def term_table(view: LayerView) -> BlockTable:
    """The layer's block table, to be asked for symbolic ordinals."""
    table = view.block_table
    blocks = [table.block(table.first + index) for index in range(table.count)]
    return msgspec.structs.replace(table, block=lambda ordinal: pick(ordinal - table.first, blocks, NOWHERE))


def coded_page(page: PageView, codes: Codes) -> PageView:
    """The pages of a layer, their storage as a number."""
    return msgspec.structs.replace(page, storage=codes[page.storage])


def coded(place: Place, codes: Codes) -> Place:
    """A place, its storage as a number."""
    return Place(codes[place.storage], place.offset, place.bytes)


def pick_place(index: Int, places: Sequence[Place]) -> Place:
    """The place at a symbolic index."""
    return Place(
        pick(index, [place.storage for place in places], NOWHERE),
        pick(index, [place.offset for place in places], 0),
        pick(index, [place.bytes for place in places], 0),
    )


def pick_copy(index: Int, copies: Sequence[Copy]) -> Copy:
    """The copy at a symbolic index."""
    return Copy(
        pick_place(index, [copy.source for copy in copies]), pick_place(index, [copy.target for copy in copies])
    )
