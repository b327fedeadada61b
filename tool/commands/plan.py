# SPDX-License-Identifier: Apache-2.0
"""``kvproof plan``: what should move, as a file."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from kvproof.exits import Exit
from kvproof.failure import Failure
from kvproof.files import file_text
from kvproof.interrupts import Held
from kvproof.options import CaseFile, FaultName, Flag, Json
from kvproof.output import write
from kvproof.reference.derive import derive
from kvproof.reference.export import descriptor_file, plan_file, synthetic_bases
from kvproof.reference.faults.registry import Fault
from kvproof.reference.rules import LAWFUL, Refusal
from kvproof.sources import case_source, fault_named, read_case
from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.plan import PlanFile
from kvproof.spec.scope import NotCovered, Refused, assess
from kvproof.spec.vocabulary import Case

Route = Annotated[Literal["reference", "gpu"], Parameter(help="Whose rules: the reference's, or gpu_impl's own.")]
Descriptors = Annotated[Flag, Parameter(help="Print descriptor lists, as NIXL sees them, at made-up addresses.")]


def command(
    case: CaseFile,
    /,
    *,
    descriptors: Descriptors = False,
    route: Route = "reference",
    fault: FaultName = None,
    json: Json = False,
) -> int:
    """Print the lawful plan of a case: a plan file, JSON with or without --json.

    A refused pair has none: exit 1, with the reason. A pair that kvproof does not model: exit 3.
    """
    del json
    rule = fault_named(fault)
    if rule is not None and route == "gpu":
        raise Failure("--fault: faulty rules replace the reference's; gpu_impl has only the lawful ones")
    source = case_source(case)
    loaded = read_case(source)
    scope = assess(loaded)
    if isinstance(scope, Refused):
        raise Failure(f"refused: {scope.reason}", source=source.name, status=Exit.BROKEN, verdict="refused")
    if isinstance(scope, NotCovered):
        raise Failure(f"not covered: {scope.reason}", source=source.name, status=Exit.UNKNOWN, verdict="not-covered")
    if loaded.request is None:
        raise Failure(f"case {loaded.name} has no [request]: there is nothing to plan", source=source.name)
    try:
        file = _of_gpu(loaded, descriptors) if route == "gpu" else _of_reference(loaded, descriptors, rule)
    except Refusal as refusal:
        words = f"refused by {fault}: {refusal.reason}"
        raise Failure(words, source=source.name, status=Exit.BROKEN, verdict="refused") from None
    write(sys.stdout, file_text(file) + "\n")
    return Exit.OK


def _of_reference(case: Case, descriptors: bool, rule: Fault | None) -> PlanFile | DescriptorFile:
    derived = derive(case, rule.rules if rule is not None else LAWFUL)
    if descriptors:
        return descriptor_file(case, derived, synthetic_bases(case))
    return plan_file(case, derived.plan)


def _of_gpu(case: Case, descriptors: bool) -> PlanFile | DescriptorFile:
    with Held():
        from kvproof.gpu_impl import tables

    if descriptors:
        return tables.descriptor_file(case, synthetic_bases(case))
    return plan_file(case, tables.plan(case))
