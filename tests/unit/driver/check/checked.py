# SPDX-License-Identifier: Apache-2.0
"""`check` on policies as text."""

from pathlib import Path

from policyc.compiler.driver.check.answers import CheckOptions
from policyc.compiler.driver.check.check import check
from policyc.compiler.driver.check.input import read_to_check
from policyc.compiler.frontend.read import ReadOptions
from policyc.ir.results.check import CheckResult

PODS = """\
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db, tier: back}}
spec: {containers: [{name: db, image: db}]}
status: {podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}]}
"""


def policy(name: str, spec: str, namespace: str = "shop") -> str:
    return (
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{{spec}}}\n---\n"
    )


def checked(tmp_path: Path, *policies: str, cluster: str = "") -> CheckResult:
    (tmp_path / "p.yaml").write_text("".join(policies))
    (tmp_path / "c.yaml").write_text(cluster)
    given = [str(tmp_path / "c.yaml")] if cluster else []
    with Path("/dev/null").open("rb") as stdin:
        read = read_to_check([str(tmp_path / "p.yaml")], given, ReadOptions(), stdin)
    return check(read, CheckOptions(not cluster), lambda _: None).result


def found(result: CheckResult, code: str) -> list[str]:
    return [each.place.words for each in result.findings if each.code == code]
