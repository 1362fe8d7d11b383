# SPDX-License-Identifier: Apache-2.0
"""`policyc list --recheck`: compiled code works the matrix out again, and says how much of it."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from policyc.compiler.cli.main import run
from policyc.compiler.driver.eval import native_pairs
from policyc.verifier.cluster.recheck import Compared

SHOP = Path(__file__).parents[3] / "examples" / "online-shop"
INPUT = ["-f", str(SHOP / "policies"), "--cluster", str(SHOP / "cluster")]
HIGH_PORTS = """\
apiVersion: projectcalico.org/v3
kind: NetworkPolicy
metadata: {name: from-high-ports, namespace: shop}
spec: {selector: all(), ingress: [{action: Allow, protocol: TCP, source: {ports: ['1024:65535']}}]}
"""


def test_recheck_reports_its_coverage(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run(["list", *INPUT]) == 0
    plain = capfd.readouterr().out
    assert run(["list", *INPUT, "--recheck"]) == 0
    checked = capfd.readouterr().out
    said = re.search(r"; (\d+) of (\d+) flows between atoms evaluated again", checked)
    assert said is not None
    compared, total = map(int, said.groups())
    assert total * 0.9 < compared <= total
    assert total > 10_000
    assert plain.splitlines()[:-1] == checked.splitlines()[:-1]


def test_recheck_reports_a_difference_as_an_internal_error(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = native_pairs.NativePairs.compare

    def contrary(
        self: native_pairs.NativePairs,
        src: int,
        dsts: Sequence[int],
        keys: Sequence[int],
        listed: bytes,
    ) -> Compared:
        return real(self, src, dsts, keys, bytes(1 - byte for byte in listed))

    monkeypatch.setattr(native_pairs.NativePairs, "compare", contrary)
    assert run(["list", *INPUT, "--recheck"]) == 3
    captured = capfd.readouterr()
    assert not captured.out
    assert "compiled code does not confirm what is listed of" in captured.err


def test_recheck_omits_flows_that_tables_cannot_decide(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_text(HIGH_PORTS)
    assert run(["list", "-f", str(tmp_path), *INPUT[2:], "--recheck"]) == 0
    shown = capfd.readouterr().out
    assert "note: not evaluated again with compiled code" in shown
    assert "source ports" in shown
    assert "flows between atoms" not in shown


def test_recheck_without_llvmlite_is_refused(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [m for m in sys.modules if m == "llvmlite" or m.startswith("llvmlite.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    assert run(["list", *INPUT, "--recheck"]) == 3
    captured = capfd.readouterr()
    assert not captured.out
    assert "native evaluation needs llvmlite" in captured.err
