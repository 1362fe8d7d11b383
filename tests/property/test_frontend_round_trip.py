# SPDX-License-Identifier: Apache-2.0
"""What a policy set says as Kubernetes YAML is read back as the same policy set."""

import io
import random

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.compiler.frontend.read import read_cluster, read_policies, read_scenario
from policyc.compiler.frontend.yaml.sources import StreamSource
from tests.property.cases import random_case
from tests.property.kubernetes import objects_of
from tests.property.length import examples

SEEDS = st.integers(min_value=0, max_value=2**32)


@settings(max_examples=examples(100, 2))
@given(SEEDS)
def test_objects_in_memory_are_read_back_as_they_were(seed: int) -> None:
    case = random_case(random.Random(seed))
    policies, cluster = read_scenario("s", objects_of(case))
    assert policies == case.policies
    assert cluster.universe.endpoints == case.universe.endpoints


@settings(max_examples=examples(60, 2))
@given(SEEDS, st.sampled_from([True, False]))
def test_yaml_text_is_read_back_as_it_was(seed: int, flow_style: bool) -> None:
    case = random_case(random.Random(seed))
    objects = objects_of(case)
    texts = [
        yaml.safe_dump_all(part, default_flow_style=flow_style).encode()
        for part in (
            [o for o in objects if o["kind"] == "NetworkPolicy"],
            [o for o in objects if o["kind"] != "NetworkPolicy"],
        )
    ]
    if not texts[0].strip():
        return
    policies = read_policies([StreamSource(io.BytesIO(texts[0]))])
    cluster = read_cluster([StreamSource(io.BytesIO(texts[1]))])
    assert policies.policies == case.policies
    assert cluster.universe.endpoints == case.universe.endpoints
