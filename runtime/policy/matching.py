# SPDX-License-Identifier: Apache-2.0
"""Evaluates the expressions of classifier.json: conditions on endpoints and nodes, peers over atoms.

It is the twin of `ir/matching.py` on the node. An expression is a leaf, or `and`, `or`, `not` with its
parts. `check_*` run once, when a bundle is opened: forms that this release does not know are rejected.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from policyc.runtime.errors import InputError

Attributes = Mapping[str, Mapping[str, str]]
"""Attribute -> its labels; a name has the empty key."""

ATTRIBUTES = (
    "label",
    "namespace label",
    "service account label",
    "node label",
    "namespace",
    "service account",
    "node",
)
_OPERATORS: dict[str, Callable[[str | None, list[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "StartsWith": lambda value, values: value is not None and value.startswith(tuple(values)),
    "EndsWith": lambda value, values: value is not None and value.endswith(tuple(values)),
    "Contains": lambda value, values: value is not None and any(v in value for v in values),
}
PEER_KINDS = ("bit", "block", "node", "local", "remote")


def requirement_holds(requirement: list[Any], labels: Mapping[str, str]) -> bool:
    """Whether one `[key, operator, values]` holds; NotIn also holds if the key is absent."""
    key, operator, values = requirement
    return _OPERATORS[operator](labels.get(key), values)


def condition_holds(condition: list[Any], of: Attributes) -> bool:
    """Whether a condition holds for these attributes."""

    def test(leaf: list[Any]) -> bool:
        return requirement_holds(leaf[2], of.get(leaf[1], {}))

    return holds(condition, test)


def holds(expression: list[Any], leaf: Callable[[list[Any]], bool]) -> bool:
    """The value of an expression, from the values of its leaves."""
    word, *parts = expression
    match word:
        case "and":
            return all(holds(part, leaf) for part in parts)
        case "or":
            return any(holds(part, leaf) for part in parts)
        case "not":
            return not holds(parts[0], leaf)
        case _:
            return leaf(expression)


def check_condition(condition: list[Any]) -> None:
    """Raise InputError for a condition that this release does not know."""
    for word, *rest in _leaves(condition):
        if word != "test" or rest[0] not in ATTRIBUTES:
            raise _unknown(f"the condition {[word, *rest]}")
        check_requirement(rest[1])


def check_requirement(requirement: list[Any]) -> None:
    """Raise InputError for an operator that this release does not know."""
    if requirement[1] not in _OPERATORS:
        raise _unknown(f"the operator {requirement[1]!r}")


def check_peer(peer: list[Any]) -> None:
    """Raise InputError for a kind of peer that this release does not know."""
    for kind, *_ in _leaves(peer):
        if kind not in PEER_KINDS:
            raise _unknown(f"the peer {kind!r}")


def _leaves(expression: list[Any]) -> Iterator[list[Any]]:
    word, *parts = expression
    if word in ("and", "or", "not"):
        for part in parts:
            yield from _leaves(part)
    else:
        yield expression


def _unknown(what: str) -> InputError:
    return InputError(
        f"the bundle needs a newer release of policyc: unknown {what}",
        "load the bundle with the release that compiled it",
    )
