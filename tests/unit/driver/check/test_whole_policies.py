# SPDX-License-Identifier: Apache-2.0
"""Whole policies that change nothing: which are found, which are kept, and what the report says."""

from pathlib import Path

import pytest

from policyc.compiler.driver.check.answers import CheckOptions
from policyc.compiler.driver.check.check import check
from policyc.compiler.driver.check.input import read_to_check
from policyc.compiler.frontend.lowered import Unsupported
from policyc.compiler.frontend.read import ReadOptions
from policyc.ir.results.check import CheckResult
from tests.unit.driver.check.checked import PODS, checked, found, policy

BOTH = "podSelector: {}, policyTypes: [Ingress, Egress]"
INGRESS = "podSelector: {}, policyTypes: [Ingress]"
DB = "podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress]"
DB_80 = "podSelector: {matchLabels: {app: db}}, ingress: [{ports: [{port: 80}]}]"
EGRESS_53 = "podSelector: {}, policyTypes: [Egress], egress: [{ports: [{protocol: UDP, port: 53}]}]"
DB_ANY = "podSelector: {matchLabels: {app: db}}, ingress: [{}]"


def whole(result: CheckResult, code: str = "PC2011") -> list[str]:
    return found(result, code)


@pytest.mark.parametrize(
    ("specs", "useless"),
    [
        ((INGRESS, DB), ["shop/b"]),
        ((DB, INGRESS), ["shop/a"]),
        ((DB, DB), ["shop/b"]),
        ((DB_80, DB_80), ["shop/b"]),
        ((DB_80, DB_ANY), ["shop/a"]),
        ((BOTH, INGRESS, DB, DB_80, DB_80), ["shop/b", "shop/c", "shop/e"]),
        ((INGRESS, DB_80), []),
        ((DB_80, "podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{port: 80}]}]"), []),
        ((INGRESS, BOTH), ["shop/a"]),
        ((INGRESS, "podSelector: {}, policyTypes: [Egress]"), []),
        ((DB,), []),
        ((DB_ANY, DB_ANY, DB_80), ["shop/b", "shop/c"]),
        ((BOTH, "podSelector: {}, ingress: [{ports: [{port: 80}]}]", EGRESS_53), []),
    ],
)
def test_policies_whose_deletion_changes_nothing_are_found(
    tmp_path: Path, specs: tuple[str, ...], useless: list[str]
) -> None:
    result = checked(tmp_path, *map(policy, "abcde", specs))
    assert whole(result) == useless
    assert result.evidence.solvers or not useless


def test_a_policy_of_another_namespace_isolates_other_pods(tmp_path: Path) -> None:
    assert whole(checked(tmp_path, policy("a", DB), policy("a", DB, "other"))) == []


def test_a_default_deny_is_kept_for_pods_that_the_cluster_does_not_have_yet(tmp_path: Path) -> None:
    given = (policy("a", INGRESS), policy("b", DB), policy("c", DB))
    for cluster in ("", PODS):
        assert whole(checked(tmp_path, *given, cluster=cluster)) == ["shop/b", "shop/c"]
    back = DB.replace("app: db", "tier: back")
    given = (policy("a", DB), policy("b", back))
    assert whole(checked(tmp_path, *given, cluster=PODS)) == []


def test_a_policy_that_selects_nothing_has_one_finding(tmp_path: Path) -> None:
    result = checked(tmp_path, policy("a", DB.replace("db", "gone")), cluster=PODS)
    assert whole(result, "PC2004") == ["shop/a"] and whole(result) == []


def test_rules_are_judged_without_the_policies_that_may_be_deleted(tmp_path: Path) -> None:
    """The rules of two equal policies make each other useless, until one policy is deleted."""
    result = checked(tmp_path, policy("a", DB_80), policy("b", DB_80))
    assert whole(result, "PC2003") == [] and result.removable_together == ()
    assert [note.text for note in result.findings[0].notes] == ["shop/a applies to the same pods"]


def test_the_report_says_how_many_may_be_deleted_together(tmp_path: Path) -> None:
    one = checked(tmp_path, policy("a", INGRESS), policy("b", DB))
    assert "together" not in one.findings[0].explanation
    two = checked(tmp_path, policy("a", INGRESS), policy("b", DB), policy("c", DB))
    assert (
        "All 2 policies with this finding may be deleted together." in two.findings[0].explanation
    )


def test_an_ordered_policy_without_effect_is_found(tmp_path: Path) -> None:
    admin = (
        "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: AdminNetworkPolicy\n"
        "metadata: {name: %s}\nspec:\n  priority: %d\n  subject: {namespaces: {}}\n"
        "  ingress: [{name: denies, action: Deny, from: [{namespaces: {}}]}]\n---\n"
    )
    result = checked(tmp_path, admin % ("first", 1), admin % ("second", 2))
    assert len(whole(result)) == 1 and whole(result)[0].endswith("second")


def test_with_rules_that_are_not_understood_no_policy_is_called_useless(tmp_path: Path) -> None:
    opaque = (
        "apiVersion: cilium.io/v2\nkind: CiliumNetworkPolicy\n"
        "metadata: {name: c, namespace: shop}\nspec:\n  endpointSelector: {}\n"
        "  egress: [{toFQDNs: [{matchName: example.com}]}]\n---\n"
    )
    (tmp_path / "p.yaml").write_text(policy("a", DB) + policy("b", DB) + opaque)
    with Path("/dev/null").open("rb") as stdin:
        options = ReadOptions(unsupported=Unsupported.DENY)
        read = read_to_check([str(tmp_path / "p.yaml")], [], options, stdin)
    assert whole(check(read, CheckOptions(True), lambda _: None).result) == []


def test_each_reported_policy_may_be_deleted_alone(tmp_path: Path) -> None:
    """Without `a`, `b` decides nothing that `c` does not; with `a`, it does."""
    text = (
        "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\n"
        "metadata: {name: %s}\nspec:\n  tier: Admin\n  priority: %d\n  subject: {namespaces: {}}\n"
        "  ingress:\n%s---\n"
    )
    rule = "  - {action: %s, from: [{namespaces: {matchLabels: {x: '1'}}}]}\n"
    given = (
        text % ("b", 10, (rule % "Deny") * 2),
        text % ("a", 20, rule % "Accept"),
        text % ("c", 30, rule % "Deny"),
    )
    names = whole(checked(tmp_path, *given))
    assert not any(name.endswith("b") for name in names)
