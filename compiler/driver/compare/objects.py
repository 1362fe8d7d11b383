# SPDX-License-Identifier: Apache-2.0
"""The policies that a change adds, removes and changes, and what that means for their namespaces."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from policyc.ir.counts import counted
from policyc.ir.policy import Direction, Policy, PolicySet, Tier, TierMode
from policyc.ir.results.objects import ObjectChanges

Key = tuple[str, str]
"""The kind and the title of a policy, which together identify it."""
_CLUSTER = "cluster-scoped policies"


def object_changes(old: PolicySet, new: PolicySet) -> ObjectChanges:
    """The changed policies of two sets; positions in files do not count."""
    before, after = _by_key(old), _by_key(new)
    gone = {key: before[key][1] for key in sorted(before.keys() - after.keys())}
    unordered = {
        tier.name for tier in (*old.tiers, *new.tiers) if tier.mode is TierMode.DENY_WINS
    } - {tier.name for tier in (*old.tiers, *new.tiers) if tier.mode is TierMode.FIRST_MATCH}
    come = {key: after[key][1] for key in sorted(after.keys() - before.keys())}
    renamed = _renamed(
        {key: each for key, each in gone.items() if before[key][0].name in unordered},
        {key: each for key, each in come.items() if after[key][0].name in unordered},
    )
    for policy, other in renamed:
        del gone[_key(policy)], come[_key(other)]
    both = sorted(before.keys() & after.keys())
    changed = tuple(
        (before[key][1], after[key][1])
        for key in both
        if (before[key][0].name, before[key][1]) != (after[key][0].name, after[key][1])
    )
    found = ObjectChanges(
        tuple(come.values()),
        tuple(gone.values()),
        changed,
        renamed,
        tuple((before[key][1], after[key][1]) for key in _reordered(old, new, dict(changed))),
    )
    return replace(found, summary=tuple(_sentences(old, new, found)))


def _key(policy: Policy) -> Key:
    return policy.kind, policy.title


def _by_key(policies: PolicySet) -> dict[Key, tuple[Tier, Policy]]:
    return {_key(policy): (tier, policy) for tier in policies.tiers for policy in tier.policies}


def _renamed(
    gone: Mapping[Key, Policy], come: Mapping[Key, Policy]
) -> tuple[tuple[Policy, Policy], ...]:
    """Pairs of removed and added policies with the same content in one namespace."""
    free: dict[Policy, list[Policy]] = {}
    for policy in come.values():
        free.setdefault(replace(policy, name=""), []).append(policy)
    pairs = []
    for policy in gone.values():
        others = free.get(replace(policy, name=""))
        if others:
            pairs.append((policy, others.pop(0)))
    return tuple(pairs)


def _reordered(old: PolicySet, new: PolicySet, changed: Mapping[Policy, Policy]) -> Iterator[Key]:
    """The equal policies that precede others than before in a tier whose order decides."""
    known = {_key(policy) for policy in changed}
    tiers = {tier.name: tier for tier in new.tiers}
    for tier in old.tiers:
        other = tiers.get(tier.name)
        if other is None or TierMode.FIRST_MATCH not in (tier.mode, other.mode):
            continue
        was, now = [_key(each) for each in tier.policies], [_key(each) for each in other.policies]
        common = set(was) & set(now)
        was, now = ([key for key in some if key in common] for some in (was, now))
        yield from sorted({a for a, b in zip(was, now, strict=True) if a != b} - known)


def _sentences(old: PolicySet, new: PolicySet, found: ObjectChanges) -> Iterator[str]:
    """A sentence for each namespace, those first whose policies no longer isolate, or now do."""
    counts: dict[str, Counter[str]] = {}
    for what, policies in (
        ("removed", found.removed),
        ("added", found.added),
        ("changed", tuple(after for _, after in found.changed)),
        ("renamed", tuple(after for _, after in found.renamed)),
        ("reordered", tuple(after for _, after in found.reordered)),
    ):
        for policy in policies:
            counts.setdefault(policy.namespace, Counter())[what] += 1
    effects = {namespace: _effect(namespace, old, new) for namespace in counts}
    for namespace in sorted(counts, key=lambda each: (_rank(effects[each]), each)):
        parts = [
            f"{counted(number, 'policy', 'policies') if at == 0 else number} {what}"
            for at, (what, number) in enumerate(counts[namespace].items())
        ]
        effect = f"; {effects[namespace]}" if effects[namespace] else ""
        yield f"{namespace or _CLUSTER}: {', '.join(parts)}{effect}"


_NO_LONGER = "it has no policy any more that isolates pods"
_NOW = "it now has policies that isolate pods"


def _rank(effect: str) -> int:
    return (0 if _NO_LONGER in effect else 1) if effect else 2


def _effect(namespace: str, old: PolicySet, new: PolicySet) -> str:
    """Whether the first policy that isolates pods came, or the last one went; empty if neither."""
    if not namespace:
        return ""
    lost = [each for each in Direction if _isolates(old, namespace, each, False)]
    lost = [each for each in lost if not _isolates(new, namespace, each, True)]
    won = [each for each in Direction if _isolates(new, namespace, each, False)]
    won = [each for each in won if not _isolates(old, namespace, each, True)]
    parts = [f"{_NO_LONGER} for {_words(lost)}"] if lost else []
    return "; ".join([*parts, f"{_NOW} for {_words(won)}"] if won else parts)


def _words(directions: Iterable[Direction]) -> str:
    return " and ".join(direction.value for direction in directions)


def _isolates(
    policies: PolicySet, namespace: str, direction: Direction, or_clusterwide: bool
) -> bool:
    """Whether a policy of the namespace, or one without a namespace, isolates in a direction."""
    namespaces = {namespace, ""} if or_clusterwide else {namespace}
    return any(
        direction in policy.isolates and policy.namespace in namespaces
        for tier in policies.tiers
        if tier.unmatched.is_deny
        for policy in tier.policies
    )
