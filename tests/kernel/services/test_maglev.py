# SPDX-License-Identifier: Apache-2.0
"""The kernel chooses endpoints by Maglev tables: evenly, steadily, and alike on every node."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from policyc.runtime.bundle.json_value import JsonValue
from tests.kernel.support.node_under_test import (
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import Host
from tests.kernel.support.picks import (
    HANDED,
    OUTSIDE,
    POD,
    Asked,
    Picks,
    picking,
)
from tests.kernel.support.service_yaml import (
    OTHER_VIP,
    PORT,
    VIP,
    service,
    slices,
    value,
)
from tests.kernel.support.table_policy import ANY

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
HUNDRED = [Host(C.mac, f"10.9.0.{i}", f"fd09::{i:x}") for i in range(1, 101)]
FLOWS = 20_000


@pytest.fixture
def picks(picks_program: Path, node: NodeUnderTest) -> Iterator[Picks]:
    node.load(node.policy().allow("a", "world", ANY), services=[])
    with picking(picks_program, node) as found:
        yield found


def steady(
    *hosts: Host, balance: str = "maglev", node: str = "", **spec: object
) -> list[JsonValue]:
    made = service(**{"externalIPs": [OTHER_VIP.ip4, OTHER_VIP.ip6]} | spec)
    metadata = made.raw["metadata"] | {"annotations": {"policyc.dev/balance": balance}}
    found = slices(hosts)
    for each in found if node else ():
        for endpoint in each.raw["endpoints"]:
            endpoint["nodeName"] = node
    return [value(made.raw | {"metadata": metadata}), *found]


def flows(family: int, to: Host, kind: int) -> list[Asked]:
    """From many clients, and from many ports of each."""
    who = [f"198.51.{i}.7" if family == 4 else f"2001:db8:{i:x}::7" for i in range(20)]
    vip = to.address(family)
    return [
        Asked(each, vip, PORT, 10_000 + port, kind) for each in who for port in range(FLOWS // 20)
    ]


def ends_of(picks: Picks, family: int, to: Host = VIP, kind: int = POD) -> list[str]:
    return picks.ends(flows(family, to, kind))


@pytest.mark.slow
@families
def test_flows_stay_when_one_of_a_hundred_endpoints_is_removed(
    node: NodeUnderTest, picks: Picks, family: int
) -> None:
    node.serve(steady(*HUNDRED))
    before = ends_of(picks, family)
    shares = Counter(before)
    assert len(shares) == 100 and min(shares.values()) > FLOWS // 150
    assert max(shares.values()) < FLOWS // 66
    gone = HUNDRED[37].address(family)
    node.serve(steady(*HUNDRED[:37], *HUNDRED[38:]))
    after = ends_of(picks, family)
    moved = sum(was != now for was, now in zip(before, after, strict=True) if was != gone)
    assert gone not in after and 0 < moved <= FLOWS // 100
    node.serve(steady(*reversed(HUNDRED)))
    assert ends_of(picks, family) == before, "another node, another order: the same table"


def test_without_maglev_most_flows_move(node: NodeUnderTest, picks: Picks) -> None:
    node.serve(steady(*HUNDRED, balance="random"))
    before, after = ends_of(picks, 4), ends_of(picks, 4)
    assert sum(was != now for was, now in zip(before, after, strict=True)) > FLOWS * 0.9


@families
def test_every_address_of_the_service_has_the_same_table(
    node: NodeUnderTest, picks: Picks, family: int
) -> None:
    node.serve(steady(*HUNDRED))
    assert ends_of(picks, family) == ends_of(picks, family, to=OTHER_VIP)


@pytest.mark.slow
@families
def test_endpoints_of_the_node_have_a_table_of_their_own(
    node: NodeUnderTest, picks: Picks, family: int
) -> None:
    here, far = HUNDRED[:5], HUNDRED[5:10]
    found = steady(*here, node="node-1", externalTrafficPolicy="Local")
    for mine, theirs in zip(found[1:], steady(*far, node="node-2")[1:], strict=True):
        mine.raw["endpoints"] += theirs.raw["endpoints"]
    node.serve(found)
    local = {each.address(family) for each in here}
    for kind in (OUTSIDE, HANDED):
        ends = ends_of(picks, family, to=OTHER_VIP, kind=kind)
        assert set(ends) == local
        assert ends == ends_of(picks, family, to=OTHER_VIP, kind=kind)
    assert len(set(ends_of(picks, family))) == 10


@families
def test_with_affinity_a_client_has_one_table_entry(
    node: NodeUnderTest, picks: Picks, family: int
) -> None:
    """Also on a node that has not seen the client before."""
    node.serve(steady(*HUNDRED, sessionAffinity="ClientIP"))
    ends = ends_of(picks, family, kind=OUTSIDE)
    by_client = [set(ends[at : at + FLOWS // 20]) for at in range(0, FLOWS, FLOWS // 20)]
    assert all(len(each) == 1 for each in by_client) and len(set().union(*by_client)) > 10
