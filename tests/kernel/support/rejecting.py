# SPDX-License-Identifier: Apache-2.0
"""Pods whose policy rejects, and the answers."""

import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.lab.probes import Family
from policyc.runtime.lab.topology import Lab, LabEndpoint, LabNode
from tests.kernel.support import answers
from tests.kernel.support.answers import run_frame
from tests.kernel.support.packets import Host

POLICY = """
apiVersion: policyc.dev/v1alpha1
kind: ExtendedPolicy
metadata: {name: web}
spec:
  tier: 500
  appliesTo: pod.app == "web"
  rules: |
    ingress:
      reject tcp/22, udp/53, icmp, sctp from any
      deny tcp/23 from any
      allow tcp, udp from any
    egress:
      reject tcp/25, udp/25, icmp, sctp to any
      deny tcp/26 to any
      allow tcp, udp to any
"""

PODS = {
    name: LabEndpoint("shop", name, IPv4Address(f"10.244.1.{n}"), IPv6Address(f"fd00:1::{n}"))
    for n, name in enumerate(("web", "cart"), 11)
}

OUTSIDE = Host("02:00:00:00:00:ee", "198.51.100.10", "2001:db8:51::10")

FAMILIES: tuple[Family, ...] = (4, 6)


@dataclass(frozen=True)
class Rejecting:
    """A lab whose node has the policy in force."""

    lab: Lab

    @property
    def node(self) -> LabNode:
        return self.lab.node

    def host(self, name: str) -> Host:
        pod = next(pod for pod in self.node.pods if pod.endpoint.name == name)
        return Host(pod.mac, str(pod.endpoint.ipv4), str(pod.endpoint.ipv6))

    def pass_by(self, hook: str, pod: str, frames: list[bytes], mark: int = 0) -> list[
        answers.Outcome
    ]:  # fmt: skip
        """The frames through one hook of a pod's device, as it sees them on this node."""
        device = next(each.interface for each in self.node.pods if each.endpoint.name == pod)

        def work() -> list[answers.Outcome]:
            at = socket.if_nametoindex(device)
            came_in = at if hook == "pc_from_pod" else socket.if_nametoindex(self.node.uplink)
            with bpf_syscall.obj_get(Pins(self.node.bpffs).hook(hook)) as fd:
                return [run_frame(fd, frame, at, came_in, mark) for frame in frames]

        return self.node.run_in(work)

    def answer_mac(self) -> bytes:
        """The source MAC by which a pod's hook knows the node's answers."""
        with bpf_syscall.obj_get(Pins(self.node.bpffs).map("pc_answer_mac")) as fd:
            found = bpf_syscall.map_lookup(fd, bytes(4), 8)
        assert found and found[6:] == b"\x01\x00"
        return found[:6]
