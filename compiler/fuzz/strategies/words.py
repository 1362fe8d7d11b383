# SPDX-License-Identifier: Apache-2.0
"""The few words in random objects: few, so that selectors overlap and blocks hold pods."""

from typing import Any

from hypothesis import strategies as st

Strategy = st.SearchStrategy[Any]
Value = dict[str, Any]

NAMESPACES = ("a", "b", "c")
KEYS = ("app", "tier")
VALUES = ("", "x", "z")
TEAMS = ("x", "z")
PORT_NAMES = ("http", "dns", "admin")
PROTOCOLS = ("TCP", "UDP", "SCTP")
NUMBERS = (1, 53, 80, 81, 443, 8080, 65535)
ACCOUNTS = ("default", "robot")
NODES = ("n1", "n2")
NETWORKS4 = (
    "0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/24", "10.0.0.4/30", "10.0.0.3/32", "192.0.2.0/25",
    "128.0.0.0/1", "10.8.0.1/32",
)  # fmt: skip
NETWORKS6 = ("::/0", "fd00::/16", "fd00::/120", "fd00::3/128", "2001:db8::/33", "8000::/1")
NETWORKS = (*NETWORKS4, *NETWORKS6)
INSIDE = {
    "0.0.0.0/0": ("10.0.0.0/24", "10.0.0.3/32", "192.0.2.0/25"),
    "10.0.0.0/8": ("10.0.0.0/24", "10.0.0.4/30", "10.0.0.3/32"),
    "10.0.0.0/24": ("10.0.0.4/30", "10.0.0.3/32"),
    "::/0": ("fd00::/16", "fd00::/120", "2001:db8::/33"),
    "fd00::/16": ("fd00::/120", "fd00::3/128"),
    "fd00::/120": ("fd00::3/128",),
}
"""Blocks with others that are strictly inside of them."""

namespaces = st.sampled_from(("a", "a", "a", "b", "c"))
"""Mostly one, so that policies find pods."""
labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=2)
networks = st.sampled_from(NETWORKS)


_RARELY = st.integers(0, 3)
"""The value 0 is rare, and shrinking tries it first."""
_ABSENT = object()


def lists(items: Strategy, most: int, least: int = 0) -> Strategy:
    """Short lists, and seldom the shortest, which would decide little."""
    some = st.lists(items, min_size=max(least, (most + 1) // 2), max_size=most)
    few = st.lists(items, min_size=least, max_size=most)
    return _RARELY.flatmap(lambda number: some if number else few)


def fields(required: dict[str, Strategy], **optional: Strategy) -> Strategy:
    """A mapping with all of the required fields and most of the others."""
    given = {name: _mostly(strategy) for name, strategy in optional.items()}
    return st.fixed_dictionaries({**required, **given}).map(
        lambda found: {name: value for name, value in found.items() if value is not _ABSENT}
    )


def often(usual: Any, others: Strategy) -> Strategy:
    """One value about half of the time: that of subjects, so that policies select some pod."""
    return st.booleans().flatmap(lambda other: others if other else st.just(usual))


def _mostly(strategy: Strategy) -> Strategy:
    return _RARELY.flatmap(lambda number: strategy if number else st.just(_ABSENT))


def _expression(key: str, operator: str, values: set[str]) -> Value:
    found: Value = {"key": key, "operator": operator}
    return found | {"values": sorted(values)} if operator.endswith("In") else found


def expressions(keys: tuple[str, ...], values: tuple[str, ...]) -> Strategy:
    """Items of matchExpressions."""
    operators = st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist"))
    chosen = st.sets(st.sampled_from(values), min_size=1, max_size=2)
    return st.builds(_expression, st.sampled_from(keys), operators, chosen)


def selectors(keys: tuple[str, ...] = KEYS, values: tuple[str, ...] = VALUES) -> Strategy:
    """Label selectors, empty ones among them."""
    pairs = st.dictionaries(st.sampled_from(keys), st.sampled_from(values), max_size=1)
    expression = st.lists(expressions(keys, values), max_size=2)
    return st.fixed_dictionaries(
        {}, optional={"matchLabels": pairs, "matchExpressions": expression}
    )


pod_selectors = selectors()
namespace_selectors = st.one_of(
    selectors(("team",), TEAMS),
    st.sets(namespaces, min_size=1, max_size=2).map(
        lambda names: {
            "matchExpressions": [
                _expression("kubernetes.io/metadata.name", "In", names),
            ]
        }
    ),
)
node_selectors = selectors(("zone",), ("1", "2"))


def named(api_version: str, kind: str, name: str, spec: Value, namespace: str = "") -> Value:
    """An object."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def ranges(least_difference: int = 0) -> Strategy:
    """Two numbers of ports, the lower one first."""
    pair = st.tuples(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS)).map(sorted)
    return pair.filter(lambda both: both[1] - both[0] >= least_difference)
