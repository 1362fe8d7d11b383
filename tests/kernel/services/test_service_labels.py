# SPDX-License-Identifier: Apache-2.0
"""Labels that assign a Service or its EndpointSlices to another proxy."""

import json
from typing import Any

import pytest

from policyc.runtime.bundle.json_value import JsonValue
from tests.kernel.support.answers import REDIRECT
from tests.kernel.support.follower import (
    Follower,
    told,
)
from tests.kernel.support.node_under_test import (
    B,
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    SYN,
    tcp,
)
from tests.kernel.support.service_frames import (
    as_to,
    to_vip,
)
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
    service,
    slices,
    value,
    web,
)
from tests.kernel.support.table_policy import ANY
from tests.slices import at_length

pytestmark = [pytest.mark.kernel, *at_length(pytest.mark.fresh)]
PROXY_NAME, HEADLESS = "service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless"
labels = pytest.mark.parametrize(
    "label", [{PROXY_NAME: "mesh"}, {PROXY_NAME: ""}, {HEADLESS: ""}], ids=str
)


def labelled(objects: list[JsonValue], label: dict[str, str]) -> list[JsonValue]:
    """The objects with one more label each."""
    found: list[JsonValue] = []
    for each in objects:
        raw: dict[str, Any] = json.loads(json.dumps(each.raw))
        raw["metadata"].setdefault("labels", {}).update(label)
        found.append(value(raw))
    return found


def untranslated(node: NodeUnderTest, port: int) -> bool:
    sent = to_vip(tcp(port, PORT, SYN))
    return node.leaves("a", sent) == sent


@labels
def test_a_labelled_service_is_not_translated(node: NodeUnderTest, label: dict[str, str]) -> None:
    node.load(node.policy().allow("a", "c", ANY).allow("a", "world", ANY), services=web(C))
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN))) == as_to(C, tcp(4000, TARGET, SYN))
    node.serve([*labelled([service()], label), *slices([C])])
    assert untranslated(node, 4001)


@labels
def test_endpoints_of_a_labelled_slice_are_not_chosen(
    node: NodeUnderTest, label: dict[str, str]
) -> None:
    """Endpoints of the Service's other slices are."""
    node.load(node.policy().allow("a", "c", ANY).allow("a", "b", ANY))
    of_c = [JsonValue(each.raw, each.file) for each in slices([C])]
    for each in of_c:
        each.raw["metadata"]["name"] += "-other"
    node.serve([service(), *labelled(slices([B]), label), *of_c])
    for port in range(4000, 4020):
        assert node.leaves("a", to_vip(tcp(port, PORT, SYN))) == as_to(C, tcp(port, TARGET, SYN))


@labels
def test_an_added_or_removed_label_is_followed(
    node: NodeUnderTest, follower: Follower, label: dict[str, str]
) -> None:
    follower.tell(*told(web(C)))
    follower.acknowledged()
    for round_ in range(2):
        port = 4000 + 10 * round_
        assert node.leaves("a", to_vip(tcp(port, PORT, SYN))) == as_to(C, tcp(port, TARGET, SYN))
        follower.tell(*told(labelled([service()], label), "MODIFIED"))
        assert follower.acknowledged()["changed"] == 2
        assert untranslated(node, port + 1)
        follower.tell(*told([service()], "MODIFIED"))
        assert follower.acknowledged()["changed"] == 2
    follower.tell(*told(labelled(slices([C]), label), "MODIFIED"), *told([service()], "MODIFIED"))
    follower.acknowledged()
    verdict, _ = node.answered("a", to_vip(tcp(4030, PORT, SYN)))
    assert verdict == REDIRECT, "a reset, as there is no endpoint"
    assert node.drops() == {"no backend": 1}
    follower.tell(*told(slices([C]), "MODIFIED"))
    follower.acknowledged()
    assert node.leaves("a", to_vip(tcp(4031, PORT, SYN))) == as_to(C, tcp(4031, TARGET, SYN))


@labels
def test_the_fields_of_an_object_for_another_proxy_are_not_read(
    node: NodeUnderTest, label: dict[str, str]
) -> None:
    """An unsupported field in it is no error."""
    node.load(node.policy().allow("a", "c", ANY))
    strange = service("other", type="LoadBalancer", madeUpField=1)
    there = [*labelled([strange, *slices([B], "other", port=0)], label), *web(C)]
    node.serve(there)
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN))) == as_to(C, tcp(4000, TARGET, SYN))
