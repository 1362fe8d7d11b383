# SPDX-License-Identifier: Apache-2.0
"""`node follow` answers the health checks of load balancers from the node's endpoints."""

import http.client
import json
import socket
from contextlib import closing

import pytest

from policyc.runtime.bundle.json_value import JsonValue
from tests.kernel.support.follower import (
    Follower,
    told,
)
from tests.kernel.support.node_under_test import (
    A,
    B,
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import Host
from tests.kernel.support.service_yaml import (
    service,
    slices,
)

pytestmark = pytest.mark.kernel
HEALTH = 32000


def asked(family: int) -> tuple[int, int]:
    """The report to a load balancer: the status, and the number of endpoints."""
    link = http.client.HTTPConnection("127.0.0.1" if family == 4 else "::1", HEALTH, timeout=20)
    link.request("GET", "/healthz")
    found = link.getresponse()
    with closing(link):
        return found.status, json.loads(found.read())["localEndpoints"]


def kept(*pods: Host, **spec: object) -> list[JsonValue]:
    """A load balancer's Service that keeps clients on the node: it has these endpoints, and not C."""
    balanced = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    found = [service(**(balanced | {"healthCheckNodePort": HEALTH} | spec)), *slices([*pods, C])]
    for each in found[1:]:
        for endpoint in each.raw["endpoints"]:
            is_far = endpoint["addresses"][0] in (C.ip4, C.ip6)
            endpoint["nodeName"] = "node-2" if is_far else "node-1"
    return found


def test_health_checks_report_the_endpoints_of_the_node(
    node: NodeUnderTest, follower: Follower
) -> None:
    """The report changes with the acknowledged change. No process answers when the command has
    ended.
    """
    follower.tell(*told(kept(A, B)))
    follower.acknowledged()
    assert asked(4) == asked(6) == (200, 2)
    follower.tell(*told(kept(A)[1:2], "MODIFIED"))
    follower.acknowledged()
    assert (asked(4), asked(6)) == ((200, 1), (200, 2))
    leaving = kept()[1:] + kept(A)[1:]
    for each in leaving[2:]:
        each.raw["metadata"] |= {"name": each.raw["metadata"]["name"] + "-leaving"}
        each.raw["endpoints"][0]["conditions"] = {
            "ready": False,
            "serving": True,
            "terminating": True,
        }
    follower.tell(*told(leaving, "MODIFIED"))
    follower.acknowledged()
    assert asked(4) == asked(6) == (503, 0), "one that terminates is not ready, though it serves"
    follower.tell(*told(kept(A), "MODIFIED"))
    follower.acknowledged()
    assert asked(4) == (200, 1)
    with socket.create_server(("127.0.0.1", HEALTH + 1)):
        moved = kept(A, healthCheckNodePort=HEALTH + 1)[:1]
        follower.tell(*told(moved, "MODIFIED"))
        follower.acknowledged()
        with pytest.raises(ConnectionRefusedError):
            asked(4)
    follower.tell(*told(kept(A)[:1], "MODIFIED"))
    follower.acknowledged()
    assert asked(4) == (200, 1)
    code, said = follower.end()
    assert code == 0
    assert said == (
        f"shop/web: health checks at port {HEALTH + 1} of IPv4 are not answered: "
        "Address already in use\n"
    )
    with pytest.raises(ConnectionRefusedError):
        asked(4)


def test_health_checks_fail_after_an_unload(node: NodeUnderTest, follower: Follower) -> None:
    follower.tell(*told(kept(A)))
    follower.acknowledged()
    assert asked(4) == (200, 1)
    node.unload()
    assert asked(4) == (503, 1)
