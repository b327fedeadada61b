# SPDX-License-Identifier: Apache-2.0
"""``kvproof schema``: the file formats as JSON Schemas."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from kvproof.exits import Exit
from kvproof.options import Json
from kvproof.output import emit
from kvproof.shapes import JudgeAnswer
from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.plan import PlanFile
from kvproof.spec.vocabulary import Case

Subject = Literal["case", "plan", "descriptors", "judgement"]

TYPES: dict[Subject, type] = {"case": Case, "plan": PlanFile, "descriptors": DescriptorFile, "judgement": JudgeAnswer}


def command(
    subject: Annotated[Subject | None, Parameter(help="One format; nothing: all four, by name.")] = None,
    /,
    *,
    json: Json = False,
) -> int:
    """Print the JSON Schema of cases, plan files, descriptor lists or judgements (what `judge --json` prints).

    A schema is JSON anyway; --json changes nothing.
    """
    del json
    if subject is not None:
        emit(msgspec.json.schema(TYPES[subject]))
    else:
        emit({name: msgspec.json.schema(kind) for name, kind in TYPES.items()})
    return Exit.OK
