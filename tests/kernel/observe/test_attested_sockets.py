# SPDX-License-Identifier: Apache-2.0
"""`node attest` on hooks at sockets: programs, their cgroup, and whose sockets they serve."""

from collections.abc import Iterator

import pytest

from policyc.runtime.attach.socket_listing import REMOVED
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.maps.sockets import SocketHost, SocketPods
from policyc.runtime.observe.attest import attest
from tests.kernel.support.bundles import compiled
from tests.kernel.support.socket_lab import PODS, Socketed, socket_lab

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("loads_of_children")]

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed, namespace: shop}
spec: {podSelector: {}, policyTypes: [Ingress]}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Socketed]:
    folder = tmp_path_factory.mktemp("attested")
    pods = PODS["web"], PODS["client"]
    with socket_lab(folder, POLICY, "c", pods, "pods", ("--socket-programs",)) as found:
        compiled(folder, POLICY.replace("Ingress", "Egress"), "--socket-programs", name="other")
        found.connect_deny = True
        yield found


@pytest.fixture
def node(lab: Socketed) -> Iterator[Socketed]:
    lab.load()
    yield lab
    lab.unload()


def faults(node: Socketed, bundle: str = "bundle") -> list[str]:
    def work() -> list[str]:
        found = attest(
            node.folder / bundle,
            node.folder / "endpoints.json",
            bpffs=node.node.bpffs,
            state_root=node.folder / "state",
        )
        (part,) = (each for each in found.parts if each.what.startswith("sockets"))
        assert part.compared >= 11 + 2
        return list(part.faults)

    return node.node.run_in(work)


def test_hooks_at_sockets_are_attested(node: Socketed) -> None:
    assert faults(node) == []


def test_a_hook_that_is_detached_is_reported(node: Socketed) -> None:
    folder = node.pins.sockets(node.status().epoch)
    with bpf_syscall.obj_get(folder / "pc_connect4") as fd:
        bpf_syscall.link_detach(fd)
    (folder / "pc_policy_conn6").unlink()
    REMOVED.pin(folder).unlink()
    found = faults(node)
    assert f"pc_connect4: it is not attached to {node.cgroup}" in found
    assert f"{node.cgroup}: pc_policy_conn6 is not attached" in found
    assert f"{REMOVED.name}: there is no such program" in found and len(found) == 3


def test_hooks_of_another_policy_are_reported(node: Socketed) -> None:
    found = faults(node, "other")
    names = ("pc_policy_conn4", "pc_policy_conn6")
    assert all(
        f"the program {name} " in each and "has the tag" in each
        for name, each in zip(names, found, strict=True)
    )


def test_a_served_namespace_that_is_no_pod_s_is_reported(node: Socketed) -> None:
    with SocketPods(node.pins) as pods:
        (one, value), (other, _) = pods.items()
        pods.delete(one)
        pods.put(pods.number_key(7), value)
        pods.put(other, bytes(len(value)))
    found = faults(node)
    assert any("the pod is missing" in each for each in found)
    assert "pc_socket_pods: network namespace 7: expected no pod" in found
    assert any(f"found {bytes(len(value)).hex()}, expected " in each for each in found)


def test_another_network_namespace_as_the_node_s_is_reported(node: Socketed) -> None:
    with SocketHost(node.pins) as host:
        host.set(host.value_of(7, ()))
    (found,) = faults(node)
    assert found.startswith("pc_socket_host: it is not this node's")
