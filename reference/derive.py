# SPDX-License-Identifier: Apache-2.0
"""The oracle: tables and plan of a case, under the lawful rules or faulty ones."""

from __future__ import annotations

import msgspec

from kvproof.reference.ids import source_ids, target_ids
from kvproof.reference.pairing import Expanded, Link, Match, Registered, expand_table
from kvproof.reference.plan_of import copies_of
from kvproof.reference.rules import LAWFUL, Rules
from kvproof.reference.selection import NOTHING, Selected
from kvproof.reference.side import side_of
from kvproof.spec.plan import Plan
from kvproof.spec.tables import Pairing, Tables
from kvproof.spec.vocabulary import Case


class Derived(msgspec.Struct, frozen=True):
    """What a connector builds for a case, and what it then does."""

    tables: Tables
    plan: Plan


def derive(case: Case, rules: Rules = LAWFUL) -> Derived:
    """Tables and plan of a well-formed case in scope: one producer, one consumer.

    Without a request the pairings have no pages and the plan is empty. Raises ``Refusal`` where the rules refuse.
    """
    source, target = side_of(case, "producer"), side_of(case, "consumer")
    link = Link(Registered(source, rules.register(source)), Registered(target, rules.register(target)))
    matches = match(link, rules)
    sources = expand_table(link.source, [match.source for match in matches])
    targets = expand_table(link.target, [match.target for match in matches])
    pairings = with_pages(ordered(matches, targets), sources, targets, selections(case, link, matches, rules))
    tables = Tables(
        registered={source.worker.name: link.source.regions, target.worker.name: link.target.regions},
        source=sources.regions,
        target=targets.regions,
        pairings=pairings,
        source_ids=source_ids(pairings, sources.regions),
        target_ids=target_ids(pairings, targets.regions),
    )
    zeroes = () if case.request is None else rules.zero(target, case.request.tokens)
    return Derived(tables, Plan(tuple(copies_of(tables)), zeroes))


def match(link: Link, rules: Rules) -> tuple[Match, ...]:
    """What pairs, by the consumer's groups and the regions that each of them addresses."""
    return tuple(
        found
        for group in link.target.side.worker.groups
        for region in rules.address(link.target, group)
        for found in rules.pair(link, group, region)
    )


def ordered(matches: tuple[Match, ...], targets: Expanded) -> list[Match]:
    """The matches by group, then by region of the consumer's expanded table."""
    groups = list(dict.fromkeys(match.group for match in matches))
    rank = {group: number for number, group in enumerate(groups)}
    return sorted(matches, key=lambda match: (rank[match.group], targets.places[match.target]))


def selections(case: Case, link: Link, matches: tuple[Match, ...], rules: Rules) -> dict[tuple[str, str], Selected]:
    """The pages that move, for each pair of a producer's and a consumer's group."""
    pairs = dict.fromkeys((match.source_group, match.group) for match in matches)
    if case.request is None:
        return dict.fromkeys(pairs, NOTHING)
    tokens = case.request.tokens
    source, target = link.source.side, link.target.side
    return {
        (first, second): rules.select(source, source.groups[first], target, target.groups[second], tokens)
        for first, second in pairs
    }


def with_pages(
    matches: list[Match],
    sources: Expanded,
    targets: Expanded,
    pages: dict[tuple[str, str], Selected],
) -> tuple[Pairing, ...]:
    """The matches as pairings: indices into the expanded tables, and the pages that move."""
    return tuple(
        Pairing(
            group=match.group,
            source=sources.places[match.source],
            target=targets.places[match.target],
            source_pages=pages[match.source_group, match.group].source,
            target_pages=pages[match.source_group, match.group].target,
        )
        for match in matches
    )
