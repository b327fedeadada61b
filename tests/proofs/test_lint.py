# SPDX-License-Identifier: Apache-2.0
"""Kernels, closed forms and claims mean the same on ints and on terms only if they keep to ``kvproof.spec.logic``.

On z3 terms ``and``, ``not``, chained comparisons and the built-ins below do not fail: they answer something else.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
KERNELS = [
    *sorted((ROOT / "spec/laws").glob("*.py")),
    *(ROOT / name for name in ("spec/cells.py", "spec/place.py", "spec/wellformed.py", "reference/arithmetic.py")),
]
CLAIMS = [
    *(
        file
        for folder in ("lemmas", "theorems", "refutations")
        for file in sorted((ROOT / "proofs" / folder).glob("*.py"))
    ),
    ROOT / "proofs/assumed.py",
]
BUILTINS = {"min", "max", "any", "all", "sum", "bool", "divmod", "abs"}
STRUCTS = {"Place", "Copy", "Region", "PageView", "PartView", "BlockTable", "Cell", "Side", "Transfer", "Fold", "Folds"}
STRUCT_FIELDS = {"view", "part", "table", "cell"}


def faults(source: str, *, loops: bool) -> list[str]:
    """What a file does that is not allowed, by line. ``loops``: whether it may have them."""
    return [
        f"{getattr(node, 'lineno', '?')}: {fault}"
        for node in ast.walk(ast.parse(source))
        for fault in _faults(node, loops)
    ]


def _faults(node: ast.AST, loops: bool) -> list[str]:
    found = []
    if isinstance(node, ast.If | ast.IfExp) and not _chooses_by_literal(node.test):
        found.append("if on something else than a literal's equal")
    if isinstance(node, ast.BoolOp):
        found.append("and, or")
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        found.append("not")
    if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.FloorDiv | ast.Mod | ast.Div):
        found.append("//, % or /")
    if isinstance(node, ast.Compare):
        found += _comparison(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BUILTINS:
        found.append(f"built-in {node.func.id}")
    if isinstance(node, ast.For | ast.While | ast.comprehension) and not loops:
        found.append("loop")
    if isinstance(node, ast.While | ast.Assert | ast.Match):
        found.append(type(node).__name__.lower())
    if isinstance(node, ast.FunctionDef):
        found += _struct_equality(node)
    return found


def _chooses_by_literal(test: ast.expr) -> bool:
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
        return False
    literal = test.comparators[0]
    allowed = isinstance(literal, ast.Constant) and (literal.value is None or isinstance(literal.value, str))
    return allowed and isinstance(test.ops[0], ast.Eq | ast.Is | ast.IsNot)


def _comparison(node: ast.Compare) -> list[str]:
    found = ["chained comparison"] if len(node.ops) > 1 else []
    if any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
        found.append("in")
    if any(isinstance(op, ast.NotEq) for op in node.ops):
        found.append("!=, which is no kernel's way to say negate")
    sides = [node.left, *node.comparators]
    if any(isinstance(side, ast.Attribute) and side.attr in STRUCT_FIELDS for side in sides):
        found.append("equality of structs")
    return found


def _struct_equality(function: ast.FunctionDef) -> list[str]:
    structs = {
        argument.arg
        for argument in function.args.args
        if argument.annotation is not None and ast.unparse(argument.annotation).split(".")[-1] in STRUCTS
    }
    compared = [
        side.id
        for node in ast.walk(function)
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
        if isinstance(side, ast.Name)
    ]
    return [f"equality of structs: {name}" for name in compared if name in structs]


@pytest.mark.parametrize("file", KERNELS, ids=lambda file: str(file.relative_to(ROOT)))
def test_kernels_and_closed_forms_keep_to_logic(file: Path) -> None:
    assert faults(file.read_text(encoding="utf-8"), loops=False) == []


@pytest.mark.parametrize("file", CLAIMS, ids=lambda file: str(file.relative_to(ROOT)))
def test_claims_keep_to_logic(file: Path) -> None:
    assert faults(file.read_text(encoding="utf-8"), loops=True) == []


def test_instances_of_claims_are_made_by_the_claims() -> None:
    made = [file.name for file in CLAIMS if "Instance(" in file.read_text(encoding="utf-8")]
    # The one exception is what base and step of the induction over prefix sums prove together.
    assert made == ["prefix_sums.py"]


@pytest.mark.parametrize(
    "line",
    [
        "if x < y: pass",
        "z = x if y else z",
        "z = x and y",
        "z = not x",
        "z = x // y",
        "z = x % y",
        "z = 0 <= x < y",
        "z = x in y",
        "z = x != y",
        "z = max(x, y)",
        "z = any([x == y])",
        "def f(first: Place, second: Place): return first == second",
        "z = a.view == b.view",
        "for x in y: pass",
        "z = [x for x in y]",
    ],
)
def test_the_lint_sees(line: str) -> None:
    assert faults(line, loops=False) != []


@pytest.mark.parametrize("line", ['if x == "unit-major": pass', "z = x if y is None else z", "z = x == y", "z = x - y"])
def test_the_lint_allows(line: str) -> None:
    assert faults(line, loops=False) == []
