# SPDX-License-Identifier: Apache-2.0
"""`policyc convert`: exit codes, what goes where, and that nothing unproved is ever written."""

from pathlib import Path

import pytest
import yaml

from policyc.backends.policies.target import Object, Writer
from policyc.compiler.cli.main import run
from policyc.compiler.driver.compare import convert
from policyc.ir.policy import PolicySet

ALLOWING = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: front}}}]}]}
"""
LOGGING = """\
apiVersion: projectcalico.org/v3
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  ingress:
  - action: Log
  - action: Allow
    source: {selector: app == "front"}
"""
OLD = "what was there\n"


@pytest.fixture
def given(tmp_path: Path) -> Path:
    path = tmp_path / "policies.yaml"
    path.write_text(ALLOWING)
    return path


def empty(policies: PolicySet) -> list[Object]:
    return []


def unreadable(policies: PolicySet) -> list[Object]:
    return [{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}]


def broken(monkeypatch: pytest.MonkeyPatch, writer: Writer) -> None:
    monkeypatch.setattr(convert, "TARGETS", {**convert.TARGETS, "calico": writer})


@pytest.mark.parametrize("target", list(convert.TARGETS))
def test_every_target_writes_yaml_to_stdout_and_its_proof_to_stderr(
    target: str, given: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["convert", "-f", str(given), "--to", target]) == 0
    shown = capsys.readouterr()
    objects = list(yaml.safe_load_all(shown.out))
    assert objects
    assert all({"apiVersion", "kind", "metadata", "spec"} <= found.keys() for found in objects)
    assert "converted 1 policy to 1 object for" in shown.err
    assert "proved equal" in shown.err


def test_the_output_file_has_the_same_text(
    given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["convert", "-f", str(given), "--to", "calico"])
    text = capsys.readouterr().out
    output = tmp_path / "out.yaml"
    output.write_text(OLD)
    assert run(["convert", "-f", str(given), "--to", "calico", "-o", str(output)]) == 0
    assert output.read_text() == text
    assert capsys.readouterr().out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.yaml", "policies.yaml"]


def test_an_inexpressible_rule_is_named_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given, output = tmp_path / "policies.yaml", tmp_path / "out.yaml"
    given.write_text(LOGGING)
    output.write_text(OLD)
    assert run(["convert", "-f", str(given), "--to", "networkpolicy", "-o", str(output)]) == 2
    shown = capsys.readouterr()
    assert f"{given}:6:5: error[PC1701]: " in shown.err
    assert "spec.ingress[0]" in shown.err
    assert "networkpolicy cannot express it: it logs or audits" in shown.err
    assert shown.out == ""
    assert output.read_text() == OLD
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.yaml", "policies.yaml"]


def test_effects_can_be_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = tmp_path / "policies.yaml"
    given.write_text(LOGGING)
    options = ["--to", "networkpolicy", "--ignore-effects"]
    assert run(["convert", "-f", str(given), *options]) == 0
    (found,) = yaml.safe_load_all(capsys.readouterr().out)
    assert len(found["spec"]["ingress"]) == 1


def test_a_target_that_changes_the_meaning_is_a_mistake_of_ours_with_a_witness(
    given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken(monkeypatch, empty)
    output = tmp_path / "out.yaml"
    assert run(["convert", "-f", str(given), "--to", "calico", "-o", str(output)]) == 3
    shown = capsys.readouterr().err
    assert "would not mean the same, and were not written" in shown
    assert "witness: " in shown
    assert "ingress: now deny" in shown
    assert not output.exists()


def test_a_target_that_cannot_be_read_back_is_a_mistake_of_ours(
    given: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken(monkeypatch, unreadable)
    assert run(["convert", "-f", str(given), "--to", "calico"]) == 3
    shown = capsys.readouterr()
    assert "cannot be read back" in shown.err
    assert shown.out == ""


def test_a_place_that_cannot_be_written_is_an_error(
    given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "missing" / "out.yaml"
    assert run(["convert", "-f", str(given), "--to", "calico", "-o", str(output)]) == 2
    assert "error[PC0902]" in capsys.readouterr().err


def test_an_unknown_target_is_a_usage_error(
    given: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["convert", "-f", str(given), "--to", "nothing"]) == 2
    assert "calico" in capsys.readouterr().err


def test_mistakes_in_the_input_come_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "policies.yaml"
    given.write_text(ALLOWING.replace("podSelector: {},", "podSelektor: {},"))
    assert run(["convert", "-f", str(given), "--to", "calico"]) == 2
    shown = capsys.readouterr()
    assert f"{given}:4:8" in shown.err
    assert shown.out == ""


@pytest.mark.parametrize("target", list(convert.TARGETS))
def test_a_long_list_of_blocks_is_no_complicated_rule(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = ", ".join(f"{{ipBlock: {{cidr: 192.0.2.{at}/32}}}}" for at in range(0, 200, 2))
    path = tmp_path / "policies.yaml"
    path.write_text(ALLOWING.replace("{podSelector: {matchLabels: {app: front}}}", blocks))
    assert run(["convert", "-f", str(path), "--to", target]) == 0
    assert "192.0.2.198" in capsys.readouterr().out


HOST = """\
apiVersion: projectcalico.org/v3
kind: HostEndpoint
metadata: {name: n1-eth0, labels: {role: edge}}
spec: {node: n1, interfaceName: eth0}
---
apiVersion: projectcalico.org/v3
kind: GlobalNetworkPolicy
metadata: {name: edge}
spec: {selector: role == 'edge', types: [Ingress]}
"""


def test_host_endpoints_have_to_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "policies.yaml"
    path.write_text(HOST)
    assert run(["convert", "-f", str(path), "--to", "calico"]) == 0
    shown = capsys.readouterr()
    assert "HostEndpoint" not in shown.out
    assert "keep these objects, and apply them with the output: HostEndpoint n1-eth0" in shown.err


STAGED = """\
apiVersion: projectcalico.org/v3
kind: StagedNetworkPolicy
metadata: {name: later, namespace: shop}
spec: {selector: all(), types: [Egress]}
"""


def test_staged_policies_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "policies.yaml"
    path.write_text(f"{STAGED}---\n{ALLOWING}")
    for command in (["convert", "--to", "calico"], ["compile", "--emit", "policy-ir"], ["eval"]):
        flow = ["10.0.0.1", "10.0.0.2", "tcp/80"] if command == ["eval"] else []
        assert run([*command, "-f", str(path), *flow]) == 0
        assert "staged, not in force: StagedNetworkPolicy" in capsys.readouterr().err
    path.write_text(STAGED)
    assert run(["compile", "-f", str(path), "-o", str(tmp_path / "bundle")]) == 2
    assert "all policies of the input are staged" in capsys.readouterr().err
