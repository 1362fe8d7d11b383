# SPDX-License-Identifier: Apache-2.0
"""ANTLR's parse trees -> builders: functions from a statement's words to its tree.

A parse tree depends on the kinds of words only, so its builder serves every statement of that shape
(grammar/shapes.py). Words are found by their index in the statement.
"""

from collections.abc import Callable, Iterator
from typing import Any

from policyc.grammar import tree
from policyc.grammar.tokens import Token

Tokens = list[Token]
Builder = Callable[[Tokens], Any]


def builder_of(context: Any) -> Builder:
    """The builder of a rule's context."""
    return _BUILDERS[_name(context)](context)


def _name(context: Any) -> str:
    return type(context).__name__.removesuffix("Context")


def _rules(context: Any, name: str) -> list[Any]:
    """The children that are contexts of one grammar rule."""
    return [c for c in context.children if not hasattr(c, "symbol") and _name(c) == name]


def _words(context: Any) -> list[int]:
    """The indexes of the words that stand in the context itself."""
    return [c.symbol.tokenIndex for c in context.children if hasattr(c, "symbol")]


def _child(context: Any) -> Builder:
    return builder_of(context.children[0])


def _tuple_of(contexts: list[Any]) -> Callable[[Tokens], tuple[Any, ...]]:
    """All of them, in order."""
    builders = [builder_of(context) for context in contexts]
    if not builders:
        return lambda _: ()
    if len(builders) == 1:
        only = builders[0]
        return lambda tokens: (only(tokens),)
    return lambda tokens: tuple([build(tokens) for build in builders])


def _joined(context: Any, made: Callable[[tuple[Any, ...]], Any]) -> Builder:
    parts = [c for c in context.children if not hasattr(c, "symbol")]
    if len(parts) == 1:
        return builder_of(parts[0])
    build = _tuple_of(parts)
    return lambda tokens: made(build(tokens))


def _term(context: Any) -> Builder:
    first = context.children[0]
    if not hasattr(first, "symbol"):
        return _test(builder_of(first), context.children[1])
    at = first.symbol.tokenIndex
    match [_name(c) for c in context.children if not hasattr(c, "symbol")]:
        case ["Term"]:
            part = builder_of(context.children[1])
            return lambda tokens: tree.Negation(part(tokens))
        case ["Expression"]:
            return builder_of(context.children[1])
        case ["Attribute"]:
            attribute = builder_of(context.children[2])
            return lambda tokens: tree.Test(attribute(tokens), "exists")
        case _:
            return lambda tokens: tree.Everything(tokens[at])


def _attribute(context: Any) -> Builder:
    words = _words(context)
    at = words[0]
    if len(words) == 1:
        return lambda tokens: tree.Attribute(tokens[at])
    key = words[2]
    return lambda tokens: tree.Attribute(tokens[at], tokens[key])


def _test(attribute: Builder, context: Any) -> Builder:
    words = _words(context)
    types = [context.parser.symbolicNames[c.symbol.type] for c in context.children]
    values = [at for at, kind in zip(words, types, strict=True) if kind == "STRING"]
    operator = _OPERATORS[types[0]]
    if len(values) == 1:
        only = values[0]
        return lambda tokens: tree.Test(attribute(tokens), operator, (tokens[only],))
    return lambda tokens: tree.Test(attribute(tokens), operator, tuple([tokens[v] for v in values]))


_OPERATORS = {
    "EQUAL": "==",
    "NOT_EQUAL": "!=",
    "IN": "in",
    "NOT": "not in",
    "EXISTS": "exists",
    "STARTS": "starts",
    "ENDS": "ends",
    "CONTAINS": "contains",
}


def _service(context: Any) -> Builder:
    words = _words(context)
    at = words[0]
    if len(words) == 1:
        return lambda tokens: tree.Service(tokens[at])
    number = words[1]
    if len(words) == 2:
        return lambda tokens: tree.Service(tokens[at], tokens[number])
    code = words[3]
    return lambda tokens: tree.Service(tokens[at], tokens[number], tokens[code])


def _peer(context: Any) -> Builder:
    """A peer; where `in` follows, as the part of it inside a block."""
    inside = _rules(context, "Inside")
    peer = _whole_peer(context)
    if not inside:
        return peer
    block = builder_of(_rules(inside[0], "Block")[0])
    return lambda tokens: tree.Inside(peer(tokens), block(tokens))


def _whole_peer(context: Any) -> Builder:
    words = _words(context)
    nested = _rules(context, "Expression")
    if nested:
        return _of_expression(context, builder_of(nested[0]), words)
    if not words:
        return _child(context)
    last = words[-1]
    match context.parser.symbolicNames[context.children[0].symbol.type]:
        case "ANY":
            return lambda tokens: tree.AnyPeer(tokens[last])
        case "SERVICE":
            return lambda tokens: tree.ServicePeer(tokens[last])
        case _:
            return lambda tokens: tree.EntityPeer(tokens[last])


def _of_expression(context: Any, expression: Builder, words: list[int]) -> Builder:
    """`entity NAME with`, `node`, or nothing before an expression."""
    if len(words) > 1:
        name = words[1]
        return lambda tokens: tree.EntityNodes(tokens[name], expression(tokens))
    start = context.start.tokenIndex
    made: Any = tree.NodePeer if words else tree.PodPeer
    return lambda tokens: made(tokens[start], expression(tokens))


def _block(context: Any) -> Builder:
    types = [context.parser.symbolicNames[c.symbol.type] for c in context.children]
    words = _words(context)
    first, *excepts = [a for a, kind in zip(words, types, strict=True) if kind == "ADDRESS"]
    return lambda tokens: tree.AddressPeer(tokens[first], tuple([tokens[e] for e in excepts]))


def _modifier(context: Any) -> Builder:
    words = _words(context)
    at = words[0]
    if len(words) == 1:
        return lambda tokens: tree.Modifier(tokens[at])
    value = words[1]
    if len(words) == 2:
        return lambda tokens: tree.Modifier(tokens[at], tokens[value])
    burst = words[3]
    return lambda tokens: tree.Modifier(tokens[at], tokens[value], tokens[burst])


def _section(context: Any) -> Builder:
    at = _words(context)[0]
    return lambda tokens: tree.Section(tokens[at])


def _services(context: Any) -> Callable[[Tokens], tuple[Any, ...]]:
    """Those of a rule or an intent."""
    return _tuple_of([s for list_ in _rules(context, "Services") for s in _rules(list_, "Service")])


def _excepted(context: Any) -> Callable[[Tokens], tuple[Any, ...]]:
    """The services that a rule takes out of those it names: one, or a list in braces."""
    for exception in _rules(context, "Exception"):
        alone = _rules(exception, "Service")
        return _tuple_of(alone) if alone else _services(exception)
    return _tuple_of([])


def _policy_rule(context: Any) -> Builder:
    action = _words(_rules(context, "Action")[0])[0]
    services, excepts = _services(context), _excepted(context)
    lists = [_tuple_of(_rules(list_, "Peer")) for list_ in _rules(context, "Peers")]
    peers, others = (*lists, _tuple_of([]), _tuple_of([]))[:2]
    modifiers = _tuple_of(_rules(context, "Modifier"))
    sides = _words(context)
    side = sides[0] if sides else None

    def build(tokens: Tokens) -> tree.Rule:
        return tree.Rule(
            tokens[action],
            services(tokens),
            None if side is None else tokens[side],
            peers(tokens),
            modifiers(tokens),
            excepts(tokens),
            others(tokens),
        )

    return build


def _promise(context: Any) -> Builder:
    word = _words(context)[0]
    services = _services(context)
    sides = {side: _tuple_of(peers) for side, peers in _sides(context)}
    nothing = _tuple_of([])
    src, dst = sides.get("FROM", nothing), sides.get("TO", nothing)
    modifiers = _tuple_of(_rules(context, "Remark"))
    return lambda tokens: tree.Intent(
        tokens[word], services(tokens), src(tokens), dst(tokens), modifiers(tokens)
    )


def _sides(context: Any) -> Iterator[tuple[str, list[Any]]]:
    """(FROM or TO, peers); what stands right after `isolated` is its TO."""
    before = ""
    for child in context.children:
        if hasattr(child, "symbol"):
            before = context.parser.symbolicNames[child.symbol.type]
        elif _name(child) == "Peers":
            yield "TO" if before == "ISOLATED" else before, _rules(child, "Peer")


_BUILDERS: dict[str, Callable[[Any], Builder]] = {
    "Selection": _child,
    "Statement": _child,
    "Intent": _child,
    "Expression": lambda context: _joined(context, tree.Disjunction),
    "Conjunction": lambda context: _joined(context, tree.Conjunction),
    "Term": _term,
    "Attribute": _attribute,
    "Service": _service,
    "Peer": _peer,
    "Block": _block,
    "Modifier": _modifier,
    "Remark": _modifier,
    "Section": _section,
    "PolicyRule": _policy_rule,
    "Promise": _promise,
}
