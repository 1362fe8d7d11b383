# SPDX-License-Identifier: Apache-2.0
"""The findings of `policyc check` (PC20xx), and what is wrong with its comments and configuration."""

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
    "PC2005", _W, "{rule}: no pod that it could be about declares a {protocol} port {name!r}"
)
ALLOWS_ALL = Code(
    "PC2006", _W, "{rule} allows everyone, so that {others} of this policy {restrict} nothing"
)
WHOLE_FAMILY = Code("PC2007", _N, "{rule}: {network} is every {family} address, pods and nodes too")
CUTS_DNS = Code("PC2008", _W, "{policy}: {subject} may connect, but has no DNS")
CUTS_NODES = Code("PC2009", _N, "{rule} also denies what comes from other nodes")
UNUSED_IGNORE = Code("PC2010", _W, "nothing here has the finding {code}")

UNKNOWN_CODE = Code("PC2090", _E, "{code} is no finding of `policyc check`")
IGNORE_WITHOUT_REASON = Code("PC2091", _E, "{code} is ignored without a reason")
IGNORE_WITHOUT_CODE = Code("PC2092", _E, "a comment that ignores findings must name them")
BAD_CONFIG = Code("PC2093", _E, "{where}: {problem}")

RULES = (
    CheckRule(
        DEAD.name,
        "A rule that matches no flow",
        "No flow can ever match the rule: its selectors contradict themselves, its excepts leave nothing"
        " of its block, its ports are all excepted, or nobody has what it asks for. Correct it, or"
        " remove it.",
    ),
    CheckRule(
        SHADOWED.name,
        "A rule that never decides",
        "Other rules decide every flow that it matches before it is asked. Remove it, or, where it was"
        " meant to win, move it before them.",
    ),
    CheckRule(
        REDUNDANT.name,
        "A rule that changes nothing",
        "Without the rule every verdict is the same: other rules or defaults, alone or together, say the"
        " same of all that it matches. Remove it. What may be removed together is a list of its own.",
    ),
    CheckRule(
        SELECTS_NOTHING.name,
        "A policy that selects nothing",
        "No pod or host of the cluster given, or none that could exist, is selected by the policy. Most"
        " often a label is misspelt.",
    ),
    CheckRule(
        UNDECLARED_PORT.name,
        "A named port that nobody declares",
        "A rule asks for a port by a name that no destination it could be about declares, so that this"
        " entry matches nothing in the cluster given. Use the name that the containers declare, or the"
        " number.",
    ),
    CheckRule(
        ALLOWS_ALL.name,
        "A rule that allows everyone beside rules that restrict",
        "A rule without peers allows every peer, and rules only add up: the peers of the other rules"
        " restrict nothing. Most often `from` or `to` is missing, null or empty. Name the peers.",
    ),
    CheckRule(
        WHOLE_FAMILY.name,
        "A block of every address",
        "0.0.0.0/0 or ::/0 without an except also matches the cluster's own pods and nodes. Where the"
        " internet is meant, leave out the cluster's networks with `except`.",
        _N,
    ),
    CheckRule(
        CUTS_DNS.name,
        "Pods that may connect, but not resolve names",
        "Policies let a pod open connections, but UDP 53 is denied to everyone, or denied by a rule to"
        " the cluster's DNS. Allow UDP and TCP 53 to the pods k8s-app=kube-dns in kube-system.",
    ),
    CheckRule(
        CUTS_NODES.name,
        "A deny that also means other nodes",
        "The rule denies nodes, too. The API server (webhooks, aggregated APIs), load balancers and"
        " nodes other than the pod's own come from there. What the pod's own node generates passes,"
        " unless the rule is one of Cilium's that denies that node, too. Put a rule before it that"
        " allows what is needed.",
        _N,
    ),
    CheckRule(
        UNUSED_IGNORE.name,
        "A comment that ignores nothing",
        "The finding that the comment names is not there. Remove the comment, so that it does not hide a"
        " finding to come.",
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
        "The API does not say which is asked first. Give each its own priority.",
    ),
    CheckRule(
        codes_several_apis.ENGINE_DEPARTS.name,
        "A rule that Cilium reads otherwise",
        "policyc enforces what the text of the API says, and Cilium does something else. Write it so"
        " that both agree.",
    ),
)
"""Every kind of finding. PC05xx, PC11xx and PC16xx are the front end's, found while it reads."""
ADOPTED = frozenset(rule.code for rule in RULES if not rule.code.startswith("PC20"))
"""Warnings of the front end that `check` reports as findings of its own."""
CLUSTER_ONLY = frozenset({UNDECLARED_PORT.name})
"""What can be asked of a cluster alone."""
