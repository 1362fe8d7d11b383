# SPDX-License-Identifier: Apache-2.0
"""A namespace without an object has one label only; a warning says so if a policy reads others."""

from pathlib import Path

import pytest

from policyc.compiler.cli.main import run

POLICY = (
    "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p}\n"
    "spec:\n  ingress:\n  - from: [{namespaceSelector: {matchLabels: {KEY: x}}}]\n"
)
PODS = "".join(
    f"---\n{{apiVersion: v1, kind: Pod, metadata: {{name: a, namespace: {name}}}}}\n"
    for name in ("two", "one", "known")
)
NAMESPACE = "---\n{apiVersion: v1, kind: Namespace, metadata: {name: NAME}}\n"


@pytest.mark.parametrize(
    ("key", "namespaces", "names"),
    [
        ("team", ("known",), "one, two"),
        ("team", ("known", "one", "two"), ""),
        ("kubernetes.io/metadata.name", (), ""),
    ],
)
def test_missing_namespaces_are_listed_once(
    key: str,
    namespaces: tuple[str, ...],
    names: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "p.yaml").write_text(POLICY.replace("KEY", key))
    objects = PODS + "".join(NAMESPACE.replace("NAME", name) for name in namespaces)
    (tmp_path / "c.yaml").write_text(objects)
    files = ["-f", str(tmp_path / "p.yaml"), "--cluster", str(tmp_path / "c.yaml")]
    assert run(["eval", *files, "192.0.2.1", "192.0.2.2", "tcp/80"]) == 0
    shown = capsys.readouterr().err
    assert shown.count("warning[PC0610]") == bool(names)
    assert not names or f"there is no Namespace object for {names}\n" in shown
