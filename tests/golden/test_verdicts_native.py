# SPDX-License-Identifier: Apache-2.0
"""Compiled code gives the written verdicts, except those that it leaves to the semantics."""

import pytest

from policyc.compiler.driver.eval.native_flows import (
    BY_SEMANTICS,
    evaluate_natively,
    why_not_native,
)
from tests.golden.verdict_cases import VerdictCase, engine_cases
from tests.property.native_columns import (
    columns_of,
)
from tests.slices import one_in

CASES = engine_cases()


def compare(case: VerdictCase) -> int:
    """How many flows of the case compiled code answered, all of them as written."""
    if why_not_native(case.policies):
        return 0
    found = evaluate_natively(case.policies, columns_of([each.flow for each in case.flows]))
    answered = 0
    for expected, out, into in zip(case.flows, found.egress, found.ingress, strict=True):
        if out != BY_SEMANTICS:
            denied = any(found.verdicts[at].action.is_deny for at in (out, into))
            word = "deny" if denied else "allow"
            assert word == expected.verdict, f"{case.title}: {expected.flow}"
            answered += 1
    return answered


@pytest.mark.parametrize("part", one_in(8, range(8)))
def test_compiled_code_gives_the_written_verdicts(part: int) -> None:
    mine = CASES[part::8]
    answered = sum(map(compare, mine))
    assert answered > 0.7 * sum(len(case.flows) for case in mine)
