# SPDX-License-Identifier: Apache-2.0
"""`-f - --cluster -` reads standard input once, for policies and cluster."""

import subprocess
import sys

import pytest

OBJECTS = """\
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec: {podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
spec: {containers: [{name: db, image: db}]}
status: {podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}]}
"""
BOTH = ("-f", "-", "--cluster", "-")


def policyc(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "policyc.compiler.cli", *arguments]
    return subprocess.run(command, input=OBJECTS, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("list", *BOTH), "the given cluster: 1 pod or workload"),
        (("check", *BOTH), "the given cluster: 1 pod or workload"),
        (("eval", *BOTH, "10.9.9.9", "shop/db", "tcp/80"), "deny"),
        (("explain", *BOTH, "10.9.9.9", "shop/db", "tcp/80"), "shop/db"),
        (("compile", *BOTH, "--emit", "policy-ir"), "shop/db"),
        (("diff", "-", "-", "--cluster", "-"), ""),
    ],
)
def test_policies_and_cluster_come_from_one_stream(arguments: tuple[str, ...], says: str) -> None:
    done = policyc(*arguments)
    if arguments[0] == "diff":
        assert done.returncode == 2 and "only once" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
        assert says in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("list", "-f", "-", *BOTH),
        ("check", *BOTH, "--cluster", "-"),
        ("eval", *BOTH, "--flows", "-"),
        ("verify", *BOTH, "--intents", "-"),
    ],
)
def test_one_option_may_not_read_it_twice(arguments: tuple[str, ...]) -> None:
    done = policyc(*arguments)
    assert done.returncode == 2 and "only once" in done.stderr
