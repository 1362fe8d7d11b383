# SPDX-License-Identifier: Apache-2.0
"""The reference semantics give every verdict that tests/golden/verdict writes down."""

import re
from pathlib import Path

import pytest

from policyc.ir.semantics import verdict
from tests.golden.verdict_cases import VerdictCase, deciders, load_cases


@pytest.mark.parametrize("case", load_cases(), ids=lambda case: case.slug)
def test_the_semantics_give_the_written_verdict(case: VerdictCase) -> None:
    for expected in case.flows:
        given = verdict(case.policies, expected.flow)
        word = "deny" if given.action.is_deny else "allow"
        assert word == expected.verdict, f"{case.title}: {expected.flow}"
        if expected.by:
            assert deciders(given) == expected.by, f"{case.title}: {expected.flow}"


def test_titles_are_unique() -> None:
    titles = [case.title for case in load_cases()]
    assert len(titles) == len(set(titles))


NOT_A_VERDICT = {
    "A16": "translation happens before a flow is asked about",
    "A24": "needs a connection, not a first packet",
    "A27": "needs fragments",
    "A28": "how a denied packet is dropped",
    "G58": "what intents mean",
}
PAGE = Path(__file__).parents[2] / "docs" / "semantics.md"


def test_every_clause_of_the_page_has_a_case() -> None:
    clauses = set(re.findall(r"^\*\*([A-G]\d+)", PAGE.read_text(), re.M))
    assert len(clauses) == 58
    covered = {clause for case in load_cases() for clause in case.semantics}
    assert clauses - covered == NOT_A_VERDICT.keys()
    assert covered <= clauses
