# SPDX-License-Identifier: Apache-2.0
"""Pods on ipvlan slaves of one parent, the node with a slave of its own, and an external host.

    server   NetworkPolicy: TCP and UDP to port 8080 from `cart`, and from the external host
    cart     no policy
    other    NetworkPolicy: only UDP to port 9999 may leave
    guard    ExtendedPolicy of support/rejecting.py

All pods are in the namespace shop.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest

from policyc.runtime.lab.topology import EXTERNAL, Lab, LabEndpoint
from tests.kernel.support import rejecting
from tests.kernel.support.bundles import compiled
from tests.kernel.support.loaded_lab import FAMILIES, LoadedLab
from tests.kernel.support.packets import Host

POLICIES = f"""\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: server, namespace: shop}}
spec:
  podSelector: {{matchLabels: {{app: server}}}}
  policyTypes: [Ingress]
  ingress:
  - from:
    - podSelector: {{matchLabels: {{app: cart}}}}
    - ipBlock: {{cidr: 198.51.100.0/24}}
    - ipBlock: {{cidr: 2001:db8:51::/64}}
    ports:
    - {{protocol: TCP, port: 8080}}
    - {{protocol: UDP, port: 8080}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: other, namespace: shop}}
spec:
  podSelector: {{matchLabels: {{app: other}}}}
  policyTypes: [Egress]
  egress:
  - ports:
    - {{protocol: UDP, port: 9999}}
---
{rejecting.POLICY}
"""
CLOSED = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: nothing, namespace: shop}
spec:
  podSelector: {}
  policyTypes: [Ingress, Egress]
"""
IN_GUEST = os.environ.get("POLICYC_TEST_IPVLAN", "")
"""The folder of the bundles, where the kernel has ipvlan (`make guest-ipvlan`)."""
LABELS = {"server": "server", "cart": "cart", "other": "other", "guard": "web"}
PODS = {
    name: LabEndpoint("shop", name, IPv4Address(f"10.244.1.{n}"), IPv6Address(f"fd00:1::{n}"))
    for n, name in enumerate(LABELS, 11)
}
families = pytest.mark.parametrize("family", FAMILIES)


def bundle(folder: Path, policies: str, name: str) -> Path:
    """In a guest compiled beforehand, as that takes minutes there."""
    return (
        Path(IN_GUEST) / name
        if IN_GUEST
        else compiled(folder, policies, "--backend", "llvm", name=name)
    )


def make_bundles(folder: Path) -> None:
    """What the tests load in a guest."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, policies in {"open": POLICIES, "closed": CLOSED}.items():
        compiled(folder, policies, name=name)


@dataclass
class Slaves(LoadedLab):
    """Pods on slaves."""

    def host(self, name: str) -> Host:
        """An end for frames; slaves and the node have the parent's MAC address."""
        mac = "02:00:00:03:00:01" if name == EXTERNAL.name else self.lab.node.pods[0].mac
        return Host(mac, self.address(name, 4), self.address(name, 6))


@contextmanager
def slaves(folder: Path) -> Iterator[Slaves]:
    """The lab; nothing is loaded."""
    with Lab(list(PODS.values()), pair="ipvlan") as lab:
        made = Slaves(lab, folder, LABELS)
        made.write_endpoints()
        yield made
