# SPDX-License-Identifier: Apache-2.0
"""A pod's connect() that policy denies fails at once; any other is left to its packets."""

import errno
import itertools
import random
import socket
from collections.abc import Iterator
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import pytest

from policyc.compiler.cli.main import run
from policyc.runtime import switch
from policyc.runtime.attach import socket_hooks
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.load.node import load
from policyc.runtime.load.request import LoadRequest
from policyc.runtime.observe.events import Event, read_events
from tests.kernel.support.answers import NEXT, run_frame
from tests.kernel.support.bundles import compiled
from tests.kernel.support.packets import SYN, Host, frame, tcp, udp
from tests.kernel.support.service_yaml import PORT, TARGET, VIP
from tests.kernel.support.socket_lab import (
    KINDS,
    NODE_PORT,
    PODS,
    Socketed,
    address,
    ask,
    host_of,
    kinds,
    made,
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
  egress:
  - to: [{podSelector: {matchLabels: {app: web}}}]
    ports: [{protocol: TCP, port: 8000, endPort: 8090}, {protocol: UDP, port: 8080}]
  - to:
    - ipBlock: {cidr: 198.51.100.0/24, except: [198.51.100.64/26]}
    - ipBlock: {cidr: "2001:db8::/32", except: ["2001:db8:1::/48"]}
    ports: [{protocol: TCP, port: 443}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: cart, namespace: shop}
spec:
  podSelector: {matchLabels: {app: cart}}
  policyTypes: [Ingress]
  ingress: [{from: [{podSelector: {matchLabels: {app: guarded}}}]}]
---
apiVersion: policyc.dev/v1alpha1
kind: ExtendedPolicy
metadata: {name: rejecting}
spec:
  tier: 100
  appliesTo: pod.app == "client"
  rules: |
    egress:
      reject tcp/7000-7009 to any log
      reject udp/7000 to any
      allow any
"""
OPEN = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: open, namespace: shop}
spec: {podSelector: {}, policyTypes: [Ingress], ingress: [{}]}
"""
DENIED = errno.EPERM
OUTSIDE = Host("", "198.51.100.10", "2001:db8:51::10")
"""The lab's external host, which listens nowhere."""


@pytest.fixture(scope="module", params=["c", pytest.param("llvm", marks=pytest.mark.slow)])
def lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Socketed]:
    folder, pods = tmp_path_factory.mktemp("connect"), tuple(PODS.values())
    how = ("--backend", request.param)
    with socket_lab(folder, POLICY, request.param, pods, "pods", ("--socket-programs",)) as found:
        compiled(folder, OPEN, *how, "--socket-programs", name="open")
        compiled(folder, POLICY, *how, name="plain")
        found.connect_deny = True
        yield found


@pytest.fixture
def node(lab: Socketed) -> Iterator[Socketed]:
    """The lab, for what loads more than once or changes what is loaded."""
    lab.end_sharing()
    yield lab
    lab.unload()
    lab.connect_deny, lab.bundle = True, "bundle"


def result(way: str, kind: str, to: Host, port: int, bound: int = 0) -> int:
    """The errno of a connect() that waits for nothing; EINPROGRESS: packets decide."""
    with made(way, kind) as each:
        if bound:
            each.bind(("", bound))
        each.setblocking(False)
        return each.connect_ex((address(way, to), port))


def of(node: Socketed, client: str, way: str, kind: str, to: Host, port: int) -> int:
    return node.process(partial(result, way, kind, to, port), end=f"shop/{client}")


@ways
@kinds
def test_a_denied_connect_fails_and_an_allowed_one_goes_on(
    lab: Socketed, way: str, kind: str
) -> None:
    lab.share()
    web, cart = host_of("web"), host_of("cart")
    assert of(lab, "guarded", way, kind, web, TARGET) in (0, errno.EINPROGRESS)
    assert of(lab, "guarded", way, kind, web, 9999) == DENIED
    assert of(lab, "guarded", way, kind, cart, TARGET) == DENIED, "egress of the client"
    assert of(lab, "client", way, kind, cart, TARGET) == DENIED, "ingress of the server"
    found = lab.process(partial(ask, way, kind, web, TARGET), end="shop/guarded")
    assert found[0] == "web"


@ways
@kinds
def test_a_connect_that_a_rule_rejects_is_refused(lab: Socketed, way: str, kind: str) -> None:
    lab.share()
    assert of(lab, "client", way, kind, host_of("web"), 7000) == errno.ECONNREFUSED
    expected = errno.EINPROGRESS if kind == "TCP" else 0
    assert of(lab, "client", way, kind, host_of("web"), 7010) == expected


@ways
@kinds
def test_the_endpoint_of_a_service_decides(node: Socketed, way: str, kind: str) -> None:
    node.load(served("cart"))
    assert of(node, "guarded", way, kind, VIP, PORT) == DENIED
    node.services(served("web"))
    found = node.process(partial(ask, way, kind, VIP, PORT), end="shop/guarded")
    assert found[0] == "web"


@kinds
def test_a_service_without_endpoints_is_left_to_the_hook_at_the_device(
    node: Socketed, kind: str
) -> None:
    node.load(served(type="NodePort"))
    for host, port in ((VIP, PORT), (node.own, NODE_PORT)):
        assert of(node, "guarded", "IPv4", kind, host, port) in (0, errno.EINPROGRESS)


def test_a_denied_connect_is_counted_and_an_event_names_its_rule(node: Socketed) -> None:
    node.load()

    def packets(policy: str) -> int:
        return sum(each.packets for each in node.status().rules if policy in each.where)

    of(node, "client", "IPv4", "TCP", host_of("web"), 7001)
    assert packets("rejecting") == 1
    (event,) = node.node.run_in(
        lambda: list(
            read_events(seconds=0, bpffs=node.node.bpffs, state_root=node.folder / "state")
        )
    )
    assert isinstance(event, Event) and event.egress
    assert "rejecting" in event.egress.decided.where
    assert (event.source, event.source_port, event.destination_port) == ("shop/client", 0, 7001)
    assert event.verdict == "denied" and event.ingress is None


def test_only_pods_in_the_cgroup_are_refused(lab: Socketed) -> None:
    lab.share()
    work = partial(result, "IPv4", "TCP", host_of("cart"), TARGET)
    assert lab.process(work, end="shop/guarded") == DENIED
    assert lab.process(work, inside=False, end="shop/guarded") == errno.EINPROGRESS
    assert lab.process(work) == errno.EINPROGRESS, "the node"
    assert lab.process(work, end="external") == errno.EINPROGRESS


@ways
def test_a_bound_datagram_socket_may_answer(lab: Socketed, way: str) -> None:
    """Its packets may belong to a connection that the other end opened."""
    lab.share()
    work = partial(result, way, "UDP", host_of("cart"), TARGET)
    assert lab.process(work, end="shop/guarded") == DENIED
    assert lab.process(partial(work, bound=5353), end="shop/guarded") == 0
    bound = partial(result, way, "TCP", host_of("cart"), TARGET, 5353)
    assert lab.process(bound, end="shop/guarded") == DENIED


@ways
@kinds
def test_a_pod_is_not_refused_by_itself(lab: Socketed, way: str, kind: str) -> None:
    lab.share()
    loopback = Host("", "127.0.0.1", "::1")
    for host in (host_of("guarded"), loopback):
        assert of(lab, "guarded", way, kind, host, 9) in (0, errno.ECONNREFUSED, errno.EINPROGRESS)


def test_the_next_load_decides_at_once(node: Socketed) -> None:
    node.load()
    cart = host_of("cart")
    assert of(node, "guarded", "IPv4", "TCP", cart, TARGET) == DENIED
    node.bundle = "open"
    node.load()
    assert of(node, "guarded", "IPv4", "TCP", cart, TARGET) == errno.EINPROGRESS
    node.bundle = "bundle"
    node.load()
    assert of(node, "guarded", "IPv4", "TCP", cart, TARGET) == DENIED
    node.connect_deny = False
    node.load()
    assert of(node, "guarded", "IPv4", "TCP", cart, TARGET) == errno.EINPROGRESS
    assert not node.status().connect_deny


def test_only_the_generation_in_force_refuses(
    node: Socketed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Around the switch the hooks of both generations are attached."""
    probed = node.folder / "probed"
    store = switch.store

    def around(pin: Path, word: switch.Word) -> None:
        cart = host_of("cart")
        for then in (lambda: store(pin, word), lambda: None):
            with probed.open("a") as out:
                out.write(f"{of(node, 'guarded', 'IPv4', 'TCP', cart, TARGET)}\n")
            then()

    node.bundle = "open"
    node.load()
    monkeypatch.setattr(switch, "store", around)
    for bundle, expected in (
        ("bundle", [errno.EINPROGRESS, DENIED]), ("open", [DENIED, errno.EINPROGRESS]),
    ):  # fmt: skip
        probed.unlink(missing_ok=True)
        node.bundle = bundle
        node.load()
        assert list(map(int, probed.read_text().split())) == expected


def test_a_later_load_that_fails_leaves_no_map(
    node: Socketed, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.bundle, node.connect_deny = "plain", False
    node.load_at(None)
    before = sorted(pin.name for pin in node.pins.maps.iterdir())
    assert "pc_socket_pods" not in before
    node.bundle, node.connect_deny = "bundle", True
    monkeypatch.setitem(socket_hooks.PROGRAMS, "pc_getpeer6", 8)  # of no such program
    with pytest.raises(HostError, match="cannot attach to"):
        node.load()
    assert sorted(pin.name for pin in node.pins.maps.iterdir()) == before


def test_the_command_loads_and_shows_the_option(
    node: Socketed, capfd: pytest.CaptureFixture[str]
) -> None:
    at = ["--bpffs", str(node.node.bpffs)]
    given = ["--endpoints", str(node.folder / "endpoints.json"), "--cgroup", str(node.cgroup)]
    asked = ["--socket-services", "pods", "--connect-deny"]
    loading = ["node", "load", str(node.folder / "bundle"), *given, *asked, *at]

    def work() -> list[int]:
        found = [run(loading), run(["node", "status", *at])]
        found.append(of(node, "guarded", "IPv4", "TCP", host_of("cart"), TARGET))
        return [*found, run(["node", "unload", *at])]

    assert node.node.run_in(work) == [0, 0, DENIED, 0]
    shown = capfd.readouterr().out
    assert "and 4 pods, whose denied connect() fails, in" in shown


def test_the_load_needs_the_hooks_and_the_pods(node: Socketed) -> None:
    node.bundle = "plain"
    with pytest.raises(InputError, match="lacks the programs of --connect-deny"):
        node.load()
    request = LoadRequest(
        bundle=node.folder / "bundle",
        endpoints=node.folder / "endpoints.json",
        connect_deny=True,
    )
    with pytest.raises(InputError, match="needs --socket-services pods"):
        load(request)
    node.bundle, node.connect_deny = "bundle", False
    node.load()


def test_a_connect_is_refused_where_the_hook_at_the_device_drops_its_first_packet(
    node: Socketed,
) -> None:
    """To pods and other addresses, over ports at and beside the ends of ranges."""
    node.load()
    rng = random.Random(7)
    hosts = [host_of(name) for name in PODS] + [
        Host("", *each)
        for each in (
            ("198.51.100.10", "2001:db8:51::10"), ("198.51.100.63", "2001:db8::1"),
            ("198.51.100.64", "2001:db8:1::1"), ("198.51.100.127", "2001:db8:0:ffff::1"),
            ("198.51.100.128", "2001:db8:2::"), ("203.0.113.9", "2001:db9::9"),
        )
    ]  # fmt: skip
    ports = (80, 443, 7000, 7009, 7010, 7999, 8000, 8080, 8090, 8091)
    cases = list(itertools.product(("client", "guarded"), KINDS, (4, 6), hosts, ports))
    for client in ("client", "guarded"):
        mine = [each for each in rng.sample(cases, 260) if each[0] == client]
        said = node.process(partial(refusals, mine), end=f"shop/{client}")
        dropped = node.node.run_in(partial(drops, node, client, mine))
        differ = [case for case, a, b in zip(mine, said, dropped, strict=True) if a != b]
        assert not differ
        assert {True, False} == set(said)


Case = tuple[str, str, int, Host, int]


def refusals(cases: list[Case]) -> list[bool]:
    """Whether a connect() fails by policy. Pods of the lab have a route to everything."""
    found = []
    for _, kind, family, host, port in cases:
        said = result("IPv4" if family == 4 else "IPv6", kind, host, port)
        assert said in (0, errno.EINPROGRESS, errno.EPERM, errno.ECONNREFUSED), (host, said)
        found.append(said in (errno.EPERM, errno.ECONNREFUSED))
    return found


def drops(node: Socketed, client: str, cases: list[Case]) -> list[bool]:
    """Whether the hook at the pod's device drops the first packet, or answers it."""
    pod = next(each for each in node.node.pods if each.endpoint.name == client)
    sender = Host(pod.mac, str(pod.endpoint.ipv4), str(pod.endpoint.ipv6))
    at = socket.if_nametoindex(pod.interface)
    found = []
    with bpf_syscall.obj_get(Pins(node.node.bpffs).hook("pc_from_pod")) as fd:
        for number, (_, kind, family, host, port) in enumerate(cases):
            sport = 20000 + number
            payload = tcp(sport, port, SYN) if kind == "TCP" else udp(sport, port)
            to = Host(pod.mac, host.ip4, host.ip6)
            if host in (sender,) or ip_address(host.ip4) == pod.endpoint.ipv4:
                found.append(False)  # such a packet never leaves the pod
                continue
            sent = run_frame(fd, frame(sender, to, payload, family=family), at, at)
            found.append(sent.verdict != NEXT)
    return found
