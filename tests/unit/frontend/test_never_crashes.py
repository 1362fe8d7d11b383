# SPDX-License-Identifier: Apache-2.0
"""Whatever the input: it is read, or it is an InputError with findings. Never another exception."""

import io
import json
import random

import pytest
import yaml

from policyc.compiler.frontend import StreamSource, read_cluster, read_policies, read_scenario
from policyc.ir.errors import InputError
from tests.golden.verdict_cases import load_cases
from tests.unit.frontend.odd_values import (
    mutated,
)

SPLICES = (
    b"&a ",
    b"*a ",
    b"!!x ",
    b"<<: ",
    b"? ",
    b"- ",
    b"\n---\n",
    b'"',
    b"\\u",
    b"[[[[",
    b"\xff",
)


@pytest.mark.parametrize("seed", range(8))
def test_objects_with_a_wrong_value_are_read_or_refused(seed: int) -> None:
    rng = random.Random(seed)
    for case in load_cases():
        try:
            read_scenario("x", mutated(list(case.objects), rng))
        except InputError as wrong:
            assert any(finding.is_error for finding in wrong.findings)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_are_read_or_refused(seed: int) -> None:
    rng = random.Random(seed)
    for case in load_cases():
        items = list(case.objects)
        as_list = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        for text in (yaml.safe_dump_all(items), as_list):
            data = bytearray(text.encode())
            for _ in range(rng.randint(1, 4)):
                at = rng.randrange(len(data))
                data[at : at + rng.randint(0, 8)] = rng.choice((b"", *SPLICES))
            for read in (read_policies, read_cluster):
                try:
                    read([StreamSource(io.BytesIO(bytes(data)))])
                except InputError as wrong:
                    assert any(finding.is_error for finding in wrong.findings)
