# SPDX-License-Identifier: Apache-2.0
"""kvproof: does every byte of a moved KV cache land where its token belongs?

The public names below are imported when first used, so that ``import kvproof`` costs nothing and pulls in neither a
terminal library nor a solver.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from kvproof.reference.derive import Derived, derive
    from kvproof.reference.faults.registry import FAULTS, Fault
    from kvproof.reference.rules import LAWFUL, Refusal, Rules
    from kvproof.spec.decode import BadInput, decode_plan
    from kvproof.spec.descriptors import DescriptorFile
    from kvproof.spec.judge.expand import expand_plan
    from kvproof.spec.judge.judge import judge, judge_lists, judge_plan_file
    from kvproof.spec.judge.spans import BudgetExceeded
    from kvproof.spec.judge.verdict import Finding, Judgement, Witness
    from kvproof.spec.plan import Plan, PlanFile
    from kvproof.spec.scope import Covered, NotCovered, Refused, Scope, assess
    from kvproof.spec.tables import Tables
    from kvproof.spec.validate import load_case
    from kvproof.spec.vocabulary import Case

HOMES = {
    "kvproof.reference.derive": ("Derived", "derive"),
    "kvproof.reference.faults.registry": ("FAULTS", "Fault"),
    "kvproof.reference.rules": ("LAWFUL", "Refusal", "Rules"),
    "kvproof.spec.decode": ("BadInput", "decode_plan"),
    "kvproof.spec.descriptors": ("DescriptorFile",),
    "kvproof.spec.judge.expand": ("expand_plan",),
    "kvproof.spec.judge.judge": ("judge", "judge_lists", "judge_plan_file"),
    "kvproof.spec.judge.spans": ("BudgetExceeded",),
    "kvproof.spec.judge.verdict": ("Finding", "Judgement", "Witness"),
    "kvproof.spec.plan": ("Plan", "PlanFile"),
    "kvproof.spec.scope": ("Covered", "NotCovered", "Refused", "Scope", "assess"),
    "kvproof.spec.tables": ("Tables",),
    "kvproof.spec.validate": ("load_case",),
    "kvproof.spec.vocabulary": ("Case",),
}
HOME_OF = {name: module for module, names in HOMES.items() for name in names}

__all__ = [
    "FAULTS",
    "LAWFUL",
    "BadInput",
    "BudgetExceeded",
    "Case",
    "Covered",
    "Derived",
    "DescriptorFile",
    "Fault",
    "Finding",
    "Judgement",
    "NotCovered",
    "Plan",
    "PlanFile",
    "Refusal",
    "Refused",
    "Rules",
    "Scope",
    "Tables",
    "Witness",
    "assess",
    "decode_plan",
    "derive",
    "expand_plan",
    "judge",
    "judge_lists",
    "judge_plan_file",
    "load_case",
]


def __getattr__(name: str) -> "Any":
    """Import a public name from where it lives."""
    from importlib import import_module

    if name not in HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(HOME_OF[name]), name)


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *__all__})
