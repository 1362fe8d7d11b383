# SPDX-License-Identifier: Apache-2.0
"""Random questions of services, right and wrong, and what they say in plain Python, without Z3.

Numbers are few and near each other, and at both ends of a kind, so that ranges touch, overlap and
repeat. A question is judged by its cuts: between two of them nothing that it says changes.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from policyc.ir.decision import Diagram, leaf_of
from policyc.ir.services import ALL_SERVICES, Kind
from policyc.verifier.decision.cell_question import (
    ALLOW,
    DENY,
    NO_RULE,
    NOT_ISOLATED,
    PASS,
    CellQuestion,
    TierWords,
)
from policyc.verifier.decision.rule_question import (
    OTHER,
    OWN,
    PeerWords,
    RuleQuestion,
)
from policyc.verifier.decision.service_questions import (
    AskedWords,
    PortWords,
)

LAST = ALL_SERVICES.spans[-1][1]
PROTOCOLS = {6: Kind.TCP, 17: Kind.UDP, 132: Kind.SCTP}
NUMBERS = (0, 1, 2, 3, 79, 80, 81, 82, 443, 8080, 8081, 65532, 65533, 65534, 65535)
Truth = dict[object, bool]
"""What is free in a question beside the service key."""
ServiceQuestion = CellQuestion | RuleQuestion


def is_violated(question: ServiceQuestion, key: int, truth: Truth) -> bool:
    """Whether this key, with these truth values, shows that the question's sides differ."""
    if isinstance(question, CellQuestion):
        said = bool(leaf_of(question.action, key)), leaf_of(question.rule, key)
        return said != _decided(question.tiers, key)
    return _by_policy(question, key, truth) != _by_table(question, key, truth)


def keys_of(question: ServiceQuestion) -> list[int]:
    """A key of every stretch in which the question says the same, and the neighbours of its cuts."""
    cuts = {kind << 16 for kind in Kind} | set(_cuts(question))
    return sorted(key for cut in cuts for key in (cut - 1, cut, cut + 1) if 0 <= key <= LAST)


def truths_of(question: ServiceQuestion) -> Iterator[Truth]:
    """All truth values of the free terms."""
    free = sorted(set(_free(question)), key=repr)
    for values in product((False, True), repeat=len(free)):
        yield dict(zip(free, values, strict=True))


def can_be_violated(question: ServiceQuestion) -> bool:
    """Whether any key and any truth values violate it."""
    keys = keys_of(question)
    return any(is_violated(question, key, t) for t in truths_of(question) for key in keys)


def asks(words: PortWords, key: int, truth: Truth) -> bool:
    """Whether a port entry, or a service of the tables, has the key."""
    kind, value = key >> 16, key & 0xFFFF
    match words:
        case ("any",) | ("all",):
            return True
        case ("every", protocol):
            return kind == PROTOCOLS[protocol]
        case ("range", protocol, lo, hi):
            return kind == PROTOCOLS[protocol] and value in range(lo, hi + 1)
        case ("free", protocol, index):
            return kind == PROTOCOLS[protocol] and truth["named", index]
        case ("icmp", its_kind, *wanted):
            return [kind, value >> 8, value & 0xFF][: 1 + len(wanted)] == [its_kind, *wanted]
        case ("protocol", number):
            return kind == Kind.OTHER and [value] == [number]
        case ("keys", lo, hi):
            return key in range(lo, hi + 1)
    raise AssertionError(words)


def _is_asked(asked: AskedWords, key: int, truth: Truth) -> bool:
    return any(asks(w, key, truth) for w in asked[0]) and not any(
        asks(w, key, truth) for w in asked[1]
    )


def _decided(tiers: tuple[TierWords, ...], key: int) -> tuple[bool, int]:
    """(allowed, deciding rule), as the tiers say."""
    for default, rules in tiers:
        for asked, does, number in rules:
            if _is_asked(asked, key, {}):
                if does == PASS:
                    break
                return does == ALLOW, number
        else:
            if default != NO_RULE:
                return False, default
    return True, NOT_ISOLATED


def _by_policy(question: RuleQuestion, key: int, truth: Truth) -> bool:
    sides = _holds(question.own, OWN, truth) and _holds(question.peers, OTHER, truth)
    return sides and _is_asked(question.asked, key, truth)


def _by_table(question: RuleQuestion, key: int, truth: Truth) -> bool:
    sides = _holds(question.table_own, OWN, truth) and _holds(question.table_peers, OTHER, truth)
    return sides and _is_asked((question.table_services, question.table_excepts), key, truth)


def _holds(peer: PeerWords, side: str, truth: Truth) -> bool:
    match peer:
        case ("and", *parts):
            return all(_holds(part, side, truth) for part in parts)
        case ("or", *parts):
            return any(_holds(part, side, truth) for part in parts)
        case (kind, index):
            return truth[side, kind, index]
    raise AssertionError(peer)


def _free(question: ServiceQuestion) -> Iterator[object]:
    for words in _entries(question):
        if words[0] == "free":
            yield "named", words[2]
    if isinstance(question, RuleQuestion):
        sides = ((OWN, question.own), (OWN, question.table_own))
        for side, peer in (*sides, (OTHER, question.peers), (OTHER, question.table_peers)):
            yield from ((side, *leaf) for leaf in peer[1:])


def _entries(question: ServiceQuestion) -> Iterator[PortWords]:
    if isinstance(question, RuleQuestion):
        yield from (*question.asked[0], *question.asked[1])
        yield from (*question.table_services, *question.table_excepts)
        return
    for _, rules in question.tiers:
        for asked, _, _ in rules:
            yield from (*asked[0], *asked[1])


def _cuts(question: ServiceQuestion) -> Iterator[int]:
    for words in _entries(question):
        yield from _cuts_of(words)
    if isinstance(question, CellQuestion):
        yield from (lo for diagram in (question.action, question.rule) for lo, _ in diagram)


def _cuts_of(words: PortWords) -> Iterator[int]:
    match words:
        case ("range", protocol, lo, hi):
            yield from ((PROTOCOLS[protocol] << 16) + cut for cut in (lo, hi + 1))
        case ("keys", lo, hi):
            yield from (lo, hi + 1)
        case ("protocol", number):
            yield from ((Kind.OTHER << 16) + cut for cut in (number, number + 1))
        case ("icmp", kind, icmp_type, *code):
            first = icmp_type << 8
            yield from ((kind << 16) + cut for cut in (first, first + 256))
            yield from ((kind << 16) + first + cut for each in code for cut in (each, each + 1))


def random_cell(rng: random.Random) -> CellQuestion:
    """A cell that equals its rules."""
    numbers = rng.sample(NUMBERS, rng.randint(1, 4))
    tiers = []
    for tier in range(rng.randint(0, 2)):
        rules = tuple(
            (
                _random_asked(rng, numbers, False),
                rng.choice((ALLOW, ALLOW, DENY, PASS)),
                10 * tier + n + 2,
            )
            for n in range(rng.randint(0, 3))
        )
        tiers.append((rng.choice((NO_RULE, tier * 10 + 1)), rules))
    question = CellQuestion(tuple(tiers), ((0, 0),), ((0, 0),))
    keys = keys_of(question)
    decided = [(key, *_decided(question.tiers, key)) for key in keys]
    action = _steps([(key, int(allowed)) for key, allowed, _ in decided])
    return replace(question, action=action, rule=_steps([(key, rule) for key, _, rule in decided]))


def _steps(leaves: list[tuple[int, int]]) -> Diagram:
    """Leaves of ascending keys as a diagram."""
    steps: list[tuple[int, int]] = []
    for key, leaf in leaves:
        if not steps or steps[-1][1] != leaf:
            steps.append((key, leaf))
    return tuple(steps)


def random_rule(rng: random.Random) -> RuleQuestion:
    """A rule whose table matches the same services."""
    asked = _random_asked(rng, rng.sample(NUMBERS, rng.randint(1, 4)), True)
    own = rng.choice((("and",), ("or", ("bit", 0))))
    peers = rng.choice((("or", ("and",)), ("or", ("bit", 0)), ("or", ("bit", 0), ("block", 0))))
    table_peers = peers if peers != ("or", ("and",)) else ("and",)
    return RuleQuestion(own, peers, asked, own, table_peers, *map(_table_services, asked))


def _table_services(words: tuple[PortWords, ...]) -> tuple[PortWords, ...]:
    """The same services as runs of keys; free terms stay free."""
    plain = tuple(each for each in words if each[0] != "free")
    if ("any",) in plain:
        return (("all",),)
    keys = sorted({0, *(k << 16 for k in Kind), *(cut for w in plain for cut in _cuts_of(w))})
    runs: list[list[int]] = []
    for lo, end in zip(keys, (*keys[1:], LAST + 1), strict=True):
        if any(asks(w, lo, {}) for w in plain):
            if runs and runs[-1][1] == lo - 1:
                runs[-1][1] = end - 1
            else:
                runs.append([lo, end - 1])
    free = (each for each in words if each[0] == "free")
    return (*(("keys", *run) for run in runs), *free)


def _random_asked(rng: random.Random, numbers: list[int], has_free: bool) -> AskedWords:
    entries = {_random_entry(rng, numbers, has_free) for _ in range(rng.randint(1, 4))}
    excepts = {_random_entry(rng, numbers, has_free) for _ in range(rng.choice((0, 0, 1, 2)))}
    return tuple(sorted(entries)), tuple(sorted(excepts))


def _random_entry(rng: random.Random, numbers: list[int], has_free: bool) -> PortWords:
    protocol = rng.choice((6, 6, 6, 17, 132))
    what = rng.random()
    if what < 0.7:
        near = rng.choice(numbers)
        other = rng.choice((near, rng.choice(numbers), rng.choice((near - 1, near + 1, 0, 65535))))
        other = min(max(other, 0), 65535)
        return "range", protocol, min(near, other), max(near, other)
    if what < 0.8 and has_free:
        return "free", protocol, PROTOCOLS[protocol].value
    wanted = (rng.choice((0, 8, 255)), rng.choice((0, 1, 255)))[: rng.randint(0, 2)]
    return rng.choice(
        (
            ("any",),
            ("every", protocol),
            ("icmp", int(Kind.ICMP), *wanted),
            ("icmp", int(Kind.ICMPV6), *wanted),
            ("protocol", rng.choice((0, 47, 255))),
        )
    )


def corrupted(question: ServiceQuestion, rng: random.Random) -> ServiceQuestion:
    """The question with one thing changed that may matter."""
    if isinstance(question, CellQuestion):
        return rng.choice([_with_other_leaf(question, rng), *moved_steps(question)])
    table = question.table_services
    ways = [replace(question, table_peers=("or", ("bit", 0)))]
    for at, words in enumerate(table):
        rest = table[:at], table[at + 1 :]
        ways.append(replace(question, table_services=(*rest[0], *rest[1])))
        for moved in _moved_keys(words):
            ways.append(replace(question, table_services=(*rest[0], moved, *rest[1])))
    return rng.choice(ways)


def _moved_keys(words: PortWords) -> Iterator[PortWords]:
    if words[0] == "keys":
        _, lo, hi = words
        edges = ((lo - 1, hi), (lo + 1, hi), (lo, hi - 1), (lo, hi + 1))
        yield from (("keys", *edge) for edge in edges if 0 <= edge[0] <= edge[1] <= LAST)


def _with_other_leaf(question: CellQuestion, rng: random.Random) -> CellQuestion:
    steps = list(question.rule)
    at = rng.randrange(len(steps))
    steps[at] = (steps[at][0], steps[at][1] + 1)
    return replace(question, rule=tuple(steps))


def moved_steps(question: CellQuestion) -> Iterator[CellQuestion]:
    """Each step of either diagram one key earlier, and one key later."""
    for moved in moved_by_one(question.action):
        yield replace(question, action=moved)
    for moved in moved_by_one(question.rule):
        yield replace(question, rule=moved)


def moved_by_one(diagram: Diagram) -> Iterator[Diagram]:
    """Each step but the first one key earlier, and one key later, where it is still a diagram."""
    for at in range(1, len(diagram)):
        before = diagram[at - 1][0]
        after = diagram[at + 1][0] if at + 1 < len(diagram) else LAST + 1
        lo, leaf = diagram[at]
        for moved in (lo - 1, lo + 1):
            if before < moved < after:
                yield (*diagram[:at], (moved, leaf), *diagram[at + 1 :])
