# SPDX-License-Identifier: Apache-2.0
"""The plan read for one flow gives what the Decision IR decides, and what the step functions say."""

import random
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from policyc.ir.atoms import AddressColumn
from policyc.ir.plan import DirectionPlan
from policyc.ir.policy import Direction
from policyc.ir.services import Service
from policyc.ir.trees import verdict_word
from policyc.verifier.bytecode.values import NUMBERS, Bits, number
from policyc.verifier.translation.reading import Flow, Reading
from policyc.verifier.translation.seeded import Prefixes, SeedTable
from policyc.verifier.translation.steps import value_at
from policyc.verifier.translation.table_reading import Table
from policyc.verifier.translation.tries import longest_prefixes
from tests.unit.verifier.translation.generations import (
    Made,
    made,
)
from tests.unit.verifier.translation.wrong_seeds import LAYOUTS

OWN, PEER = 7, 9
"""Ids of the subject and of its peer."""
NUMBERS_OF_PROTOCOLS = (6, 6, 17, 132, 1, 58, 47, 0, 255)
PORTS = (53, 80, 443, 8080, 0, 65535, *range(9000, 9012), 30000, 30001)


@pytest.mark.parametrize("name", [name for name in LAYOUTS if name != "no-policies"])
def test_the_plan_decides_a_flow_as_the_decision_ir(name: str) -> None:
    case, dice = made(name), random.Random(name)
    classes: dict[tuple[int, int], int] = {}
    reading = reading_of(case, classes)
    n_asked = 0
    while n_asked < 250:
        plan = dice.choice(case.plan.used_directions)
        row = dice.randrange(len(case.decision.atoms.rows))
        column = dice.randrange(len(case.decision.atoms.columns))
        flow = flow_of(case, plan, row, column, classes, dice)
        service = Service(number(flow.number), _value(flow))
        if (service.number, flow.family) in ((1, 6), (58, 4)):
            continue  # dropped as malformed
        n_asked += 1
        _, rule = case.decision.decide(plan.direction, row, column, service.key)
        wanted = verdict_word(not case.decision.rules[rule].action.is_deny, rule)
        found = reading.verdict(plan.direction, flow, reading.service(flow))
        assert found == wanted, (plan.direction, row, column, flow)


def reading_of(case: Made, classes: dict[tuple[int, int], int]) -> Reading:
    """The plan over the case's seeds, with these words of classes."""
    lemma = case.lemma()
    tables: dict[str, Table] = {name: partial(_word, table) for name, table in lemma.tables.items()}
    tables["pc_class"] = lambda entry, at: classes.get((number(entry), number(at)), 0)
    tries = {name: _column(trie) for name, trie in lemma.tries.items()}
    entries = {name: table.entries for name, table in lemma.tables.items()}
    return Reading(NUMBERS, tables, entries, case.plan, tries, lemma.codes)


def flow_of(
    case: Made,
    plan: DirectionPlan,
    row: int,
    column: int,
    classes: dict[tuple[int, int], int],
    dice: random.Random,
) -> Flow:
    """A flow of a row and a column, whose ids the classes have from now on."""
    atoms = case.decision.atoms
    peer = atoms.columns[column]
    is_address = isinstance(peer, AddressColumn)
    place = case.plan.class_fields.index
    for at in range(len(case.plan.class_fields)):
        classes[OWN, at] = classes[PEER, at] = 0
    classes[OWN, place(plan.class_fields[0])] = plan.row_ids[row]
    classes[PEER, place(plan.column_fields[peer.family])] = plan.column_ids[column]
    address = 0
    if is_address:
        runs = [
            run for run in atoms.classifier.addresses[peer.family].runs() if run[2] == peer.atom
        ]
        low, high, _ = dice.choice(runs)
        address = dice.choice((low, high, dice.randint(low, high)))
    words = _words(address, peer.family)
    ends = (0 if is_address else PEER, OWN)
    src, dst = ends if plan.direction is Direction.INGRESS else ends[::-1]
    return Flow(
        src,
        dst,
        peer.family,
        dice.choice(NUMBERS_OF_PROTOCOLS),
        dice.choice((*PORTS, dice.randrange(65536))),
        dice.choice((0x800, 0, 0x301, dice.randrange(65536))),
        words,
        words,
    )


def _words(address: int, family: int) -> list[Bits]:
    if family == 4:
        return [address, 0, 0, 0]
    return [address >> 32 * (3 - at) & 0xFFFFFFFF for at in range(4)]


def _value(flow: Flow) -> int:
    if flow.number in (1, 58):
        return number(flow.icmp)
    return number(flow.port) if flow.number in (6, 17, 132) else 0


def _word(table: SeedTable, entry: Bits, at: Bits) -> int:
    return table.word(number(entry), number(at))


def _column(trie: Prefixes) -> Callable[[Sequence[Bits]], Bits]:
    steps = longest_prefixes(trie)

    def find(words: Sequence[Bits]) -> Bits:
        key = 0
        for word in words:
            key = key << 32 | number(word)
        return value_at(steps, key)

    return find
