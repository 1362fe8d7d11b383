# SPDX-License-Identifier: Apache-2.0
"""Bundles of a test's own policies, as a user compiles them."""

from pathlib import Path

from policyc.compiler.cli.main import run


def policy_for_web(*peers: str) -> str:
    """Pods of app `web` are reached by these alone, of both families: `ipBlock`s and such, as YAML."""
    lines = "".join(f"    - {each}\n" for each in peers)
    return f"""\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: web, namespace: shop}}
spec:
  podSelector: {{matchLabels: {{app: web}}}}
  policyTypes: [Ingress]
  ingress:
  - from:
{lines}"""


def compiled(folder: Path, policies: str, *options: str, name: str = "bundle") -> Path:
    """The bundle of some YAML, made in a folder that is there: NAME, beside NAME.yaml."""
    source = folder / f"{name}.yaml"
    source.write_text(policies)
    assert run(["compile", "-f", str(source), "-o", str(folder / name), *options]) == 0
    return folder / name
