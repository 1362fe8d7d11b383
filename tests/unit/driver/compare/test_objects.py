# SPDX-License-Identifier: Apache-2.0
"""The policies that a change adds, removes, changes, renames and reorders, and the summary."""

from io import BytesIO

import pytest

from policyc.compiler.driver.compare.objects import object_changes
from policyc.compiler.frontend.read import read_policies
from policyc.compiler.frontend.yaml.sources import StreamSource
from policyc.ir.policy import PolicySet
from policyc.ir.results.objects import ObjectChanges


def network_policy(name: str, namespace: str = "shop", spec: str = "podSelector: {}") -> str:
    return (
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{{spec}}}\n---\n"
    )


def calico_policy(name: str, order: int, action: str = "Deny") -> str:
    return (
        "apiVersion: projectcalico.org/v3\nkind: GlobalNetworkPolicy\n"
        f"metadata: {{name: {name}}}\n"
        f"spec: {{order: {order}, types: [Ingress], ingress: [{{action: {action}}}]}}\n---\n"
    )


def admin_policy(name: str, priority: int) -> str:
    return (
        "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: AdminNetworkPolicy\n"
        f"metadata: {{name: {name}}}\nspec:\n  priority: {priority}\n  subject: {{namespaces: {{}}}}\n"
        "  ingress: [{action: Deny, from: [{namespaces: {}}]}]\n---\n"
    )


def read(*texts: str) -> PolicySet:
    source = StreamSource(BytesIO("".join(texts).encode()), "p.yaml")
    return read_policies([source]).policies


def changes(old: tuple[str, ...], new: tuple[str, ...]) -> ObjectChanges:
    return object_changes(read(*old), read(*new))


BOTH = "podSelector: {}, policyTypes: [Ingress, Egress]"
EGRESS = "podSelector: {}, policyTypes: [Egress]"
WEB = "podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{port: %d}]}]"


def test_equal_sets_have_no_changes() -> None:
    found = changes((network_policy("a"),), ("# moved\n\n" + network_policy("a"),))
    assert not found and found.summary == ()


def test_each_kind_of_change_is_found_once() -> None:
    old = (
        network_policy("kept"),
        network_policy("gone", spec=WEB % 1),
        network_policy("before", spec=WEB % 2),
        network_policy("edited", spec=WEB % 3),
    )
    new = (
        network_policy("edited", spec=WEB % 4),
        network_policy("kept"),
        network_policy("after", spec=WEB % 2),
        network_policy("come", spec=WEB % 5),
    )
    found = changes(old, new)
    assert [each.name for each in found.added] == ["come"]
    assert [each.name for each in found.removed] == ["gone"]
    assert [(a.name, b.name) for a, b in found.changed] == [("edited", "edited")]
    assert [(a.name, b.name) for a, b in found.renamed] == [("before", "after")]
    assert found.reordered == ()
    assert found.summary == ("shop: 1 policy removed, 1 added, 1 changed, 1 renamed",)
    assert dict(found.counts) == {"added": 1, "removed": 1, "changed": 1, "renamed": 1}


def test_a_policy_that_moves_to_another_namespace_is_not_renamed() -> None:
    found = changes((network_policy("a", "one"),), (network_policy("a", "two"),))
    assert len(found.added) == len(found.removed) == 1 and not found.renamed


def test_two_policies_of_one_content_are_renamed_to_two() -> None:
    old = (network_policy("a"), network_policy("b"))
    found = changes(old, (network_policy("c"), network_policy("d")))
    assert [(a.name, b.name) for a, b in found.renamed] == [("a", "c"), ("b", "d")]
    found = changes(old, (network_policy("c"),))
    assert len(found.renamed) == 1 and [each.name for each in found.removed] == ["b"]


@pytest.mark.parametrize("make", [calico_policy, admin_policy])
def test_an_order_that_decides_is_a_change(make: object) -> None:
    assert callable(make)
    found = changes((make("a", 1), make("b", 2)), (make("a", 2), make("b", 1)))
    moved = [after.name for _, after in (*found.reordered, *found.changed)]
    assert sorted(moved) == ["a", "b"]
    assert found.summary == (f"cluster-scoped policies: 2 policies {found.counts[0][0]}",)


def test_the_order_of_network_policies_is_no_change() -> None:
    one, two = network_policy("a", spec=WEB % 1), network_policy("b", spec=WEB % 2)
    assert not changes((one, two), (two, one))


@pytest.mark.parametrize(
    ("old", "new", "effect"),
    [
        ((BOTH,), (), "; it has no policy any more that isolates pods for ingress and egress"),
        ((BOTH,), (EGRESS,), "; it has no policy any more that isolates pods for ingress"),
        ((), (EGRESS,), "; it now has policies that isolate pods for egress"),
        ((WEB % 1, BOTH), (WEB % 1, EGRESS), ""),
        ((WEB % 1, WEB % 2), (WEB % 1,), ""),
    ],
)
def test_the_summary_says_whether_pods_lose_or_gain_their_isolation(
    old: tuple[str, ...], new: tuple[str, ...], effect: str
) -> None:
    sides = (
        tuple(network_policy(f"p{at}", spec=spec) for at, spec in enumerate(side))
        for side in (old, new)
    )
    (sentence,) = changes(*sides).summary
    assert sentence.partition(";")[0].startswith("shop: 1 policy ")
    assert sentence.partition(";")[1] + sentence.partition(";")[2] == effect


def test_a_policy_without_a_namespace_may_isolate_the_pods_still() -> None:
    clusterwide = calico_policy("all", 1)
    found = changes((network_policy("a", spec=BOTH), clusterwide), (clusterwide,))
    assert found.summary == (
        "shop: 1 policy removed; it has no policy any more that isolates pods for egress",
    )


def test_namespaces_whose_pods_lose_their_isolation_come_first() -> None:
    old = (network_policy("a", "a", WEB % 1), network_policy("b", "z"))
    new = (network_policy("a", "a", WEB % 2), network_policy("new", "m"))
    found = changes(old, new)
    assert [sentence.partition(":")[0] for sentence in found.summary] == ["z", "m", "a"]
