# SPDX-License-Identifier: Apache-2.0
"""Two nodes as other CNIs lay them out: their devices, addresses, routes, rules and translation.

Each is a `TwoNodes` with a third pod beside pod-a. The router is the cloud's network: it knows at which
device of a node a pod is, and drops what comes by one from where the source is not (IPv4).
"""

import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.kernel.support.network import (
    MAIN,
    Network,
)
from tests.kernel.support.service_wire import (
    GATEWAY4,
    GATEWAY6,
)
from tests.kernel.support.two_nodes import (
    BESIDE,
    NODES,
    PODS,
    UPLINK,
    Namespace,
    TwoNodes,
    address,
    prefixes,
)

SECOND = "up1"
BRIDGE = "azure0"
OWN = {4: "198.51.100.1", 6: "2001:db8:100::1"}
"""Where the router meets a pod's own device."""
CLOUD = ("10.10.0.0/16", "198.51.1.0/24", "198.51.2.0/24")
"""The cloud's own network: pods and nodes. Clients are outside."""


def second(node: str, family: int) -> str:
    """The address of a node's second device."""
    at = 101 + NODES.index(node)
    return f"198.51.{at}.2" if family == 4 else f"2001:db8:{at}::2"


def _router(address4: str) -> str:
    """The router of the network of this address."""
    return address4.rpartition(".")[0] + ".1"


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

    def _veth(self, pod: str, node: Namespace) -> None:
        """A pair whose other side is the pod's."""
        device, there = self.device(pod), self.at[pod].fd
        node.within(lambda: node.network.add_pod_pair(device, "eth0", there))
        node.set_up(self.device(pod))


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
        own, router, there = self.at[site].network, self.at["router"], f"to-{site}-1"
        own.add_veth(SECOND, there, router.fd)
        self.at[site].set_up(SECOND, *prefixes(second(site, 4), second(site, 6)))
        router.set_up(there, *prefixes(_gateway(site, 4), _gateway(site, 6)))
        for family, size in ((4, 32), (6, 128)):
            gateway = _gateway(site, family)
            own.route(f"{gateway}/{size}", device=SECOND, table=self.table or MAIN)
            own.default_route(gateway, device=SECOND, table=self.table or MAIN, is_onlink=True)

    def _plug_in(self, pod: str, node: Namespace) -> None:
        self._veth(pod, node)
        for each, size in self._own(pod):
            prefix = f"{each}/{size}"
            node.network.route(prefix, device=self.device(pod))
            node.network.rule(self.to_pod, MAIN, to=prefix)
            node.network.rule(self.from_pod, self.table, source=prefix)

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
        self.at[node].network.rule(1024, MAIN, mark=0x80)
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

    def _plug_in(self, pod: str, node: Namespace) -> None:
        self._veth(pod, node)
        node.network.route(f"{address(pod, 4)}/32", device=self.device(pod))
        answers = Path(f"/proc/sys/net/ipv4/conf/{self.device(pod)}/proxy_arp")
        node.within(lambda: answers.write_text("1"))

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
            self._bridge(site, self.at[site])
            gateway = f"10.10.{1 + NODES.index(site)}.1/24"
            self.at["router"].network.add_address(f"to-{site}", gateway)

    def _bridge(self, node: str, at: Namespace) -> None:
        own, mac = at.network, at.network.mac(UPLINK)
        own.flush_addresses(UPLINK)
        own.add(BRIDGE, "bridge", address=mac)
        self._enslave(UPLINK, own)
        at.set_up(BRIDGE, *prefixes(address(node, 4), address(node, 6)))
        own.route(f"10.10.{1 + NODES.index(node)}.0/24", device=BRIDGE)
        own.default_route(_router(address(node, 4)))
        for rule in (
            f"POSTROUTING -s unicast -o {UPLINK} -j snat --to-src {mac} --snat-arp"
            " --snat-target ACCEPT",
            f"PREROUTING -p ARP --arp-op Request --arp-ip-dst {address(node, 4)}"
            f" -j arpreply --arpreply-mac {mac} --arpreply-target DROP",
            f"PREROUTING -p ARP -i {UPLINK} --arp-op Reply"
            " -j dnat --to-dst ff:ff:ff:ff:ff:ff --dnat-target ACCEPT",
        ):
            self._ebtables(at, rule)

    @staticmethod
    def _enslave(device: str, own: Network) -> None:
        own.change(device, master=own.index(BRIDGE))
        own.reflect(device)

    def _plug_in(self, pod: str, node: Namespace) -> None:
        self._veth(pod, node)
        self._enslave(self.device(pod), node.network)
        self._ebtables(
            node,
            f"PREROUTING -p ARP --arp-op Request --arp-ip-dst {address(pod, 4)}"
            f" -j arpreply --arpreply-mac {self.mac(pod)} --arpreply-target DROP",
        )
        self._ebtables(
            node,
            f"PREROUTING -p IPv4 -i {UPLINK} --ip-dst {address(pod, 4)}"
            f" -j dnat --to-dst {self.mac(pod)} --dnat-target ACCEPT",
        )
        node.network.neighbour(address(pod, 4), self.mac(pod), BRIDGE)

    @staticmethod
    def _ebtables(at: Namespace, rule: str) -> None:
        command = ("ebtables", "-t", "nat", "-A", *rule.split())
        at.within(lambda: subprocess.run(command, check=True, capture_output=True))

    def _configure(self, pod: str, gateway_mac: str, device: str = "eth0") -> None:
        """An address of the cloud's network, whose gateway is the cloud's; its node is on the link."""
        own = self.at[pod].network
        own.change(device, address=self.mac(pod))
        own.up(device)
        own.add_address(device, f"{address(pod, 4)}/24")
        own.route(f"{address(self.pods[pod], 4)}/32", device=device)
        own.default_route(_router(address(pod, 4)))

    def _lead_to(self, pod: str, node: str) -> None:
        """The cloud answers for every address, and knows at which node's device it is."""
        mac = self.at[node].network.mac(UPLINK)
        self.at["router"].network.neighbour(address(pod, 4), mac, f"to-{node}")


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
        self._take_own(pod, self.at[pod].network)
        router = self.at["router"]
        router.set_up(pod, *(f"{each}/{24 if ':' not in each else 64}" for each in OWN.values()))
        for each, size in self._own(pod):
            router.network.route(f"{each}/{size}", device=pod, command="replace")

    def _take_own(self, pod: str, own: Network) -> None:
        """eth0 leads to the cloud, and veth1 to the node: for Services alone."""
        own.change("eth0", state="down")
        own.change("eth0", ifname="veth1")
        own.up("veth1")
        own.add_veth("eth0", pod, self.at["router"].fd)
        self.at[pod].set_up("eth0")
        for each, size in self._own(pod):
            family = 4 if size == 32 else 6
            services = "10.96.0.0/16" if family == 4 else "fd96::/64"
            link = GATEWAY4 if family == 4 else GATEWAY6
            own.add_address("veth1", f"{each}/{size}", command="replace")
            own.add_address("eth0", f"{each}/{size}")
            own.route(f"{OWN[family]}/{size}", device="eth0")
            own.default_route(OWN[family], device="eth0", command="replace")
            own.route(services, via=link, device="veth1", is_onlink=True)

    def _endpoints(self, node: str, families: Sequence[int]) -> dict[str, object]:
        found = super()._endpoints(node, families)
        pods = found["endpoints"]
        assert isinstance(pods, list)
        for each in pods:
            if each["name"] in self.as_peers:
                for key in ("interface", "mac", "node"):
                    each.pop(key, None)
        return found
