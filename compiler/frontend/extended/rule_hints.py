# SPDX-License-Identifier: Apache-2.0
"""Hints for a wrong word of the rule language: the words allowed there, and the probable one."""

from collections.abc import Iterable

from policyc.compiler.frontend.spelling import did_you_mean, nearest
from policyc.compiler.frontend.yaml.tree import clipped
from policyc.grammar.parse import SyntaxProblem
from policyc.grammar.statements import GOES_ON_WITH
from policyc.grammar.tokens import (
    ACTIONS,
    ADDRESS,
    ATTRIBUTE,
    END,
    KEYWORDS,
    NUMBER,
    PROMISES,
    QUALIFIED,
    SECTIONS,
    STRAY,
    STRING,
    WORD,
    Token,
    unquoted,
)

ENTITIES = ("world", "cluster", "host", "remote-node")
_ALIKE = 0.6

_EXPRESSION = frozenset(
    ("!", "(", ATTRIBUTE, "all", "has", "namespace", "node", "ns", "pod", "serviceaccount")
)
_SERVICE = frozenset(("any", "tcp", "udp", "sctp", "icmp", "icmpv6", "protocol", QUALIFIED))
_PEER = _EXPRESSION | {"any", ADDRESS, "service", "entity"}
_TEST = frozenset(("==", "!=", "in", "not", "exists", "starts", "ends", "contains"))
_GROUPS = (
    (_SERVICE, "a service such as tcp/443"),
    (
        _PEER,
        'a peer (`any`, an expression such as pod.app == "web", an address, `service`, `entity`)',
    ),
    (_EXPRESSION, 'an expression such as pod.app == "web"'),
    (_TEST, 'a test such as == "web"'),
    (frozenset(ACTIONS), "an action (" + ", ".join(f"`{action}`" for action in ACTIONS) + ")"),
)
"""Kinds that have one name when all of them are expected."""
_NAMES = {
    STRING: "a text in quotes",
    ADDRESS: "an address or CIDR",
    NUMBER: "a number",
    END: "the end of the line",
}
_NAMES_AFTER = {
    "limit": "a rate such as 100/s",
    "service": "a Service as NAMESPACE/NAME",
    "entity": "one of " + ", ".join(f"`{entity}`" for entity in ENTITIES),
    "icmp": "a type such as echo-request",
    "icmpv6": "a type such as echo-request",
}
"""The meaning of a QUALIFIED or a WORD, by the word before it."""


def suggestion(name: str, names: Iterable[str]) -> str:
    """A hint with the nearest name; names of this language are short, so few letters must match."""
    known = sorted(names)
    near = nearest(name, known, _ALIKE)
    return did_you_mean(name, known) if near is None else f"did you mean `{near}`?"


def shown(token: Token) -> str:
    """A word as messages show it; an invisible character by its number."""
    if token.kind == END:
        return "the end of the line"
    if token.kind == STRAY and not token.text.isprintable():
        return f"U+{ord(token.text):04X}"
    return f"`{clipped(token.text, 60)}`"


def in_words(problem: SyntaxProblem) -> str:
    """The words that could be there, for people."""
    expected = frozenset(problem.expected)
    after = problem.after.kind if problem.after is not None else ""
    if not expected and after == "node":
        return "an expression over nodes, or a test of the node's name"
    rest, said = set(expected), []
    for group, words in _GROUPS:
        if group <= expected and group & rest:
            rest -= group
            said.append(words)
    names = _NAMES | dict.fromkeys((QUALIFIED, WORD), _NAMES_AFTER.get(after, "a name"))
    singles = sorted(rest - {END}, key=lambda kind: (kind in names, kind))
    said = [*dict.fromkeys(names.get(kind, f"`{kind}`") for kind in singles), *said]
    if END in rest:
        said.append(names[END])
    if not said:
        return "something else"
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} or {said[-1]}"


_OF_STRAYS = {
    "=": "equality is `==`",
    "&": "`and` is `&&`",
    "|": "`or` between expressions is `||`",
    '"': "the quoted text does not end on its line",
    "'": "the quoted text does not end on its line",
    ";": "write one rule per line, without separators",
    **dict.fromkeys("“”„‟‘’‚‛«»", "use straight quotes: \" or '"),
}
_NO_REASON = "only intents have `because`; a rule's reason is a comment: # why"
_SYNONYMS = {
    "and": "`and` is `&&`",
    "AND": "`and` is `&&`",
    "OR": "`or` between expressions is `||`",
    "drop": "did you mean `deny`?",
    "block": "did you mean `deny`?",
    "accept": "did you mean `allow`?",
    "permit": "did you mean `allow`?",
    "ping": "ping is `icmp echo-request`",
    "nodes": "nodes are `node EXPRESSION`, all of them `node all`",
}


def hint_for(problem: SyntaxProblem) -> str:
    """A hint with the probable intention, or nothing."""
    found, expected = problem.found, frozenset(problem.expected)
    if found.kind == STRAY:
        return _of_stray(found.text)
    after = problem.after.kind if problem.after is not None else ""
    by_place = _by_place(found, after, expected)
    if by_place or not (found.kind == WORD or found.kind in KEYWORDS):
        return by_place
    return _of_word(found, expected) or _of_line(found.text, expected)


def _of_stray(character: str) -> str:
    if character.isspace():
        return "it looks like a space: write a plain space"
    if not character.isprintable():
        return "it is invisible: remove it"
    return _OF_STRAYS.get(character, "")


def _of_line(text: str, expected: frozenset[str]) -> str:
    """A misspelt word that should continue the line before, and so begins a statement."""
    if expected.isdisjoint((*ACTIONS, *PROMISES)):
        return ""
    near = nearest(text, GOES_ON_WITH & KEYWORDS, _ALIKE)
    if near == "because" and expected.isdisjoint(PROMISES):
        return _NO_REASON
    return "" if near is None or near == text else f"did you mean `{near}`?"


def _by_place(found: Token, after: str, expected: frozenset[str]) -> str:
    """Mistakes that are recognised by their position."""
    kind = found.kind
    if after in ("ns", "pod") and expected == {"["}:
        name = 'the name of a namespace is `namespace`: namespace == "shop"'
        return f"a label is {after}.NAME" + (f"; {name}" if after == "ns" else "")
    if after in ("tcp", "udp", "sctp") and kind in (NUMBER, WORD, ":"):
        return f"write a port after a slash: {after}/{clipped(found.text) if kind != ':' else 80}"
    if after in SECTIONS and ":" in expected:
        return f"write `{after}:`"
    if "{" in expected and kind == "(":
        return 'write values in braces: in {"a", "b"}'
    if kind == "}" and STRING in expected:
        return "give at least one value"
    if kind == STRING and expected >= _EXPRESSION:
        return _of_string(unquoted(found))
    if kind == NUMBER and expected >= _SERVICE:
        return f"name the protocol: tcp/{found.text[:10]}"
    if kind == QUALIFIED and "service" in expected:
        return f"if it is a Service: `service {clipped(found.text)}`"
    if kind == ":" and after == QUALIFIED and END in expected:
        return "a range of ports has a dash: tcp/8000-8100"
    if kind in ("from", "to") and END in expected and "," not in expected:
        return "write `from` and `to` before words such as `as`, `limit`, `log`"
    if kind == "because" and END in expected and kind not in expected and "limit" in expected:
        return _NO_REASON
    if kind in _SERVICE and END in expected and kind not in expected:
        return "write services directly after the action: allow tcp/80 from ..."
    if kind in (*ACTIONS, *PROMISES, *SECTIONS) and END in expected:
        return "write each on its own line; begin the field's text with `|`"
    return ""


def _of_string(text: str) -> str:
    if text[:1].isdigit() or ":" in text:
        return f"write addresses without quotes: {clipped(text)}"
    return 'several values are pod.app in {"a", "b"}'


def _of_word(found: Token, expected: frozenset[str]) -> str:
    """An unknown name, or one that is not in quotes yet."""
    text = found.text
    if text in ENTITIES and "entity" in expected:
        return f"did you mean `entity {text}`?"
    if text in _SYNONYMS:
        return _SYNONYMS[text]
    near = nearest(text, [kind for kind in expected if kind in KEYWORDS], _ALIKE)
    if near is not None and near != text:
        return f"did you mean `{near}`?"
    if STRING in expected:
        return f'put it in quotes: "{clipped(text)}"'
    if expected >= _EXPRESSION and found.kind == WORD:
        return f"a pod's label is pod.{clipped(text)}"
    if expected >= _SERVICE and found.kind == WORD:
        return f"write a port name after its protocol: tcp/{clipped(text)}"
    return ""
