# SPDX-License-Identifier: Apache-2.0
"""Rules with a part that policyc does not support: an error, or compiled so that no traffic is opened.

With `--unsupported=deny` such a rule is *opaque* (`ir.policy.Opaque`). It is enforced closed. An allow
matches only its certain flows. A deny, a reject or a pass denies all flows that it may match, since a
lost pass could open traffic in a later tier. A rule that only makes a note makes it only for its certain
flows. A subject that is not supported is always an error.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from policyc.compiler.frontend import codes_several_apis as codes
from policyc.compiler.frontend.lowered import Unsupported
from policyc.compiler.frontend.yaml import tree as nodes
from policyc.ir.bounds import lower_rule
from policyc.ir.diagnostics import Report
from policyc.ir.passes.closing import outcome_of
from policyc.ir.policy import ANY_PEER, Action, Opaque, Peer, Rule
from policyc.ir.spans import Span

_NAMES = frozenset({"name", "metadata"})
"""Fields of a rule that are for people: they do not affect its matches."""


@dataclass(frozen=True, slots=True)
class UnsupportedPart:
    """A field that is valid and not supported: its place and path, and its requirement in words.

    `is_peer`: it is one of several peers, so that the rule keeps what its other peers match. `among` has
    every peer that it may mean; None if it is on the subject's own side. `is_read`: even without
    `--unsupported=deny`, an allow with this requirement is not an error. It allows only what is certain.
    """

    span: Span
    path: str
    what: str
    is_peer: bool = False
    among: Peer | None = ANY_PEER
    is_read: bool = False


def fail_closed(
    rule: Rule,
    parts: Sequence[UnsupportedPart],
    how: Unsupported,
    report: Report,
    *,
    text: str,
    widest: Rule | None = None,
) -> Rule:
    """The rule as it may be enforced. `rule` has everything but the parts that are not supported.

    `text` is the rule as it was written (`text_of`). `widest` has everything that the rule may match
    beside the unsupported peers, if that is more than `rule` matches. Every part is reported: an error
    by default, a warning if the rule is made to fail closed.
    """
    if not parts:
        return rule
    refused = [part for part in parts if not (part.is_read and rule.action is Action.ALLOW)]
    if how is Unsupported.ERROR and refused:
        for part in refused:
            found = codes.UNSUPPORTED.at(part.span, part.path, where=part.path, what=part.what)
            report.add(found.help("remove it, or deny all that it may match: --unsupported=deny"))
        return rule
    outcome = outcome_of(rule.action)
    for part in parts:
        report.add(
            codes.UNSUPPORTED_CLOSED.at(
                part.span, part.path, where=part.path, what=part.what, outcome=outcome
            )
        )
    others = tuple(part.among for part in parts if part.is_peer and part.among is not None)
    most = rule if widest is None else widest
    is_partly_certain = all(part.is_peer for part in parts)
    opaque = Opaque(
        rule if is_partly_certain else replace(rule, peers=()),
        replace(most, peers=tuple(dict.fromkeys((*most.peers, *others)))),
        tuple(dict.fromkeys(part.what for part in parts)),
        text,
    )
    return replace(lower_rule(replace(rule, opaque=opaque)), opaque=opaque)


def text_of(node: nodes.Node) -> str:
    """A rule as it was written, without its name and its layout: JSON with sorted keys."""
    if isinstance(node, nodes.Mapping):
        kept = {key: entry.value for key, entry in node.entries.items() if key not in _NAMES}
        return json.dumps({key: _plain(value) for key, value in kept.items()}, sort_keys=True)
    return json.dumps(_plain(node), sort_keys=True)


def _plain(node: nodes.Node) -> object:
    match node:
        case nodes.Mapping():
            return {key: _plain(entry.value) for key, entry in node.entries.items()}
        case nodes.Sequence():
            return [_plain(item) for item in node.items]
        case nodes.Scalar():
            return node.text


def refuse_subject(part: UnsupportedPart, report: Report) -> None:
    """Report a subject that is not supported: without it, the endpoints to close are not known."""
    found = codes.UNSUPPORTED_SUBJECT.at(part.span, part.path, where=part.path, what=part.what)
    report.add(found.help("--unsupported=deny does not help here: the policy has no known subject"))
