# SPDX-License-Identifier: Apache-2.0
"""What compiles, what is counted, and why things are laid out as they are: by the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.end_to_end.command import policyc_here

ROOT = Path(__file__).parents[2]
SHOP = ["-f", "examples/online-shop/policies", "--cluster", "examples/online-shop/cluster"]
DENY_ALL = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed, namespace: shop}
spec: {podSelector: {}, policyTypes: [Ingress]}
"""


def policyc(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command; with variables of its own it is another process."""
    if not variables:
        return policyc_here(*arguments, cwd=ROOT)
    return subprocess.run(
        [sys.executable, "-m", "policyc.compiler.cli", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )


def test_llvm_compiles_where_there_is_no_clang(tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    done = policyc("compile", *SHOP, "-o", str(out), PATH="/nonexistent")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("; compiled by LLVM in this process\n")
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["llvm"].startswith("llvmlite ") and "clang" not in manifest
    asked = manifest["options"]
    assert (asked["backend"], asked["rule_counters"]) == ("llvm", "bytes")
    again = tmp_path / "again"
    done = policyc(
        "compile", *SHOP, "-o", str(again), "--backend", "llvm", "--cache", str(tmp_path / "c")
    )
    assert done.returncode == 0, done.stderr
    assert (again / "policy.bpf.o").read_bytes() == (out / "policy.bpf.o").read_bytes()


def test_a_missing_clang_is_reported_before_the_work(tmp_path: Path) -> None:
    asked = ("--backend", "c")
    done = policyc("compile", *SHOP, "-o", str(tmp_path / "bundle"), *asked, PATH="/nonexistent")
    assert done.returncode == 3
    assert "clang is not installed" in done.stderr
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize(("backend", "counters", "entries"), [
    pytest.param("c", "none", None, marks=pytest.mark.slow),
    pytest.param("c", "packets", 2, marks=pytest.mark.slow), ("c", "bytes", 4),
    ("llvm", "none", None), pytest.param("llvm", "bytes", 4, marks=pytest.mark.slow)])  # fmt: skip
def test_rule_counters_follow_the_option(
    tmp_path: Path, backend: str, counters: str, entries: int | None
) -> None:
    out = tmp_path / "bundle"
    options = ["--backend", backend, "--rule-counters", counters]
    done = policyc("compile", *SHOP, "-o", str(out), *options)
    assert done.returncode == 0, done.stderr
    maps = {each["name"]: each for each in json.loads((out / "manifest.json").read_text())["maps"]}
    assert ("pc_counts" in maps) == (entries is not None)
    if entries is not None:
        assert maps["pc_counts"]["value_words"] == entries


def test_llvm_counts_bytes_or_nothing(tmp_path: Path) -> None:
    options = ["--backend", "llvm", "--rule-counters", "packets"]
    done = policyc("compile", *SHOP, "-o", str(tmp_path / "bundle"), *options)
    assert done.returncode == 2
    assert "--rule-counters" in done.stderr


def test_explain_layout_shows_all_candidates() -> None:
    done = policyc("compile", *SHOP, "--explain-layout")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for part in ("ingress cells", "egress IPv4 addresses", "diagrams of services"):
        at = next(index for index, line in enumerate(lines) if line.startswith(part))
        options = [line for line in lines[at + 1 : at + 4] if line.startswith("  ")]
        chosen = lines[at].rsplit(": ", 1)[1]
        assert sum(line.startswith(f"  * {chosen}: ") for line in options) == 1
        assert all(" ns, about " in line and " instructions" in line for line in options)
    assert any(line.startswith("predicted for an ingress verdict: with a pod ") for line in lines)


def test_close_blocks_are_found_by_the_halves_of_an_address(tmp_path: Path) -> None:
    blocks = [{"ipBlock": {"cidr": f"10.7.{at * 2}.0/24"}} for at in range(128)]
    ports = [{"port": 1000 + at} for at in range(128)]
    rules = [{"from": [block], "ports": [port]} for block, port in zip(blocks, ports, strict=True)]
    policy = yaml.safe_load(DENY_ALL)
    policy["spec"]["ingress"] = rules
    (tmp_path / "policy.yaml").write_text(yaml.dump(policy))
    done = policyc("compile", "-f", str(tmp_path / "policy.yaml"), "--explain-layout")
    assert "ingress IPv4 addresses (257 runs): fans" in done.stdout.splitlines(), done.stderr
    done = policyc("compile", "-f", str(tmp_path / "policy.yaml"), "--emit", "c")
    assert "pc_word_at(&pc_root4_in, a >> 16)" in done.stdout
    assert "pc_search_fan(&pc_nodes, word, a & 0xffff, 0)" in done.stdout


def test_unused_features_are_not_in_the_program(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(DENY_ALL)
    done = policyc("compile", "-f", str(tmp_path / "policy.yaml"), "--emit", "c")
    assert done.returncode == 0, done.stderr
    code = done.stdout
    assert "no policy applies" in code, "egress is not decided"
    for absent in ("pc_cells_eg", "pc_column4", "pc_column6", "pc_cidr", "pc_root4", "switch"):
        assert absent not in code
    assert "#define PC_TOLD_APART 0x0 " in code, "no rule reads ports"
    assert "isolated by shop/closed" in code and "no rule distinguishes addresses" in code
    done = policyc("compile", "-f", str(tmp_path / "policy.yaml"), "--explain-layout")
    assert "egress: no policy applies, so there is no lookup" in done.stdout


@pytest.mark.parametrize("options", [
    [], ["-o", "x", "--explain-layout"], ["--emit", "c", "--explain-layout"],
    ["--backend", "gcc", "-o", "x"], ["--rule-counters", "all", "-o", "x"],
    ["--all-nodes", "--explain-layout"], ["-o", "x", "--cache", "x"]], ids=" ".join)  # fmt: skip
def test_options_that_make_no_sense_are_refused(options: list[str]) -> None:
    done = policyc("compile", *SHOP, *options)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
