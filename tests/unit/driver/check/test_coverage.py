# SPDX-License-Identifier: Apache-2.0
"""Coverage of `check`: which workloads of the cluster no policy isolates."""

import json
import random
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from policyc.compiler.cli.main import run
from policyc.compiler.driver.check.coverage import coverage
from policyc.ir.policy import Direction, PolicySet
from policyc.ir.results.coverage import Coverage, Isolation, percent
from policyc.ir.semantics import verdict
from policyc.ir.services import Service
from policyc.ir.universe import Endpoint, Flow
from tests.property.length import examples
from tests.property.tiered_cases import tiered_case
from tests.unit.driver.check.checked import policy

POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}}}}}
spec: {{containers: [{{name: c}}]{more}}}
status: {{podIP: 10.0.0.{at}}}
---
"""
OUTSIDE = ip_address("198.51.100.77")


def without_rules(policies: PolicySet) -> PolicySet:
    return replace(
        policies,
        tiers=tuple(
            replace(
                tier,
                policies=tuple(replace(each, ingress=(), egress=()) for each in tier.policies),
            )
            for tier in policies.tiers
        ),
    )


def is_denied(policies: PolicySet, end: Endpoint, direction: Direction) -> bool:
    """Whether the end's policies deny a flow from or to an external address."""
    ends = (OUTSIDE, end) if direction is Direction.INGRESS else (end, OUTSIDE)
    return verdict(policies, Flow(*ends, Service(6, 80), 4)).action.is_deny


def test_a_workload_is_isolated_if_policies_without_rules_deny_its_flows() -> None:
    seen = set()
    for seed in range(examples(300, 40)):
        case = tiered_case(random.Random(seed))
        bare = without_rules(case.policies)
        ends = [end for end in case.universe.endpoints if not end.host_network]
        found = coverage(case.policies, case.universe.endpoints)
        assert found.n_workloads == len(ends)
        for each in found.directions:
            wanted = {e.qualified_name for e in ends if not is_denied(bare, e, each.direction)}
            assert set(each.open) == wanted, seed
            seen |= {(each.direction, name in wanted) for name in {e.qualified_name for e in ends}}
    assert len(seen) == 4, "no pod was isolated, or every pod"


def cluster(tmp_path: Path) -> list[str]:
    pods = [("web", "shop", ""), ("db", "shop", ""), ("api", "other", "")]
    pods.append(("agent", "other", ", hostNetwork: true"))
    (tmp_path / "cluster.yaml").write_text(
        "".join(
            POD.format(name=name, namespace=namespace, more=more, at=at)
            for at, (name, namespace, more) in enumerate(pods, 1)
        )
    )
    (tmp_path / "p.yaml").write_text(policy("a", "podSelector: {}, policyTypes: [Ingress]"))
    return ["check", "-f", str(tmp_path / "p.yaml"), "--cluster", str(tmp_path / "cluster.yaml")]


def test_json_lists_every_workload_that_no_policy_isolates(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run([*cluster(tmp_path), "--format", "json"]) == 0
    assert json.loads(capfd.readouterr().out)["coverage"] == {
        "workloads": 3,
        "ingress": {"isolated": 2, "percent": 66, "not_isolated": ["other/api"]},
        "egress": {
            "isolated": 0,
            "percent": 0,
            "not_isolated": ["other/api", "shop/db", "shop/web"],
        },
        "host_network": ["other/agent"],
    }


def test_text_and_markdown_have_shares_and_names(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for style in ("text", "markdown"):
        assert run([*cluster(tmp_path), "--format", style]) == 0
        out = capfd.readouterr().out
        shares = "policies isolate 2 (66%) for ingress, 0 (0%) for egress"
        assert f"of 3 pods and workloads, {shares}" in out
        assert "not isolated for egress: other/api, shop/db, shop/web" in out
        assert "in the network of their host, where policies do not apply: other/agent" in out


def test_without_a_cluster_there_is_no_coverage(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run([*cluster(tmp_path)[:3], "--format", "json"]) == 0
    assert "coverage" not in json.loads(capfd.readouterr().out)


def test_an_empty_cluster_is_covered() -> None:
    empty = tuple(Isolation(direction, ()) for direction in Direction)
    assert coverage(PolicySet(()), ()) == Coverage(0, empty)
    assert (percent(0, 0), percent(2, 3), percent(3, 3)) == (100, 66, 100)
