# SPDX-License-Identifier: Apache-2.0
"""The parts of a record are read back unchanged, and unused parts are not built."""

from array import array
from dataclasses import replace
from typing import Any

import pytest

from policyc.compiler.driver.rebuild import policies, shapes
from policyc.compiler.driver.rebuild.documents import documents_of, together
from policyc.compiler.driver.rebuild.facts import Place, PolicyFacts, Reads, facts_from
from policyc.ir.viewed import ViewedTable, viewed_row

FACTS = tuple(
    PolicyFacts(
        "ns",
        f"p{at}",
        f"ns/p{at}",
        Place("a.yaml", 10 * at, 9, "metadata.name"),
        at % 2,
        Reads([1], [], [], at, True),
        Reads([], [], []),
        [0, 1] if at else [],
        3 * at,
        10 * at,
    )
    for at in range(5)
)


@pytest.mark.parametrize("numbers", [[], [0], [5, 0, 1 << 700, 1 << 31]])
def test_numbers_of_any_size(numbers: list[int]) -> None:
    blobs: shapes.Blobs = []
    assert list(shapes.numbers_from(shapes.numbers_json(numbers, blobs), blobs)) == numbers


def test_rows_of_few_cells_and_of_many() -> None:
    rows = viewed_row([7, 7, 3] + [7] * 297), viewed_row(list(range(300))), viewed_row([1] * 300)
    table = ViewedTable(rows, (0, 1, 0, 2))
    blobs: shapes.Blobs = []
    assert shapes.table_from(shapes.table_json(table, blobs), blobs) == table


def test_policies_are_built_on_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    blobs: shapes.Blobs = []
    found = policies.policies_from(policies.policies_json(FACTS, blobs), blobs)
    made: list[object] = []

    def counted(value: list[Any]) -> PolicyFacts:
        made.append(value)
        return facts_from(value)

    monkeypatch.setattr(policies, "facts_from", counted)
    assert (found.subjects, found.rules) == (array("I", [0, 1, 0, 1, 0]), array("I", range(5)))
    assert found.distinguished == array("I", [0, 3, 3, 3, 3])
    assert not made
    assert found[3] == found[3] == FACTS[3]
    assert len(made) == 1
    assert list(found) == list(found[:]) == list(FACTS)


def test_changed_policies_are_beside_those_of_the_record() -> None:
    blobs: shapes.Blobs = []
    before = policies.policies_from(policies.policies_json(FACTS, blobs), blobs)
    other = FACTS[1]._replace(subject=7, egress=Reads([], [], [], 2), distinguished=[2])
    after = before.with_changes({1: other})
    assert list(after) == [FACTS[0], other, *FACTS[2:]]
    assert (after.subjects[1], after.rules[1], after.distinguished[1]) == (7, 3, 4)
    assert (before.subjects[1], before[1]) == (1, FACTS[1])
    assert (dict(before.changed), dict(after.changed)) == ({}, {1: other})


def test_documents_stand_on_their_lines() -> None:
    data = b"# one\n---\na: 1\n---\n---\nb: 2"
    found = documents_of(data)
    assert found is not None
    assert [document.line for document in found] == list(found.lines) == [1, 2, 4, 5]
    assert b"".join(document.text for document in found) == data
    assert together(found) == data
    assert together(found[3:]) == b"\n\n\n\n---\nb: 2"
    one, other = documents_of(b"---\na: 1\n"), documents_of(b"x\n\n---\na: 1\n")
    assert one is not None
    assert other is not None
    assert list(other.digests())[1:] == list(one.digests())
    assert one[0] == replace(other[1], line=1)


@pytest.mark.parametrize(
    "data", [b"a\r", b"--- a", b"a\n--- b", b"...", b"a\n...", b"%YAML", b"\xef\xbb\xbfa", b"&a *a"]
)
def test_documents_that_need_a_parser_are_not_split(data: bytes) -> None:
    assert documents_of(data) is None
