# SPDX-License-Identifier: Apache-2.0
"""`policyc diff` over a cluster with one pod, whose address is not known: it is one end, not two."""

from pathlib import Path

import pytest

from policyc.compiler.cli.main import run

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: a, namespace: x}
spec:
  podSelector: {}
  policyTypes: [Ingress]
  ingress:
    - from: [{podSelector: {}}]
      PORTS
    - from: [{ipBlock: {cidr: CIDR}}]
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: x}
spec: {containers: [{name: c}]}
"""
TEMPLATE = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: p, namespace: x}
spec:
  selector: {matchLabels: {app: p}}
  template:
    metadata: {labels: {app: p}}
    spec: {containers: [{name: c}]}
"""


@pytest.mark.parametrize("cidr", ["192.0.2.1/32", "10.0.0.0/8", "0.0.0.0/1"])
@pytest.mark.parametrize(("cluster", "code", "word"), [(POD, 0, "equal"), (TEMPLATE, 1, "widened")])
def test_a_pod_cannot_be_both_ends_at_two_addresses(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    cidr: str,
    cluster: str,
    code: int,
    word: str,
) -> None:
    """A Deployment has two pods at least, so its pods may talk to each other."""
    text = POLICY.replace("CIDR", cidr)
    (tmp_path / "old.yaml").write_text(text.replace("PORTS", "ports: [{port: 80}]"))
    (tmp_path / "new.yaml").write_text(text.replace("PORTS", ""))
    (tmp_path / "cluster.yaml").write_text(cluster)
    names = [str(tmp_path / name) for name in ("old.yaml", "new.yaml", "cluster.yaml")]
    assert run(["diff", names[0], names[1], "--cluster", names[2]]) == code
    assert capsys.readouterr().out.startswith(word)
