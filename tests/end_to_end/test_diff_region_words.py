# SPDX-License-Identifier: Apache-2.0
"""The services of a symbolic region are possible between its ends."""

import json
from pathlib import Path

import pytest

from policyc.compiler.cli.main import run

POLICIES = """\
apiVersion: policyc.dev/v1alpha1
kind: ExtendedPolicy
metadata: {name: web}
spec:
  tier: 500
  appliesTo: all
  rules: |
    egress:
      allow tcp/80 to 10.0.0.0/8
---
apiVersion: policyc.dev/v1alpha1
kind: ExtendedPolicy
metadata: {name: ping}
spec:
  tier: 600
  appliesTo: all
  rules: |
    egress:
      allow icmp echo-request to any
"""


def test_a_region_of_an_ipv4_block_has_no_icmpv6(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(POLICIES)
    new.write_text(POLICIES.replace("      allow tcp/80 to 10.0.0.0/8\n", ""))
    assert run(["diff", str(old), str(new), "--format", "json"]) == 1
    (region,) = json.loads(capsys.readouterr().out)["differences"]
    assert (region["to"], region["services"]) == ("10.0.0.0/8", ["TCP 80"])
