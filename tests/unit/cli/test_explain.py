# SPDX-License-Identifier: Apache-2.0
"""`policyc explain` on the online shop, and how --format and --output behave in every command."""

import json
from pathlib import Path

import jsonschema
import pytest

from policyc.compiler.cli.main import run
from policyc.ir.errors import InternalError

ROOT = Path(__file__).parents[3]
SHOP = ROOT / "examples" / "online-shop"
INPUT = ["-f", str(SHOP / "policies"), "--cluster", str(SHOP / "cluster")]
DENIED = ["explain", "shop/checkout", "payments/fraud", "tcp/50051", *INPUT]


def schema_of(name: str) -> jsonschema.Draft202012Validator:
    path = ROOT / "docs" / "schemas" / f"{name}-v1.schema.json"
    return jsonschema.Draft202012Validator(json.loads(path.read_text()))


def test_each_end_is_explained(capfd: pytest.CaptureFixture[str]) -> None:
    """The shop's README says it: checkout may send to fraud, which does not let it in."""
    assert run(DENIED) == 0, "the question is answered, whatever the verdict"
    shown = capfd.readouterr().out
    egress, _, ingress = shown.partition("ingress of payments/fraud: denied")
    assert "egress of shop/checkout: allowed" in egress
    assert "tier networkpolicy: allow by shop/checkout-pays spec.egress[0]" in egress
    assert "isolated by payments/default-deny, payments/metrics-to-monitoring" in ingress
    assert "peer: shop/checkout is in namespace shop, not payments" in ingress
    line = next(
        at
        for at, text in enumerate((SHOP / "policies" / "shop.yaml").read_text().splitlines(), 1)
        if text.strip() == "name: checkout-pays"
    )
    assert f"shop.yaml:{line}:" in egress


@pytest.mark.parametrize(
    ("flow", "verdict"),
    [
        ("shop/frontend shop/checkout tcp/5050", "allow"),
        ("198.51.100.10 shop/frontend tcp/8080", "allow"),
        ("2001:db8:51::10 payments/payment-gateway tcp/8443", "deny"),
        ("node/node-1 shop/frontend tcp/1", "unknown"),
        ("shop/checkout shop/orders icmp/8/0", "allow"),
    ],
)
def test_json_is_valid_and_has_the_verdict(
    flow: str, verdict: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", *flow.split(), *INPUT, "--format", "json"]) == 0
    found = json.loads(capfd.readouterr().out)
    schema_of("explain").validate(found)
    assert found["verdict"] == verdict


def test_wrong_input_is_a_document_and_exit_2(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "shop/chekout", "10.0.0.1", "tcp/1", *INPUT, "--format", "json"]) == 2
    shown = capfd.readouterr()
    schema_of("diagnostics").validate(json.loads(shown.out))
    assert "did you mean `shop/checkout`?" in shown.err


def test_an_internal_error_prints_a_document_and_exits_with_3(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise InternalError("the walk is wrong")

    monkeypatch.setattr("policyc.compiler.cli.explain.explained", broken)
    assert run([*DENIED, "--format", "json"]) == 3
    shown = capfd.readouterr()
    found = json.loads(shown.out)
    schema_of("error").validate(found)
    assert found["message"] == "the walk is wrong" and found["kind"] == "internal"
    assert "the walk is wrong" in shown.err
    assert run(DENIED) == 3
    assert capfd.readouterr().out == "", "text has its errors on standard error only"


def test_an_unknown_format_is_a_usage_error(capfd: pytest.CaptureFixture[str]) -> None:
    assert run([*DENIED, "--format", "sarif"]) == 2
    assert "'sarif' is not one of 'text', 'json'" in capfd.readouterr().err


def test_the_result_goes_into_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "why.json"
    assert run([*DENIED, "--format", "json", "-o", str(output)]) == 0
    assert capfd.readouterr().out == ""
    schema_of("explain").validate(json.loads(output.read_text()))
    assert run([*DENIED, "--format", "json", "-o", "-"]) == 0
    assert json.loads(capfd.readouterr().out) == json.loads(output.read_text())
    assert list(tmp_path.iterdir()) == [output], "nothing is left beside it"


def test_an_unwritable_file_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "no" / "why.json"
    assert run([*DENIED, "--format", "json", "-o", str(missing)]) == 2
    shown = capfd.readouterr()
    schema_of("diagnostics").validate(json.loads(shown.out))
    assert "cannot be written" in shown.err


def test_a_failure_is_written_to_the_result_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "why.json"
    asked = ["explain", "shop/nobody", "10.0.0.1", "tcp/1", *INPUT, "--format", "json"]
    assert run([*asked, "-o", str(output)]) == 2
    schema_of("diagnostics").validate(json.loads(output.read_text()))
    assert capfd.readouterr().out == ""


def test_the_page_shows_the_explanation(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "explain.md").read_text()
    (command,) = [line.split()[1:] for line in page.splitlines() if line.startswith("    policyc")]
    _, example, _ = page.split("```\n")
    assert run(command) == 0
    assert example.strip() in capfd.readouterr().out
