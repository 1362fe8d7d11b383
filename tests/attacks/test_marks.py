# SPDX-License-Identifier: Apache-2.0
"""A pod marks its packets as hooks mark the node's own: answer, error, routed or tunnelled.

A veth keeps marks while both of its ends are in one network namespace. Between two namespaces the
kernel clears them.
"""

import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.load import node as runtime
from policyc.runtime.load.request import LoadRequest
from policyc.runtime.snat.snat import Masquerade
from tests.eventually import eventually
from tests.kernel.support import packets
from tests.kernel.support.answers import (
    DROP,
    NEXT,
    REDIRECT,
    Outcome,
    run_frame,
)
from tests.kernel.support.arrival import arrived, is_silent
from tests.kernel.support.bundles import compiled
from tests.kernel.support.node_under_test import (
    LOCAL,
    NODE,
    UPLINK,
    WORLD,
    A,
    C,
    NodeUnderTest,
    ip,
)
from tests.kernel.support.objects import compile_c
from tests.kernel.support.packets import (
    ACK,
    RST,
    SYN,
    Host,
    frame,
    mac_bytes,
    tcp,
    udp,
)
from tests.kernel.support.service_wire import (
    ServiceWire,
    _enable_ipv6,
)
from tests.kernel.support.table_policy import ANY
from tests.kernel.support.wire import link_address

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])

ANSWER, ROUTED = 0x70635221, 0x70635223
MARKS = {
    "answer": ANSWER,
    "error": 0x70635222,
    "routed": ROUTED,
    "tunnel": 0x70642024,
    "tunnelled by this node": 0x70630000,
    "tunnelled by node 5": 0x70630005,
    "tunnelled by the last node": 0x70633FFF,
}
OTHERS = {"kube-proxy": 0x4000, "Cilium": 0x0F00, "beside ours": 0x70625221, "after": 0x70642025}
REJECTED, DENIED, ALLOWED = 22, 25, 80
POLICY = f"""
apiVersion: policyc.dev/v1alpha1
kind: ExtendedPolicy
metadata: {{name: a}}
spec:
  tier: 500
  appliesTo: pod.app == "a"
  rules: |
    ingress:
      reject tcp/{REJECTED} from any
    egress:
      deny udp/{DENIED} to any
      allow tcp, udp to any
"""
SO_MARK, ETH_P_ALL = 36, 3


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its policy program rejects, and so the node has answers of its own."""
    return compiled(tmp_path_factory.mktemp("marks"), POLICY)


def load(node: NodeUnderTest, bundle: Path) -> None:
    request = LoadRequest(
        bundle=bundle, endpoints=node.endpoints(), bpffs=node.bpffs, state_root=node.state_root
    )
    runtime.load(request)


def pass_by(node: NodeUnderTest, hook: str, data: bytes, mark: int = 0) -> Outcome:
    """A frame through a hook of pod a's device, sent by the pod or forwarded to it."""
    at = node.ifindex[LOCAL["a"]]
    came_in = at if hook == "pc_from_pod" else node.ifindex[UPLINK]
    with bpf_syscall.obj_get(node.pins.hook(hook)) as fd:
        return run_frame(fd, data, at, came_in, mark)


def spoofed(node: NodeUnderTest) -> int:
    return node.drops().get("spoofed mark", 0)


@dataclass
class OneNamespace:
    """The node routes from pod a's device to the uplink; both veths keep marks."""

    node: NodeUnderTest
    outside: socket.socket
    seen: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
            Path(f"/proc/sys/net/{name}").write_text("1")
        for host, device in ((A, LOCAL["a"]), (WORLD, UPLINK)):
            _enable_ipv6(device)
            for address, size in ((host.ip4, 32), (host.ip6, 128)):
                ip("route", "add", f"{address}/{size}", "dev", device)
                to = ("lladdr", host.mac, "dev", device)
                ip("neigh", "add", address, *to, "nud", "permanent")
        self.outside.bind((f"{UPLINK}.p", ETH_P_ALL))
        self.outside.setblocking(False)

    def sends(self, family: int, port: int, mark: int = 0) -> None:
        """UDP from the pod's end of its veth."""
        data = frame(A, WORLD, udp(4000, port, b"data"), family=family)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
            wire.bind((f"{LOCAL['a']}.p", 0))
            wire.setsockopt(socket.SOL_SOCKET, SO_MARK, mark)
            wire.send(mac_bytes(link_address(LOCAL["a"])) + data[6:])

    def left(self, family: int, port: int) -> list[bytes]:
        """The source addresses of UDP to the port of the external host, as it gets that."""
        while True:
            try:
                self.seen.append(self.outside.recv(1 << 16))
            except BlockingIOError:
                break
        to = socket.inet_pton(_AF[family], WORLD.address(family)) + port.to_bytes(2)
        at, size, dport = (26, 4, 36) if family == 4 else (22, 16, 56)
        return [
            each[at : at + size]
            for each in self.seen
            if each[at + size : at + 2 * size] + each[dport : dport + 2] == to
        ]

    def require_spoofed(self, family: int, port: int) -> None:
        """The one packet with a mark came to the hook with it, and went no further."""
        eventually(lambda: spoofed(self.node) or self.left(family, port), "the packet is decided")
        assert self.left(family, port) == []
        assert spoofed(self.node) == 1


@pytest.fixture
def pair(node: NodeUnderTest) -> Iterator[OneNamespace]:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as outside:
        yield OneNamespace(node, outside)


_AF = {4: socket.AF_INET, 6: socket.AF_INET6}


def packed(host: Host, family: int) -> bytes:
    return socket.inet_pton(_AF[family], host.address(family))


@families
def test_a_pod_that_sets_the_answer_mark_does_not_bypass_policy(
    node: NodeUnderTest, pair: OneNamespace, bundle: Path, family: int
) -> None:
    load(node, bundle)
    pair.sends(family, DENIED, ANSWER)
    pair.sends(family, ALLOWED)
    eventually(lambda: pair.left(family, ALLOWED), "what the policy allows leaves")
    pair.require_spoofed(family, DENIED)


@families
def test_a_pod_that_sets_the_routed_mark_is_still_translated(
    node: NodeUnderTest, pair: OneNamespace, family: int
) -> None:
    """At an uplink, a true mark skips policy and SNAT."""
    policy = node.policy().allow("a", "world", ANY)
    node.load(policy, uplinks=[UPLINK], masquerade=Masquerade(range(50000, 60001)))
    pair.sends(family, DENIED, ROUTED)
    pair.sends(family, ALLOWED)
    eventually(lambda: pair.left(family, ALLOWED), "what has no mark leaves")
    assert pair.left(family, ALLOWED) == [packed(NODE, family)], "under the node's address"
    pair.require_spoofed(family, DENIED)


@families
@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
def test_no_mark_of_the_nodes_own_passes_a_pods_hook(
    node: NodeUnderTest, bundle: Path, family: int, mark: int
) -> None:
    """Neither an allowed nor an established connection lets such a mark pass."""
    load(node, bundle)
    data = frame(A, WORLD, udp(4000, ALLOWED), family=family)
    assert pass_by(node, "pc_from_pod", data, mark).verdict == DROP
    assert pass_by(node, "pc_from_pod", data).verdict == NEXT, "the control"
    assert pass_by(node, "pc_from_pod", data, mark).verdict == DROP
    assert node.drops() == {"spoofed mark": 2}


@families
@pytest.mark.parametrize("mark", OTHERS.values(), ids=OTHERS)
def test_marks_of_other_software_stay(
    node: NodeUnderTest, bundle: Path, family: int, mark: int
) -> None:
    load(node, bundle)
    data = frame(A, WORLD, udp(4000, ALLOWED), family=family)
    outcome = pass_by(node, "pc_from_pod", data, mark)
    assert (outcome.verdict, outcome.frame, outcome.mark) == (NEXT, data, mark)
    denied = frame(A, WORLD, udp(4000, DENIED), family=family)
    assert pass_by(node, "pc_from_pod", denied, mark).verdict == DROP
    assert node.drops() == {"policy": 1}


@families
def test_a_pod_in_a_namespace_of_its_own_sets_no_mark(
    node: NodeUnderTest, wire: ServiceWire, bundle: Path, family: int
) -> None:
    """The kernel clears the mark, and policy decides."""
    load(node, bundle)
    sender = wire.open_socket("a", family, socket.SOCK_DGRAM)
    for mark in MARKS.values():
        sender.setsockopt(socket.SOL_SOCKET, SO_MARK, mark)
        sender.sendto(b"data", (WORLD.address(family), DENIED))
    eventually(lambda: node.drops() == {"policy": len(MARKS)}, "policy denies all of them")


REDIRECT_C = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tc") int run(struct __sk_buff *skb)
{
	skb->mark = MARK;
	return bpf_redirect_peer(DEVICE, 0);
}

char pc_license[] SEC("license") = "GPL";
"""


MOUNT_AND_RUN = 'mount -t bpf bpf /sys/fs/bpf && exec tc "$@"'
TC_WITH_OWN_BPFFS = ["unshare", "--mount", "sh", "-c", MOUNT_AND_RUN, "tc"]
"""tc makes folders in a bpffs, else in whichever is mounted: in that of a test beside this one."""


def redirect(folder: Path, gateway: str) -> None:
    """In the pod's namespace: a packet from x0 enters the node's end of the pod's veth, with a mark."""
    ip("link", "add", "x0", "type", "veth", "peer", "name", "y0")
    for name in ("x0", "y0"):  # no packet of their own: it would carry the mark, too
        Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
    ip("link", "set", "y0", "address", gateway, "up")  # a frame for the node is for y0, too
    ip("link", "set", "x0", "up")
    source, made = folder / "redirect.c", folder / "redirect.o"
    source.write_text(REDIRECT_C)
    device = socket.if_nametoindex(f"{LOCAL['a']}.p")
    compile_c(source, made, f"-DMARK={ANSWER}", f"-DDEVICE={device}")
    program = ["bpf", "da", "obj", str(made), "sec", "tc"]
    for words in (
        ["qdisc", "add", "dev", "y0", "clsact"],
        ["filter", "add", "dev", "y0", "ingress", *program],
    ):
        subprocess.run([*TC_WITH_OWN_BPFFS, *words], check=True)


@families
def test_a_pod_with_its_own_bpf_program_does_not_bypass_policy(
    node: NodeUnderTest, wire: ServiceWire, bundle: Path, tmp_path: Path, family: int
) -> None:
    """The hook counts the mark, which shows that the mark crossed the namespaces."""
    load(node, bundle)
    gateway = link_address(LOCAL["a"])
    server = wire.open_socket("c", family, socket.SOCK_DGRAM)
    server.bind((C.address(family), DENIED))
    wire.within("a", lambda: redirect(tmp_path, gateway))
    sender = wire.within("a", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
    with sender:
        sender.bind(("x0", 0))
        sender.send(mac_bytes(gateway) + frame(A, C, udp(4000, DENIED, b"in"), family=family)[6:])
    eventually(lambda: spoofed(node) == 1, "the packet comes to the hook")
    assert is_silent(server)
    plain = wire.open_socket("c", family, socket.SOCK_DGRAM)
    plain.bind((C.address(family), ALLOWED))
    wire.open_socket("a", family, socket.SOCK_DGRAM).sendto(b"in", (C.address(family), ALLOWED))
    assert arrived(plain) == b"in", "the control"


@families
def test_no_packet_of_a_pod_is_taken_for_an_answer(
    node: NodeUnderTest, wire: ServiceWire, bundle: Path, family: int
) -> None:
    """A pod's BPF program keeps the mark across namespaces: bpf_redirect_peer() does not clear it."""
    load(node, bundle)
    unreachable = (packets.icmp, 3) if family == 4 else (packets.icmp6, 1)

    def error(code: int) -> packets.Payload:
        return unreachable[0](unreachable[1], code, 0, 0, bytes(48))

    forged = [
        udp(4000, DENIED, b"data"),
        tcp(4000, DENIED, SYN),
        tcp(4000, DENIED, ACK),
        tcp(4000, DENIED, RST),
        packets.echo(family),
        error(13 if family == 4 else 1),
    ]
    for each in forged:
        data = frame(A, WORLD, each, family=family)
        assert pass_by(node, "pc_from_pod", data, ANSWER).verdict == DROP
    assert node.drops() == {"spoofed mark": len(forged)}


def answer_to(node: NodeUnderTest, family: int) -> Outcome:
    """As the hook of the refused packet leaves it."""
    refused = frame(WORLD, A, tcp(4000, REJECTED, SYN), family=family)
    answer = pass_by(node, "pc_to_pod", refused)
    assert (answer.verdict, answer.mark) == (REDIRECT, ANSWER)
    return answer


@families
def test_an_answer_of_the_node_leaves_the_pod(
    node: NodeUnderTest, bundle: Path, family: int
) -> None:
    """A device that keeps marks passes it too. It leaves with the pod's MAC and without the mark."""
    load(node, bundle)
    answer = answer_to(node, family)
    out = pass_by(node, "pc_from_pod", answer.frame, answer.mark)
    mac = mac_bytes(A.mac)
    assert (out.verdict, out.mark) == (NEXT, 0)
    assert out.frame == answer.frame[:6] + mac + answer.frame[12:]
    assert node.drops() == {"policy": 1}
    assert answer.frame[6:12] not in (mac, bytes(6))


@families
def test_every_bit_of_the_answer_mac_is_compared(
    node: NodeUnderTest, bundle: Path, family: int
) -> None:
    load(node, bundle)
    answer = answer_to(node, family).frame
    own = int.from_bytes(answer[6:12])
    for bit in range(48):
        guessed = (own ^ 1 << bit).to_bytes(6)
        data = answer[:6] + guessed + answer[12:]
        assert pass_by(node, "pc_from_pod", data, ANSWER).verdict == DROP
    assert node.drops() == {"policy": 1, "spoofed mark": 48}


@families
def test_each_load_chooses_a_new_answer_mac(node: NodeUnderTest, bundle: Path, family: int) -> None:
    load(node, bundle)
    before = answer_to(node, family)
    load(node, bundle)
    assert answer_to(node, family).frame[6:12] != before.frame[6:12]
    assert pass_by(node, "pc_from_pod", before.frame, before.mark).verdict == DROP


@families
def test_an_unset_answer_mac_matches_no_packet(
    node: NodeUnderTest, bundle: Path, family: int
) -> None:
    """Before the first load the map holds zeros. A pod cannot use zeros as the MAC."""
    load(node, bundle)
    with node.shared_map("pc_answer_mac") as fd:
        bpf_syscall.map_update(fd, bytes(4), bytes(8))
    refused = frame(WORLD, A, tcp(4000, REJECTED, SYN), family=family)
    assert pass_by(node, "pc_to_pod", refused).verdict == DROP
    forged = frame(A, WORLD, tcp(4000, DENIED, RST), family=family)
    forged = forged[:6] + bytes(6) + forged[12:]
    assert pass_by(node, "pc_from_pod", forged, ANSWER).verdict == DROP
