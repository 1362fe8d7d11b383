# SPDX-License-Identifier: Apache-2.0
"""The kinds of policies that are taken from what an API serves."""

from pathlib import Path

import pytest

from policyc.compiler.driver.snapshot.kinds import Kind, served_policies
from policyc.compiler.driver.snapshot.kubectl import Kubectl
from policyc.compiler.driver.snapshot.overlay import write_applied
from policyc.compiler.driver.snapshot.snapshot import Snapshot
from policyc.compiler.frontend.yaml.sources import Content
from policyc.ir.errors import HostError
from tests.fake_kubectl import FakeKubectl

STORE, API = "crd.projectcalico.org/v1", "projectcalico.org/v3"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKubectl:
    """A cluster whose API serves no policies."""
    made = FakeKubectl(tmp_path / "bin")
    monkeypatch.setenv("POLICYC_KUBECTL", str(made.folder / "kubectl"))
    return made


def resources(fake: FakeKubectl) -> list[str]:
    """What would be listed."""
    fake.start()
    return [kind.resource for kind in served_policies(Kubectl()).kinds]


def test_an_api_without_policies_has_none(fake: FakeKubectl) -> None:
    assert resources(fake) == []


@pytest.mark.parametrize("versions", [(STORE,), (API, STORE), (STORE, API)])
def test_of_calico_s_api_and_store_one_is_taken(
    fake: FakeKubectl, versions: tuple[str, ...]
) -> None:
    for version in versions:
        fake.serve_policies(version, "Tier", "tiers", [], False)
    expected = API if API in versions else STORE
    group, _, number = expected.rpartition("/")
    assert resources(fake) == [f"tiers.{number}.{group}"]


def test_a_kind_is_taken_in_its_stable_version_and_others_in_theirs(fake: FakeKubectl) -> None:
    for version in ("cilium.io/v2alpha1", "cilium.io/v2"):
        fake.serve_policies(version, "CiliumCIDRGroup", "ciliumcidrgroups", [], False)
    admin = "policy.networking.k8s.io"
    fake.serve_policies(f"{admin}/v1alpha1", "AdminNetworkPolicy", "anps", [], False)
    fake.serve_policies(f"{admin}/v1alpha2", "ClusterNetworkPolicy", "cnps", [], False)
    assert resources(fake) == [
        "ciliumcidrgroups.v2.cilium.io",
        f"anps.v1alpha1.{admin}",
        f"cnps.v1alpha2.{admin}",
    ]


def test_intents_are_no_policies(fake: FakeKubectl) -> None:
    fake.serve_policies("policyc.dev/v1alpha1", "Intent", "intents", [])
    fake.serve_policies("policyc.dev/v1alpha1", "ExtendedPolicy", "extendedpolicies", [])
    assert resources(fake) == ["extendedpolicies.v1alpha1.policyc.dev"]


def test_an_unavailable_group_is_an_error(fake: FakeKubectl) -> None:
    fake.serve_policies(API, "Tier", "tiers", [])
    fake.start()
    fake.recorded[f"get --raw /apis/{API}"] = "Error from server (ServiceUnavailable): no endpoints"
    fake.write()
    with pytest.raises(HostError, match="ServiceUnavailable"):
        served_policies(Kubectl())


def test_files_that_cannot_be_parsed_are_left_to_the_readers(tmp_path: Path) -> None:
    kind = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", True)
    live = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "a", "namespace": "n"},
    }
    broken = [Content("a/b c.yaml", b"{"), Content("<stdin>", b"- 1\n"), Content("x.json", b"null")]
    write_applied(Snapshot({}, {kind: (live,)}), broken, "n", tmp_path / "out")
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == [
        "00000.b_c.yaml",
        "00001._stdin_.yaml",
        "00002.x.json",
        "live.networkpolicies.networking.k8s.io.yaml",
    ]
    assert (tmp_path / "out" / "00000.b_c.yaml").read_bytes() == b"{"
