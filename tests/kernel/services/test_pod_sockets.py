# SPDX-License-Identifier: Apache-2.0
"""Pods' connections to Services by hooks at sockets: real sockets of processes in pods' namespaces."""

import errno
import os
from collections.abc import Iterator
from functools import partial

import pytest

from policyc.compiler.cli.main import run
from policyc.runtime.attach import socket_hooks
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import namespaces
from policyc.runtime.load.node import load
from policyc.runtime.load.request import LoadRequest
from policyc.runtime.maps.sockets import SocketPods
from tests.kernel.support.packets import Host
from tests.kernel.support.service_yaml import PORT, VIP, value
from tests.kernel.support.socket_lab import (
    ELSEWHERE,
    NODE_PORT,
    PODS,
    Socketed,
    address,
    ask,
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
metadata: {name: guarded, namespace: shop}
spec:
  podSelector: {matchLabels: {app: guarded}}
  policyTypes: [Egress]
  egress: [{to: [{podSelector: {matchLabels: {app: web}}}]}]
"""
HELD = 8081
"""A port whose server keeps connections open."""
LOOPBACK = Host("", "127.0.0.1", "::1")


@pytest.fixture(scope="module", params=["c", pytest.param("llvm", marks=pytest.mark.slow)])
def lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Socketed]:
    folder, pods = tmp_path_factory.mktemp("sockets"), tuple(PODS.values())
    with socket_lab(folder, POLICY, request.param, pods, "pods") as found:
        yield found


@pytest.fixture
def node(lab: Socketed) -> Iterator[Socketed]:
    """The lab, for what loads more than once or changes what is loaded."""
    lab.end_sharing()
    yield lab
    lab.whose = "pods"
    lab.unload()


def cookies(node: Socketed) -> dict[str, int]:
    """The cookie of each pod's network namespace."""
    return {
        name: node.process(namespaces.cookie, inside=False, end=f"shop/{name}") for name in PODS
    }


def served_cookies(node: Socketed) -> set[int]:
    with SocketPods(node.pins) as pods:
        return {int.from_bytes(key, "little") for key in pods.all_keys()}


@ways
@kinds
def test_a_pod_s_socket_has_an_endpoint_and_sees_the_service(
    lab: Socketed, way: str, kind: str
) -> None:
    lab.share(served("web", "cart"))
    found = lab.process(lambda: [ask(way, kind, VIP) for _ in range(40)], end="shop/client")
    assert {name for name, *_ in found} == {"web", "cart"}
    assert {tuple(peer) for _, *peer in found} == {(address(way, VIP), PORT)}
    assert lab.process(lambda: is_translated(VIP, way), end="shop/client")


@ways
def test_datagrams_of_an_unconnected_socket_of_a_pod_come_from_the_service(
    lab: Socketed, way: str
) -> None:
    lab.share(served("web", "cart"))

    def work() -> set[tuple[str, str, int]]:
        seen = set()
        with made(way, "UDP") as each:
            for _ in range(5):
                each.sendto(b"", (address(way, VIP), PORT))
                data, sender = each.recvfrom(100)
                seen.add((data.decode(), sender[0], sender[1]))
        return seen

    found = [lab.process(work, end="shop/client") for _ in range(12)]
    assert all(len(seen) == 1 for seen in found)
    assert set().union(*found) == {(name, address(way, VIP), PORT) for name in ("web", "cart")}


def test_only_pods_in_the_cgroup_are_served_and_others_by_their_device(lab: Socketed) -> None:
    lab.share(served("web"))
    for inside in (True, False):
        found = lab.process(lambda: ask("IPv4", "TCP", VIP), inside, end="shop/client")
        assert found == ("web", VIP.ip4, PORT)
        assert lab.process(lambda: is_translated(VIP), inside, end="shop/client") == inside


def test_a_pod_s_address_in_another_namespace_is_not_the_pod(node: Socketed) -> None:
    node.load(served("web"))
    client = str(PODS["client"].ipv4)

    def claimed() -> bool:
        os.system(f"ip address add {client}/32 dev lo")
        try:
            return is_translated(VIP)
        finally:
            os.system(f"ip address del {client}/32 dev lo")

    assert not node.process(claimed, end="external")


def test_without_the_option_pods_are_not_served(node: Socketed) -> None:
    node.load(served("web"))
    assert served_cookies(node) == set(cookies(node).values())
    assert node.status().socket_pods == len(PODS)
    node.whose = "node"
    node.load()
    assert served_cookies(node) == set() and node.status().socket_pods is None
    assert not node.process(lambda: is_translated(VIP), end="shop/client")
    assert node.process(lambda: is_translated(VIP))


def test_a_load_that_fails_serves_the_pods_of_the_load_before(
    node: Socketed, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.whose = "node"
    node.load(served("web"))
    node.whose = "pods"
    monkeypatch.setitem(socket_hooks.PROGRAMS, "pc_getpeer6", 8)  # of no such program
    with pytest.raises(HostError, match="cannot attach to"):
        node.load()
    assert served_cookies(node) == set()


def test_the_option_needs_a_cgroup(lab: Socketed) -> None:
    request = LoadRequest(
        bundle=lab.folder / "bundle",
        endpoints=lab.folder / "endpoints.json",
        socket_services="pods",
    )
    with pytest.raises(InputError, match="needs --cgroup"):
        load(request)


@kinds
def test_egress_policy_decides_about_the_endpoint(node: Socketed, kind: str) -> None:
    node.load(served("web"))
    assert node.process(lambda: ask("IPv4", kind, VIP), end="shop/guarded")[0] == "web"
    node.services(served("cart"))
    before = node.status().drops

    def blocked() -> bool:
        with made("IPv4", kind) as each:
            each.settimeout(0.4)
            try:
                each.connect((VIP.ip4, PORT))
                each.send(b"")
                each.recv(100)
            except TimeoutError:
                return True
        return False

    assert node.process(blocked, end="shop/guarded")
    assert node.status().drops.get("policy", 0) > before.get("policy", 0)


@ways
@kinds
def test_a_pod_reaches_itself_through_a_service(lab: Socketed, way: str, kind: str) -> None:
    lab.share(served("web"))
    found = lab.process(lambda: ask(way, kind, VIP), end="shop/web")
    assert found == ("web", address(way, VIP), PORT)


@ways
@kinds
def test_a_pod_is_refused_by_a_service_without_endpoints(
    lab: Socketed, way: str, kind: str
) -> None:
    """By the hook of its device, with an answer: a datagram socket learns of it later."""
    lab.share(served())

    def work() -> int:
        with made(way, kind) as each:
            found = each.connect_ex((address(way, VIP), PORT))
            if kind == "UDP":
                each.send(b"")
                try:
                    each.recv(10)
                except OSError as error:
                    return error.errno or 0
            return found

    assert lab.process(work, end="shop/client") == errno.ECONNREFUSED
    assert lab.process(lambda: refused(way, kind, VIP)[0]) == errno.ECONNREFUSED


def test_source_ranges_apply_to_the_pod(node: Socketed) -> None:
    client, guarded = (str(PODS[name].ipv4) for name in ("client", "guarded"))
    raw = served("web", type="LoadBalancer", loadBalancerSourceRanges=[f"{client}/32"])
    spec = raw[0].raw
    assert isinstance(spec, dict)
    balancer = Host("", "192.0.2.10", "2001:db8::10")
    spec["status"] = {"loadBalancer": {"ingress": [{"ip": balancer.ip4}]}}
    node.load([value(spec), *raw[1:]])
    assert node.process(lambda: ask("IPv4", "TCP", balancer), end="shop/client")[0] == "web"
    assert not node.process(lambda: is_translated(balancer), end="shop/guarded"), guarded
    assert node.status().drops.get("source range", 0) == 0

    def dropped() -> None:
        with made("IPv4", "UDP") as each:
            each.connect((balancer.ip4, PORT))
            each.send(b"")

    node.process(dropped, end="shop/guarded")
    assert node.status().drops.get("source range", 0) == 1


@ways
def test_session_affinity_holds_each_pod_to_an_endpoint(node: Socketed, way: str) -> None:
    node.load(served("web", "cart", sessionAffinity="ClientIP"))
    for _ in range(2):
        found = node.process(
            lambda: {ask(way, "TCP", VIP)[0] for _ in range(30)}, end="shop/client"
        )
        assert len(found) == 1


def test_affinity_is_that_of_the_hook_at_the_device(node: Socketed) -> None:
    """The table of clients is one: it does not matter by which of the two hooks a pod connects."""
    node.load(served("web", "cart", sessionAffinity="ClientIP"))
    found = {
        node.process(lambda: ask("IPv4", "TCP", VIP), inside, end="shop/client")[0]
        for inside in (True, False) * 8
    }
    assert len(found) == 1


@ways
@kinds
def test_the_node_port_of_every_node_has_an_endpoint_and_loopback_is_the_pod_s(
    lab: Socketed, way: str, kind: str
) -> None:
    lab.share(served("web", type="NodePort"))
    for host in (lab.own, ELSEWHERE):
        found = lab.process(partial(ask, way, kind, host, NODE_PORT), end="shop/client")
        assert found == ("web", address(way, host), NODE_PORT)
    translated = partial(is_translated, LOOPBACK, way, NODE_PORT)
    assert not lab.process(translated, end="shop/client")
    assert lab.process(translated)


def test_an_endpoint_by_the_maglev_table(node: Socketed) -> None:
    given = served("web", "cart")
    raw = given[0].raw
    assert isinstance(raw, dict)
    raw["metadata"]["annotations"] = {"policyc.dev/balance": "maglev"}
    node.load([value(raw), *given[1:]])

    def again() -> set[bytes]:
        """The endpoints of one socket that connects many times: its cookie is its place."""
        with made("IPv4", "UDP") as each:
            found = set()
            for _ in range(20):
                each.connect((VIP.ip4, PORT))
                each.send(b"")
                found.add(each.recv(100))
            return found

    for end in ("shop/client", ""):
        found = node.process(lambda: {ask("IPv4", "TCP", VIP)[0] for _ in range(60)}, end=end)
        assert found == {"web", "cart"}
        assert len(node.process(again, end=end)) == 1


@ways
def test_internal_traffic_policy_local_gives_endpoints_of_this_node(
    node: Socketed, way: str
) -> None:
    given = served("web", "cart", internalTrafficPolicy="Local")
    for each in given[1:]:
        assert isinstance(each.raw, dict)
        for endpoint, at in zip(each.raw["endpoints"], (node.node.name, "elsewhere"), strict=True):
            endpoint["nodeName"] = at
    node.load(given)
    found = node.process(lambda: {ask(way, "TCP", VIP)[0] for _ in range(20)}, end="shop/client")
    assert found == {"web"}


def test_the_command_loads_and_shows_the_option(
    node: Socketed, capfd: pytest.CaptureFixture[str]
) -> None:
    at = ["--bpffs", str(node.node.bpffs)]
    given = ["--endpoints", str(node.folder / "endpoints.json"), "--cgroup", str(node.cgroup)]
    loading = ["node", "load", str(node.folder / "bundle"), *given, *at]

    def work() -> list[int]:
        found = [run([*loading, "--socket-services", "pods"]), run(["node", "status", *at])]
        return [*found, run(["node", "unload", *at])]

    assert node.node.run_in(work) == [0, 0, 0]
    shown = capfd.readouterr().out
    assert f"Services at connect(): the node's own processes and 4 pods in {node.cgroup}" in shown
