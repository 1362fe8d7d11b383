# SPDX-License-Identifier: Apache-2.0
"""The findings of `policyc check` (PC20xx), and the errors in its comments and configuration."""

from policyc.compiler.frontend import (
    codes,
    codes_several_apis,
)
from policyc.compiler.frontend.admin import codes as codes_admin
from policyc.ir.diagnostics import Code, Severity
from policyc.ir.results.check import CheckRule

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

DEAD = Code("PC2001", _W, "{rule} matches no flow")
SHADOWED = Code("PC2002", _W, "{rule} never decides: {by}")
REDUNDANT = Code("PC2003", _W, "{rule} changes nothing: {by}")
SELECTS_NOTHING = Code("PC2004", _W, "{policy} selects nothing")
UNDECLARED_PORT = Code(
    "PC2005", _W, "{rule}: no possible destination declares a {protocol} port {name!r}"
)
ALLOWS_ALL = Code(
    "PC2006", _W, "{rule} allows every peer, so {others} of this policy {restrict} nothing"
)
WHOLE_FAMILY = Code(
    "PC2007", _N, "{rule}: {network} contains every {family} address, including pods and nodes"
)
CUTS_DNS = Code("PC2008", _W, "{policy}: {subject} may open connections, but cannot reach DNS")
CUTS_NODES = Code("PC2009", _N, "{rule} also denies traffic from other nodes")
UNUSED_IGNORE = Code("PC2010", _W, "the comment ignores {code}, but this place has no such finding")
POLICY_CHANGES_NOTHING = Code("PC2011", _W, "{policy} changes nothing")
SPLIT_PEERS = Code("PC2012", _N, "{rule}: peers {first} and {second} are alternatives")
NAMED_BY_LABEL = Code("PC2013", _N, "{rule} asks for namespaces with the label name={name}")

UNKNOWN_CODE = Code("PC2090", _E, "{code} is not a finding of `policyc check`")
IGNORE_WITHOUT_REASON = Code("PC2091", _E, "{code} is ignored without a reason")
IGNORE_WITHOUT_CODE = Code("PC2092", _E, "a comment that ignores findings must name their codes")
BAD_CONFIG = Code("PC2093", _E, "{where}: {problem}")
NOT_IN_PATCH = Code("PC2094", _E, "a patch cannot name {name} from the working directory")

RULES = (
    CheckRule(
        DEAD.name,
        "A rule that matches no flow",
        "No flow can match the rule: its selectors contradict themselves, its excepts cover its "
        "whole block, its ports are all excepted, or no pod, node or address matches. Correct it, or "
        "remove it.",
    ),
    CheckRule(
        SHADOWED.name,
        "A rule that never decides",
        "Earlier rules decide every flow that it matches. Remove it, or move it before them if it "
        "should win.",
    ),
    CheckRule(
        REDUNDANT.name,
        "A rule that changes nothing",
        "Without the rule every verdict stays the same: other rules or defaults decide all that it "
        "matches alike. Remove it. The report lists separately which rules can be removed together.",
    ),
    CheckRule(
        POLICY_CHANGES_NOTHING.name,
        "A policy that changes nothing",
        "Without the whole policy every verdict stays the same: other policies isolate its pods and "
        "decide its flows alike. Delete it. All policies with this finding can be deleted together.",
    ),
    CheckRule(
        SELECTS_NOTHING.name,
        "A policy that selects nothing",
        "The policy selects no pod or host of the given cluster, or no possible one. A misspelt "
        "label is the usual cause.",
    ),
    CheckRule(
        UNDECLARED_PORT.name,
        "A named port that no container declares",
        "A rule names a port that no possible destination declares, so this entry matches nothing in "
        "the given cluster. Use the name that the containers declare, or the number.",
    ),
    CheckRule(
        ALLOWS_ALL.name,
        "A rule that allows every peer beside rules that restrict",
        "A rule without peers allows every peer, and rules only add up: the peers of the other rules"
        " restrict nothing. Most often `from` or `to` is missing, null or empty. Name the peers.",
    ),
    CheckRule(
        WHOLE_FAMILY.name,
        "A block of every address",
        "0.0.0.0/0 or ::/0 without `except` also matches the cluster's own pods and nodes. To match "
        "only the internet, exclude the cluster's networks with `except`.",
        _N,
    ),
    CheckRule(
        SPLIT_PEERS.name,
        "A namespaceSelector and a podSelector in two peers",
        "Two peers are alternatives: every pod of the selected namespaces, or the selected pods of the "
        "policy's own namespace. For the selected pods of the selected namespaces write one peer with "
        "both selectors.",
        _N,
    ),
    CheckRule(
        NAMED_BY_LABEL.name,
        "A namespace that is selected by the label `name`",
        "The API server sets the label kubernetes.io/metadata.name, and none with the key `name`. "
        "Select by kubernetes.io/metadata.name, unless your namespaces have a label `name`.",
        _N,
    ),
    CheckRule(
        CUTS_DNS.name,
        "Pods that may connect, but not resolve names",
        "Policies let a pod open connections, but deny UDP 53 to every peer, or a rule denies it to "
        "the cluster's DNS. Allow UDP and TCP 53 to the pods k8s-app=kube-dns in kube-system.",
    ),
    CheckRule(
        CUTS_NODES.name,
        "A deny that also matches other nodes",
        "The rule also denies nodes. The API server (webhooks, aggregated APIs), load balancers and "
        "other nodes connect from node addresses. Traffic of the pod's own node passes, unless a "
        "Cilium rule also denies that node. Put a rule before it that allows the needed traffic.",
        _N,
    ),
    CheckRule(
        UNUSED_IGNORE.name,
        "A comment that ignores nothing",
        "The finding that the comment names does not exist. Remove the comment, so that it cannot "
        "hide a future finding.",
    ),
    CheckRule(
        codes.DEAD_RULES.name,
        "Rules of a direction that policyTypes leaves out",
        "The API server keeps the rules, and nothing enforces them. Add the direction to policyTypes, or"
        " remove the rules.",
    ),
    CheckRule(
        codes.NULL_ALLOWS_ALL.name,
        "A null that allows everything",
        "A null rule, list or port is read as an empty one, which allows all. Write what is meant.",
    ),
    CheckRule(
        codes.ISOLATES_INGRESS.name,
        "A policy for egress that also denies all ingress",
        "Without policyTypes every policy isolates ingress. Write policyTypes.",
    ),
    CheckRule(
        codes.EGRESS_NOT_ISOLATED.name,
        "An empty egress list that restricts nothing",
        "Without policyTypes an empty egress list does not isolate egress. Write policyTypes.",
    ),
    CheckRule(
        codes_admin.PRIORITY_SHARED.name,
        "Policies that share a priority",
        "The API does not define which is evaluated first. Give each its own priority.",
    ),
    CheckRule(
        codes_several_apis.ENGINE_DEPARTS.name,
        "A rule that Cilium interprets differently",
        "policyc enforces the text of the API, but Cilium behaves differently. Write the rule so "
        "that both agree.",
    ),
)
"""Every kind of finding. PC05xx, PC11xx and PC16xx are the front end's, found while it reads."""
ADOPTED = frozenset(rule.code for rule in RULES if not rule.code.startswith("PC20"))
"""Warnings of the front end that `check` reports as findings of its own."""
CLUSTER_ONLY = frozenset({UNDECLARED_PORT.name})
"""Findings that need a cluster."""
