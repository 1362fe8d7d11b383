# SPDX-License-Identifier: Apache-2.0
"""Rule blocks -> drafts of the IR's rules: all but the pods of Services (semantics G53 to G57)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from policyc.compiler.frontend.extended import codes
from policyc.compiler.frontend.extended.rule_passage import Passage
from policyc.compiler.frontend.extended.rule_peers import (
    Draft,
    looked_up,
    peers,
)
from policyc.compiler.frontend.extended.rule_services import (
    bounded,
    services,
)
from policyc.compiler.frontend.kubernetes.metadata import quoted
from policyc.compiler.frontend.lowered import Surroundings
from policyc.compiler.frontend.unsupported import fail_closed
from policyc.compiler.frontend.yaml.tree import clipped
from policyc.grammar import tree
from policyc.grammar.parse import parse_rules
from policyc.grammar.tokens import NUMBER, Token, unquoted
from policyc.ir.policy import ANY_PEER, Action, Direction, Limit, OneOf, Rule
from policyc.ir.spans import Origin

LONGEST_NAME = 100
RATES = range(1, 1_000_000_001)
_SIDES = {Direction.INGRESS: "from", Direction.EGRESS: "to"}
_RATE = re.compile(r"([0-9]+)/s")


@dataclass(frozen=True, slots=True)
class RuleDraft:
    """A rule without its peers and its own side, and these as far as they are known."""

    rule: Rule
    peers: tuple[Draft, ...]
    own: tuple[Draft, ...]

    def finished(self, passage: Passage, surroundings: Surroundings) -> Rule:
        """The rule, with the pods of each Service; unsupported parts are closed or refused."""
        found, parts = looked_up(self.peers, passage, surroundings)
        own, own_parts = looked_up(self.own, passage, surroundings)
        rule = replace(self.rule, peers=found, own=own[0] if len(own) == 1 else OneOf(own))
        return fail_closed(
            rule,
            [*parts, *(replace(part, among=None) for part in own_parts)],
            surroundings.unsupported,
            surroundings.report,
            text="",  # the requirement names the Service, and the rest is in the rule
            widest=replace(rule, own=ANY_PEER) if own_parts else None,
        )


@dataclass(slots=True)
class RuleBlock:
    """A block as read; a section that was present is in `rules`, even without any rule."""

    rules: dict[Direction, list[RuleDraft]] = field(default_factory=dict)
    sections: dict[Direction, Token] = field(default_factory=dict)


def read_block(passage: Passage) -> RuleBlock:
    """The block's rules by section; every mistake in it is reported."""
    parsed = parse_rules(passage.text.text)
    passage.say_problems(parsed)
    block = RuleBlock()
    direction: Direction | None = None
    for item in parsed.items:
        if isinstance(item, tree.Section):
            direction = _section(item, block, passage)
        elif (
            direction is None
            and parsed.problems
            and parsed.problems[0].found.start < item.action.start
        ):
            direction = Direction.INGRESS  # the section's name is the mistake, which was reported
        elif direction is None:
            hint = "write `ingress:` or `egress:` on the line above"
            passage.say(codes.NO_SECTION, item.action, hint)
            direction = Direction.INGRESS if _side(item) == "from" else Direction.EGRESS
        if isinstance(item, tree.Rule) and direction is not None:
            drafts = block.rules.setdefault(direction, [])
            drafts.append(_rule(item, direction, len(drafts), passage))
    return block


def _side(rule: tree.Rule) -> str:
    return "from" if rule.side is None else rule.side.text


def _section(section: tree.Section, block: RuleBlock, passage: Passage) -> Direction:
    direction = Direction(section.token.text)
    earlier = block.sections.get(direction)
    if earlier is not None:
        found = codes.SECTION_TWICE.at(
            passage.span(section.token), passage.path, section=direction.value
        )
        passage.report.add(
            found.note(passage.span(earlier), "the first is here").help("put its rules together")
        )
    block.sections.setdefault(direction, section.token)
    block.rules.setdefault(direction, [])
    return direction


def _rule(rule: tree.Rule, direction: Direction, index: int, passage: Passage) -> RuleDraft:
    action = Action(rule.action.text)
    sides = (peers(rule.peers, passage), peers(rule.others, passage))
    if rule.others and direction is Direction.EGRESS:
        sides = sides[1], sides[0]
    elif rule.side is not None and rule.side.text != _SIDES[direction]:
        hint = f"write the other side of {direction.value} after `{_SIDES[direction]}`"
        passage.say(
            codes.WRONG_SIDE, rule.side, hint, found=rule.side.text, section=direction.value
        )
    given = once(rule.modifiers, passage)
    origin = Origin(passage.span(rule.action), f"{passage.path}.{direction.value}[{index}]")
    made = Rule(
        action,
        (),
        services(rule.services, passage),
        origin,
        except_ports=services(rule.excepts, passage) if rule.excepts else (),
        log=_log(given, action, passage),
        limit=_limit(given, action, passage),
        name=text_of(given.get("as"), passage),
    )
    return RuleDraft(made, *sides)


def once(modifiers: Iterable[tree.Modifier], passage: Passage) -> dict[str, tree.Modifier]:
    """The modifiers by their word; a repeated one is reported."""
    found: dict[str, tree.Modifier] = {}
    for modifier in modifiers:
        word = modifier.token.text
        if word in found:
            passage.say(codes.MODIFIER_TWICE, modifier.token, "keep one", word=word)
        found.setdefault(word, modifier)
    return found


def _log(given: dict[str, tree.Modifier], action: Action, passage: Passage) -> bool:
    log = given.get("log")
    if log is not None and action is Action.LOG:
        passage.say(codes.USELESS_MODIFIER, log.token, "remove the second `log`")
    return log is not None


def _limit(given: dict[str, tree.Modifier], action: Action, passage: Passage) -> Limit | None:
    limit = given.get("limit")
    if limit is None or limit.value is None:
        return None
    if action is not Action.ALLOW:
        hint = "a limit applies only to allowed connections"
        passage.say(codes.LIMIT_NOT_ALLOW, limit.token, hint, action=action.value)
    rate = _RATE.fullmatch(limit.value.text)
    if rate is None:
        hint = "connections a second: limit 100/s, or limit 100/s burst 200"
        passage.say(codes.RATE_INVALID, limit.value, hint, text=clipped(limit.value.text))
        return None
    number = Token(NUMBER, rate[1], limit.value.start)
    per_second = bounded(number, RATES, "a rate", passage)
    burst = per_second
    if limit.burst is not None:
        burst = bounded(limit.burst, RATES, "a burst", passage)
    return None if per_second is None or burst is None else Limit(per_second, burst)


def text_of(modifier: tree.Modifier | None, passage: Passage) -> str:
    """The name given by `as`, or the text of another modifier; empty if there is none."""
    if modifier is None or modifier.value is None:
        return ""
    text = unquoted(modifier.value)
    problem = ""
    if not text.strip():
        problem = "it is empty"
    elif not text.isprintable():
        problem = "it has characters that cannot be printed"
    elif modifier.token.kind == "as" and len(text) > LONGEST_NAME:
        problem = f"it is longer than {LONGEST_NAME} characters"
    if problem:
        passage.say(codes.NAME_INVALID, modifier.value, text=quoted(text), problem=problem)
    return text
