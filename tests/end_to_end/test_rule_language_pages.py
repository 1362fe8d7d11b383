# SPDX-License-Identifier: Apache-2.0
"""Every example on the pages of the rule language is taken, laid out as `fmt` does, and evaluated."""

import io
import re
from pathlib import Path

import pytest
import yaml

from policyc.compiler.cli.main import run
from policyc.compiler.frontend import read_cluster
from policyc.compiler.frontend.extended.formatting import (
    format_intent_file,
    format_yaml_file,
)
from policyc.compiler.frontend.read import read_policies
from policyc.compiler.frontend.read_intents import read_intents
from policyc.compiler.frontend.yaml.sources import (
    ObjectsSource,
    PathSource,
    StreamSource,
)
from policyc.grammar.layout import lay_out_rules
from policyc.ir.diagnostics import Report

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "examples" / "online-shop"
EXTENDED = ROOT / "examples" / "extended"
PAGES = ("extended-policy.md", "intents.md")
FENCES = [
    (page, language, text)
    for page in PAGES
    for language, text in re.findall(
        r"^```(yaml|rules|intents)\n(.*?)^```$", (ROOT / "docs" / page).read_text(), re.M | re.S
    )
]
DNS = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "kube-dns", "namespace": "kube-system"},
    "spec": {"selector": {"k8s-app": "kube-dns"}, "ports": [{"port": 53}]},
}
INPUT = ["-f", str(SHOP / "policies"), "-f", str(EXTENDED / "policies")]
CLUSTER = ["--cluster", str(SHOP / "cluster")]


def stream(text: str, name: str) -> StreamSource:
    return StreamSource(io.BytesIO(text.encode()), name)


def read(text: str) -> None:
    services = read_cluster([ObjectsSource("cluster", (DNS,))]).services
    assert not read_policies([stream(text, "p.yaml")], services=services).findings


def test_the_pages_have_examples() -> None:
    assert {language for _, language, _ in FENCES} == {"yaml", "rules", "intents"}
    assert len(FENCES) == 10


@pytest.mark.parametrize(("page", "language", "text"), FENCES)
def test_an_example_is_taken_and_laid_out(page: str, language: str, text: str) -> None:
    if language == "rules":
        spec = {"tier": 5, "appliesTo": "all", "rules": text}
        value = {"apiVersion": "policyc.dev/v1alpha1", "kind": "ExtendedPolicy", "spec": spec}
        read(yaml.safe_dump(value | {"metadata": {"name": "p"}}))
        assert lay_out_rules(text) == text
    elif language == "intents":
        assert read_intents([stream(text, "x.intent")]).intents
        assert format_intent_file(text.encode(), "x.intent", Report()) == text.encode()
    else:
        read(text)
        assert format_yaml_file(text.encode(), "p.yaml", Report()) == text.encode()


VERDICTS = [
    ("shop/orders", "169.254.169.254", "tcp/80", "deny", "no-cloud-metadata"),
    ("shop/orders", "fd00:ec2::254", "tcp/80", "deny", "no-cloud-metadata"),
    ("payments/payment-gateway", "payments/ledger", "tcp/3389", "deny", "card-environment"),
    ("203.0.113.9", "shop/frontend", "icmp/8/0", "deny", ""),
]


@pytest.mark.parametrize(("src", "dst", "service", "verdict", "policy"), VERDICTS)
def test_the_example_s_policies_decide(
    src: str,
    dst: str,
    service: str,
    verdict: str,
    policy: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run(["eval", *INPUT, *CLUSTER, src, dst, service]) == 0
    shown = capfd.readouterr().out
    assert shown.splitlines()[0].endswith(f": {verdict}")
    assert policy in shown


def test_the_example_compiles(tmp_path: Path) -> None:
    assert run(["compile", *INPUT, *CLUSTER, "-o", str(tmp_path / "bundle")]) == 0


def test_the_example_s_intents_are_read() -> None:
    services = read_cluster([PathSource(str(SHOP / "cluster"))]).services
    found = read_intents([PathSource(str(EXTENDED))], services=services)
    assert [intent.name for intent in found.intents] == [
        "no-cloud-metadata",
        "no-remote-desktop",
        "orders-db-has-one-client",
        "ping",
        "staging-apart",
    ]


def test_the_examples_are_laid_out() -> None:
    assert run(["fmt", "--check", str(EXTENDED)]) == 0


def test_the_page_names_every_icmp_type() -> None:
    from policyc.grammar.icmp_types import ICMP_TYPES, ICMPV6_TYPES

    page = (ROOT / "docs" / "extended-policy.md").read_text()
    for name in {*ICMP_TYPES, *ICMPV6_TYPES}:
        assert f"`{name.replace('neighbor', 'neighbour')}`" in page
