# SPDX-License-Identifier: Apache-2.0
"""Which nodes are subjects of a bundle, and hosts.json, which tells the node of them."""

from collections.abc import Iterable
from typing import Any

from policyc.compiler.driver.compile.json_lines import json_text
from policyc.compiler.frontend.cilium.hosts import has_host_policy
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.hosts import HostEndpoint
from policyc.ir.passes.lower_hosts import LowerHosts
from policyc.ir.policy import PolicySet

HOSTS_FILE = "hosts.json"
HOSTS_SCHEMA = "policyc.dev/hosts/v1"


@dataclass(frozen=True)
class Hosts:
    """The nodes that are subjects: those with an interface here; with `every_node` all others, too."""

    interfaces: tuple[HostEndpoint, ...] = ()
    every_node: bool = False

    def __bool__(self) -> bool:
        """Whether any node may be a subject."""
        return bool(self.interfaces) or self.every_node

    @property
    def lowering(self) -> LowerHosts:
        """The pass that makes endpoints of them."""
        return LowerHosts(self.interfaces, self.every_node)

    def to_text(self) -> str:
        """hosts.json (docs/bundle-format.md)."""
        value: dict[str, Any] = {
            "schema": HOSTS_SCHEMA,
            "every_node": self.every_node,
            "interfaces": [_interface_json(each) for each in self.interfaces],
        }
        return json_text(value)


NO_HOSTS = Hosts()


def hosts_of(hosts: Iterable[HostEndpoint], policies: PolicySet) -> Hosts:
    """The host interfaces that were given, by name; every node if Cilium's policies select nodes."""
    return Hosts(tuple(sorted(hosts, key=lambda host: host.name)), has_host_policy(policies))


def _interface_json(host: HostEndpoint) -> dict[str, Any]:
    return {
        "name": host.name,
        "node": host.node,
        "interface": host.interface,
        "labels": dict(sorted(host.labels.items())),
        "addresses": [str(address) for address in host.addresses],
        "failsafes": True,
    }
