# SPDX-License-Identifier: Apache-2.0
"""Counterexamples on the reference itself: a case is made of the numbers, and its plans are derived and judged.

The faulty rule must break the law named; the reference's own rules, in the same case, none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from kvproof.proofs.theorems.folding import Fold, Folds
from kvproof.proofs.worlds import Side, Transfer
from kvproof.reference.derive import derive
from kvproof.reference.faults.registry import FAULTS
from kvproof.reference.rules import LAWFUL, Refusal, Rules
from kvproof.spec.judge.judge import judge
from kvproof.spec.scope import Covered, assess
from kvproof.spec.tables import Region
from kvproof.spec.vocabulary import (
    Case,
    Group,
    Kind,
    Law,
    Layer,
    Order,
    Part,
    Pool,
    Request,
    Role,
    Storage,
    Table,
    Worker,
)

LayersOfGroup = tuple[Kind, tuple[Literal["own", "region", "other"], ...]]
"""A group's kind, and its layers by what they are called in a ``Fold``."""


def breaks(case: Case, fault: str, law: Law) -> bool:
    """A faulty rule breaks this law in a case in which the reference's own rules break none."""
    lawful = broken(case, LAWFUL)
    if lawful:
        raise ValueError(f"the reference itself breaks {', '.join(lawful)}")
    return law in broken(case, FAULTS[fault].rules)


def broken(case: Case, rules: Rules) -> tuple[Law, ...]:
    """The laws that the plan and the tables of these rules break; a refusal is none."""
    scope = assess(case)
    if not isinstance(scope, Covered):
        raise ValueError(f"no plan of this case is judged: {scope.reason}")
    try:
        derived = derive(case, rules)
    except Refusal:
        return ()
    return judge(scope, derived.plan, derived.tables).laws


def transfer_case(w: Transfer) -> Case:
    """One layer moved for one request, as in the world."""
    workers = (_one_layer(w.source, "producer", w.target), _one_layer(w.target, "consumer", w.source))
    return Case(1, "counterexample", workers, request=Request(w.tokens))


def fold_case(w: Folds, *groups: LayersOfGroup) -> Case:
    """One token moved for each of these groups: a kind, and which of the world's regions are its layers' pages."""
    workers = (_folded(w.source, "producer", groups), _folded(w.target, "consumer", groups))
    return Case(1, "counterexample", workers, request=Request(1))


def _one_layer(side: Side, role: Role, peer: Side) -> Worker:
    view, part, table = side.view, side.part, side.table
    blocks = tuple(table.block(table.first + index) for index in range(table.count))
    pool = 1 + max(blocks)
    size = view.offset + (pool * view.pages_per_block - 1) * view.page_stride + view.page_bytes
    units = max(each.first + each.count for each in (part, peer.part))
    held = Part("kv", part.unit_bytes, units, part.first, part.count, _order(part.order))
    group = Group("kv", "attention", "device", block_tokens=side.block_tokens, pages_per_block=view.pages_per_block)
    layer = Layer("layer", "kv", "main", view.offset, view.page_bytes, view.page_stride, view.tokens_per_state, (held,))
    cached = table.cached_tokens if role == "consumer" else None
    return _worker(role, size, pool, [group], [layer], {"kv": Table(blocks, table.first, cached)})


def _order(order: str) -> Order:
    return "state-major" if order == "state-major" else "unit-major"


def _folded(w: Fold, role: Role, kinds: tuple[LayersOfGroup, ...]) -> Worker:
    blocks = len(kinds)
    groups = [Group(f"group{number}", kind, "device", block_tokens=1) for number, (kind, _) in enumerate(kinds)]
    layers = [
        _layer(f"{group.name}.{which}", group.name, getattr(w, which))
        for group, (_, regions) in zip(groups, kinds, strict=True)
        for which in regions
    ]
    cached = 0 if role == "consumer" else None
    tables = {group.name: Table((block,), 0, cached) for block, group in enumerate(groups)}
    return _worker(role, blocks * w.own.stride, blocks, groups, layers, tables)


def _layer(name: str, group: str, region: Region) -> Layer:
    return Layer(name, group, "main", region.offset, region.bytes, region.stride)


def _worker(
    role: Role, size: int, blocks: int, groups: Iterable[Group], layers: Iterable[Layer], tables: dict[str, Table]
) -> Worker:
    storages, pools = (Storage("main", size, "VRAM"),), (Pool("device", blocks),)
    return Worker("P0" if role == "producer" else "D0", role, storages, pools, tuple(groups), tuple(layers), tables)
