# SPDX-License-Identifier: Apache-2.0
"""The facts of one compiled policy: the fields that it reads, and its part of each file.

The texts have the ids of rules and the lines as of the run that compiled it.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from policyc.compiler.driver.compile.json_lines import member_text
from policyc.compiler.driver.compile.node_tables import (
    policy_json,
    rule_json,
)
from policyc.compiler.driver.compile.policy_texts import policy_text
from policyc.ir.decision import PolicyTable, RuleEntry, TierTable
from policyc.ir.distinguished_protocols import distinguished_kinds
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.peers import AddressPeer, EndpointPeer, leaves
from policyc.ir.policy import Direction, NamedPort, Policy
from policyc.ir.vocabulary import Vocabulary

SEPARATOR = ",\n"
"""Between the items of a list, such as the entries of one policy."""
_ID = r'(?<=[{,]"id":)\d+|(?<=[{,]"rule":)\d+'
_LINE = r'(?<=[{,]"line":)\d+'
"""The values of members: in a JSON string, their quotes would need backslashes."""


class Reads(NamedTuple):
    """The selectors, blocks and ports that the rules of one direction read, as vocabulary indices.

    They are in the order of first use.
    """

    bits: Sequence[int] = ()
    blocks: Sequence[int] = ()
    ports: Sequence[int] = ()
    rules: int = 0
    is_isolating: bool = False

    @property
    def says_anything(self) -> bool:
        """Whether the policy matters in this direction."""
        return self.rules > 0 or self.is_isolating


class Place(NamedTuple):
    """The place of a policy's name; `path` in the API's notation."""

    file: str
    line: int
    column: int
    path: str


@dataclass(frozen=True, slots=True)
class PolicyTexts:
    """A policy's part of classifier.json, rules.json and policies.json."""

    table: str
    entries: str
    item: str


class PolicyFacts(NamedTuple):
    """One policy. `first_rule` is the id of its first rule, its others follow, ingress first.

    `distinguished` are the kinds whose services it distinguishes. `texts` have the ids and lines of the
    run that made them: `first_rule` is the id of the first rule then, `first_line` the line of the name.
    None: they are in the record.
    """

    namespace: str
    name: str
    title: str
    place: Place
    subject: int
    ingress: Reads
    egress: Reads
    distinguished: Sequence[int]
    first_rule: int
    first_line: int
    texts: PolicyTexts | None = None

    def reads(self, direction: Direction) -> Reads:
        """The selectors, blocks and ports that it reads in one direction."""
        return self.ingress if direction is Direction.INGRESS else self.egress

    @property
    def n_rules(self) -> int:
        """The number of its rules in both directions."""
        return self.ingress.rules + self.egress.rules


def facts_json(facts: PolicyFacts) -> list[Any]:
    """All but the texts as JSON values."""
    return list(facts[:-1])


def facts_from(value: list[Any]) -> PolicyFacts:
    """The facts that `facts_json` wrote."""
    namespace, name, title, place, subject, ingress, egress, distinguished, rule, line = value
    return PolicyFacts(
        namespace,
        name,
        title,
        Place._make(place),
        subject,
        Reads._make(ingress),
        Reads._make(egress),
        distinguished,
        rule,
        line,
    )


def facts_of(
    policy: Policy,
    tier: TierTable,
    table: PolicyTable,
    entries: Iterable[RuleEntry],
    vocabulary: Vocabulary,
) -> PolicyFacts:
    """The facts of a policy, from its table and the entries of its rules, which have consecutive ids."""
    rules = [rule.rule for d in Direction for rule in table.rules(d)]
    first = rules[0] if rules else 0
    alone = TierTable(tier.name, tier.mode, tier.unmatched, (table,))
    span = policy.origin.span
    return PolicyFacts(
        policy.namespace,
        policy.name,
        policy.title,
        Place(span.file, span.line, span.column, policy.origin.path),
        table.subject,
        _reads(policy, Direction.INGRESS, vocabulary),
        _reads(policy, Direction.EGRESS, vocabulary),
        tuple(sorted(distinguished_kinds((alone,), vocabulary))),
        first,
        span.line,
        PolicyTexts(
            member_text(policy_json(table)),
            SEPARATOR.join(
                member_text(rule_json(at, entry)) for at, entry in enumerate(entries, first)
            ),
            policy_text(policy).text,
        ),
    )


def shifted(text: str, facts: PolicyFacts, first: int) -> str:
    """A text with `first` as the id of the policy's first rule."""
    ids, lines = first - facts.first_rule, facts.place.line - facts.first_line
    if ids and facts.n_rules:
        text = re.sub(_ID, lambda found: str(int(found[0]) + ids), text)
    if lines:
        text = re.sub(_LINE, lambda found: str(int(found[0]) + lines), text)
    return text


def moved(item: str, facts: PolicyFacts) -> str:
    """A line of policies.json, whose last member is the line of the policy's name."""
    if facts.place.line == facts.first_line:
        return item
    head, name, _ = item.rpartition('"line":')
    return f"{head}{name}{facts.place.line}}}"


def _reads(policy: Policy, direction: Direction, vocabulary: Vocabulary) -> Reads:
    rules = policy.rules(direction)
    found = [leaf for rule in rules for peer in rule.peers for leaf in leaves(peer)]
    ports = (port for rule in rules for port in (*rule.ports, *rule.except_ports))
    return Reads(
        _once(vocabulary.bit_of[x.selector] for x in found if isinstance(x, EndpointPeer)),
        _once(vocabulary.block_of[x] for x in found if isinstance(x, AddressPeer)),
        _once(vocabulary.port_of[port] for port in ports if isinstance(port, NamedPort)),
        len(rules),
        direction in policy.isolates,
    )


def _once(found: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(found))
