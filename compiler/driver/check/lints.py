# SPDX-License-Identifier: Apache-2.0
"""Valid rules that are probably not meant, as findings: accidents, and denials that cut too much."""

from collections.abc import Iterable, Iterator

from policyc.compiler.driver.check.codes import (
    ADOPTED,
    ALLOWS_ALL,
    CUTS_DNS,
    CUTS_NODES,
    NAMED_BY_LABEL,
    SPLIT_PEERS,
    WHOLE_FAMILY,
)
from policyc.compiler.driver.check.findings import place_of
from policyc.ir.diagnostics import Diagnostic, Note
from policyc.ir.policy import Action, Direction, PolicySet
from policyc.ir.results.common import Finding, Place, Witness
from policyc.ir.results.places import key_of_policy, key_of_rule, place_of_policy
from policyc.ir.universe import Address, Endpoint
from policyc.verifier.cluster.redundancy import Redundancy
from policyc.verifier.redundancy.accidents import (
    denies_of_nodes,
    named_by_label,
    permissive_rules,
    split_peers,
    whole_families,
)
from policyc.verifier.redundancy.dns import (
    CutOff,
    cut_off,
)
from policyc.verifier.symbolic.attributes import NAMESPACE_NAME_LABEL
from policyc.verifier.symbolic.differences import steps


def adopted(findings: Iterable[Diagnostic]) -> Iterator[Finding]:
    """The front end's warnings about the meaning of a policy, as findings."""
    seen: dict[str, int] = {}
    for each in findings:
        if each.code in ADOPTED:
            key = "|".join((each.span.file, each.path, each.message))
            seen[key] = seen.get(key, 0) + 1  # two objects of a file may give the same finding
            place = Place(each.span, each.path, each.path or each.span.file)
            yield Finding(
                each.code,
                each.severity,
                each.message,
                "",
                place,
                f"{key}|{seen[key]}",
                each.notes,
                each.hint,
            )


def accidents(policies: PolicySet) -> Iterator[Finding]:
    """Rules that allow more than the rules beside them suggest."""
    for each in permissive_rules(policies):
        rule, place = each.rule, place_of(each.rule)
        others = [rule.policy.rules(rule.direction)[index] for index in each.pointless]
        names = ", ".join(other.origin.path for other in others)
        field = "from" if rule.direction is Direction.INGRESS else "to"
        restrict = "restricts" if len(others) == 1 else "restrict"
        code = ALLOWS_ALL
        yield Finding(
            code.name,
            code.severity,
            code.at(place.span, rule=place.words, others=names, restrict=restrict).message,
            f"A rule without peers allows every peer, and rules only add up: the peers of {names} "
            "make no difference.",
            place,
            key_of_rule(rule.policy, rule.direction, rule.index),
            tuple(Note(other.origin.span, "restricts nothing") for other in others),
            f"name the peers of this rule in `{field}`; to allow every peer, remove {names}",
        )
    for rule, network in whole_families(policies):
        place, code = place_of(rule), WHOLE_FAMILY
        family = f"IPv{network.version}"
        shown = code.at(place.span, rule=place.words, network=network, family=family)
        yield Finding(
            code.name,
            code.severity,
            shown.message,
            "A block matches every address in it, including those of pods and nodes.",
            place,
            key_of_rule(rule.policy, rule.direction, rule.index, str(network)),
            hint="to match only the internet, exclude the networks of pods and nodes with `except`",
        )


def namespace_traps(policies: PolicySet, labelled: frozenset[str] | None) -> Iterator[Finding]:
    """Peers that probably mean other namespaces.

    `labelled` are the values of the label `name` that namespaces of the cluster have; None: no cluster.
    """
    for rule, at in split_peers(policies):
        place, code = place_of(rule), SPLIT_PEERS
        path = f"{place.path}.{'from' if rule.direction is Direction.INGRESS else 'to'}"
        first, second = f"{path}[{at}]", f"{path}[{at + 1}]"
        yield Finding(
            code.name,
            code.severity,
            code.at(place.span, rule=place.words, first=at, second=at + 1).message,
            f"{first} matches every pod of its namespaces, and {second} pods of "
            f"{rule.policy.namespace} alone.",
            place,
            key_of_rule(rule.policy, rule.direction, rule.index, f"split {at}"),
            hint="if pods of the selected namespaces are meant, write one peer with both selectors",
        )
    for rule, name in named_by_label(policies):
        if labelled is not None and name in labelled:
            continue
        place, code = place_of(rule), NAMED_BY_LABEL
        yield Finding(
            code.name,
            code.severity,
            code.at(place.span, rule=place.words, name=name).message,
            "The API server sets the label kubernetes.io/metadata.name, and none with the key `name`.",
            place,
            key_of_rule(rule.policy, rule.direction, rule.index, f"name {name}"),
            hint=f"for the namespace {name} write kubernetes.io/metadata.name: {name}",
        )


def node_denials(policies: PolicySet, nodes: tuple[Address, ...]) -> Iterator[Finding]:
    """Denials that also apply to nodes other than the pod's own."""
    code = CUTS_NODES
    for rule in denies_of_nodes(policies, nodes):
        place = place_of(rule)
        yield Finding(
            code.name,
            code.severity,
            code.at(place.span, rule=place.words).message,
            "The API server calls webhooks and aggregated APIs from control plane nodes. "
            + _OWN_NODE[rule.rule.action is Action.DENY_OWN_NODE]
            + " policyc does not know which pods serve webhooks. Rules before this one may allow them.",
            place,
            key_of_rule(rule.policy, rule.direction, rule.index),
            hint="if selected pods serve webhooks or an API, put a rule before it that allows nodes",
        )


_OWN_NODE = {
    False: "Traffic that a pod's own node generates, such as probes, passes (A22).",
    True: "It also denies traffic that a pod's own node generates, such as probes of the kubelet (A22).",
}


def dns_findings(tried: Redundancy, is_symbolic: bool) -> Iterator[Finding]:
    """Pods without DNS, once for the policy that denies it."""
    seen: set[int] = set()
    for each in cut_off(tried):
        allowing = [policy for policy in each.policies if policy.egress]
        policy = (allowing or list(each.policies))[0]
        if id(policy) not in seen:
            seen.add(id(policy))
            yield _without_dns(each, place_of_policy(policy), key_of_policy(policy), is_symbolic)


def _without_dns(cut: CutOff, place: Place, key: str, is_symbolic: bool) -> Finding:
    code = CUTS_DNS
    subject = _hypothetical(cut.subject) if is_symbolic else cut.subject.qualified_name
    others = [place_of_policy(p) for p in cut.policies]
    labelled = (("", cut.verdict),)
    witness = Witness(cut.flow, labelled, tuple(steps("", cut.verdict)))
    return Finding(
        code.name,
        code.severity,
        code.at(place.span, policy=place.words, subject=subject).message,
        "Some of its connections are allowed, but UDP 53 is denied to every peer, or by a rule to "
        "the cluster's DNS: it can connect only by address.",
        place,
        key,
        tuple(Note(p.span, f"{p.words} denies it") for p in others if p.span != place.span),
        "allow egress to podSelector k8s-app=kube-dns of namespace kube-system, UDP and TCP 53",
        witness,
    )


def _hypothetical(pod: Endpoint) -> str:
    labels = " ".join(f"{key}={value}" for key, value in sorted(pod.labels.items()))
    where = pod.namespace_labels.get(NAMESPACE_NAME_LABEL, pod.namespace)
    return f"a pod of namespace {where} {f'with {labels}' if labels else 'without labels'}"


def node_addresses(tried: Redundancy) -> tuple[Address, ...]:
    """The addresses of all nodes."""
    ends = (site.after for site in tried.space.sites)
    return tuple(a for end in ends if not isinstance(end, Endpoint) for a in end.addresses)
