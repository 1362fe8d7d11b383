# SPDX-License-Identifier: Apache-2.0
"""Deliberate bugs in the diff of both universes and in redundancy: the battery notices each.

A bug shows as a wrong answer, or as an InternalError, where the reference semantics or the proof of the
partition does not confirm what was found.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import z3

from policyc.ir.intervals import IntervalSet
from policyc.ir.passes import cancel
from policyc.ir.policy import Action, AddressPeer, AnyPeer, Direction, TierMode
from policyc.ir.selectors import Operator
from policyc.ir.services import ALL_SERVICES
from policyc.verifier.cluster import (
    connections,
    index,
    outcomes,
    partition,
    redundancy,
    regions,
    rows,
    sites,
    space,
)
from policyc.verifier.diff import (
    difference_terms,
    end_changes,
)
from policyc.verifier.diff import (
    symbolic as symbolic_diff,
)
from policyc.verifier.diff.end_changes import (
    EndChange,
    EndQuery,
)
from policyc.verifier.symbolic import literals
from tests.property.length import examples
from tests.slices import one_in
from tests.unit.verifier.diff.diff_battery import checks

pytestmark = pytest.mark.thorough

Patch = pytest.MonkeyPatch
CLUSTER_SEEDS, SYMBOLIC_SEEDS = 200, 12


def _wrapped(patch: Patch, owner: Any, name: str, around: Callable[..., Any]) -> None:
    original = getattr(owner, name)
    patch.setattr(owner, name, lambda *a, **k: around(original, *a, **k))


# cancel.py


def order_is_nothing(patch: Patch) -> None:
    patch.setattr(cancel, "is_unordered", lambda _: True)


def isolation_is_no_content(patch: Patch) -> None:
    patch.setattr(cancel, "_content", lambda p: (p.subject, p.hosts, p.ingress, p.egress))


def egress_is_no_content(patch: Patch) -> None:
    patch.setattr(cancel, "_content", lambda p: (p.subject, p.hosts, p.isolates, p.ingress))


def tiers_alike_by_name(patch: Patch) -> None:
    patch.setattr(cancel, "skeleton", lambda tier: tier.name)


def unequal_requirements_contradict(patch: Patch) -> None:
    patch.setattr(cancel, "_contradict", lambda one, other: one != other)


def crosswise_alignment(patch: Patch) -> None:
    def aligned(one: Any, other: Any) -> Any:
        return [(i, other.index(each)) for i, each in enumerate(one) if each in other]

    patch.setattr(cancel, "aligned", aligned)


def hosts_share_nothing(patch: Patch) -> None:
    def may_share(self: Any, policy: Any) -> bool:
        return any(cancel.may_overlap(policy.subject, mine) for mine in self.selectors)

    patch.setattr(cancel.Subjects, "may_share", may_share)


# end_changes.py


def only_the_first_subject(patch: Patch) -> None:
    patch.setattr(EndQuery, "_among", lambda q: [q.view.own(peer) for peer in q.among[:1]])


def opening_is_closing(patch: Patch) -> None:
    other = {EndChange.OPENS: EndChange.CLOSES, EndChange.CLOSES: EndChange.OPENS}
    _wrapped(patch, EndQuery, "target", lambda f, q, change: f(q, other.get(change, change)))


def effects_never_compared(patch: Patch) -> None:
    def after(original: Any, query: EndQuery) -> None:
        original(query)
        query._differs = query._differs[:1]

    _wrapped(patch, EndQuery, "__post_init__", after)


def everything_is_implied(patch: Patch) -> None:
    patch.setattr(end_changes._Weakening, "implied", lambda *_: True)


def services_uncut(patch: Patch) -> None:
    patch.setattr(EndQuery, "service_parts", lambda _: [ALL_SERVICES])


def pods_live_anywhere(patch: Patch) -> None:
    patch.setattr(EndQuery, "_in_networks", lambda _: iter(()))


def only_the_first_region(patch: Patch) -> None:
    def first(original: Any, query: EndQuery, change: EndChange) -> Any:
        return iter(list(original(query, change))[:1])

    _wrapped(patch, EndQuery, "regions", first)


# literals.py


def negation_lost(patch: Patch) -> None:
    patch.setattr(literals, "_signed", lambda term, _: term)


# verifier/diff/symbolic.py


def policies_of_every_namespace_forgotten(patch: Patch) -> None:
    patch.setattr(
        symbolic_diff, "_selects_in", lambda names: lambda p: p.subject.namespace in names
    )


def other_namespaces_forgotten(patch: Patch) -> None:
    def groups(original: Any, *sets: Any) -> Any:
        return (group for group in original(*sets) if group.label != "other namespaces")

    _wrapped(patch, symbolic_diff, "groups_of", groups)


def kinds_beyond_the_limit_forgotten(patch: Patch) -> None:
    patch.setattr(symbolic_diff._Run, "_stop", lambda *_: None)


def latent_is_nothing(patch: Patch) -> None:
    _wrapped(
        patch, symbolic_diff, "is_kind",
        lambda f, c, kind, *a: z3.BoolVal(False) if kind.value == "latent" else f(c, kind, *a),
    )  # fmt: skip


def other_end_is_in_no_namespace(patch: Patch) -> None:
    patch.setattr(symbolic_diff._Connections, "_namespaces", lambda *_: [None])


# kinds.py


def changed_is_never_asked(patch: Patch) -> None:
    patch.setattr(difference_terms, "_is_same", lambda *_: z3.BoolVal(True))


def what_was_denied_arrives(patch: Patch) -> None:
    def together(c: Any, policies: Any) -> Any:
        (_, effects), (action, more) = (c.end(policies, d) for d in (Direction.EGRESS,
                                                                     Direction.INGRESS))  # fmt: skip
        return action, effects | more

    patch.setattr(difference_terms, "_together", together)


# cluster/sites.py


def one_node_is_every_node(patch: Patch) -> None:
    patch.setattr(sites._Making, "_on_nodes", lambda self, end, universe: [end])


def one_place_only(patch: Patch) -> None:
    _wrapped(patch, sites._Making, "_find_places", lambda f, *a: iter(list(f(*a))[:1]))


def host_network_is_a_pod(patch: Patch) -> None:
    patch.setattr(sites, "as_seen", lambda end: end)


def places_paired_by_number(patch: Patch) -> None:
    patch.setattr(sites, "_matched", lambda mine, theirs: zip(mine, theirs[::-1], strict=False))


# cluster/space.py


def runs_do_not_end(patch: Patch) -> None:
    def runs(blocks: Any, family: int) -> tuple[int, ...]:
        networks = [n for b in blocks for n in (b.network, *b.excepts) if n.version == family]
        return tuple(sorted({0, *(int(n.network_address) for n in networks)}))

    patch.setattr(space, "_runs", runs)


def ports_are_no_record(patch: Patch) -> None:
    def key(original: Any, records: Any, end: Any) -> Any:
        return original(records, replace(end, ports=()) if hasattr(end, "ports") else end)

    _wrapped(patch, space._Records, "key", key)


def accounts_are_no_record(patch: Patch) -> None:
    def key(original: Any, records: Any, end: Any) -> Any:
        if hasattr(end, "service_account"):
            end = replace(end, service_account="", service_account_labels={})
        return original(records, end)

    _wrapped(patch, space._Records, "key", key)


def excepts_forgotten(patch: Patch) -> None:
    def leaf(original: Any, view: Any, leaf: Any) -> Any:
        return original(view, AddressPeer(leaf.network) if isinstance(leaf, AddressPeer) else leaf)

    _wrapped(patch, space.View, "_leaf", leaf)


def every_node_is_local(patch: Patch) -> None:
    _wrapped(patch, space.View, "peer", lambda f, view, peer, _: f(view, peer, "n1"))


# cluster/index.py


def not_in_needs_the_label(patch: Patch) -> None:
    def find(original: Any, found: Any, attribute: Any, requirement: Any) -> int:
        hit: int = original(found, attribute, requirement)
        if requirement.operator is Operator.NOT_IN:
            hit &= found._having(attribute, requirement.key, None)
        return hit

    _wrapped(patch, index.Index, "_find", find)


def text_operators_alike(patch: Patch) -> None:
    def find(original: Any, found: Any, attribute: Any, requirement: Any) -> int:
        if requirement.operator in (Operator.STARTS_WITH, Operator.ENDS_WITH):
            requirement = replace(requirement, operator=Operator.CONTAINS)
        return int(original(found, attribute, requirement))

    _wrapped(patch, index.Index, "_find", find)


def namespaces_have_no_labels(patch: Patch) -> None:
    def labels(original: Any, found: Any, attribute: Any, *rest: Any) -> int:
        is_namespace = attribute.name == "NAMESPACE_LABEL"
        return int(rest[1] if is_namespace else original(found, attribute, *rest))

    _wrapped(patch, index.Index, "_labels", labels)


# cluster/rows.py


def excepted_ports_forgotten(patch: Patch) -> None:
    patch.setattr(rows, "services_of", lambda r, numbers: rows.services_of_ports(r.ports, numbers))


def denies_do_not_win(patch: Patch) -> None:
    _wrapped(
        patch, rows.Rules, "rows",
        lambda f, made, p, d: f(made, replace(p, tiers=tuple(
            replace(t, mode=TierMode.FIRST_MATCH) for t in p.tiers)), d),
    )  # fmt: skip


def own_sides_forgotten(patch: Patch) -> None:
    def columns(original: Any, made: Any, rule: Any, *rest: Any) -> int:
        return int(original(made, replace(rule, own=AnyPeer()), *rest))

    _wrapped(patch, rows.Rules, "_columns", columns)


def one_declared_number(patch: Patch) -> None:
    _wrapped(
        patch, space.View, "declaring", lambda f, view, port: dict(list(f(view, port).items())[:1])
    )


def failsafes_forgotten(patch: Patch) -> None:
    patch.setattr(rows, "failsafes_of", lambda *_: IntervalSet())


def hosts_are_no_subjects(patch: Patch) -> None:
    patch.setattr(rows.Rules, "_subjects", lambda made, p: made.view.pods.selected(p.subject))


def defaults_are_no_content(patch: Patch) -> None:
    def content(row: rows.Row) -> object:
        return [tuple(id(m) for m in tier.matchings) for tier in row.tiers if tier.matchings]

    patch.setattr(rows.Row, "content", property(content))


def icmp_types_are_one(patch: Patch) -> None:
    patch.setattr(rows, "_icmp", lambda kind, *_: [(kind << 16, kind << 16 | 0xFFFF)])


def sources_not_read(patch: Patch) -> None:
    patch.setattr(outcomes, "_has_source", lambda *_: True)


# cluster/outcomes.py


def notes_decide(patch: Patch) -> None:
    patch.setattr(Action, "goes_on", property(lambda _: False))


def nothing_is_passed_on(patch: Patch) -> None:
    def through(original: Any, tier: Any, indices: Any, waiting: Any, out: Any) -> Any:
        some = [i for i in indices if tier.matchings[i].action is not Action.PASS]
        return original(tier, some, waiting, out)

    _wrapped(patch, outcomes, "through_tier", through)


def only_what_gets_allowed_is_changed(patch: Patch) -> None:
    def changed(before: Any, after: Any) -> int:
        keys = [k for k in after if k[0] is Action.ALLOW]
        return sum(after[k] & ~before.get(k, 0) for k in keys[:1])

    patch.setattr(connections, "changed", changed)


# cluster/connections.py


def denied_at_the_source_arrives(patch: Patch) -> None:
    patch.setattr(connections, "together", lambda out, into: (into[0], out[1] | into[1]))


def every_other_end_is_open(patch: Patch) -> None:
    patch.setattr(connections, "_is_open", lambda _: True)


def equal_titles_are_equal(patch: Patch) -> None:
    def shared(before: Any, after: Any) -> Any:
        known = {p.title: p for tier in before.tiers for p in tier.policies}
        return replace(after, tiers=tuple(
            replace(t, policies=tuple(known.get(p.title, p) for p in t.policies))
            for t in after.tiers))  # fmt: skip

    patch.setattr(connections, "shared", shared)


def egress_not_compared(patch: Patch) -> None:
    def differing(original: Any, self: Any, direction: Direction) -> Any:
        return iter(()) if direction is Direction.EGRESS else original(self, direction)

    _wrapped(patch, connections.Comparison, "_differing", differing)


# cluster/regions.py


def merged_whatever_the_services(patch: Patch) -> None:
    def by_source(blocks: Any) -> Any:
        found: dict[Any, Any] = {}
        for src, dst, services, sources in blocks:
            old = found.get((dst, sources), (0, services))
            found[dst, sources] = (old[0] | src, old[1] | services)
        return [(src, dst, ports, sources) for (dst, sources), (src, ports) in found.items()]

    patch.setattr(regions, "_by_source", by_source)


def source_ports_not_told(patch: Patch) -> None:
    patch.setattr(regions, "_sources", lambda _: None)


def a_pod_differs_from_itself(patch: Patch) -> None:
    patch.setattr(regions, "_are_one", lambda *_: False)


# cluster/redundancy.py


def all_go_together(patch: Patch) -> None:
    patch.setattr(redundancy.Redundancy, "_may_go", lambda *_: True)


def nothing_ever_differs(patch: Patch) -> None:
    patch.setattr(redundancy.Redundancy, "_differs", lambda *_: False)


def nothing_is_useless(patch: Patch) -> None:
    patch.setattr(redundancy.Redundancy, "_differs", lambda *_: True)


# cluster/partition.py


def memberships_not_asked(patch: Patch) -> None:
    patch.setattr(partition, "_check_memberships", lambda _: (0, 0))


def borders_not_asked(patch: Patch) -> None:
    patch.setattr(partition, "_run_goals", lambda _: iter(()))


def services_not_asked(patch: Patch) -> None:
    patch.setattr(partition, "_service_goals", lambda _: iter(()))


MUTATIONS: list[Callable[[Patch], None]] = [
    order_is_nothing, isolation_is_no_content, egress_is_no_content, tiers_alike_by_name,
    unequal_requirements_contradict, crosswise_alignment, hosts_share_nothing,
    only_the_first_subject, opening_is_closing, effects_never_compared, everything_is_implied,
    services_uncut, pods_live_anywhere, only_the_first_region,
    negation_lost,
    policies_of_every_namespace_forgotten, other_namespaces_forgotten,
    kinds_beyond_the_limit_forgotten, latent_is_nothing, other_end_is_in_no_namespace,
    changed_is_never_asked, what_was_denied_arrives,
    one_node_is_every_node, one_place_only, host_network_is_a_pod, places_paired_by_number,
    runs_do_not_end, ports_are_no_record, accounts_are_no_record, excepts_forgotten,
    every_node_is_local,
    not_in_needs_the_label, text_operators_alike, namespaces_have_no_labels,
    excepted_ports_forgotten, denies_do_not_win, own_sides_forgotten,
    one_declared_number, failsafes_forgotten,
    hosts_are_no_subjects, defaults_are_no_content, icmp_types_are_one,
    sources_not_read, notes_decide, nothing_is_passed_on, only_what_gets_allowed_is_changed,
    denied_at_the_source_arrives, every_other_end_is_open, equal_titles_are_equal,
    egress_not_compared,
    merged_whatever_the_services, source_ports_not_told, a_pod_differs_from_itself,
    all_go_together, nothing_ever_differs, nothing_is_useless,
    memberships_not_asked, borders_not_asked, services_not_asked,
]  # fmt: skip


NOTICED_LATE = (
    places_paired_by_number, every_node_is_local, excepts_forgotten, sources_not_read,
    source_ports_not_told, not_in_needs_the_label, host_network_is_a_pod, one_node_is_every_node,
    merged_whatever_the_services, excepted_ports_forgotten, namespaces_have_no_labels,
    nothing_is_passed_on, every_other_end_is_open, own_sides_forgotten, services_uncut,
    everything_is_implied, pods_live_anywhere, icmp_types_are_one, denied_at_the_source_arrives,
    nothing_ever_differs, memberships_not_asked, borders_not_asked, services_not_asked,
)  # fmt: skip
"""What few of the checks notice: `make test` has the others, `make test-all` these, too."""


@pytest.mark.parametrize(
    "mutate",
    [
        *one_in(12, [each for each in MUTATIONS if each not in NOTICED_LATE]),
        *(pytest.param(each, marks=pytest.mark.slow) for each in NOTICED_LATE),
    ],
    ids=lambda each: each.__name__,
)
def test_a_bug_in_the_diff_is_noticed(mutate: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutate(monkeypatch)
    assert any(is_wrong(check.run) for check in checks(CLUSTER_SEEDS, SYMBOLIC_SEEDS))


def is_wrong(run: Callable[[], object]) -> bool:
    """A wrong answer, or a refusal; a bug that breaks the program shows itself, too."""
    try:
        run()
    except Exception:  # whatever the bug makes of it
        return True
    return False


def test_the_original_code_passes() -> None:
    for check in checks(examples(CLUSTER_SEEDS, 48), examples(SYMBOLIC_SEEDS, 24)):
        check.run()


def test_the_diff_has_at_least_30_mutations() -> None:
    assert len(MUTATIONS) >= 30
