# SPDX-License-Identifier: Apache-2.0
"""Packets of a node to its own pods pass unless a rule denies exactly them (semantics A22).

Real sockets of the node and its pod, under Cilium policies.
"""

import errno
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from policyc.runtime import switch
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.observe.attest import attest
from tests.attacks.revoked_connection import (
    Open,
    received,
)
from tests.eventually import eventually
from tests.kernel.support.arrival import SILENCE, WAITS, arrived, arrived_from, is_silent
from tests.kernel.support.bundles import compiled
from tests.kernel.support.external_wire import (
    PORT,
    TARGET,
    TCP,
    UDP,
    families,
    services,
)
from tests.kernel.support.service_route_wire import CIDRS
from tests.kernel.support.service_yaml import VIP
from tests.kernel.support.two_nodes import (
    TwoNodes,
    address,
)

pytestmark = pytest.mark.kernel
SHUT, OPEN = 8080, 8081
"""Ports of the pod: what the policies below deny is for the first."""
Bundles = Callable[[str], Path]


def policy(*denied: str) -> str:
    """Everyone may reach the pods, but for these lines of ingressDeny."""
    lines = "".join(f"  - {each}\n" for each in denied)
    deny = f"  ingressDeny:\n{lines}" if lines else ""
    return f"""\
apiVersion: cilium.io/v2
kind: CiliumClusterwideNetworkPolicy
metadata: {{name: pods}}
spec:
  endpointSelector: {{}}
  ingress:
  - fromEntities: [all]
{deny}"""


PORTS = f"toPorts: [{{ports: [{{port: '{SHUT}', protocol: ANY}}]}}]"
POLICIES = {
    "open": policy(),
    "host": policy("{fromEntities: [host], " + PORTS + "}"),
    "cluster": policy("{fromEntities: [cluster], " + PORTS + "}"),
    "anyone": policy("{" + PORTS + "}"),
    "everything": policy("{fromEntities: [all]}"),
    "blocks": policy('{fromCIDR: ["0.0.0.0/0", "::/0"], ' + PORTS + "}"),
    "blocks and host": policy(
        '{fromCIDR: ["0.0.0.0/0", "::/0"], ' + PORTS + "}", "{fromEntities: [host], " + PORTS + "}"
    ),
}
DENYING = ("host", "cluster", "anyone", "everything", "blocks and host")


@pytest.fixture(scope="module", params=["c", pytest.param("llvm", marks=pytest.mark.slow)])
def bundles(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    """The bundle of a policy by its name, made once, by either backend."""
    folder, made = tmp_path_factory.mktemp("own-node"), dict[str, Path]()

    def bundle(name: str) -> Path:
        if name not in made:
            options = ("--backend", request.param)
            made[name] = compiled(folder, POLICIES[name], *options, name=name.replace(" ", "-"))
        return made[name]

    return bundle


def connects(lab: TwoNodes, family: int, port: int, patience: float = WAITS) -> Open | None:
    """The node's connection to its pod; None where there was silence."""
    listening = lab.server("pod-a", family, TCP, port)
    made = lab.connect("a", family, address("pod-a", family), port, patience)
    return Open(made, lab.accept(listening)) if made else None


def asks(
    lab: TwoNodes, family: int, port: int, patience: float = WAITS, source: str | None = None
) -> bool:
    """Whether a datagram of the node reaches the pod, and its answer the node."""
    answering = lab.server("pod-a", family, UDP, port)
    asking = lab.open_socket("a", family, UDP)
    if source:
        asking.bind((source, 0))
    asking.sendto(b"who", (address("pod-a", family), port))
    if is_silent(answering, patience):
        return False
    answering.sendto(b"me", arrived_from(answering)[1])
    return arrived(asking) == b"me"


def pings(lab: TwoNodes, family: int, patience: float) -> bool:
    """Whether the pod answers an echo request of the node, by a ping socket."""
    af, proto = (
        (socket.AF_INET, socket.IPPROTO_ICMP)
        if family == 4
        else (socket.AF_INET6, socket.IPPROTO_ICMPV6)
    )
    lab.at["a"].within(
        lambda: Path("/proc/sys/net/ipv4/ping_group_range").write_text("0 2147483647")
    )
    with lab.at["a"].within(lambda: socket.socket(af, socket.SOCK_DGRAM, proto)) as made:
        made.settimeout(patience)
        request = bytes((8 if family == 4 else 128, 0, 0, 0, 0, 0, 0, 1))
        try:
            made.sendto(request, (address("pod-a", family), 0))
            return bool(made.recv(100))
        except TimeoutError:
            return False
        except OSError as error:
            assert error.errno == errno.ENOBUFS  # IPv6 says of a drop on the node itself
            return False


@families
@pytest.mark.parametrize("name", [*DENYING, "open", "blocks"])
def test_a_node_reaches_its_pod_unless_a_rule_denies_the_node(
    lab: TwoNodes, bundles: Bundles, family: int, name: str
) -> None:
    """Address blocks do not select the node, whatever its address."""
    lab.load("a", bundles(name), None)
    for port, is_open in ((SHUT, name not in DENYING), (OPEN, name != "everything")):
        patience = WAITS if is_open else SILENCE
        assert (connects(lab, family, port, patience) is not None) is is_open
        assert asks(lab, family, port, patience) is is_open


@families
@pytest.mark.parametrize("name", ["host", "everything"])
def test_only_rules_without_ports_deny_an_echo_request_of_the_node(
    lab: TwoNodes, bundles: Bundles, family: int, name: str
) -> None:
    """A rule with ports does not match it. A rule without ports does."""
    lab.load("a", bundles(name), None)
    passes = name == "host"
    assert pings(lab, family, WAITS if passes else SILENCE) is passes


@families
def test_a_pod_still_reaches_its_node(lab: TwoNodes, bundles: Bundles, family: int) -> None:
    """The node answers, though no connection to the pod is allowed."""
    lab.load("a", bundles("everything"), None)
    listening = lab.server("a", family, TCP, OPEN)
    made = lab.connect("pod-a", family, address("a", family), OPEN)
    assert made
    assert Open(made, lab.accept(listening)).talks()


@families
def test_an_address_of_the_node_that_no_file_lists_is_the_nodes(
    lab: TwoNodes, bundles: Bundles, family: int
) -> None:
    """For example a bridge's address, from which the kubelet's probes come."""
    other = "10.10.1.1" if family == 4 else "fd10:1::1"
    lab.at["a"].network.add_address("lo", f"{other}/{32 if family == 4 else 128}")
    lab.load("a", bundles("host"), None)
    assert not asks(lab, family, SHUT, SILENCE, source=other)
    assert asks(lab, family, OPEN, source=other)


@families
@pytest.mark.parametrize("first", ["client", "server"])
@pytest.mark.parametrize("before", ["open", None], ids=["after a load", "before any"])
def test_a_revoked_connection_of_the_node_passes_nothing(
    lab: TwoNodes, bundles: Bundles, family: int, first: str, before: str | None
) -> None:
    """The connection continues once the policy allows it again."""
    if before:
        lab.load("a", bundles(before), None)
    revoked = connects(lab, family, SHUT)
    assert revoked and revoked.talks()
    lab.load("a", bundles("host"), None)
    second = "server" if first == "client" else "client"
    assert revoked.is_silent(first)
    assert revoked.is_silent(second, first)
    lab.load("a", bundles("host"), None)
    assert revoked.is_silent(second)
    lab.load("a", bundles("open"), None)
    assert received(revoked.client, 40) and received(revoked.server, 40)


@families
@pytest.mark.parametrize("name", ["host", "cluster"])
def test_a_revoked_connection_from_an_unlisted_address_of_the_node_passes_nothing(
    lab: TwoNodes, bundles: Bundles, family: int, name: str
) -> None:
    """Either end sends. A policy decision about that address alone would allow the packet."""
    other = "10.10.1.1" if family == 4 else "fd10:1::1"
    lab.at["a"].network.add_address("lo", f"{other}/{32 if family == 4 else 128}")
    lab.load("a", bundles("open"), None)
    listening = lab.server("pod-a", family, TCP, SHUT)
    made = lab.open_socket("a", family, TCP)
    made.bind((other, 0))
    made.connect((address("pod-a", family), SHUT))
    revoked = Open(made, lab.accept(listening))
    assert revoked.talks()
    lab.load("a", bundles(name), None)
    assert revoked.is_silent("server")
    assert revoked.is_silent("client", "server")
    assert revoked.is_silent("server", "client")
    lab.load("a", bundles("open"), None)
    assert received(revoked.client, 40) and received(revoked.server, 40)


@families
def test_a_revoked_connection_of_the_node_is_reset_with_the_option(
    lab: TwoNodes, bundles: Bundles, family: int
) -> None:
    lab.load("a", bundles("open"), None)
    revoked = connects(lab, family, SHUT)
    assert revoked and revoked.talks()
    lab.load("a", bundles("host"), None, resets=True)
    revoked.client.sendall(b"more")
    gone = (errno.ECONNRESET, errno.EPIPE)
    eventually(
        lambda: revoked.client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) in gone,
        "the node's end is reset",
    )


@families
@pytest.mark.parametrize("name", ["host", "everything", "blocks"])
def test_a_connection_through_a_service_does_not_bypass_a_rule_about_the_node(
    lab: TwoNodes, bundles: Bundles, family: int, name: str
) -> None:
    """Each packet by the route to Services is decided, also after a change of policy."""
    loaded = {"services": services("pod-a"), "service_cidr": CIDRS}

    def asks_service(patience: float = WAITS) -> bool:
        answering = lab.server("pod-a", family, UDP, TARGET)
        asking = lab.open_socket("a", family, UDP)
        asking.connect((VIP.address(family), PORT))
        with answering, asking:
            for _ in range(2):
                asking.send(b"who")
                if is_silent(answering, patience):
                    return False
                answering.sendto(b"me", answering.recvfrom(100)[1])
                if is_silent(asking, patience) or asking.recv(100) != b"me":
                    return False
        return True

    assert TARGET == SHUT
    lab.load("a", bundles("open"), **loaded)
    assert asks_service()
    lab.load("a", bundles(name), **loaded)
    passes = name == "blocks"
    assert asks_service(WAITS if passes else SILENCE) is passes
    lab.load("a", bundles("open"), **loaded)
    assert asks_service()


def test_the_state_word_records_rules_about_the_own_node(lab: TwoNodes, bundles: Bundles) -> None:
    """Only for a bundle with such a rule. Attest knows the node's record and the bit."""
    pins = Pins(lab.bpffs("a"))

    def attested() -> None:
        endpoints = lab.folder / "endpoints-a.json"
        where = {"bpffs": lab.bpffs("a"), "state_root": lab.folder / "state"}
        attest(bundles(name), endpoints, **where)

    for name in ("host", "open", "host"):
        lab.load("a", bundles(name), None)
        assert switch.read(pins.map("pc_state")).binds_own_node is (name == "host")
        lab.at["a"].within(attested)
