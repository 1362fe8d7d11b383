# SPDX-License-Identifier: Apache-2.0
"""`node attest` on the bypass: its programs, its pods, and the rules that it leaves alone."""

from collections.abc import Iterator

import pytest

from policyc.runtime.attach import bypass
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.maps.bypass import BypassPods, BypassRules
from policyc.runtime.maps.pinned_map import PRESENT
from policyc.runtime.observe.attest import attest
from policyc.runtime.undo import Undo
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
    with socket_lab(folder, POLICY, "c", pods, options=("--socket-programs",)) as found:
        found.bypass = "tcp"
        yield found


@pytest.fixture
def node(lab: Socketed) -> Iterator[Socketed]:
    lab.load_at(None)
    yield lab
    lab.unload()


def faults(node: Socketed) -> list[str]:
    def work() -> list[str]:
        found = attest(
            *(node.folder / "bundle", node.folder / "endpoints.json"),
            bpffs=node.node.bpffs,
            state_root=node.folder / "state",
        )
        return [fault for part in found.parts for fault in part.faults]

    return node.node.run_in(work)


def test_what_the_load_made_is_attested(node: Socketed) -> None:
    assert faults(node) == []


@pytest.mark.slow
def test_a_missing_program_and_one_too_many_are_named(node: Socketed) -> None:
    bypass.SLOT.clear(node.pins)
    assert faults(node) == ["pc_bypass_slot: no program is called"]
    hook, slot = node.pins.hook("pc_to_pod"), node.pins.map(bypass.SLOT.name)
    with bpf_syscall.obj_get(hook) as other, bpf_syscall.obj_get(slot) as fd:
        bpf_syscall.map_update(fd, bytes(4), other.to_bytes(4, "little"))
    (found,) = faults(node)
    assert found.startswith("pc_bypass_slot: the program pc_to_pod")


def test_another_pod_and_another_rule_are_named(node: Socketed) -> None:
    epoch = node.status().epoch
    with BypassPods(node.pins) as pods, BypassRules(node.pins) as rules, Undo() as undo:
        pods.delete(pods.all_keys()[0])
        pods.put(pods.key.pack(epoch=epoch, device=7), PRESENT)
        rules.add(epoch, [5], undo)
        undo.forget()
    found = faults(node)
    assert len(found) == 3 and "pc_bypass_pods: expected no device 7" in found
    assert "pc_bypass_not: expected no rule 5" in found
