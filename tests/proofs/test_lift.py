# SPDX-License-Identifier: Apache-2.0
"""Lift is trusted, so it is tested: on integers, lifted and raw formulas say the same, and only linear ones pass."""

import random
from collections.abc import Mapping
from math import prod

import pytest
import z3

from kvproof.proofs import questions, registry
from kvproof.proofs.claim import Claim
from kvproof.proofs.lift import Lift, NotLinear, Polynomial, check_linear
from kvproof.proofs.symbols import applications

THEOREMS = [(claim, variant) for claim in registry.claims() for variant in claim.variants]


class Values:
    """What each fresh integer of a lift stands for, under values of the query's own integers."""

    def __init__(self, lift: Lift, given: Mapping[str, int]) -> None:
        self.lift = lift
        self.known = dict(given)
        self.divisions = {str(part): division for division in lift.divisions for part in division[2:]}
        self.products = {"*".join(monomial): monomial for monomial in lift.products}

    def of(self, name: str) -> int:
        if name not in self.known:
            self.known[name] = self.find(name)
        return self.known[name]

    def find(self, name: str) -> int:
        if name in self.products:
            return prod(self.of(atom) for atom in self.products[name])
        if name in self.divisions:
            above, below, quotient, _ = self.divisions[name]
            dividend, divisor = self.polynomial(above), self.polynomial(below)
            # A divisor that is not positive leaves the pair free.
            found = divmod(dividend, divisor) if divisor > 0 else (0, 0)
            return found[0 if name == str(quotient) else 1]
        return int(self.term(self.lift.atoms[name]).as_long())

    def polynomial(self, polynomial: Polynomial) -> int:
        return sum(factor * prod(self.of(name) for name in monomial) for monomial, factor in polynomial.items())

    def term(self, term: z3.ExprRef) -> z3.ExprRef:
        names = [str(variable) for variable in z3.z3util.get_vars(term)]
        return z3.simplify(z3.substitute(term, *[(z3.Int(name), z3.IntVal(self.of(name))) for name in names]))


def without_functions(formulas: list[z3.BoolRef]) -> list[z3.BoolRef]:
    """Applications become constants: they are atoms like any other."""
    while found := applications(formulas):
        inner = [term for term in found if not applications(term.children())]
        constants = [(term, z3.Int(f"{term.decl()}!{term.get_id()}")) for term in inner]
        formulas = [z3.substitute(each, *constants) for each in formulas]
    return formulas


@pytest.mark.parametrize(("claim", "variant"), THEOREMS[::4], ids=lambda value: getattr(value, "id", value))
def test_lifted_and_raw_agree_on_random_integers(claim: Claim, variant: str) -> None:
    compare(claim, variant, 1)


@pytest.mark.sweep
@pytest.mark.parametrize(("claim", "variant"), THEOREMS, ids=lambda value: getattr(value, "id", value))
def test_lifted_and_raw_agree_on_many_random_integers(claim: Claim, variant: str) -> None:
    compare(claim, variant, 8)


def compare(claim: Claim, variant: str, draws: int) -> None:
    query = questions.raw(claim, variant)
    formulas = without_functions([*query.hypotheses, *query.instances, query.goal])
    lift = Lift()
    lifted = [lift.formula(each) for each in formulas]
    names = {str(variable) for each in formulas for variable in z3.z3util.get_vars(each)}
    rng = random.Random(claim.id + variant)
    for _ in range(draws):
        given = {name: rng.randint(1, 9) for name in sorted(names)}
        values, pairs = Values(lift, given), [(z3.Int(name), z3.IntVal(number)) for name, number in given.items()]
        for before, after in zip(formulas, lifted, strict=True):
            raw = z3.simplify(z3.substitute(before, *pairs))
            # Undecided where a divisor came out as zero.
            if z3.is_true(raw) or z3.is_false(raw):
                assert values.term(after).eq(raw)
        for fact in lift.facts:
            assert z3.is_true(values.term(fact))


def solve(*formulas: z3.BoolRef) -> str:
    solver = z3.Solver()
    solver.add(*formulas)
    return str(solver.check())


def lifted(*formulas: z3.BoolRef) -> list[z3.BoolRef]:
    lift = Lift()
    found = [lift.formula(each) for each in formulas]
    return [*found, *lift.facts]


def test_equal_products_stay_equal() -> None:
    a, b, c = z3.Ints("a b c")
    assert solve(*lifted(z3.Not(a * (b + c) == c * a + b * a))) == "unsat"


def test_a_product_is_any_integer() -> None:
    a, b = z3.Ints("a b")
    assert solve(*lifted(a * b == 7, a == 2)) == "sat"


def test_division_obeys_euclid_for_positive_divisors() -> None:
    a, b = z3.Ints("a b")
    assert solve(*lifted(b > 0, z3.Not(a == (a / b) * b + a % b))) == "unsat"
    assert solve(*lifted(b > 0, a % b >= b)) == "unsat"
    assert solve(*lifted(z3.Not(a == (a / b) * b + a % b))) == "sat"


def test_choices_are_lifted_inside() -> None:
    a, b, c = z3.Ints("a b c")
    assert solve(*lifted(z3.If(a * b > 0, a * b, c) < 0, c >= 0)) == "unsat"


@pytest.mark.parametrize(
    "formula",
    [
        z3.Int("a") * z3.Int("b") > 0,
        z3.Int("a") / z3.Int("b") > 0,
        z3.Int("a") % 3 > 0,
        z3.ForAll([z3.Int("a")], z3.Int("a") > 0),
        z3.Real("a") > 0,
    ],
    ids=str,
)
def test_the_fragment_check_refuses(formula: z3.BoolRef) -> None:
    with pytest.raises(NotLinear):
        check_linear([formula])


@pytest.mark.parametrize(
    "formula",
    [
        z3.ForAll([z3.Int("a")], z3.Int("a") > 0),
        z3.Real("a") > 0,
        z3.Function("p", z3.IntSort(), z3.BoolSort())(z3.Int("a")),
    ],
    ids=str,
)
def test_lift_refuses(formula: z3.BoolRef) -> None:
    with pytest.raises(NotLinear):
        Lift().formula(formula)


def test_the_fragment_check_allows_scaling() -> None:
    check_linear([3 * z3.Int("a") - z3.Int("b") >= 2])
