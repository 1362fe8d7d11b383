# SPDX-License-Identifier: Apache-2.0
"""Test beds for across.py: two nodes each (`across_site.py`), and what is put on them.

All stand at the same time, in groups of which each has plain routing of its own to be compared with.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, NamedTuple, get_args

import yaml
from across_site import NODES, OUTSIDE, A, B, Site, two_nodes
from datapath_beds import (
    CLIENT,
    PORT,
    SERVER,
    VIP,
    Bed,
    address,
    both_ports,
    nat_rules,
    service_objects,
)

from policyc.runtime.attach.xdp import Mode as XdpMode
from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.devices.uplinks import Outside
from policyc.runtime.endpoints.forwarding import Forwarding
from policyc.runtime.lab.topology import LabEndpoint

NODE_PORT = 30080
"""That of the endpoint, too."""
POD, NODE, FROM_OUTSIDE, ON_A_WIRE = (
    "to a pod of another node",
    "to another node",
    "from outside to a node port, the endpoint on another node",
    "the same, with checksums and segmentation done by the sender, as on a wire",
)
Dress = Callable[[Site], None]
Groups = dict[str, list[Bed]]


class Way(NamedTuple):
    """Whose traffic it is, and the policies for it: of `subject`, about `peer`."""

    client: str
    server: str
    asked: LabEndpoint
    subject: LabEndpoint
    peer: LabEndpoint
    inbound: bool
    port: int = PORT


TO_POD = Way("pod-a", "pod-b", SERVER, SERVER, CLIENT, True)
TO_SERVICE = TO_POD._replace(asked=VIP)
TO_NODE = Way("pod-a", "b", B, CLIENT, B, False)
STRAIGHT = Way("outside", "pod-b", SERVER, SERVER, OUTSIDE, True, NODE_PORT)
TO_NODE_PORT = STRAIGHT._replace(asked=A)


def groups(policies: int, services: int, folder: Path, held: ExitStack) -> Groups:
    """The beds of each group: plain routing first, then the same once more as a control."""
    bundles = {
        way: compiled(folder / str(at), way, policies)
        for at, way in enumerate((TO_POD, TO_NODE, STRAIGHT))
    }

    def bed(name: str, way: Way, dress: Dress, straight: bool = False) -> Bed:
        return held.enter_context(dressed(name, way, dress, straight))

    def plain(way: Way) -> list[Bed]:
        return [bed(name, way, nothing) for name in ("plain routing", "plain routing again")]

    pod, node, outside = plain(TO_POD), plain(TO_NODE), plain(STRAIGHT)
    ways_to_forward: tuple[Forwarding, ...] = ("redirect", "stack")
    for forward in ways_to_forward:
        name = f"this project, --forwarding {forward}"
        pod.append(bed(name, TO_POD, partial(ours, bundles[TO_POD], "ab", forward)))
        node.append(bed(name, TO_NODE, partial(ours, bundles[TO_NODE], "a", forward)))
    pod.append(bed("iptables chains", TO_POD, partial(chains, TO_POD, policies, "b")))
    node.append(bed("iptables chains", TO_NODE, partial(chains, TO_NODE, policies, "a")))
    listed = service_objects(services)
    for forward in ways_to_forward:
        name = f"this project, --forwarding {forward}, through a Service"
        dress = partial(ours, bundles[TO_POD], "ab", forward, services=listed)
        pod.append(bed(name, TO_SERVICE, dress))
    pod.append(bed("iptables as of kube-proxy", TO_SERVICE, partial(kube_proxy, services)))
    for back in get_args(Outside):
        dress = partial(
            ours, bundles[STRAIGHT], "ab", "redirect", services=node_port(), outside=back
        )
        outside.append(
            bed(f"this project, --outside {back}", TO_NODE_PORT, dress, back != "tunnel")
        )
    outside.append(bed("iptables as of kube-proxy", TO_NODE_PORT, masquerading))
    wire = as_on_a_wire(bundles[STRAIGHT], bed)
    return {POD: pod, NODE: node, FROM_OUTSIDE: outside, ON_A_WIRE: wire}


def as_on_a_wire(bundle: Path, bed: Callable[..., Bed]) -> list[Bed]:
    """With checksums that are finished, as XDP gets them from a device; else it leaves packets to tc."""

    def finished(dress: Dress, site: Site) -> None:
        site.finish_checksums()
        dress(site)

    plain = partial(finished, nothing)
    beds = [bed(name, STRAIGHT, plain) for name in ("plain routing", "plain routing again")]
    for back in get_args(Outside):
        for mode in (None, "auto"):
            load = partial(ours, bundle, "ab", "redirect", services=node_port())
            dress = partial(finished, partial(load, outside=back, xdp_mode=mode))
            name = f"this project, --outside {back}" + (", --xdp" if mode else "")
            beds.append(bed(name, TO_NODE_PORT, dress, back != "tunnel"))
    beds.append(bed("iptables as of kube-proxy", TO_NODE_PORT, partial(finished, masquerading)))
    return beds


@contextmanager
def dressed(name: str, way: Way, dress: Dress, straight: bool) -> Iterator[Bed]:
    """Two nodes with the measured software."""
    with two_nodes(straight) as site:
        dress(site)
        asked = {family: address(way.asked, family) for family in (4, 6)}
        yield Bed(name, site.at[way.client], site.at[way.server], asked, way.port)


def nothing(site: Site) -> None:
    """Plain routing."""


# --- this project -----------------------------------------------------------------------------------


def ours(
    bundle: Path,
    nodes: str,
    forward: Forwarding,
    site: Site,
    services: list[JsonValue] | None = None,
    outside: Outside = "tunnel",
    xdp_mode: XdpMode | None = None,
) -> None:
    """The policies and the Services on these nodes."""
    for node in nodes:
        site.load(node, bundle, forward, services, outside, xdp_mode)


def compiled(folder: Path, way: Way, n: int) -> Path:
    """So many policies as a bundle; the last one allows the traffic."""
    folder.mkdir()
    (folder / "policies.yaml").write_text(yaml.dump_all(_policy(at, n, way) for at in range(n)))
    asked = ["compile", "-f", str(folder / "policies.yaml"), "-o", str(folder / "bundle")]
    asked += ["--cache", str(folder.parent / "cache")]  # every bed has the same hooks
    compiler = [sys.executable, "-m", "policyc.compiler.cli"]
    subprocess.run([*compiler, *asked], check=True, stdout=subprocess.DEVNULL)
    return folder / "bundle"


def _policy(at: int, n: int, way: Way) -> dict[str, Any]:
    peers: list[dict[str, Any]] = [{"ipBlock": {"cidr": f"{_peer(at, n, way, 4)}/32"}}]
    if at == n - 1 and way.peer is CLIENT:
        peers = [{"podSelector": {"matchLabels": {"app": CLIENT.name}}}]
    elif at == n - 1:
        peers.append({"ipBlock": {"cidr": f"{_peer(at, n, way, 6)}/128"}})
    direction, ends = ("ingress", "from") if way.inbound else ("egress", "to")
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"namespace": way.subject.namespace, "name": f"policy-{at}"},
        "spec": {
            "podSelector": {"matchLabels": {"app": way.subject.name}},
            "policyTypes": [direction.capitalize()],
            direction: [{ends: peers, "ports": both_ports(way.port)}],
        },
    }


def _peer(at: int, n: int, way: Way, family: int) -> str:
    """The peer of a rule: only the last rule allows the client."""
    if at == n - 1:
        return address(way.peer, family)
    return str(IPv4Address("203.0.0.0") + at) if family == 4 else f"2001:db8::{at + 1:x}"


def node_port() -> list[JsonValue]:
    """A Service of type NodePort with the server as its endpoint."""
    ports = [{"name": each["protocol"].lower(), **each} for each in both_ports(NODE_PORT)]
    named = {"namespace": "bench", "name": "web"}
    found: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": named,
            "spec": {
                "type": "NodePort",
                "clusterIPs": [address(VIP, family) for family in (4, 6)],
                "ports": [{**port, "nodePort": NODE_PORT} for port in ports],
            },
        }
    ]
    for family in (4, 6):
        endpoint = {"addresses": [address(SERVER, family)], "conditions": {"ready": True}}
        labels = {"kubernetes.io/service-name": "web"}
        found.append(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {"namespace": "bench", "name": f"web-{family}", "labels": labels},
                "addressType": f"IPv{family}",
                "ports": ports,
                "endpoints": [{**endpoint, "nodeName": "b"}],
            }
        )
    return [JsonValue(each, Path("services")) for each in found]


# --- iptables ---------------------------------------------------------------------------------------


def chains(way: Way, n: int, where: str, site: Site) -> None:
    """The policies as rules on the subject's node; both nodes let replies pass first."""
    for family in (4, 6):
        for node in NODES:
            _restore(site, node, family, _filter_rules(way, n if node == where else 0, family))


def _filter_rules(way: Way, n: int, family: int) -> str:
    """A chain for the subject, a chain of its own for each policy."""
    own, other = ("-d", "-s") if way.inbound else ("-s", "-d")
    lines = ["*filter", *(f":POLICY-{at} - [0:0]" for at in range(n))]
    lines.append("-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT")
    if n:
        lines += [":POD - [0:0]", f"-A FORWARD {own} {address(way.subject, family)} -j POD"]
    for at in range(n):
        for protocol in ("tcp", "udp"):
            lines.append(
                f"-A POLICY-{at} {other} {_peer(at, n, way, family)} -p {protocol}"
                f" --dport {way.port} -j MARK --set-xmark 0x1/0x1"
            )
        lines += [f"-A POD -j POLICY-{at}", "-A POD -m mark --mark 0x1/0x1 -j ACCEPT"]
    if n:
        lines.append("-A POD -j DROP")
    return "\n".join([*lines, "COMMIT", ""])


def kube_proxy(n: int, site: Site) -> None:
    """The rules of so many Services, on both nodes."""
    for family in (4, 6):
        for node in NODES:
            _restore(site, node, family, nat_rules(n, family))


def masquerading(site: Site) -> None:
    """A node port as kube-proxy has it: the endpoint sees the node, so that it answers by that."""
    for family in (4, 6):
        endpoint, node = address(SERVER, family), address(A, family)
        to = f"{endpoint}:{NODE_PORT}" if family == 4 else f"[{endpoint}]:{NODE_PORT}"
        lines = ["*nat", ":NODEPORTS - [0:0]", f"-A PREROUTING -d {node} -j NODEPORTS"]
        for protocol in ("tcp", "udp"):
            lines += [
                f":SVC-{protocol} - [0:0]",
                f"-A NODEPORTS -p {protocol} --dport {NODE_PORT} -j SVC-{protocol}",
                f"-A SVC-{protocol} -j MARK --set-xmark 0x4000/0x4000",
                f"-A SVC-{protocol} -p {protocol} -j DNAT --to-destination {to}",
            ]
        lines.append("-A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE")
        _restore(site, "a", family, "\n".join([*lines, "COMMIT", ""]))


def _restore(site: Site, node: str, family: int, rules: str) -> None:
    site.run(node, "iptables-restore" if family == 4 else "ip6tables-restore", text=rules)
