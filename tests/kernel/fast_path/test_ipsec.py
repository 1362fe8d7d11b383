# SPDX-License-Identifier: Apache-2.0
"""IPsec policies of a node (`ip xfrm policy`) apply to packets that otherwise bypass its IP stack.

The policies of these tests block: a packet that bypasses them arrives.
"""

from functools import partial
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.kernel.support.arrival import arrived_from, is_silent
from tests.kernel.support.external_paths import CASES, QUESTION, Case, Talk, lab, loaded
from tests.kernel.support.external_wire import TARGET, bundle, families
from tests.kernel.support.fast_path import blocked, blocked_by_default, ipsec_policy
from tests.kernel.support.two_nodes import TwoNodes, address

__all__ = ["bundle", "lab"]
pytestmark = pytest.mark.kernel
N = 20
ELSEWHERE = {4: "203.0.113.0/24", 6: "2001:db8:ffff::/48"}
TUNNELS = ("by the tunnel both ways", "by the tunnel, with XDP")
LINKS = ("by the link", "by another link")


def some(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [CASES[name] for name in names], ids=names)


def prefix(name: str, family: int) -> str:
    return f"{address(name, family)}/{32 if family == 4 else 128}"


def is_stopped(talk: Talk, reply: bool) -> bool:
    """Whether a datagram of the client does not arrive; or with `reply`, the answer to it."""
    talk.client.send(QUESTION)
    if not reply:
        if is_silent(talk.server):
            return True
        arrived_from(talk.server)
        return False
    _, peer = arrived_from(talk.server)
    talk.server.sendto(b"answer", peer)
    if is_silent(talk.client):
        return True
    arrived_from(talk.client)
    return False


@some(*TUNNELS)
@families
def test_a_policy_blocks_packets_between_nodes_at_once(
    lab: TwoNodes, case: Case, bundle: Path, family: int
) -> None:
    loaded(lab, case, bundle)
    talk = Talk(lab, case, family)
    for node, direction, source, to in (
        ("a", "out", "a", "b"),
        ("b", "in", "a", "b"),
        ("b", "out", "b", "a"),
        ("a", "in", "b", "a"),
    ):
        talk.ask(4)
        with blocked(lab, node, direction, prefix(source, 4), prefix(to, 4)):
            assert is_stopped(talk, reply=source == "b"), (node, direction)
    talk.ask(4)
    with blocked_by_default(lab, "a", "out"):
        assert is_stopped(talk, reply=False) and lab.status("a").has_ipsec


@some(*LINKS)
@families
def test_with_policies_packets_leave_the_link_for_the_tunnel(
    lab: TwoNodes, case: Case, bundle: Path, family: int
) -> None:
    """There they are packets from node to node, which policies select."""
    loaded(lab, case, bundle)
    talk = Talk(lab, case, family)
    talk.ask(4)
    with blocked(lab, "a", "out", prefix("a", 4), prefix("b", 4)):
        assert is_stopped(talk, reply=False)
    talk.ask(4)


@pytest.mark.parametrize("to_pod", [False, True], ids=["Service", "pod"])
@some("node port")
@families
def test_policies_apply_between_a_pod_and_an_external_client(
    lab: TwoNodes, case: Case, bundle: Path, family: int, to_pod: bool
) -> None:
    loaded(lab, case, bundle)
    talk = Talk(lab, case, family)
    if to_pod:
        talk.client.connect((address("pod-a", family), TARGET))
    pod, client = prefix("pod-a", family), prefix("client1", family)
    talk.ask(4)
    assert talk.routed(N) == 0
    with blocked(lab, "a", "fwd", client, pod):
        assert is_stopped(talk, reply=False)
    for direction in ("fwd", "out"):
        with blocked(lab, "a", direction, pod, client):
            assert is_stopped(talk, reply=True), direction
    elsewhere = (ELSEWHERE[family], ELSEWHERE[family], "out")
    assert not lab.status("a").has_ipsec
    with ipsec_policy(partial(lab.run, "a", "ip"), *elsewhere):
        assert talk.routed(N) == 2 * N and lab.status("a").has_ipsec
    eventually(lambda: talk.routed(N) == 0, "packets use the fast path again")
