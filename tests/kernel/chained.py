# SPDX-License-Identifier: Apache-2.0
"""Two nodes as other CNIs lay them out: their devices, addresses, routes, rules and translation.

Each is a `TwoNodes` with a third pod beside pod-a. The router is the cloud's network: it knows at which
device of a node a pod is, and drops what comes by one from where the source is not (IPv4).
"""

import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.kernel.node_under_test import ip
from tests.kernel.service_wire import GATEWAY4, GATEWAY6
from tests.kernel.two_nodes import (
    BESIDE,
    NODES,
    PODS,
    UPLINK,
    TwoNodes,
    add_addresses,
    address,
    without_dad,
)
from tests.kernel.wire import link_address

SECOND = "up1"
BRIDGE = "azure0"
CLOUD = ("10.10.0.0/16", "198.51.1.0/24", "198.51.2.0/24")
"""The cloud's own network: pods and nodes. Clients are outside."""


def second(node: str, family: int) -> str:
    """The address of a node's second device."""
    at = 101 + NODES.index(node)
    return f"198.51.{at}.2" if family == 4 else f"2001:db8:{at}::2"


def _gateway(node: str, family: int) -> str:
    return second(node, family)[:-1] + "1"


class Chained(TwoNodes):
    """What they have in common: three pods, and rules that are written last."""

    pods = PODS | BESIDE
    is_routed = True
    """What pods send goes through the node's stack, and not over a bridge."""
    masquerades = False
    """The node gives what leaves the cloud its own address; else the cloud does that."""

    def __init__(self, folder: Path, owned: ExitStack) -> None:
        super().__init__(folder, owned)
        for node in NODES:
            self._settle(node)
            self._filter(node)

    def _settle(self, node: str) -> None:
        """What the CNI's agent does once on a node."""

    def _filter(self, node: str) -> None:
        """As kube-proxy, which drops what connection tracking takes for nobody's. A handshake of which
        that has seen one way is forgotten after a second, and not after a minute.
        """
        for program in ("iptables", "ip6tables"):
            invalid = ("-m", "conntrack", "--ctstate", "INVALID", "-j", "DROP")
            self.run(node, program, "-A", "FORWARD", *invalid)
        timeout = Path("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_syn_recv")
        self.at[node].within(lambda: timeout.write_text("1"))

    def paths(self, node: str, how: Mapping[str, int]) -> None:
        """How devices check reverse paths: 0 not at all, 1 strictly, 2 loosely."""

        def there() -> None:
            for device, value in how.items():
                Path(f"/proc/sys/net/ipv4/conf/{device}/rp_filter").write_text(str(value))

        self.at[node].within(there)

    def _veth(self, pod: str) -> str:
        """A pair whose other side is the pod's; the MAC of this one."""
        device = self.device(pod)
        ip("link", "add", device, "type", "veth", "peer", "name", "eth0")
        self._move("eth0", pod)
        without_dad(device)
        ip("link", "set", device, "up")
        return link_address(device)


class _SecondUplink(Chained):
    """Pods at a second device, to which rules lead what they send."""

    uplinks = (UPLINK, SECOND)
    to_pod = 512
    from_pod = 0
    table = 0

    def _join(self, site: str) -> None:
        super()._join(site)
        if site not in NODES:
            return
        self.at[site].within(lambda: self._add_second(site))
        gateways = _gateway(site, 4), _gateway(site, 6)
        self.at["router"].within(
            lambda: add_addresses(f"to-{site}-1", gateways[0], 24, gateways[1], 64)
        )

    def _add_second(self, node: str) -> None:
        there, table = f"to-{node}-1", ("table", str(self.table))
        ip("link", "add", SECOND, "type", "veth", "peer", "name", there)
        self._move(there, "router")
        add_addresses(SECOND, second(node, 4), 24, second(node, 6), 64)
        for family in (4, 6):
            gateway = _gateway(node, family)
            way = "default", "via", gateway, "dev", SECOND, "onlink"
            ip(f"-{family}", "route", "add", gateway, "dev", SECOND, *table)
            ip(f"-{family}", "route", "add", *way, *table)

    def _plug_in(self, pod: str) -> str:
        mac = self._veth(pod)
        for each, size in self._own(pod):
            rule = (f"-{4 if size == 32 else 6}", "rule", "add")
            ip("route", "add", f"{each}/{size}", "dev", self.device(pod), "scope", "link")
            ip(*rule, "to", each, "priority", str(self.to_pod), "lookup", "main")
            ip(*rule, "from", each, "priority", str(self.from_pod), "lookup", str(self.table))
        return mac

    def _via(self, node: str, family: int) -> str:
        return second(node, family)


class AmazonVpc(_SecondUplink):
    """What leaves the VPC goes by the first device, under the node's address; and so does what answers
    at a node port, as a mark of the connection says. A cluster of IPv6 there has one device and no
    rules, as the lab of two_nodes.py.
    """

    families = (4,)
    masquerades = True
    from_pod = 1536
    table = 2

    @staticmethod
    def device(pod: str) -> str:
        return f"eni-{pod}"

    def _settle(self, node: str) -> None:
        self.paths(node, {UPLINK: 2})
        mark = "0x80/0x80"
        self.run(node, "ip", "rule", "add", "fwmark", mark, "priority", "1024", "lookup", "main")
        chain, snat = "AWS-CONNMARK-CHAIN-0", "AWS-SNAT-CHAIN-0"
        rules = (
            "*mangle",
            f"-A PREROUTING -i {UPLINK} -m addrtype --dst-type LOCAL --limit-iface-in"
            f" -j CONNMARK --set-mark {mark}",
            "-A PREROUTING -i eni+ -j CONNMARK --restore-mark --mask 0x80",
            "COMMIT",
            "*nat",
            *(f":{each} - [0:0]" for each in (chain, snat)),
            f"-A PREROUTING -i eni+ -j {chain}",
            "-A PREROUTING -j CONNMARK --restore-mark --mask 0x80",
            f"-A POSTROUTING -j {snat}",
            *(f"-A {each} -d {known} -j RETURN" for each in (chain, snat) for known in CLOUD),
            f"-A {chain} -j CONNMARK --set-xmark {mark}",
            f"-A {snat} ! -o vlan+ -m addrtype ! --dst-type LOCAL"
            f" -j SNAT --to-source {address(node, 4)} --random-fully",
            "COMMIT",
            "",
        )
        self.run(node, "iptables-restore", text="\n".join(rules))


class Terway(_SecondUplink):
    """Policy routing: pods share a device beside the node's own. The cloud translates what leaves it."""

    from_pod = 2048
    table = 1003

    @staticmethod
    def device(pod: str) -> str:
        return f"cali{pod}"

    def _settle(self, node: str) -> None:
        self.paths(node, {"all": 0, UPLINK: 0, SECOND: 0})


class AzureTransparent(Chained):
    """A route to each pod, answers to ARP for others, and an agent that masquerades. IPv4 alone."""

    families = (4,)
    masquerades = True

    @staticmethod
    def device(pod: str) -> str:
        return f"azv{pod}"

    def _plug_in(self, pod: str) -> str:
        mac = self._veth(pod)
        ip("route", "add", f"{address(pod, 4)}/32", "dev", self.device(pod))
        Path(f"/proc/sys/net/ipv4/conf/{self.device(pod)}/proxy_arp").write_text("1")
        return mac

    def _settle(self, node: str) -> None:
        rules = (
            "*nat",
            ":IP-MASQ-AGENT - [0:0]",
            "-A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT",
            *(f"-A IP-MASQ-AGENT -d {known} -j RETURN" for known in CLOUD),
            "-A IP-MASQ-AGENT -j MASQUERADE",
            "COMMIT",
            "",
        )
        self.run(node, "iptables-restore", text="\n".join(rules))


class AzureBridge(Chained):
    """Pods and the node's device on a bridge, which has the node's address; MACs are translated there.
    IPv4 alone: of IPv6 the CNI would take frames from the bridge by a table (broute) that the kernels
    here have not.
    """

    families = (4,)
    is_routed = False

    @staticmethod
    def device(pod: str) -> str:
        return f"azv{pod}"

    def _join(self, site: str) -> None:
        super()._join(site)
        if site in NODES:
            self.at[site].within(lambda: self._bridge(site))
            self.at["router"].within(
                lambda: ip(
                    "addr", "add", f"10.10.{1 + NODES.index(site)}.1/24", "dev", f"to-{site}"
                )
            )

    def _bridge(self, node: str) -> None:
        mac = link_address(UPLINK)
        ip("addr", "flush", "dev", UPLINK)
        ip("link", "add", BRIDGE, "address", mac, "type", "bridge")
        ip("link", "set", UPLINK, "master", BRIDGE)
        ip("link", "set", UPLINK, "type", "bridge_slave", "hairpin", "on")
        add_addresses(BRIDGE, address(node, 4), 24, address(node, 6), 64)
        ip("route", "add", f"10.10.{1 + NODES.index(node)}.0/24", "dev", BRIDGE)
        ip("route", "add", "default", "via", address(node, 4)[:-1] + "1")
        for rule in (
            f"POSTROUTING -s unicast -o {UPLINK} -j snat --to-src {mac} --snat-arp"
            " --snat-target ACCEPT",
            f"PREROUTING -p ARP --arp-op Request --arp-ip-dst {address(node, 4)}"
            f" -j arpreply --arpreply-mac {mac} --arpreply-target DROP",
            f"PREROUTING -p ARP -i {UPLINK} --arp-op Reply"
            " -j dnat --to-dst ff:ff:ff:ff:ff:ff --dnat-target ACCEPT",
        ):
            _ebtables(rule)

    def _plug_in(self, pod: str) -> str:
        mac = self._veth(pod)
        ip("link", "set", self.device(pod), "master", BRIDGE)
        ip("link", "set", self.device(pod), "type", "bridge_slave", "hairpin", "on")
        _ebtables(
            f"PREROUTING -p ARP --arp-op Request --arp-ip-dst {address(pod, 4)}"
            f" -j arpreply --arpreply-mac {self.mac(pod)} --arpreply-target DROP"
        )
        _ebtables(
            f"PREROUTING -p IPv4 -i {UPLINK} --ip-dst {address(pod, 4)}"
            f" -j dnat --to-dst {self.mac(pod)} --dnat-target ACCEPT"
        )
        ip(
            "neigh",
            "add",
            address(pod, 4),
            "lladdr",
            self.mac(pod),
            "dev",
            BRIDGE,
            "nud",
            "permanent",
        )
        return mac

    def _configure(self, pod: str, gateway_mac: str, device: str = "eth0") -> None:
        """An address of the cloud's network, whose gateway is the cloud's; its node is on the link."""
        node = address(self.pods[pod], 4)
        ip("link", "set", device, "address", self.mac(pod), "up")
        ip("addr", "add", f"{address(pod, 4)}/24", "dev", device)
        ip("route", "add", f"{node}/32", "dev", device)
        ip("route", "add", "default", "via", address(pod, 4).rpartition(".")[0] + ".1")

    def _lead_to(self, pod: str, node: str) -> None:
        """The cloud answers for every address, and knows at which node's device it is."""
        mac = self.at[node].within(lambda: link_address(UPLINK))
        place = ("lladdr", mac, "dev", f"to-{node}", "nud", "permanent")
        self.at["router"].within(lambda: ip("neigh", "add", address(pod, 4), *place))


class OwnDevice(Chained):
    """As Terway gives a pod a network interface of its own: pod-a's leads past its node, which has a
    veth to it for what is to Services.
    """

    def __init__(self, folder: Path, owned: ExitStack) -> None:
        self.as_peers: set[str] = set()
        """Pods that the endpoints file of their node has as any other's."""
        super().__init__(folder, owned)

    def _hang(self, pod: str, node: str) -> None:
        super()._hang(pod, node)
        if pod != "pod-a":
            return
        self.at[pod].within(lambda: self._take_own(pod))
        own = [f"{each}/{size}" for each, size in self._own(pod)]

        def at_router() -> None:
            add_addresses(pod, "198.51.100.1", 24, "2001:db8:100::1", 64)
            for each in own:
                ip("route", "replace", each, "dev", pod)

        self.at["router"].within(at_router)

    def _take_own(self, pod: str) -> None:
        """eth0 leads to the cloud, and veth1 to the node: for Services alone."""
        ip("link", "set", "eth0", "down")
        ip("link", "set", "eth0", "name", "veth1")
        ip("link", "set", "veth1", "up")
        ip("link", "add", "eth0", "type", "veth", "peer", "name", pod)
        self._move(pod, "router")
        without_dad("eth0")
        ip("link", "set", "eth0", "up")
        gateways = {4: "198.51.100.1", 6: "2001:db8:100::1"}
        for each, size in self._own(pod):
            family = 4 if size == 32 else 6
            nodad = ("nodad",) if family == 6 else ()
            gateway = gateways[family]
            services = "10.96.0.0/16" if family == 4 else "fd96::/64"
            link = GATEWAY4 if family == 4 else GATEWAY6
            ip("addr", "replace", f"{each}/{size}", "dev", "veth1", *nodad)
            ip("addr", "add", f"{each}/{size}", "dev", "eth0", *nodad)
            ip(f"-{family}", "route", "add", gateway, "dev", "eth0")
            ip(f"-{family}", "route", "replace", "default", "via", gateway, "dev", "eth0")
            ip(f"-{family}", "route", "add", services, "via", link, "dev", "veth1", "onlink")

    def _endpoints(self, node: str, families: Sequence[int]) -> dict[str, object]:
        found = super()._endpoints(node, families)
        pods = found["endpoints"]
        assert isinstance(pods, list)
        for each in pods:
            if each["name"] in self.as_peers:
                for key in ("interface", "mac", "node"):
                    each.pop(key, None)
        return found


def _ebtables(rule: str) -> None:
    command = ("ebtables", "-t", "nat", "-A", *rule.split())
    subprocess.run(command, check=True, capture_output=True)
