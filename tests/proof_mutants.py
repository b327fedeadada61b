# SPDX-License-Identifier: Apache-2.0
"""Mutants of the laws' kernels and of the reference's closed forms, and the claims that must notice them.

Run as a script it prints the whole table of what kills what: ``python tests/proof_mutants.py``.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import msgspec

from kvproof.proofs import engines, registry, run
from kvproof.reference import arithmetic
from kvproof.spec import cells, place
from kvproof.spec.laws import (
    alignment,
    bounds,
    confinement,
    coverage,
    descriptor_ids,
    economy,
    folding,
    parity,
    partition,
    single_writer,
    zeroing,
)
from kvproof.spec.logic import all_of, ceil_div, floor_div, maximum, mod
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy


@dataclass(frozen=True)
class Mutant:
    """A function and what is put in its place."""

    name: str
    module: Any
    function: str
    replacement: Callable[..., Any]


KERNELS = [
    (coverage, "byte_covered"),
    (alignment, "aligned"),
    (alignment, "untouched"),
    (confinement, "byte_confined"),
    (bounds, "span_in_storage"),
    (bounds, "id_in_pool"),
    (bounds, "address_fits"),
    (single_writer, "same_value"),
    (single_writer, "not_also_zeroed"),
    (folding, "page_inside"),
    (folding, "no_stowaway"),
    (folding, "equal_length"),
    (folding, "fits"),
    (descriptor_ids, "id_in_range"),
    (descriptor_ids, "distinct"),
    (descriptor_ids, "sections_apart"),
    (parity, "counts_pair"),
    (parity, "descriptors_pair"),
    (zeroing, "zero_spares"),
    (zeroing, "page_owed"),
    (zeroing, "byte_zeroed"),
    (partition, "unit_held"),
    (economy, "not_moved_twice"),
    (economy, "byte_useful"),
    (economy, "not_contained"),
]


def constant(value: bool) -> Callable[..., bool]:
    return lambda *arguments, **named: value


def kernel_mutants() -> list[Mutant]:
    return [
        Mutant(f"{function} is always {str(value).lower()}", module, function, constant(value))
        for module, function in KERNELS
        for value in (True, False)
    ]


def blind(test: Callable[..., Any], field: str) -> Callable[..., Any]:
    """A fold test that does not look at a field."""
    return lambda view, region: test(msgspec.structs.replace(view, **{field: getattr(region, field)}), region)


def fold_mutants() -> list[Mutant]:
    fields = ("storage", "offset", "bytes", "stride", "pages", "memory")
    tests = (("is_exact_alias", arithmetic.is_exact_alias), ("lies_in_row", arithmetic.lies_in_row))
    found = [
        Mutant(f"{name} without {field}", arithmetic, name, blind(test, field))
        for name, test in tests
        for field in fields
    ]
    row = arithmetic.lies_in_row

    def no_lower(view: Any, region: Any) -> Any:
        low = msgspec.structs.replace(region, offset=view.offset, bytes=region.bytes + region.offset - view.offset)
        return row(view, low)

    def no_upper(view: Any, region: Any) -> Any:
        return row(msgspec.structs.replace(view, bytes=region.bytes + region.offset - view.offset), region)

    exact = arithmetic.is_exact_alias
    return [
        *found,
        Mutant("lies_in_row without its lower end", arithmetic, "lies_in_row", no_lower),
        Mutant("lies_in_row without its upper end", arithmetic, "lies_in_row", no_upper),
        Mutant("folds asks for a row only", arithmetic, "folds", lambda view, region, is_row: row(view, region)),
        Mutant("folds asks for an alias only", arithmetic, "folds", lambda view, region, is_row: exact(view, region)),
        Mutant("folds always", arithmetic, "folds", constant(True)),
        Mutant("member_agrees without lengths", arithmetic, "member_agrees", lambda a, b, c, d: b == d),
        Mutant("member_agrees without offsets", arithmetic, "member_agrees", lambda a, b, c, d: a == c),
        Mutant("member_agrees always", arithmetic, "member_agrees", constant(True)),
    ]


def _page_at(ordinal: Any, size: Any, first: Any, block_at: Any) -> Any:
    return arithmetic.expand(block_at(floor_div(ordinal, size)), size, mod(ordinal, size))


def _short_copy(source: Any, source_page: Any, target: Any, target_page: Any) -> Copy:
    copy = _copy_of(source, source_page, target, target_page)
    return msgspec.structs.replace(copy, target=msgspec.structs.replace(copy.target, bytes=target.bytes - 1))


def _swapped_copy(source: Any, source_page: Any, target: Any, target_page: Any) -> Copy:
    return Copy(
        Place(source.storage, source.offset + source_page * target.stride, target.bytes),
        Place(target.storage, target.offset + target_page * source.stride, target.bytes),
    )


_copy_of = arithmetic.copy_of


def _required(last_in: bool, first_in: bool) -> Callable[..., Any]:
    def required(view: Any, state: Any, first: Any, tokens: Any) -> Any:
        last = (state + 1) * view.tokens_per_state - 1
        return all_of(first <= last if first_in else first < last, last <= tokens if last_in else last < tokens)

    return required


def arithmetic_mutants() -> list[Mutant]:
    replacements: list[tuple[str, str, Callable[..., Any]]] = [
        (
            "first_token one late",
            "first_token",
            lambda c, t, w, r: c + 1 if w is None else maximum(c, t + 1 - w - r) + 1,
        ),
        (
            "first_token with a wider window",
            "first_token",
            lambda c, t, w, r: c if w is None else maximum(c, t - w - r),
        ),
        (
            "first_token with a narrower window",
            "first_token",
            lambda c, t, w, r: c if w is None else maximum(c, t + 2 - w),
        ),
        (
            "first_token ignores the cache",
            "first_token",
            lambda c, t, w, r: 0 if w is None else maximum(0, t + 1 - w - r),
        ),
        ("first_page of the token after", "first_page", lambda token, size: floor_div(token + 1, size)),
        ("first_page of the token before", "first_page", lambda token, size: floor_div(token - 1, size)),
        ("first_page rounds up", "first_page", ceil_div),
        ("end_page rounds down", "end_page", floor_div),
        ("end_page one too far", "end_page", lambda tokens, size: ceil_div(tokens, size) + 1),
        ("end_page with <= for <", "end_page", lambda tokens, size: floor_div(tokens, size) + 1),
        ("end_of_blocks one short", "end_of_blocks", lambda t, b, n: ceil_div(t, b) * n - 1),
        ("end_of_blocks one too far", "end_of_blocks", lambda t, b, n: ceil_div(t, b) * n + 1),
        ("end_of_blocks with <= for <", "end_of_blocks", lambda t, b, n: (floor_div(t, b) + 1) * n),
        ("end_of_blocks in blocks", "end_of_blocks", lambda t, b, n: ceil_div(t, b)),
        ("page_tokens rounds up", "page_tokens", lambda b, n: ceil_div(b, n) + 1),
        ("page_count in blocks", "page_count", lambda blocks, size: blocks),
        ("expand adds the page alone", "expand", lambda block, size, page: block + page),
        ("expand by one page more", "expand", lambda block, size, page: block * (size + 1) + page),
        ("page_at ignores the first listed block", "page_at", _page_at),
        ("next_start one late", "next_start", lambda start, pages: start + pages + 1),
        ("next_start one early", "next_start", lambda start, pages: start + pages - 1),
        ("descriptor_id one late", "descriptor_id", lambda start, page: start + page + 1),
        ("page_of_id one late", "page_of_id", lambda start, descriptor: descriptor - start + 1),
        ("state_descriptor_id one early", "state_descriptor_id", lambda s, r, n, b: s - 1 + r * n + b),
        ("state_descriptor_id by one block fewer", "state_descriptor_id", lambda s, r, n, b: s + r * (n - 1) + b),
        ("row_fits all but one row", "row_fits", lambda row, size: (row.pages - 1) * row.stride <= size),
        ("offset_within is the view's own", "offset_within", lambda view, region: view),
        ("part_bytes of one unit", "part_bytes", lambda count, unit: unit),
        ("next_part leaves no room", "next_part", lambda start, length: start + length - 1),
        ("copy_of one byte short", "copy_of", _short_copy),
        ("copy_of swaps the strides", "copy_of", _swapped_copy),
    ]
    found = [Mutant(name, arithmetic, function, replacement) for name, function, replacement in replacements]
    return [
        *found,
        Mutant("state_required with <= at the end", cells, "state_required", _required(True, True)),
        Mutant("state_required with < at the start", cells, "state_required", _required(False, False)),
        Mutant(
            "page_extent ignores the page",
            confinement,
            "page_extent",
            lambda view, block, page: cells.page_place(view, block * view.pages_per_block),
        ),
        Mutant(
            "row_extent ignores the page",
            confinement,
            "row_extent",
            lambda view, block, page: Place(
                view.storage, block * view.pages_per_block * view.page_stride, view.page_stride
            ),
        ),
    ]


def _overlaps(first: Place, second: Place) -> Any:
    return all_of(
        first.storage == second.storage,
        first.offset <= second.offset + second.bytes,
        second.offset <= first.offset + first.bytes,
    )


def _byte_in(place: Place, storage: Any, byte: Any) -> Any:
    return all_of(place.storage == storage, place.offset <= byte, byte <= place.offset + place.bytes)


def _contains(outer: Place, inner: Place) -> Any:
    return all_of(outer.storage == inner.storage, outer.offset <= inner.offset)


def place_mutants() -> list[Mutant]:
    return [
        Mutant("overlaps where they only touch", place, "overlaps", _overlaps),
        Mutant("byte_in with the byte after", place, "byte_in", _byte_in),
        Mutant("contains whatever starts inside", place, "contains", _contains),
        Mutant("disjoint is always true", place, "disjoint", constant(True)),
        Mutant("disjoint is always false", place, "disjoint", constant(False)),
        Mutant("live_required is always true", cells, "live_required", constant(True)),
    ]


def mutants() -> list[Mutant]:
    return [*kernel_mutants(), *place_mutants(), *fold_mutants(), *arithmetic_mutants()]


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """The replacement everywhere that the function was imported to, as if the source had been edited."""
    for module in registry.modules():
        import_module(module)
    original = getattr(mutant.module, mutant.function)
    loaded = [module for name, module in list(sys.modules.items()) if name.startswith("kvproof.")]
    places = [(module, name) for module in loaded for name, value in vars(module).items() if value is original]
    assert places
    for module, name in places:
        setattr(module, name, mutant.replacement)
    try:
        yield
    finally:
        for module, name in places:
            setattr(module, name, original)


def killers(mutant: Mutant, only: list[str] | None = None) -> dict[str, str]:
    """The claims that are not proved under the mutant, with their verdicts. z3 alone decides, for speed."""
    with applied(mutant):
        results = run.run(run.select(only), engines.load(["z3"]), None, 0)
        return {result.id: result.verdict for result in results if result.verdict != "proved"}


if __name__ == "__main__":
    for each in mutants():
        dead = killers(each)
        print(
            f"| {each.name} | {', '.join(f'{id} {verdict}' for id, verdict in dead.items()) or 'SURVIVES'} |",
            flush=True,
        )
