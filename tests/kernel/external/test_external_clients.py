# SPDX-License-Identifier: Apache-2.0
"""External clients reach Services through the node: every packet at the uplink, byte for byte."""

import shutil
import socket
import struct

import pytest

from policyc.runtime.attach import (
    clsact,
    tcx,
)
from policyc.runtime.attach.attach import (
    BY_ROLE,
    Mode,
)
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import features
from tests.kernel.support.arrival import arrived
from tests.kernel.support.external_frames import (
    EXTERNAL,
    ROUTER,
    answer,
    answered,
    sent,
    served,
)
from tests.kernel.support.node_under_test import (
    NODE,
    UPLINK,
    WORLD,
    A,
    B,
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ACK,
    ETH_VLAN,
    FIN,
    SYN,
    Host,
    Payload,
    arp,
    echo,
    ethernet,
    frame,
    inner,
    sctp,
    tcp,
    udp,
    unreachable,
)
from tests.kernel.support.service_error_frames import fragments
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
)
from tests.kernel.support.table_policy import (
    ANY,
    TablePolicy,
    sctp_port,
    tcp_port,
    udp_port,
)

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
OTHER = Host(WORLD.mac, "203.0.113.10", "2001:db8::a")  # another client
CONNECTIONS = ("pc_ct4", "pc_ct4_new", "pc_ct6", "pc_ct6_new")
REPLIED, NAT, FRONT = 1, 512, 1024  # enum pc_ct_state


def loaded(
    node: NodeUnderTest, policy: TablePolicy, *pods: Host, protocol: str = "TCP", port: int = TARGET
) -> None:
    node.load(policy, services=served(*pods, protocol=protocol, port=port), uplinks=[UPLINK])


def translated(payload: Payload, family: int = 4, client: Host = WORLD) -> bytes:
    """The same packet as pod a gets it: only the address differs."""
    return frame(client, EXTERNAL, payload, family=family, daddr=A.address(family))


def passes(node: NodeUnderTest, there: Payload, back: Payload, family: int) -> bool:
    """Whether the client's packet reaches pod a through all hooks, and the reply reaches the
    client.
    """
    came = node.comes_in(sent(there, family))
    if came is None or not node.sent_to("a", came):
        return False
    said = frame(A, WORLD, back, family=family)
    assert node.sent_by("a", said)
    return node.goes_out(answer(back, family)) is not None


def opened(node: NodeUnderTest, family: int, port: int = 4000) -> None:
    """An established connection."""
    for flags in (SYN, ACK, ACK):
        assert passes(node, tcp(port, PORT, flags), tcp(TARGET, port, flags | ACK), family)


def states(node: NodeUnderTest, family: int) -> list[int]:
    return sorted(struct.unpack("=I", each["state"])[0] for each in node.connections(family))


@pytest.mark.both_families
@families
@pytest.mark.parametrize(
    ("protocol", "there", "there_translated", "back", "back_translated"),
    [
        ("TCP", tcp(4000, PORT, SYN), tcp(4000, TARGET, SYN),
         tcp(TARGET, 4000, SYN | ACK), tcp(PORT, 4000, SYN | ACK)),
        ("UDP", udp(4000, PORT), udp(4000, TARGET), udp(TARGET, 4000), udp(PORT, 4000)),
        ("SCTP", sctp(4000, PORT, 1), sctp(4000, PORT, 1), sctp(PORT, 4000, 2), sctp(PORT, 4000, 2)),
    ],
    ids=["TCP", "UDP", "SCTP"],
)  # fmt: skip
def test_request_and_reply_are_translated(
    node: NodeUnderTest,
    family: int,
    protocol: str,
    there: Payload,
    there_translated: Payload,
    back: Payload,
    back_translated: Payload,
) -> None:
    port = PORT if protocol == "SCTP" else TARGET
    which = {"TCP": tcp_port, "UDP": udp_port, "SCTP": sctp_port}[protocol]
    policy = node.policy().allow_ingress("world", "a", which(port))
    loaded(node, policy, A, protocol=protocol, port=port)
    for _ in range(3):
        came = node.comes_in(sent(there, family))
        assert came == translated(there_translated, family)
        assert node.arrives("a", came) == came
        said = frame(A, WORLD, back, family=family)
        assert node.leaves("a", said) == said
        assert node.goes_out(answer(back, family)) == answered(back_translated, family)
    assert node.drops() == {}


@families
def test_the_pre_nat_and_post_nat_entries_are_updated_together(
    node: NodeUnderTest, family: int
) -> None:
    loaded(node, node.policy().allow_ingress("world", "a", ANY), A)
    opened(node, family)
    both = NAT | REPLIED
    found = [state & (both | FRONT) for state in states(node, family)]
    assert found == [both, both | FRONT]
    assert len(node.table(f"pc_ct{family}")) == 2, "both are in the established table"
    assert passes(node, tcp(4000, PORT, FIN | ACK), tcp(TARGET, 4000, FIN | ACK), family)
    for entry in node.table(f"pc_ct{family}"):
        assert struct.unpack("=I", entry["state"])[0] & 6 == 6, "both have seen both FINs"


@families
def test_a_denied_connection_leaves_no_entry(node: NodeUnderTest, family: int) -> None:
    loaded(node, node.policy().allow_ingress("world", "a", tcp_port(TARGET + 1)), A)
    assert node.comes_in(sent(tcp(4000, PORT, SYN), family)) is None
    assert node.drops() == {"policy": 1}
    assert node.connections(family) == []


@families
def test_a_change_of_policy_decides_a_connection_again(node: NodeUnderTest, family: int) -> None:
    allowing = node.policy().allow_ingress("world", "a", tcp_port(TARGET))
    loaded(node, allowing, A)
    opened(node, family)
    loaded(node, allowing, A)
    assert passes(node, tcp(4000, PORT, ACK), tcp(TARGET, 4000, ACK), family)
    loaded(node, node.policy(), A)
    assert node.comes_in(sent(tcp(4000, PORT, ACK), family)) is None
    assert not node.sent_by("a", frame(A, WORLD, tcp(TARGET, 4000, ACK), family=family))
    assert node.drops().keys() == {"policy"}


@pytest.mark.both_families
@families
def test_a_removed_endpoint_ends_tcp_and_moves_udp(node: NodeUnderTest, family: int) -> None:
    """The endpoint is removed during a connection. Datagrams go to another endpoint."""
    policy = node.policy().allow_ingress("world", "a", ANY).allow_ingress("world", "b", ANY)
    loaded(node, policy, A)
    opened(node, family)
    node.serve(served(B))
    assert node.comes_in(sent(tcp(4000, PORT, ACK), family)) is None
    assert node.goes_out(answer(tcp(TARGET, 4000, ACK), family)) is None
    assert node.drops() == {"backend gone": 2}
    loaded(node, policy, A, protocol="UDP")
    assert node.comes_in(sent(udp(4000, PORT), family)) == translated(udp(4000, TARGET), family)
    node.serve(served(B, protocol="UDP"))
    came = node.comes_in(sent(udp(4000, PORT), family))
    assert came == frame(WORLD, EXTERNAL, udp(4000, TARGET), family=family, daddr=B.address(family))


@pytest.mark.both_families
@families
@pytest.mark.parametrize("to", ["a Service", "a pod", "the node", "elsewhere"])
@pytest.mark.parametrize("who", ["a pod", "the node"])
def test_an_external_packet_with_an_address_of_a_pod_or_of_the_node_is_dropped(
    node: NodeUnderTest, family: int, to: str, who: str
) -> None:
    loaded(node, node.policy().allow("a", "b", ANY).allow_ingress("world", "b", ANY), B)
    target = {"a Service": EXTERNAL, "a pod": B, "the node": NODE, "elsewhere": ROUTER}[to]
    source = A if who == "a pod" else NODE
    for n, payload in enumerate((tcp(4000, PORT, SYN), udp(4000, 53), echo(family)), 1):
        lie = frame(WORLD, target, payload, family=family, saddr=source.address(family))
        assert node.comes_in(lie) is None
        assert node.drops() == {"spoofed ip": n}
    assert all(not node.table(name) for name in CONNECTIONS)


@families
def test_an_external_packet_does_not_continue_a_pods_connection(
    node: NodeUnderTest, family: int
) -> None:
    """It has the addresses and ports of a pod's connection to the Service, or of the replies."""
    loaded(node, node.policy().allow("a", "b", ANY), B)
    own = frame(A, EXTERNAL, tcp(4000, PORT, SYN), family=family)
    assert node.leaves("a", own)
    lie = frame(WORLD, EXTERNAL, tcp(4000, PORT), family=family, saddr=A.address(family))
    assert node.comes_in(lie) is None
    lie = frame(WORLD, A, tcp(PORT, 4000), family=family, saddr=EXTERNAL.address(family))
    assert node.comes_in(lie) is None
    lie = frame(WORLD, A, tcp(TARGET, 4000), family=family, saddr=B.address(family))
    assert node.comes_in(lie) is None
    assert node.drops() == {"spoofed ip": 3}


def test_spoofed_sources_are_dropped_without_services_too(node: NodeUnderTest) -> None:
    node.load(node.policy(), uplinks=[UPLINK])
    assert node.comes_in(frame(A, B, udp(1, 2))) is None
    source_route = b"\x83\x07\x04\x0a\x00\x00\x0b\x00"
    assert node.comes_in(frame(A, B, udp(1, 2), options=source_route)) is None
    assert node.drops() == {"spoofed ip": 2}


@families
def test_a_packet_to_no_service_passes_unchanged(node: NodeUnderTest, family: int) -> None:
    """Packets to pods too: the pods' own hooks decide."""
    loaded(node, node.policy(), A)
    for given in (
        frame(WORLD, NODE, tcp(4000, 22, SYN), family=family),
        frame(WORLD, A, tcp(4000, TARGET, SYN), family=family),
        frame(WORLD, EXTERNAL, tcp(4000, PORT + 1, SYN), family=family),
        frame(WORLD, EXTERNAL, echo(family), family=family),
        arp(WORLD),
        ethernet(WORLD.mac, NODE.mac, ETH_VLAN, b"\0\1\x08\0" + inner(sent(tcp(1, PORT, SYN)))),
        ethernet(WORLD.mac, NODE.mac, 0x88CC, bytes(60)),
    ):
        assert node.comes_in(given) == given
        assert node.goes_out(given) == given
    assert node.drops() == {}
    assert all(not node.table(name) for name in CONNECTIONS)


TAGS = pytest.mark.parametrize("tag", [b"\0\0", b"\xe0\0"], ids=["without priority", "with it"])


@pytest.mark.both_families
@families
@TAGS
def test_a_frame_with_vlan_0_is_handled_as_untagged(
    node: NodeUnderTest, family: int, tag: bytes
) -> None:
    """Tag 0 carries only a priority."""
    loaded(node, node.policy().allow_ingress("world", "a", ANY), A)
    plain = sent(tcp(4000, PORT, SYN), family)
    tagged = ethernet(WORLD.mac, NODE.mac, ETH_VLAN, tag + plain[12:])
    node.sends_from_outside(tagged)
    assert len(node.connections(family)) == 2
    node.sends_from_outside(ethernet(WORLD.mac, NODE.mac, 0x88A8, tag + plain[12:]))
    assert len(node.connections(family)) == 2
    assert node.drops() == {}


@pytest.mark.parametrize("ethertype", [ETH_VLAN, 0x88A8])
@pytest.mark.parametrize("behind", [b"\x81\0\0\0", b"\x81\0\0\5"], ids=["0", "5"])
def test_vlan_0_before_another_tag_is_dropped(
    node: NodeUnderTest, ethertype: int, behind: bytes
) -> None:
    """The kernel would take off both tags, and pass a packet that no hook checked."""
    loaded(node, node.policy(), A)
    tags = b"\0\0" + behind + b"\x08\0"
    node.sends_from_outside(
        ethernet(WORLD.mac, NODE.mac, ethertype, tags + inner(sent(tcp(1, PORT, SYN))))
    )
    assert node.drops() == {"vlan": 1}


@pytest.mark.parametrize("ethertype", [ETH_VLAN, 0x88A8])
@TAGS
def test_vlan_0_as_an_inner_tag_is_dropped(node: NodeUnderTest, ethertype: int, tag: bytes) -> None:
    """The kernel takes off the outer tag before the hook runs. It would not take off this one."""
    loaded(node, node.policy(), A)
    data = tag + b"\x08\x00" + inner(sent(tcp(1, PORT, SYN)))
    assert node.comes_in(ethernet(WORLD.mac, NODE.mac, ethertype, data)) is None
    assert node.drops() == {"vlan": 1}


@families
def test_a_segment_of_an_unknown_connection_is_dropped(node: NodeUnderTest, family: int) -> None:
    loaded(node, node.policy().allow_ingress("world", "a", ANY), A)
    assert node.comes_in(sent(tcp(4000, PORT, ACK), family)) is None
    assert node.drops() == {"backend gone": 1}


@families
def test_an_endpoint_on_an_unknown_node_is_dropped(node: NodeUnderTest, family: int) -> None:
    """The endpoint is on another node whose address is unknown."""
    loaded(node, node.policy().allow_ingress("world", "a", ANY), C)
    assert node.comes_in(sent(tcp(4000, PORT, SYN), family)) is None
    assert node.drops() == {"no node": 1}
    assert node.connections(family) == []


@pytest.mark.both_families
@families
def test_a_client_port_is_not_shared_by_a_service_and_a_direct_connection(
    node: NodeUnderTest, family: int
) -> None:
    loaded(node, node.policy().allow_ingress("world", "a", ANY), A)
    opened(node, family)
    direct = frame(WORLD, A, tcp(4000, TARGET, SYN), family=family)
    assert node.comes_in(direct) is None
    assert node.drops() == {"nat taken": 1}
    free = frame(WORLD, A, tcp(4001, TARGET, SYN), family=family)
    assert node.comes_in(free) == free and node.sent_to("a", free)
    came = node.comes_in(sent(tcp(4001, PORT, SYN), family))
    assert came is not None
    at = 14 + (20 if family == 4 else 40)
    port, target = struct.unpack_from("!HH", came, at)
    assert port >= 0x8000 and target == TARGET, "another source port"
    assert came == translated(tcp(port, TARGET, SYN), family)


@pytest.mark.both_families
@families
def test_a_packet_with_the_services_address_as_source_is_dropped(
    node: NodeUnderTest, family: int
) -> None:
    loaded(node, node.policy().allow_ingress("world", "a", ANY), A)
    opened(node, family)
    assert node.goes_out(answered(tcp(PORT, 4000, ACK), family), pod=None) is None
    lie = frame(OTHER, WORLD, tcp(PORT, 4000), family=family, saddr=EXTERNAL.address(family))
    assert node.comes_in(lie) is None
    assert node.drops() == {"spoofed ip": 2}


@pytest.mark.both_families
@families
def test_fragments_follow_their_first(node: NodeUnderTest, family: int) -> None:
    loaded(node, node.policy().allow_ingress("world", "a", ANY), A, protocol="UDP")
    gateway, here = Host(WORLD.mac, "", ""), Host(NODE.mac, "", "")
    for _ in range(2):  # of a connection that is new, and one that is known
        given = fragments(gateway, here, (4000, PORT), family, WORLD, EXTERNAL)
        came = fragments(gateway, here, (4000, TARGET), family, WORLD, A)
        assert tuple(node.comes_in(each) for each in given) == came
        assert tuple(node.arrives("a", each) for each in came) == came
        said = fragments(A, gateway, (TARGET, 4000), family, A, WORLD)
        assert tuple(node.leaves("a", each) for each in said) == said
        left = fragments(A, gateway, (PORT, 4000), family, EXTERNAL, WORLD)
        assert tuple(node.goes_out(each) for each in said) == left
    assert node.drops() == {}


@pytest.mark.both_families
@families
@pytest.mark.parametrize("reporter", [WORLD, ROUTER], ids=["the client", "a router"])
def test_errors_about_answers_reach_the_endpoint(
    node: NodeUnderTest, family: int, reporter: Host
) -> None:
    loaded(node, node.policy().allow_ingress("world", "a", ANY), A)
    opened(node, family)
    quoted = inner(answered(tcp(PORT, 4000, ACK), family))
    about = frame(reporter, EXTERNAL, unreachable(family, quoted), family=family)
    quoted = inner(answer(tcp(TARGET, 4000, ACK), family))
    expected = frame(
        reporter, EXTERNAL, unreachable(family, quoted), family=family, daddr=A.address(family)
    )
    came = node.comes_in(about)
    assert came == expected
    assert node.arrives("a", came) == expected
    assert node.drops() == {}


@pytest.mark.both_families
@families
def test_errors_of_the_endpoint_reach_the_client(node: NodeUnderTest, family: int) -> None:
    loaded(node, node.policy().allow_ingress("world", "a", ANY), A, protocol="UDP")
    assert node.comes_in(sent(udp(4000, PORT), family))
    quoted = inner(translated(udp(4000, TARGET), family))
    said = frame(A, WORLD, unreachable(family, quoted), family=family)
    assert node.leaves("a", said) == said
    quoted = inner(sent(udp(4000, PORT), family))
    assert node.goes_out(said) == frame(
        A, WORLD, unreachable(family, quoted), family=family, saddr=EXTERNAL.address(family)
    )


def is_refused(node: NodeUnderTest, mode: Mode) -> bool:
    """Before Linux 6.6 there is no tcx: the load must be refused."""
    if mode != "tcx" or features.TCX.is_there():
        return False
    with pytest.raises(HostError, match=r"tcx links needs Linux 6\.6"):
        node.load(node.policy(), uplinks=[UPLINK], mode=mode)
    return True


@pytest.mark.parametrize("mode", ["tcx", "clsact"])
def test_a_load_records_its_uplinks_and_detaches_the_previous_ones(
    node: NodeUnderTest, mode: Mode
) -> None:
    if is_refused(node, mode):
        return
    node.load(node.policy(), uplinks=[UPLINK], mode=mode, return_path="dsr")
    found = node.status()
    assert found and found.uplinks == (UPLINK,) and found.outside == "dsr"
    attached = {each.name: each.attached for each in found.programs}
    assert attached["pc_to_uplink"] == attached["pc_from_uplink"] == (f"{UPLINK} ({mode})",)
    assert not found.unprotected
    node.load(node.policy(), mode=mode)
    found = node.status()
    assert found and found.uplinks == () and not found.unprotected
    for hook in BY_ROLE["uplink"]:
        at = node.ifindex[UPLINK]
        assert tcx.find(node.pins.link(at, hook.program)) is None
        assert clsact.find(at, hook.direction) is None


@pytest.mark.parametrize("mode", ["tcx", "clsact"])
def test_unload_takes_uplinks_hooks_off_without_a_record(node: NodeUnderTest, mode: Mode) -> None:
    if is_refused(node, mode):
        return
    node.load(node.policy(), uplinks=[UPLINK], mode=mode)
    shutil.rmtree(node.state_root)
    assert node.unload()
    for hook in BY_ROLE["uplink"]:
        assert clsact.find(node.ifindex[UPLINK], hook.direction) is None
    passing = frame(A, WORLD, udp(1, 2))  # which the hook would not let pass
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800)) as wire:
        wire.bind((UPLINK, 0x0800))
        node.sends_from_outside(passing)
        assert arrived(wire, 2000) == passing


@pytest.mark.parametrize(
    ("device", "why"),
    [
        ("pca", "gives that device to a pod"),
        ("nowhere", "no such device"),
        ("lo", "no Ethernet headers"),
        ("policyc-vxlan", "the tunnel between nodes"),
        ("policyc-frag", "of reassembly"),
    ],
)
def test_a_device_that_cannot_be_an_uplink_is_refused(
    node: NodeUnderTest, device: str, why: str
) -> None:
    with pytest.raises(InputError, match=why):
        node.load(node.policy(), uplinks=[device])
    assert not node.bpffs.exists()
