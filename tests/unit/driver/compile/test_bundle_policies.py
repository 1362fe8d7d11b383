# SPDX-License-Identifier: Apache-2.0
"""policies.json: every policy comes back, its text is its own, and what was damaged is refused."""

import hashlib
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from policyc.compiler.cli.main import run
from policyc.compiler.driver.compile.bundle_policies import (
    host_text,
    parse_policies,
    policies_json,
    staged_text,
)
from policyc.compiler.driver.compile.compile import (
    Inputs,
    read_inputs,
)
from policyc.compiler.driver.compile.policy_texts import (
    POLICIES_SCHEMA,
    ItemText,
    TierText,
    policies_text,
    policy_text,
)
from policyc.compiler.frontend.found import Found
from policyc.compiler.frontend.read import PolicyInput, ReadOptions, read_scenario
from policyc.compiler.frontend.yaml.sources import (
    PathSource,
    StreamSource,
)
from policyc.ir.encoding import DecodingError
from policyc.ir.hosts import HostEndpoint
from policyc.ir.policy import Policy, PolicySet
from policyc.ir.spans import NOWHERE, Origin, Span
from tests.golden.verdict_cases import load_cases
from tests.kernel_corpus.written import feature_cases
from tests.property.tiered_cases import tiered_case

TESTS = Path(__file__).parents[3]
EXAMPLES = TESTS.parent / "examples"
FILES = (
    *sorted(TESTS.glob("golden/*/*/policies.yaml")),
    TESTS / "golden" / "explain" / "policies.yaml",
    *sorted(EXAMPLES.glob("*/policies/*.yaml")),
)
GIVEN = sorted(TESTS.glob("golden/convert/*.yaml"))
MIXED = TESTS / "golden" / "policy_ir" / "mixed_calico" / "policies.yaml"


def read(text: str, beside: Path | None = None) -> PolicyInput:
    clusters = [beside / "cluster.yaml"] if beside else []
    if beside and EXAMPLES in beside.parents:
        clusters = [EXAMPLES / "online-shop" / "cluster"]
    cluster = tuple(PathSource(str(path)) for path in clusters if path.exists())
    source = StreamSource(BytesIO(text.encode()), "p.yaml")
    return read_inputs(Inputs((source,), cluster, ReadOptions(allow_empty=True))).policies


@cache
def texts() -> dict[str, tuple[str, Path | None]]:
    """The policies of every golden file and example, and the folder of their cluster."""
    files = {str(f.relative_to(TESTS.parent)): (f.read_text(), f.parent) for f in FILES}
    given = {path.name: (yaml.safe_load(path.read_text())["given"], None) for path in GIVEN}
    return {**files, **given}


def hosts_of(given: PolicyInput) -> list[HostEndpoint]:
    return list(given.found.hosts)


def exactly(value: object) -> object:
    """The full content of a value, with positions and names, which == ignores."""
    if is_dataclass(value):
        parts = [exactly(getattr(value, field.name)) for field in fields(value)]
        return type(value).__name__, parts
    if isinstance(value, frozenset):
        return sorted(map(repr, value))
    if isinstance(value, tuple):
        return [exactly(part) for part in value]
    return type(value).__name__, repr(value)


def every(policies: PolicySet) -> Iterator[Policy]:
    return (policy for tier in policies.tiers for policy in tier.policies)


def assert_comes_back(given: PolicyInput) -> None:
    held = parse_policies(policies_json(given, given.policies))
    assert exactly(held.live) == exactly(given.policies)
    assert exactly(held.staged) == exactly(given.staged)
    assert exactly(held.hosts) == exactly(tuple(hosts_of(given)))
    assert held.profile is given.profile


@pytest.mark.parametrize("name", texts())
def test_policies_of_every_api_come_back_with_their_places(name: str) -> None:
    given = read(*texts()[name])
    assert given.lowered
    assert_comes_back(given)


def test_the_files_have_staged_policies_and_host_endpoints() -> None:
    given = [read(*each) for each in texts().values()]
    assert any(each.staged for each in given)
    assert any(hosts_of(each) for each in given)
    kinds = {policy.kind for each in given for policy in every(each.policies)}
    assert len(kinds) >= 9


def test_policies_of_scenarios_come_back() -> None:
    sets = [case.policies for case in load_cases()]
    for case in feature_cases():
        sets.append(read_scenario(case.name, (*case.policies, *case.cluster))[0])
    assert len(sets) > 100
    for policies in sets:
        assert_comes_back(PolicyInput(policies))


def test_places_of_every_sort_come_back() -> None:
    for seed in range(100):
        rng = random.Random(seed)
        policies = tiered_case(rng).policies
        assert_comes_back(PolicyInput(placed(policies, partial(somewhere, rng))))


def somewhere(rng: random.Random, _: Span) -> Span:
    if rng.random() < 0.1:
        return NOWHERE
    file = rng.choice(("a.yaml", "a.yaml", "b.yaml", "<scenario x>", "", 'git:v1:ü"/p.yaml'))
    return Span(file, rng.randrange(30), rng.randrange(9), rng.choice((0, 12)))


def placed(policies: PolicySet, place: Callable[[Span], Span]) -> PolicySet:
    """The same policies elsewhere."""

    def origin(of: Origin) -> Origin:
        return replace(of, span=place(of.span))

    def moved(policy: Policy) -> Policy:
        return replace(
            policy,
            origin=origin(policy.origin),
            ingress=tuple(replace(rule, origin=origin(rule.origin)) for rule in policy.ingress),
            egress=tuple(replace(rule, origin=origin(rule.origin)) for rule in policy.egress),
        )

    return PolicySet(
        tuple(replace(t, policies=tuple(map(moved, t.policies))) for t in policies.tiers)
    )


def items_of(given: PolicyInput) -> list[ItemText]:
    return [
        *map(policy_text, every(given.policies)),
        *map(staged_text, given.staged),
        *map(host_text, hosts_of(given)),
    ]


@pytest.mark.parametrize("name", texts())
def test_a_policy_that_moves_down_changes_its_line_only(name: str) -> None:
    text, beside = texts()[name]
    items = items_of(read(text, beside))
    for lines in (1, 1000):
        moved = read("# moved\n" * lines + text, beside)
        assert items_of(moved) == [replace(item, line=item.line + lines) for item in items]


def test_a_policy_in_another_file_changes_its_file_only() -> None:
    for seed in range(50):
        policies = placed(
            tiered_case(random.Random(seed)).policies, lambda span: replace(span, file="a")
        )
        other = placed(policies, lambda span: replace(span, file="b"))
        for before, after in zip(every(policies), every(other), strict=True):
            assert policy_text(after) == replace(policy_text(before), file="b")


def network_policy(name: str, ports: tuple[int, ...]) -> str:
    rules = "".join(f"  - ports: [{{port: {port}}}]\n" for port in ports)
    return (
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n"
        f"metadata: {{name: {name}, namespace: shop}}\n"
        f"spec:\n  podSelector: {{}}\n  ingress:\n{rules}---\n"
    )


def test_the_file_is_put_together_again_from_texts_that_were_kept() -> None:
    rng = random.Random(7)
    ports = {f"p{at:02}": (80,) for at in range(20)}
    kept: dict[str, ItemText] = {}
    for _ in range(10):
        changed = rng.choice(sorted(ports))
        ports[changed] = tuple(rng.sample(range(1, 99), rng.randint(1, 4)))
        now = read("".join(network_policy(name, each) for name, each in ports.items()))
        for policy in every(now.policies):
            if policy.name in (changed, *(name for name in ports if name not in kept)):
                kept[policy.name] = policy_text(policy)
            kept[policy.name] = replace(kept[policy.name], line=policy.origin.span.line)
        tiers = [
            TierText(t.name, t.mode, t.unmatched, [kept[p.name].text for p in t.policies])
            for t in now.policies.tiers
        ]
        composed = policies_text(now.profile.value, tiers, (), ())
        assert composed == policies_json(now, now.policies)


def test_the_file_is_the_texts_of_its_policies_one_a_line() -> None:
    given = read(MIXED.read_text(), MIXED.parent)
    lines = [line.rstrip("]},") for line in policies_json(given, given.policies).splitlines()]
    items = [item.text.rstrip("}") for item in items_of(given)]
    assert len(items) == 4
    assert sorted(line for line in lines if line.startswith('{"entries"')) == sorted(items)


def test_the_same_policies_are_the_same_text() -> None:
    given = read(MIXED.read_text(), MIXED.parent)
    text = policies_json(given, given.policies)
    again = read(MIXED.read_text(), MIXED.parent)
    assert text == policies_json(again, again.policies)
    held = parse_policies(text)
    back = PolicyInput(
        held.live, profile=held.profile, lowered=held.staged, found=Found(hosts=held.hosts)
    )
    assert policies_json(back, held.live) == text


def test_the_table_of_types_does_not_depend_on_the_policies() -> None:
    given = read(MIXED.read_text(), MIXED.parent)
    few = json.loads(policies_json(PolicyInput(PolicySet(())), PolicySet(())))
    many = json.loads(policies_json(given, given.policies))
    assert few["types"] == many["types"]
    assert few == {**few, "schema": POLICIES_SCHEMA, "tiers": [], "staged": [], "hosts": []}


def test_texts_need_no_front_end() -> None:
    script = (
        "import sys, policyc.compiler.driver.compile.policy_texts\n"
        "print([m for m in sys.modules if m.startswith(('policyc.compiler.frontend', 'yaml'))])"
    )
    shown = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    assert shown.stdout.decode().strip() == "[]"


Json = dict[str, Any]


def _set(**members: object) -> Callable[[Json], None]:
    return lambda value: value.update(members)


def _policy(**members: object) -> Callable[[Json], None]:
    return lambda value: value["tiers"][0]["policies"][0].update(members)


def _no_member(value: Json) -> None:
    del value["types"]


def _cut_entries(value: Json) -> None:
    del value["tiers"][0]["policies"][0]["entries"][-1]


def _no_line(value: Json) -> None:
    del value["tiers"][0]["policies"][0]["line"]


def _root_is_a_rule(value: Json) -> None:
    item = value["tiers"][0]["policies"][0]
    rule = next(at for at, row in enumerate(value["types"]) if row[0] == "Rule")
    item["root"] = [next(at for at, entry in enumerate(item["entries"]) if entry[0] == rule)]


def _swap_kinds(value: Json) -> None:
    value["hosts"], value["staged"] = value["staged"], value["tiers"][0]["policies"]


def _tier_allows(value: Json) -> None:
    value["tiers"][0]["unmatched"] = "allow"


DAMAGE: dict[str, tuple[Callable[[Json], None], str]] = {
    "v1": (_set(schema="policyc.dev/policies/v1"), "the schema is not policyc.dev/policies/v2"),
    "unknown member": (_set(more=1), "expected the members"),
    "no types": (_no_member, "expected the members"),
    "types": (_set(types=[["Span", "file"]]), "Span has other fields"),
    "profile": (_set(profile="other"), "other"),
    "tiers": (_set(tiers=7), "not of this release"),
    "tier": (_set(tiers=["a"]), "a tier is not of this release"),
    "mode": (_tier_allows, "denied or passed on"),
    "cut entries": (_cut_entries, "there is no entry"),
    "root": (_policy(root=[10**6]), "there is no entry 1000000"),
    "root is another type": (_root_is_a_rule, "its policies contain another object"),
    "no entries": (_policy(entries=[]), "there is no entry"),
    "entries": (_policy(entries="ab"), "a line is not of this release"),
    "no line": (_no_line, "a line is not of this release"),
    "line": (_policy(line="4"), "a line is not of this release"),
    "file": (_policy(file=None), "a line is not of this release"),
    "kinds": (_swap_kinds, "a staged policy is not of this release"),
    "hosts": (_set(hosts=[{"entries": [], "root": 1, "file": "a", "line": 1}]), "mapping"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_policies_are_refused(case: str) -> None:
    change, words = DAMAGE[case]
    given = read(MIXED.read_text(), MIXED.parent)
    value = json.loads(policies_json(given, given.policies))
    change(value)
    with pytest.raises(DecodingError, match=words):
        parse_policies(json.dumps(value))


def test_random_damage_is_refused_or_harmless() -> None:
    """Never another exception than the one that is caught."""
    refused = 0
    given = read(MIXED.read_text(), MIXED.parent)
    text = policies_json(given, given.policies)
    for seed in range(500):
        rng = random.Random(seed)
        at = rng.randrange(len(text))
        damaged = text[:at] + rng.choice(("", "9", "[", "null", '"', ",1")) + text[at + 1 :]
        try:
            parse_policies(damaged)
        except DecodingError:
            refused += 1
    assert refused > 250


def test_a_damaged_bundle_is_refused_with_its_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_text(network_policy("web", (80,)))
    out = tmp_path / "bundle"
    assert run(["compile", "-f", str(tmp_path / "p.yaml"), "-o", str(out)]) == 0
    value = json.loads((out / "policies.json").read_text())
    value["schema"] = "policyc.dev/policies/v1"
    (out / "policies.json").write_text(json.dumps(value))
    manifest = json.loads((out / "manifest.json").read_text())
    digest = hashlib.sha256((out / "policies.json").read_bytes()).hexdigest()
    manifest["files"]["policies.json"] = digest
    (out / "manifest.json").write_text(json.dumps(manifest))
    assert run(["diff", str(out), str(tmp_path / "p.yaml")]) == 2
    shown = capsys.readouterr().err
    assert "PC0905" in shown
    assert "the schema is not policyc.dev/policies/v2" in shown
    assert "compile it again with this release" in shown
