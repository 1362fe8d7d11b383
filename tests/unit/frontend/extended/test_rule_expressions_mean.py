# SPDX-License-Identifier: Apache-2.0
"""An expression selects the pods that it reads as: compared with a reading of its own, pod by pod."""

from collections.abc import Callable, Mapping

from hypothesis import given
from hypothesis import strategies as st

from policyc.compiler.frontend.extended.rule_expressions import endpoint_selector
from policyc.compiler.frontend.extended.rule_passage import Passage
from policyc.compiler.frontend.yaml.embedded_text import RuleText
from policyc.compiler.frontend.yaml.tree import Scalar
from policyc.grammar.parse import parse_expression
from policyc.ir.diagnostics import Report
from policyc.ir.matching import selects
from policyc.ir.universe import Endpoint, Node

Holds = Callable[[Endpoint], bool]
Said = tuple[str, Holds]

VALUES = ["a", "b", "ab", "ba"]
NAMES: list[tuple[str, Callable[[Endpoint], str | None]]] = [
    ("pod.x", lambda pod: pod.labels.get("x")),
    ('pod["k/y"]', lambda pod: pod.labels.get("k/y")),
    ("ns.x", lambda pod: pod.namespace_labels.get("x")),
    ("node.x", lambda pod: pod.its_node.labels.get("x") if pod.its_node else None),
    ("serviceaccount.x", lambda pod: pod.service_account_labels.get("x")),
    ("namespace", lambda pod: pod.namespace),
    ("serviceaccount", lambda pod: pod.service_account),
    ("node", lambda pod: pod.node or None),
]


@st.composite
def one_test(draw: st.DrawFn) -> Said:
    """One test of one attribute."""
    name, read = draw(st.sampled_from(NAMES))
    value = draw(st.sampled_from(VALUES))
    values = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=3))
    listed = "{" + ", ".join(f'"{v}"' for v in values) + "}"
    said: list[Said] = [
        (f'{name} == "{value}"', lambda pod: read(pod) == value),
        (f"{name} != '{value}'", lambda pod: read(pod) != value),
        (f"{name} in {listed}", lambda pod: read(pod) in values),
        (f"{name} not in {listed}", lambda pod: read(pod) not in values),
        (f"{name} exists", lambda pod: read(pod) is not None),
        (f"has({name})", lambda pod: read(pod) is not None),
        (f'{name} starts with "{value}"', lambda pod: (read(pod) or "").startswith(value)),
        (f'{name} ends with "{value}"', lambda pod: (read(pod) or "").endswith(value)),
        (f'{name} contains "{value}"', lambda pod: value in (read(pod) or "")),
        ("all", lambda pod: True),
    ]
    return draw(st.sampled_from(said))


def negated(said: Said) -> Said:
    text, holds = said
    return f"!({text})", lambda pod: not holds(pod)


def conjoined(one: Said, other: Said) -> Said:
    return f"({one[0]}) && ({other[0]})", lambda pod: one[1](pod) and other[1](pod)


def bare(one: Said, two: Said, three: Said) -> Said:
    """Without parentheses: `!` before `&&` before `||`."""
    return (
        f"{one[0]} || !{two[0]} && {three[0]}",
        lambda pod: one[1](pod) or (not two[1](pod) and three[1](pod)),
    )


SAID = st.one_of(
    st.builds(bare, one_test(), one_test(), one_test()),
    st.recursive(
        one_test(),
        lambda inner: st.one_of(st.builds(negated, inner), st.builds(conjoined, inner, inner)),
        max_leaves=5,
    ),
)
LABELS: st.SearchStrategy[Mapping[str, str]] = st.dictionaries(
    st.sampled_from(["x", "k/y"]), st.sampled_from(VALUES), max_size=2
)


@st.composite
def pods(draw: st.DrawFn) -> Endpoint:
    """A pod, on a node whose labels are known, or only its name, or neither."""
    name = draw(st.sampled_from(["", *VALUES]))
    node = Node(name, draw(LABELS)) if name and draw(st.booleans()) else None
    return Endpoint(
        draw(st.sampled_from(VALUES)),
        "p",
        draw(LABELS),
        draw(LABELS),
        service_account=draw(st.sampled_from(VALUES)),
        service_account_labels=draw(LABELS),
        node=name,
        its_node=node,
    )


def reads_namespaces(text: str) -> bool:
    return "ns." in text or "namespace" in text


@given(SAID, pods(), st.sampled_from(["", "a"]), st.booleans())
def test_expressions_select_the_expected_pods(
    said: Said, pod: Endpoint, namespace: str, is_subject: bool
) -> None:
    text, holds = said
    report = Report()
    passage = Passage(RuleText(Scalar(text, False, "f", 1, 1, 0)), "spec.x", report, namespace)
    parsed = parse_expression(text)
    selector = endpoint_selector(parsed.items[0], passage, is_subject)
    assert not report.errors
    expected = holds(pod)
    if namespace and (is_subject or not reads_namespaces(text)):
        expected = expected and pod.namespace == namespace
    assert selects(selector, pod) == expected, (text, selector)
