# SPDX-License-Identifier: Apache-2.0
"""A directory without files is a side without policies: before the first one, or after the last."""

from pathlib import Path

import pytest

from policyc.compiler.cli.main import run

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed, namespace: shop}
spec: {podSelector: {}, policyTypes: [Ingress]}
"""


@pytest.mark.parametrize("first", [True, False])
def test_the_first_policy_and_the_last(
    first: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty, one = tmp_path / "empty", tmp_path / "one"
    empty.mkdir()
    one.mkdir()
    (one / "policy.yaml").write_text(POLICY)
    sides = (empty, one) if first else (one, empty)
    assert run(["diff", *map(str, sides)]) == 1
    out = capsys.readouterr()
    assert out.out.startswith("narrowed: 1 region closed" if first else "widened: 1 region opened")
    assert "warning[PC0103]" in out.err


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    assert run(["diff", str(tmp_path / "nowhere"), str(tmp_path)]) == 2


OTHER = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n"


@pytest.mark.parametrize("command", ["diff", "equiv"])
def test_two_sides_without_policies_are_an_error(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "map.yaml").write_text(OTHER)
    assert run([command, str(tmp_path / "one"), str(tmp_path / "other")]) == 2
    err = capsys.readouterr().err
    assert "error[PC0117]: there is no policy in the input" in err
    assert "neither side has a policy" in err


@pytest.mark.parametrize(
    "command",
    [
        ("check",),
        ("compile", "--emit", "c"),
        ("convert", "--to", "calico"),
        ("list", "--cluster", "CLUSTER"),
        ("verify", "--intents", "INTENTS"),
    ],
)
def test_inputs_without_a_policy_are_refused(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"CLUSTER": "pods.yaml", "INTENTS": "all.intent"}
    (tmp_path / "pods.yaml").write_text(OTHER)
    (tmp_path / "all.intent").write_text("never tcp/80 from any to any\n")
    given = [str(tmp_path / files[each]) if each in files else each for each in command]
    assert run([*given, "-f", str(tmp_path / "pods.yaml")]) == 2
    err = capsys.readouterr().err
    assert "error[PC0117]: there is no policy in the input" in err
