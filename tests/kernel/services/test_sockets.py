# SPDX-License-Identifier: Apache-2.0
"""The node's own connections to Services: real sockets of processes in the test's cgroup."""

import errno
import socket
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from policyc.runtime.attach import socket_hooks
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.observe.status import (
    status,
)
from tests.kernel.support.arrival import WAITS
from tests.kernel.support.packets import Host
from tests.kernel.support.service_yaml import (
    OTHER_VIP,
    PORT,
    TARGET,
    VIP,
    value,
)
from tests.kernel.support.socket_lab import (
    CGROUPS,
    ELSEWHERE,
    NODE_PORT,
    Socketed,
    address,
    ask,
    host_of,
    is_translated,
    kinds,
    made,
    refused,
    served,
    socket_lab,
    ways,
)

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("loads_of_children")]

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed, namespace: shop}
spec: {podSelector: {}, policyTypes: [Ingress]}
"""


@pytest.fixture(scope="module", params=["c", pytest.param("llvm", marks=pytest.mark.slow)])
def lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Socketed]:
    with socket_lab(tmp_path_factory.mktemp("sockets"), POLICY, request.param) as found:
        yield found


@pytest.fixture
def node(lab: Socketed) -> Iterator[Socketed]:
    """The lab, for what loads more than once or changes what is loaded."""
    lab.end_sharing()
    yield lab
    lab.unload()


@ways
@kinds
def test_a_connected_socket_has_an_endpoint_and_sees_the_service(
    lab: Socketed, way: str, kind: str
) -> None:
    lab.share(served("web", "cart"))
    found = lab.process(lambda: [ask(way, kind, VIP) for _ in range(40)])
    assert {name for name, *_ in found} == {"web", "cart"}
    assert {tuple(peer) for _, *peer in found} == {(address(way, VIP), PORT)}


@ways
@kinds
def test_the_node_port_of_another_node_has_an_endpoint(lab: Socketed, way: str, kind: str) -> None:
    lab.share(served("web", type="NodePort"))
    found = lab.process(lambda: ask(way, kind, ELSEWHERE, NODE_PORT))
    assert found == ("web", address(way, ELSEWHERE), NODE_PORT)


@ways
def test_a_node_port_with_local_traffic_policy_is_left_to_its_node(lab: Socketed, way: str) -> None:
    lab.share(served("web", type="NodePort", externalTrafficPolicy="Local"))
    for host, expected in ((lab.own, True), (ELSEWHERE, False)):
        assert lab.process(lambda host=host: is_translated(host, way, NODE_PORT)) == expected


@ways
def test_datagrams_of_an_unconnected_socket_stay_with_an_endpoint_and_come_from_the_service(
    lab: Socketed, way: str
) -> None:
    lab.share(served("web", "cart"))

    def work() -> list[set[tuple[str, str, int]]]:
        found = []
        for _ in range(20):
            with made(way, "UDP") as each:
                seen = set()
                for _ in range(5):
                    each.sendto(b"", (address(way, VIP), PORT))
                    data, sender = each.recvfrom(100)
                    seen.add((data.decode(), sender[0], sender[1]))
                found.append(seen)
        return found

    found = lab.process(work)
    assert all(len(seen) == 1 for seen in found)
    assert set().union(*found) == {(name, address(way, VIP), PORT) for name in ("web", "cart")}


def test_recvfrom_reports_the_service_to_a_connected_datagram_socket(node: Socketed) -> None:
    node.load(served("web"))

    def work() -> tuple[bytes, tuple[str, int]]:
        with made("IPv4", "UDP") as each:
            each.connect((VIP.ip4, PORT))
            each.send(b"!")
            return each.recvfrom(100)

    assert node.process(work) == (b"web!", (VIP.ip4, PORT))


@ways
def test_an_unconnected_socket_goes_to_another_endpoint_when_its_own_is_removed(
    node: Socketed, way: str
) -> None:
    node.load(served("web"))
    asking, answering = socket.socketpair()

    def work() -> list[str]:
        found = []
        with made(way, "UDP") as each:
            for _ in range(2):
                each.sendto(b"", (address(way, VIP), PORT))
                found.append(each.recvfrom(100)[0].decode())
                answering.send(b"1")
                answering.recv(1)
        return found

    def change() -> None:
        asking.settimeout(WAITS)
        asking.recv(1)
        node.services(served("cart"))
        asking.send(b"1")
        asking.recv(1)
        asking.send(b"1")

    with asking, answering:
        other = threading.Thread(target=change)
        other.start()
        found = node.process(work)
        other.join()
    assert found == ["web", "cart"]


@ways
@kinds
def test_a_process_is_refused_by_a_service_without_endpoints(
    lab: Socketed, way: str, kind: str
) -> None:
    lab.share(served())
    found = lab.process(lambda: refused(way, kind, VIP))
    assert found == [errno.ECONNREFUSED] * (2 if kind == "UDP" else 1)


@ways
@kinds
def test_a_node_port_is_at_the_node_s_addresses_and_at_loopback(
    lab: Socketed, way: str, kind: str
) -> None:
    lab.share(served("web", type="NodePort"))
    loopback = Host("", "127.0.0.1", "::1")
    for host in (lab.own, loopback):
        found = lab.process(partial(ask, way, kind, host, NODE_PORT))
        assert found == ("web", address(way, host), NODE_PORT)


@kinds
def test_only_node_ports_are_reached_at_loopback(lab: Socketed, kind: str) -> None:
    """Not an external IP that is the node's, and not a port without a Service."""
    lab.share(served("web", externalIPs=[str(lab.node.ipv4)]))
    assert lab.process(lambda: ask("IPv4", kind, lab.own)) == ("web", lab.own.ip4, PORT)

    def work() -> int:
        with made("IPv4", kind) as each:
            found = each.connect_ex(("127.0.0.1", PORT))
            if kind == "UDP":
                each.send(b"")
                try:
                    each.recv(10)
                except OSError as error:
                    return error.errno or 0
            return found

    assert lab.process(work) == errno.ECONNREFUSED


@ways
def test_processes_outside_the_cgroup_or_the_namespace_are_left_alone(
    lab: Socketed, way: str
) -> None:
    lab.share(served("web"))

    assert lab.process(lambda: is_translated(VIP, way))
    assert not lab.process(lambda: is_translated(VIP, way), inside=False)
    assert not lab.process(lambda: is_translated(VIP, way), end="external")


@kinds
def test_source_ranges_apply_to_the_node(node: Socketed, kind: str) -> None:
    spec = {
        "type": "LoadBalancer",
        "clusterIPs": ["None"],
        "loadBalancerSourceRanges": [f"{node.node.ipv4}/32"],
    }
    given = served("web", **spec)
    raw = given[0].raw
    assert isinstance(raw, dict)
    del raw["spec"]["clusterIPs"]
    raw["spec"]["clusterIPs"] = [OTHER_VIP.ip4, OTHER_VIP.ip6]
    raw["status"] = {"loadBalancer": {"ingress": [{"ip": VIP.ip4}]}}
    node.load([value(raw), *given[1:]])
    assert node.process(lambda: ask("IPv4", kind, VIP)) == ("web", VIP.ip4, PORT)
    raw["spec"]["loadBalancerSourceRanges"] = ["192.0.2.0/24"]
    node.services([value(raw), *given[1:]])
    assert node.process(lambda: refused("IPv4", kind, VIP))[0] == errno.ECONNREFUSED


@ways
def test_session_affinity_holds_the_node_to_an_endpoint(node: Socketed, way: str) -> None:
    node.load(served("web", "cart", sessionAffinity="ClientIP"))
    found = node.process(lambda: {ask(way, "TCP", VIP)[0] for _ in range(30)})
    assert len(found) == 1


@ways
@kinds
def test_connections_to_no_service_are_not_translated(lab: Socketed, way: str, kind: str) -> None:
    lab.share(served("web"))
    cart = host_of("cart")
    found = lab.process(lambda: ask(way, kind, cart, TARGET))
    assert found == ("cart", address(way, cart), TARGET)


def links(node: Socketed) -> dict[str, tuple[int, int]]:
    """Program -> its id and the cgroup's, of what is attached for the load in force."""

    def work() -> dict[str, tuple[int, int]]:
        found = socket_hooks.attached(node.pins, status_epoch(node))
        return {name: (info.id, cgroup) for name, (info, cgroup) in found.items()}

    return node.node.run_in(work)


def status_epoch(node: Socketed) -> int:
    found = status(bpffs=node.node.bpffs, state_root=node.folder / "state")
    assert found is not None
    return found.epoch


def test_each_load_sets_the_cgroup_again(node: Socketed) -> None:
    given = served("web")
    node.load(given)
    first = links(node)
    assert set(first) == set(socket_hooks.PROGRAMS)
    assert {cgroup for _, cgroup in first.values()} == {node.cgroup.stat().st_ino}
    shown = {each.name: each.attached for each in node.status().programs}
    assert shown["pc_connect6"] == (f"{node.cgroup} (cgroup)",)
    assert node.status().cgroup == str(node.cgroup)
    node.load()
    second = links(node)
    assert set(second) == set(first) and not set(second.values()) & set(first.values())
    assert node.process(lambda: ask("IPv4", "TCP", VIP))[0] == "web"
    node.load_at(None)
    assert links(node) == {} and node.status().cgroup == "" and not node.pins.all_sockets()
    assert not node.process(lambda: is_translated(VIP))


def test_unload_detaches_the_socket_hooks_at_once(node: Socketed) -> None:
    node.load(served("web"))
    assert node.process(lambda: is_translated(VIP))
    node.unload()
    assert not node.process(lambda: is_translated(VIP))


def test_a_load_that_fails_keeps_the_previous_socket_hooks(
    node: Socketed, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.load(served("web"))
    before = links(node)
    monkeypatch.setitem(socket_hooks.PROGRAMS, "pc_getpeer6", 8)  # of no such program
    with pytest.raises(HostError, match="cannot attach to"):
        node.load()
    monkeypatch.undo()
    assert links(node) == before and len(node.pins.all_sockets()) == 1
    assert node.process(lambda: is_translated(VIP))


def test_a_first_load_that_fails_leaves_no_socket_hooks(
    lab: Socketed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(socket_hooks.PROGRAMS, "pc_getpeer6", 8)
    with pytest.raises(HostError, match="cannot attach to"):
        lab.load(served("web"))
    assert not lab.pins.is_any() and not lab.process(lambda: is_translated(VIP))


def test_a_removed_cgroup_is_shown_and_the_next_load_works(node: Socketed) -> None:
    other = Path(tempfile.mkdtemp(prefix="policyc-test-", dir=CGROUPS))
    try:
        node.load(served("web"), cgroup=other)
    finally:
        other.rmdir()
    shown = {each.name: each.attached for each in node.status().programs}
    assert shown["pc_connect4"] == ()
    node.load()
    assert set(links(node)) == set(socket_hooks.PROGRAMS)


def test_a_folder_that_is_no_cgroup_is_refused(lab: Socketed) -> None:
    for path in (lab.folder, lab.cgroup / "nobody"):
        with pytest.raises(InputError, match="no folder of a cgroup2 file system"):
            lab.load(cgroup=path)
    assert not lab.pins.is_any()


def test_without_services_no_socket_hook_is_attached(node: Socketed) -> None:
    node.load()
    cart = host_of("cart")
    found = node.process(lambda: ask("IPv4", "TCP", cart, TARGET))
    assert found == ("cart", cart.ip4, TARGET)

    def peers() -> int:
        with bpf_syscall.obj_get(node.pins.map("pc_socket_peers")) as fd:
            info = bpf_syscall.map_info(fd)
            return sum(count for *_, count in bpf_syscall.map_items_batch(fd, info))

    assert node.node.run_in(peers) == 0
