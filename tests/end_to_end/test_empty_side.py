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


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    assert run(["diff", str(tmp_path / "nowhere"), str(tmp_path)]) == 2
