# SPDX-License-Identifier: Apache-2.0
"""Test beds for datapath.py: two pods and what is between them, each bed in namespaces of its own.

All stand at the same time, so that rounds go from one to the next without anything being set up.
"""

import functools
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import yaml

from policyc.runtime.attach.bypass import Bypass
from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.lab import namespaces
from policyc.runtime.lab.topology import Lab, LabEndpoint
from policyc.runtime.load import node as runtime
from policyc.runtime.load.request import LoadRequest

CLIENT = LabEndpoint("bench", "client", IPv4Address("10.0.0.10"), IPv6Address("fd00::10"))
SERVER = LabEndpoint("bench", "server", IPv4Address("10.0.0.11"), IPv6Address("fd00::11"))
VIP = LabEndpoint("bench", "service", IPv4Address("10.96.255.255"), IPv6Address("fd96::ffff"))
PORT = 8080
NAMESPACES = 8
"""Of the Services."""
METADATA = {
    end.key: {"labels": {"app": end.name}, "namespaceLabels": {}, "ports": []}
    for end in (CLIENT, SERVER)
}


@dataclass(frozen=True)
class Bed:
    """Two namespaces; the server in the second one has an address of each family."""

    name: str
    client: Path
    server: Path
    asked: dict[int, str]
    port: int = PORT


def beds(
    policies: Sequence[int],
    services: Sequence[int],
    combined: Sequence[tuple[int, int]],
    held: ExitStack,
) -> list[Bed]:
    """The beds: plain routing first, then the same once more as a control.

    `combined` has numbers of policies and of Services that one bed has together.
    """
    found = [
        held.enter_context(routed("plain routing", nothing)),
        held.enter_context(routed("plain routing again", nothing)),
        held.enter_context(pair("one veth pair")),
    ]
    for n in policies:
        found.append(held.enter_context(routed(f"this project, {_policies(n)}", ours(n))))
    for n in services:
        name = f"this project, {_services(n)}"
        found.append(held.enter_context(routed(name, ours(1, n), VIP)))
    for n in policies:
        found.append(held.enter_context(routed(f"iptables chains, {_policies(n)}", chains(n))))
    for n in services:
        name = f"iptables as of kube-proxy, {_services(n)}"
        found.append(held.enter_context(routed(name, kube_proxy(n), VIP)))
    for n in services:
        name = f"nftables as of kube-proxy, {_services(n)}"
        found.append(held.enter_context(routed(name, kube_proxy_nft(n), VIP)))
    for n, m in combined:
        both = f"{_policies(n)}, {_services(m)}"
        found.append(held.enter_context(routed(f"this project, {both}", ours(n, m), VIP)))
        dress = partial(_one_after_another, (chains(n), kube_proxy(m)))
        found.append(held.enter_context(routed(f"iptables, {both}", dress, VIP)))
    return found


def _one_after_another(
    dresses: Sequence[Callable[[Lab, Path], None]], lab: Lab, folder: Path
) -> None:
    for dress in dresses:
        dress(lab, folder)


def _policies(n: int) -> str:
    return f"{n} {'policy' if n == 1 else 'policies'}"


def _services(n: int) -> str:
    return f"through one of {n} Services" if n > 1 else "through a Service"


@contextmanager
def routed(
    name: str, dressed: Callable[[Lab, Path], None], target: LabEndpoint = SERVER
) -> Iterator[Bed]:
    """Two pods on a node that routes between them; `dressed` installs the measured software."""
    with Lab([CLIENT, SERVER]) as lab, tempfile.TemporaryDirectory(prefix="pc-bed-") as folder:
        client, server = (lab.ends[end.key].namespace for end in (CLIENT, SERVER))
        dressed(lab, Path(folder))
        yield Bed(name, client, server, _asked(target))


@contextmanager
def pair(name: str) -> Iterator[Bed]:
    """The floor: the pods' devices are the two ends of one pair."""
    with namespaces.claimed_suffix() as suffix, ExitStack() as held:
        held.callback(namespaces.remove_lab, suffix)
        paths = namespaces.create_namespaces(suffix, ["client", "server"])
        client, server = paths["client"], paths["server"]
        ip("link", "add", "eth0", "netns", client.name, "type", "veth",
           "peer", "name", "eth0", "netns", server.name)  # fmt: skip
        for path, own, other in ((client, CLIENT, SERVER), (server, SERVER, CLIENT)):
            ip("-n", path.name, "link", "set", "eth0", "up")
            for family in (4, 6):
                mine, theirs = (address(end, family) for end in (own, other))
                quickly = ("nodad",) if family == 6 else ()
                ip("-n", path.name, "addr", "add", mine, "dev", "eth0", *quickly)
                ip("-n", path.name, "route", "add", theirs, "dev", "eth0")
        yield Bed(name, client, server, _asked(SERVER))


def _asked(target: LabEndpoint) -> dict[int, str]:
    return {family: address(target, family) for family in (4, 6)}


def address(end: LabEndpoint, family: int) -> str:
    """Of a family, as text."""
    return str(end.ipv4 if family == 4 else end.ipv6)


def ip(*words: str) -> None:
    """iproute2."""
    subprocess.run(["ip", *words], check=True)


# --- what is put on the node ------------------------------------------------------------------------


def nothing(lab: Lab, folder: Path) -> None:
    """Plain routing."""


def ours(
    n: int, services: int = 0, bypass: Bypass | None = None, cgroup: Path | None = None
) -> Callable[[Lab, Path], None]:
    """So many policies for the server; the last one allows the client. And so many Services.

    Pods' processes in the cgroup reach Services at connect().
    """

    def dress(lab: Lab, folder: Path) -> None:
        (folder / "policies.yaml").write_text(yaml.dump_all(_policy(at, n) for at in range(n)))
        asked = ["compile", "-f", str(folder / "policies.yaml"), "-o", str(folder / "bundle")]
        asked += ["--cache", _cache().name]  # every bed has the same hooks
        asked += ["--socket-programs"] if bypass else []
        compiler = [sys.executable, "-m", "policyc.compiler.cli"]
        subprocess.run([*compiler, *asked], check=True, stdout=subprocess.DEVNULL)
        lab.node.write_endpoints(folder / "endpoints.json", METADATA)
        objects = service_objects(services) if services else None

        def load() -> None:
            request = LoadRequest(
                bundle=folder / "bundle",
                endpoints=folder / "endpoints.json",
                bpffs=lab.node.bpffs / "policyc",
                state_root=folder / "state",
                services=objects,
                bypass=bypass,
                cgroup=cgroup,
                socket_services="pods" if cgroup else "node",
            )
            runtime.load(request, warn=refuse, note=refuse)

        lab.node.run_in(load)

    return dress


@functools.cache
def _cache() -> tempfile.TemporaryDirectory[str]:
    """Goes with the process."""
    return tempfile.TemporaryDirectory(prefix="pc-cache-")


def refuse(text: str) -> None:
    """Stop if the node leaves something out: the measurement would be wrong."""
    raise SystemExit(f"the node does not have all that is to be measured: {text}")


def service_objects(n: int) -> list[JsonValue]:
    """Services of two ports and one endpoint; the last one is that of the server.

    They are of several namespaces, as one may have no more than half of a node's tables.
    """
    found: list[dict[str, Any]] = []
    ports = [{"name": each["protocol"].lower(), **each} for each in both_ports()]
    for at in range(n):
        pairs = {family: _service(at, n, family) for family in (4, 6)}
        namespace = f"bench-{at % NAMESPACES}"
        name = {"namespace": namespace, "name": f"service-{at}"}
        spec = {"clusterIPs": [vip for vip, _ in pairs.values()], "ports": ports}
        found.append({"apiVersion": "v1", "kind": "Service", "metadata": name, "spec": spec})
        for family, (_, endpoint) in pairs.items():
            named = {"namespace": namespace, "name": f"service-{at}-{family}"}
            labels = {"kubernetes.io/service-name": f"service-{at}"}
            found.append(
                {
                    "apiVersion": "discovery.k8s.io/v1",
                    "kind": "EndpointSlice",
                    "metadata": {**named, "labels": labels},
                    "addressType": f"IPv{family}",
                    "ports": ports,
                    "endpoints": [{"addresses": [endpoint], "conditions": {"ready": True}}],
                }
            )
    return [JsonValue(each, Path("services")) for each in found]


def _service(at: int, n: int, family: int) -> tuple[str, str]:
    """The address of a Service, and that of its endpoint."""
    if at == n - 1:
        return address(VIP, family), address(SERVER, family)
    if family == 4:
        return str(IPv4Address("10.96.0.0") + at), str(IPv4Address("10.128.0.0") + at)
    return f"fd96:1::{at + 1:x}", f"fd98::{at + 1:x}"


def _policy(at: int, n: int) -> dict[str, Any]:
    peer: dict[str, Any] = {"ipBlock": {"cidr": f"{_stranger(at)}/32"}}
    if at == n - 1:
        peer = {"podSelector": {"matchLabels": {"app": "client"}}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"namespace": "bench", "name": f"policy-{at}"},
        "spec": {
            "podSelector": {"matchLabels": {"app": "server"}},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [peer], "ports": both_ports()}],
        },
    }


def both_ports(port: int = PORT) -> list[dict[str, Any]]:
    return [{"protocol": protocol, "port": port} for protocol in ("TCP", "UDP")]


def _stranger(at: int) -> IPv4Address:
    return IPv4Address("203.0.0.0") + at


def chains(n: int) -> Callable[[Lab, Path], None]:
    """The same as rules: a chain for the server, a chain of its own for each policy, replies first."""

    def dress(lab: Lab, folder: Path) -> None:
        for family in (4, 6):
            _restore(lab, family, _chains(n, family))

    return dress


def _chains(n: int, family: int) -> str:
    server, client = address(SERVER, family), address(CLIENT, family)
    lines = ["*filter", ":POD - [0:0]", *(f":POLICY-{at} - [0:0]" for at in range(n))]
    lines.append("-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT")
    lines.append(f"-A FORWARD -d {server} -j POD")
    for at in range(n):
        stranger = str(_stranger(at)) if family == 4 else f"2001:db8::{at + 1:x}"
        peer = client if at == n - 1 else stranger
        for protocol in ("tcp", "udp"):
            lines.append(
                f"-A POLICY-{at} -s {peer} -p {protocol} --dport {PORT} -j MARK --set-xmark 0x1/0x1"
            )
        lines.append(f"-A POD -j POLICY-{at}")
        lines.append("-A POD -m mark --mark 0x1/0x1 -j ACCEPT")
    return "\n".join([*lines, "-A POD -j DROP", "COMMIT", ""])


def _restore(lab: Lab, family: int, rules: str) -> None:
    program = "iptables-restore" if family == 4 else "ip6tables-restore"
    lab.node.run_in(lambda: subprocess.run([program], input=rules, text=True, check=True) and None)


def kube_proxy(n: int) -> Callable[[Lab, Path], None]:
    """Services as kube-proxy writes them: one chain of all, one for each, and one for its endpoint."""

    def dress(lab: Lab, folder: Path) -> None:
        for family in (4, 6):
            _restore(lab, family, nat_rules(n, family))

    return dress


def nat_rules(n: int, family: int) -> str:
    lines = ["*nat", ":KUBE-SERVICES - [0:0]", "-A PREROUTING -j KUBE-SERVICES"]
    bits = 32 if family == 4 else 128
    for at in range(n):
        vip, endpoint = _service(at, n, family)
        to = f"{endpoint}:{PORT}" if family == 4 else f"[{endpoint}]:{PORT}"
        for protocol in ("tcp", "udp"):
            chain = f"{at}-{protocol}"
            lines += [
                f":SVC-{chain} - [0:0]",
                f":SEP-{chain} - [0:0]",
                f"-A KUBE-SERVICES -d {vip}/{bits} -p {protocol} --dport {PORT} -j SVC-{chain}",
                f"-A SVC-{chain} -j SEP-{chain}",
                f"-A SEP-{chain} -p {protocol} -j DNAT --to-destination {to}",
            ]
    return "\n".join([*lines, "COMMIT", ""])


def kube_proxy_nft(n: int) -> Callable[[Lab, Path], None]:
    """The same as its nftables mode has it: a map of all to a chain of each."""

    def dress(lab: Lab, folder: Path) -> None:
        for family in (4, 6):
            rules = _nft(n, family)
            lab.node.run_in(partial(_load_nft, rules))

    return dress


def _load_nft(rules: str) -> None:
    subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)


def _nft(n: int, family: int) -> str:
    kind, own = ("ip", "ipv4_addr") if family == 4 else ("ip6", "ipv6_addr")
    chains, elements = [], []
    for at in range(n):
        vip, endpoint = _service(at, n, family)
        to = f"{endpoint}:{PORT}" if family == 4 else f"[{endpoint}]:{PORT}"
        for protocol in ("tcp", "udp"):
            chain = f"{at}-{protocol}"
            chains += [
                f"chain endpoint-{chain} {{ meta l4proto {protocol} dnat to {to}; }}",
                f"chain service-{chain} {{ goto endpoint-{chain}; }}",
            ]
            elements.append(f"{vip} . {protocol} . {PORT} : goto service-{chain}")
    vips = (
        f"type {own} . inet_proto . inet_service : verdict; elements = {{ {', '.join(elements)} }};"
    )
    asked = f"{kind} daddr . meta l4proto . th dport vmap @vips;"
    hook = "type nat hook prerouting priority dstnat;"
    lines = [*chains, f"map vips {{ {vips} }}", f"chain prerouting {{ {hook} {asked} }}"]
    return f"table {kind} kube-proxy {{\n" + "\n".join(lines) + "\n}\n"
