# SPDX-License-Identifier: Apache-2.0
"""One case by every route: all must agree.

The checks have names; a name and a case are enough to repeat one, so that a disagreement can be shrunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from kvproof.comparing import disagreements
from kvproof.fuzzing.enumerate import enumerate_plan
from kvproof.fuzzing.enumerate_lists import enumerate_lists
from kvproof.fuzzing.enumerate_tables import enumerate_tables
from kvproof.fuzzing.mutate import mutate
from kvproof.fuzzing.mutate_lists import mutate_lists
from kvproof.fuzzing.mutate_tables import mutate_tables
from kvproof.fuzzing.source import RandomSource
from kvproof.fuzzing.tags import bytes_of, carry_out, fits, memory_faults, total_bytes, wrong_bytes
from kvproof.fuzzing.write import write_case
from kvproof.interrupts import Held
from kvproof.reference.derive import Derived, derive
from kvproof.reference.export import descriptor_file, plan_file, synthetic_bases
from kvproof.reference.faults.registry import FAULTS
from kvproof.reference.rules import Refusal
from kvproof.reference.simulator import execute, patterned
from kvproof.spec.decode import decode_plan
from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.judge.expand import expand_plan
from kvproof.spec.judge.judge import judge, judge_lists
from kvproof.spec.judge.plan_laws import judge_spans
from kvproof.spec.judge.table_laws import table_findings
from kvproof.spec.judge.verdict import Judgement
from kvproof.spec.plan import Plan, PlanFile
from kvproof.spec.scope import Covered
from kvproof.spec.tables import Tables
from kvproof.spec.validate import load_case
from kvproof.spec.vocabulary import Case

BYTES_LIMIT = 300_000
"""Larger memories are not simulated."""

ENUMERATED_LIMIT = 1_500
"""Larger worlds are not enumerated."""

MUTANTS = 2


class Disagreement(msgspec.Struct, frozen=True):
    """A check that failed on a case, and how."""

    check: str
    words: str


Check = Callable[[Case, Covered, Derived], Iterator[str]]


def compare(case: Case, covered: Covered, checks: tuple[str, ...] | None = None) -> Disagreement | None:
    """The first check on which two routes disagree. Any exception is a disagreement too."""
    try:
        derived = derive(case)
    except Exception as error:
        return Disagreement("reference", f"{type(error).__name__}: {error}")
    for name in checks or tuple(CHECKS):
        try:
            words = next(CHECKS[name](case, covered, derived), None)
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
        if words is not None:
            return Disagreement(name, words)
    return None


def _verdict(_case: Case, covered: Covered, derived: Derived) -> Iterator[str]:
    """The judge finds the reference's plan and tables lawful, economy included."""
    judgement = judge(covered, derived.plan, derived.tables)
    if judgement.verdict != "lawful":
        yield f"the reference's plan is judged {judgement.verdict}: {first_words(judgement)}"


def first_words(judgement: Judgement) -> str:
    """The judge's first finding."""
    return judgement.findings[0].words if judgement.findings else judgement.reason or ""


def _routes(case: Case, _covered: Covered, derived: Derived) -> Iterator[str]:
    """The reference and gpu_impl build the same tables and the same plan."""
    yield from disagreements(case, derived)


def _lists(case: Case, covered: Covered, derived: Derived) -> Iterator[str]:
    """Descriptor lists of both routes are lawful and move the plan's bytes."""
    with Held():
        from kvproof.gpu_impl import tables as implementation
    from kvproof.spec.judge.lists import read_lists

    bases = synthetic_bases(case)
    ours, theirs = descriptor_file(case, derived, bases), implementation.descriptor_file(case, bases)
    for name, lists in (("reference", ours), ("gpu_impl", theirs)):
        again = decode_plan(msgspec.json.encode(lists))
        if again != lists:
            yield f"the {name}'s descriptor lists are not read back as written"
        judgement = judge_lists(case, lists)
        if judgement.verdict != "lawful":
            yield f"the {name}'s descriptor lists are judged {judgement.verdict}: {first_words(judgement)}"
        if covered.tokens is not None and _moves(read_lists(case, lists).plan) != _moves(derived.plan):
            yield f"the {name}'s descriptor lists move other bytes than the plan"


def _moves(plan: Plan) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """A plan without its order."""
    copies = [
        (c.source.storage, c.source.offset, c.target.storage, c.target.offset, c.target.bytes) for c in plan.copies
    ]
    return sorted(copies), sorted((zero.storage, zero.offset, zero.bytes) for zero in plan.zeroes)


def _files(case: Case, _covered: Covered, derived: Derived) -> Iterator[str]:
    """Case and plan are read back from their files as written."""
    if load_case(write_case(case).encode()) != case:
        yield "the case file is not read back as written"
    plan = decode_plan(msgspec.json.encode(plan_file(case, derived.plan)))
    if not isinstance(plan, PlanFile) or expand_plan(case, plan) != derived.plan:
        yield "the plan file is not read back as written"


def _memory(case: Case, covered: Covered, derived: Derived) -> Iterator[str]:
    """Carried out in three ways, the plan leaves the same memory, and in it what the laws promise."""
    if covered.tokens is None or total_bytes(covered) > BYTES_LIMIT:
        return
    yield from memory_faults(covered, derived.plan)
    before = patterned(case)
    simulated = {storage: bytearray(content) for storage, content in before.items()}
    execute(derived.plan, simulated)
    after = carry_out(covered, derived.plan)
    expected = {
        storage: bytearray(0 if held is None else before[held[0]][held[1]] for held in content)
        for storage, content in after.items()
    }
    if simulated != expected:
        yield "the simulator leaves other bytes than the plan says"
    tensors = _on_tensors(derived.plan, before)
    if tensors is not None and tensors != expected:
        yield "gpu_impl on tensors leaves other bytes than the simulator"


def load_tensors() -> None:
    """Have torch imported, if it is installed."""
    _on_tensors(Plan((), ()), {})


def _on_tensors(plan: Plan, memory: dict[str, bytearray]) -> dict[str, bytearray] | None:
    """The memory after gpu_impl carried the plan out; None where torch is not installed."""
    from kvproof.gpu_impl.execute import execute_on_bytes

    try:
        return execute_on_bytes(plan, memory)
    except ImportError:
        return None


def _mutants(case: Case, covered: Covered, derived: Derived) -> Iterator[str]:
    """A spoilt plan leaves exactly the bytes wrong that the judge says."""
    if covered.tokens is None or total_bytes(covered) > BYTES_LIMIT:
        return
    for name, plan in _spoilt(case, covered, derived):
        if not fits(covered, plan):
            continue
        answer = judge_spans(covered, plan)
        wrong = wrong_bytes(covered, carry_out(covered, plan))
        corrupt, contested = bytes_of(answer.corrupt), bytes_of(answer.contested)
        if wrong - corrupt - contested:
            yield f"{name}: {min(wrong - corrupt - contested)} ends wrong, which the judge does not say"
        if corrupt - contested - wrong:
            yield f"{name}: {min(corrupt - contested - wrong)} ends right, but the judge says wrong"


def _spoilt(case: Case, covered: Covered, derived: Derived) -> Iterator[tuple[str, Plan]]:
    """The same few spoilt plans for a case each time, and those of the faulty rules."""
    for number in range(MUTANTS):
        yield mutate(RandomSource(f"{case.name}/{number}"), covered, derived.plan)
    yield from ((name, faulty.plan) for name, faulty in _by_faults(case))


def _by_faults(case: Case) -> Iterator[tuple[str, Derived]]:
    """What each faulty rule builds, where it does not refuse."""
    for fault in FAULTS.values():
        try:
            yield fault.name, derive(case, fault.rules)
        except Refusal:
            continue


def _enumeration(case: Case, covered: Covered, derived: Derived) -> Iterator[str]:
    """The judge's sweeps find what brute force finds: laws, ratios, bytes."""
    if total_bytes(covered) > ENUMERATED_LIMIT:
        return
    yield from enumeration_differences(case, covered, derived)


def enumeration_differences(case: Case, covered: Covered, derived: Derived) -> Iterator[str]:
    """Where judge and enumeration differ, on the right plan, spoilt ones and faulty rules."""
    if covered.tokens is not None:
        for name, plan in (("the right plan", derived.plan), *_spoilt(case, covered, derived)):
            yield from (f"{name}: {words}" for words in plan_differences(covered, plan))
    for name, tables in (("the lawful rules", derived.tables), *_spoilt_tables(case, derived)):
        yield from (f"tables of {name}: {words}" for words in table_differences(covered, tables))
    for name, lists in _spoilt_lists(case, derived):
        yield from (f"lists of {name}: {words}" for words in list_differences(case, covered, lists, derived.plan))


def _spoilt_tables(case: Case, derived: Derived) -> Iterator[tuple[str, Tables]]:
    """The same few spoilt tables for a case each time, and those of the faulty rules."""
    for number in range(MUTANTS):
        yield mutate_tables(RandomSource(f"{case.name}/{number}"), derived.tables)
    yield from ((name, faulty.tables) for name, faulty in _by_faults(case))


def _spoilt_lists(case: Case, derived: Derived) -> Iterator[tuple[str, DescriptorFile]]:
    """The lists, and the same few spoilt ones for a case each time."""
    lists = descriptor_file(case, derived, synthetic_bases(case))
    yield "the lawful rules", lists
    for number in range(MUTANTS if lists.transfers else 0):
        yield mutate_lists(RandomSource(f"{case.name}/{number}"), lists)


def list_differences(case: Case, covered: Covered, lists: DescriptorFile, plan: Plan) -> Iterator[str]:
    """Where judge and enumeration differ on descriptor lists, whose zeroes are the plan's."""
    judged = frozenset(finding.law for finding in judge_lists(case, lists).findings)
    enumerated = enumerate_lists(covered, lists, plan.zeroes)
    if judged != enumerated:
        yield f"the judge finds {sorted(judged)} broken, enumeration {sorted(enumerated)}"


def table_differences(covered: Covered, tables: Tables) -> Iterator[str]:
    """Where judge and enumeration differ on tables."""
    judged = frozenset(finding.law for finding in table_findings(covered, tables))
    enumerated = enumerate_tables(covered, tables)
    if judged != enumerated:
        yield f"the judge finds {sorted(judged)} broken, enumeration {sorted(enumerated)}"


def plan_differences(covered: Covered, plan: Plan) -> Iterator[str]:
    """Where judge and enumeration differ on one plan."""
    answer, enumerated = judge_spans(covered, plan), enumerate_plan(covered, plan)
    judged = frozenset(finding.law for finding in answer.findings)
    if judged != enumerated.laws:
        yield f"the judge finds {sorted(judged)} broken, enumeration {sorted(enumerated.laws)}"
    if answer.ratios != enumerated.ratios:
        yield f"the judge's ratios are {answer.ratios}, enumeration's {enumerated.ratios}"
    if bytes_of(answer.corrupt) != enumerated.corrupt:
        yield f"corrupt bytes differ: {sorted(bytes_of(answer.corrupt) ^ enumerated.corrupt)[:5]}"
    if bytes_of(answer.contested) != enumerated.contested:
        yield f"contested bytes differ: {sorted(bytes_of(answer.contested) ^ enumerated.contested)[:5]}"


CHECKS: dict[str, Check] = {
    "verdict": _verdict,
    "routes": _routes,
    "lists": _lists,
    "files": _files,
    "memory": _memory,
    "mutants": _mutants,
    "enumeration": _enumeration,
}
