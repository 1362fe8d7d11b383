# SPDX-License-Identifier: Apache-2.0
"""Corners of host policy: which addresses are the node's, and ports that a load closes."""

from pathlib import Path

import pytest

from policyc.runtime import switch
from policyc.runtime.attach import leftovers
from policyc.runtime.errors import InputError
from policyc.runtime.failsafes import DEFAULT
from policyc.runtime.kernel import bpf_syscall
from tests.kernel.support.host_policy_frames import (
    comes,
    families,
    goes,
    guarded,
    loaded,
)
from tests.kernel.support.node_under_test import (
    LOCAL,
    NODE,
    UPLINK,
    WORLD,
    A,
    B,
    NodeUnderTest,
    endpoint,
    ip,
)
from tests.kernel.support.packets import (
    ACK,
    SYN,
    TCP,
    frame,
    raw,
    tcp,
)
from tests.kernel.support.table_policy import ANY

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("address", ["192.0.2.9", "2001:db8:9::1"])
def test_a_host_endpoint_without_a_device_is_found_by_its_addresses(
    node: NodeUnderTest, address: str
) -> None:
    expected = guarded(interface="", addresses=["192.0.2.200", address])
    with pytest.raises(InputError, match="no uplink has") as refused:
        loaded(node, expected)
    assert "--uplink" in refused.value.hint
    assert node.status() is None
    if ":" in address:
        setting = Path(f"/proc/sys/net/ipv6/conf/{UPLINK}/disable_ipv6")
        setting.write_text("0")
    ip("addr", "add", address, "dev", UPLINK)
    loaded(node, expected)
    found = node.status()
    assert found is not None and found.host is not None


def test_failsafe_ports_of_a_node_without_host_policy_are_noted(node: NodeUnderTest) -> None:
    loaded(node, node.policy(), open_ports={"inbound": "tcp:2222"})
    assert node.notes == ["--failsafe-inbound has no effect: this node is not under host policy"]
    node.notes.clear()
    loaded(node, open_ports={"inbound": "tcp:2222"})
    assert node.notes == []


@families
def test_a_pod_on_the_hosts_network_does_not_take_the_nodes_address(
    node: NodeUnderTest, family: int
) -> None:
    node.node_addresses = ()  # only the device and the pod have the address
    ip("addr", "add", f"{NODE.ip4}/32", "dev", "lo")
    ip("addr", "add", f"{NODE.ip6}/128", "dev", "lo")
    agent = endpoint("agent", NODE, None) | {"node": "node-1", "hostNetwork": True}
    entries = [endpoint(name, host, LOCAL[name]) for name, host in (("a", A), ("b", B))]
    loaded(node, entries=[*entries, agent])
    assert not comes(node, tcp(4000, 80, SYN), family)
    assert not goes(node, tcp(4000, 443, SYN), family)
    assert comes(node, tcp(4000, 22, SYN), family)


@pytest.mark.parametrize("there", ["127.0.0.1", "127.255.0.9", "::1"])
def test_external_packets_to_loopback_addresses_are_dropped(
    node: NodeUnderTest, there: str
) -> None:
    """With route_localnet the host's stack would accept them."""
    family = 6 if ":" in there else 4
    sent = frame(WORLD, NODE, tcp(4000, 80, SYN), family=family, daddr=there)
    odd = frame(WORLD, NODE, raw(TCP, b"\0\1"), family=family, daddr=there)
    loaded(node, guarded().allow_ingress("world", "host", ANY))
    assert node.comes_in(sent) is None
    assert node.drops() == {"spoofed ip": 1}
    assert node.comes_in(odd) is None
    loaded(node, node.policy())
    assert node.comes_in(sent), "no policy guards the node"


@families
def test_a_load_closes_a_failsafe_port_at_its_switch(
    node: NodeUnderTest, family: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the sweep fails. No connection is recorded under the new policy."""
    loaded(node, open_ports={"inbound": "tcp:2222"})
    syn = tcp(4000, 2222, SYN)
    assert comes(node, syn, family)

    def cannot(*_: object) -> None:
        raise OSError("no")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="no"):
        patched.setattr(leftovers, "sweep", cannot)
        loaded(node)
    assert not comes(node, tcp(4000, 2222, ACK), family)
    assert not comes(node, syn, family)
    assert comes(node, tcp(4000, 22, SYN), family)
    loaded(node, open_ports={"inbound": "tcp:2222"})
    assert comes(node, syn, family)


@families
def test_a_load_that_fails_leaves_the_failsafe_ports_as_they_were(
    node: NodeUnderTest, family: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(node, open_ports={"inbound": "tcp:2222"})

    def cannot(*_: object) -> None:
        raise OSError("no")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="no"):
        patched.setattr(switch, "store", cannot)
        loaded(node)
    assert comes(node, tcp(4000, 2222, SYN), family)
    assert not comes(node, tcp(4000, 22, SYN), family)
    with node.shared_map("pc_failsafes") as fd:
        keys = list(bpf_syscall.map_keys(fd, bpf_syscall.map_info(fd).key_size))
    assert len(keys) == 1 + len(DEFAULT.outbound)


def test_more_failsafe_ports_than_the_map_holds_are_refused(node: NodeUnderTest) -> None:
    """The load fails, and the ports of the previous load stay open."""
    loaded(node, open_ports={"inbound": "tcp:2222"})
    most = ",".join(map(str, range(10000, 10256)))
    with pytest.raises(InputError, match="--failsafe-inbound: 257 ports exceed the limit of 256"):
        loaded(node, open_ports={"inbound": f"{most},1"})
    assert comes(node, tcp(4000, 2222, SYN), 4)
    loaded(node, open_ports={"inbound": most})
    assert comes(node, tcp(4000, 10255, SYN), 4)
