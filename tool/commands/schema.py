# SPDX-License-Identifier: Apache-2.0
"""``kvproof schema``: the file formats as JSON Schemas."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from kvproof.exits import Exit
from kvproof.options import Json
from kvproof.output import emit
from kvproof.shapes import ErrorAnswer, JudgeAnswer
from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.plan import PlanFile
from kvproof.spec.vocabulary import Case

Subject = Literal["case", "plan", "descriptors", "judgement", "error"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TYPES: dict[Subject, type] = {
    "case": Case, "plan": PlanFile, "descriptors": DescriptorFile, "judgement": JudgeAnswer, "error": ErrorAnswer,
}  # fmt: skip


def command(
    subject: Annotated[Subject | None, Parameter(help="One format; nothing: all five, by name.")] = None,
    /,
    *,
    json: Json = False,
) -> int:
    """Print the JSON Schema of cases, plan files, descriptor lists, judgements or errors.

    A judgement is what `judge --json` prints, an error what any command prints with --json where it cannot answer. A
    schema is JSON anyway; --json changes nothing.
    """
    del json
    if subject is not None:
        emit(schema_of(subject))
    else:
        emit({name: schema_of(name) for name in TYPES})
    return Exit.OK


def schema_of(subject: Subject) -> dict[str, Any]:
    """The schema of one format."""
    schema: dict[str, Any] = msgspec.json.schema(TYPES[subject])
    return {"$schema": DIALECT, "$id": f"urn:kvproof:{subject}:1", **schema}
