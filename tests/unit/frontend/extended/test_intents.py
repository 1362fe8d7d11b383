# SPDX-License-Identifier: Apache-2.0
"""Intents from files and objects, as the IR has them (semantics G58)."""

import io
from pathlib import Path
from typing import Any

import pytest

from policyc.compiler.frontend import ReadOptions, read_cluster, read_policies, read_scenario
from policyc.compiler.frontend.read_intents import IntentInput, read_intents
from policyc.compiler.frontend.yaml.sources import (
    ObjectsSource,
    PathSource,
    StreamSource,
)
from policyc.ir.errors import InputError
from policyc.ir.intents import ANY_SERVICES, ANY_SIDE, Intent, IntentKind, Scope
from policyc.ir.policy import (
    ANY_PEER,
    EndpointPeer,
    EndpointSelector,
    LabelSelector,
    Operator,
    PortRange,
    Requirement,
)
from policyc.ir.services import Protocol

OBJECT = """\
apiVersion: policyc.dev/v1alpha1
kind: Intent
metadata: {name: i}
spec:
  intents: |
    never tcp/1 from any
"""
POLICY = """\
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: p}
spec: {podSelector: {}}
"""


def stream(text: str, name: str = "x.intent") -> StreamSource:
    return StreamSource(io.BytesIO(text.encode()), name)


def one(text: str) -> Intent:
    (intent,) = read_intents([stream(text)]).intents
    return intent


def labelled(key: str, value: str) -> EndpointPeer:
    requirement = Requirement(key, Operator.IN, (value,))
    return EndpointPeer(EndpointSelector(labels=LabelSelector((requirement,))))


def test_a_never_intent_is_read() -> None:
    found = one(
        'never tcp/5432 from pod.a == "x" to pod.b == "y" as "n" because "r" including builtin'
    )
    assert found.kind is IntentKind.NEVER
    assert found.services == (PortRange(Protocol.TCP, 5432, 5432),)
    assert (found.src, found.dst) == ((labelled("a", "x"),), (labelled("b", "y"),))
    assert (found.name, found.reason, found.includes_builtin) == ("n", "r", True)
    assert found.scope is Scope.END_TO_END
    assert found.title == "n"


def test_omitted_sides_and_services_of_an_intent_mean_any() -> None:
    found = one("always ingress")
    assert (found.services, found.src, found.dst) == (ANY_SERVICES, ANY_SIDE, ANY_SIDE)
    assert found.scope is Scope.INGRESS
    assert found.title == "always at x.intent:1:1"
    assert not found.includes_builtin


def test_only_and_isolated_intents_are_read() -> None:
    only = one('only from pod.a == "x" to any egress')
    assert (only.kind, only.scope) == (IntentKind.ONLY, Scope.EGRESS)
    assert (only.src, only.dst) == ((labelled("a", "x"),), (ANY_PEER,))
    isolated = one('isolated pod.a == "x" from pod.a == "y"')
    assert isolated.kind is IntentKind.ISOLATED
    assert (isolated.src, isolated.dst) == ((labelled("a", "y"),), (labelled("a", "x"),))


def test_files_directories_and_objects(tmp_path: Path) -> None:
    (tmp_path / "a.intent").write_text("# c\nnever any\nalways any\n")
    (tmp_path / "b.yaml").write_text(OBJECT + POLICY)
    (tmp_path / "c.txt").write_text("no intent")
    found = read_intents([PathSource(str(tmp_path))])
    assert [intent.kind.value for intent in found.intents] == ["never", "always", "never"]
    places = [(Path(i.origin.span.file).name, i.origin.span.line) for i in found.intents]
    assert places == [("a.intent", 2), ("a.intent", 3), ("b.yaml", 6)]
    assert [i.origin.path for i in found.intents] == ["intents[0]", "intents[1]", "spec.intents[0]"]
    assert [Path(item.path).name for item in found.inputs] == ["a.intent", "b.yaml"]


def test_standard_input_may_be_an_intent_file_or_objects() -> None:
    assert len(read_intents([stream("never any", "<stdin>")]).intents) == 1
    assert len(read_intents([stream(OBJECT, "<stdin>")]).intents) == 1


def test_an_object_among_policies_is_provided_and_otherwise_ignored() -> None:
    read = read_policies([stream(OBJECT + POLICY, "p.yaml")])
    assert sum(len(tier.policies) for tier in read.policies.tiers) == 1
    assert len(read.found.intents) == 1
    found = read_intents([], given=read.found.intents)
    assert [intent.kind for intent in found.intents] == [IntentKind.NEVER]


def test_errors_of_an_intent_object_have_their_line() -> None:
    for wrong in ("tcp/0 from any", "any from service a/b"):
        with pytest.raises(InputError) as failure:
            read_policies([stream(OBJECT.replace("tcp/1 from any", wrong), "p.yaml")])
        (finding,) = failure.value.findings
        assert finding.span.line == 6


def test_in_a_namespace_expressions_mean_it() -> None:
    text = OBJECT.replace("name: i", "name: i, namespace: shop").replace("from any", "from all")
    (found,) = read_intents([stream(text, "x.yaml")]).intents
    assert found.src == (EndpointPeer(EndpointSelector("shop")),)


def service(selector: dict[str, str] | None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "n"},
        "spec": {"selector": selector, "ports": [{"port": 80}]},
    }


def of_service(selector: dict[str, str] | None) -> IntentInput:
    cluster = read_cluster([ObjectsSource("c", (service(selector),))])
    return read_intents([stream("never any to service n/s")], services=cluster.services)


def test_an_intent_about_a_service_means_its_pods() -> None:
    (found,) = of_service({"a": "x"}).intents
    selector = EndpointSelector("n", labels=LabelSelector((Requirement("a", Operator.IN, ("x",)),)))
    assert found.dst == (EndpointPeer(selector),)


def test_a_service_without_pods_is_an_error() -> None:
    with pytest.raises(InputError) as wrong:
        of_service(None)
    assert [finding.code for finding in wrong.value.findings] == ["PC1503"]


def test_an_object_without_intents_is_an_error() -> None:
    for spec in ({}, {"intents": "# none"}, {"intents": 1}, {"intent": "never any"}, None):
        value = {"apiVersion": "policyc.dev/v1alpha1", "kind": "Intent"}
        with pytest.raises(InputError):
            read_scenario("x", [value | {"metadata": {"name": "i"}, "spec": spec}])


def test_a_file_that_is_not_text_is_an_error() -> None:
    with pytest.raises(InputError) as wrong:
        read_intents([StreamSource(io.BytesIO(b"never any\n\xff"), "x.intent")])
    assert [(f.code, f.span.line) for f in wrong.value.findings] == [("PC0104", 2)]


def test_options_are_checked() -> None:
    with pytest.raises(InputError):
        read_intents([stream("never any")], ReadOptions(kube_version="new"))


def named(name: str, *intents: str) -> str:
    lines = "".join(f"    never {intent}\n" for intent in intents)
    return f"---\n{OBJECT.partition('    never')[0].replace('name: i', f'name: {name}')}{lines}"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (named("a", 'tcp/1 as "x"', 'tcp/2 as "y"', 'tcp/3 as "x"'), "9:5"),
        (named("a", 'tcp/1 as "x"') + named("b", 'tcp/2 as "x"'), "14:5"),
    ],
)
def test_names_are_unique_where_policies_are_read(text: str, place: str) -> None:
    with pytest.raises(InputError) as raised:
        read_policies([stream(text + POLICY, "p.yaml")])
    (finding,) = raised.value.findings
    assert finding.code == "PC1502"
    assert str(finding.span) == f"p.yaml:{place}"
    assert finding.notes


def test_names_of_different_intents_and_none_are_no_mistake() -> None:
    text = named("a", 'tcp/1 as "x"', "tcp/1") + named("b", 'tcp/2 as "y"', "tcp/1")
    assert len(read_policies([stream(text, "p.yaml")]).found.intents) == 2
    policies = read_policies([stream(text, "p.yaml")])
    cluster = read_cluster([stream(text, "c.yaml")], given=policies.policies)
    assert not cluster.findings


def test_an_intent_file_among_policies_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.intent"
    path.write_text('# a\nnever tcp/1 from any to pod.a == "x"\n')
    with pytest.raises(InputError) as raised:
        read_policies([PathSource(str(path))])
    (finding,) = raised.value.findings
    assert (finding.code, str(finding.span)) == ("PC0115", f"{path}:1:1")
    assert "spec.intents" in finding.hint
