# SPDX-License-Identifier: Apache-2.0
"""`policyc compile` as a user runs it: the bundle, the same bytes twice, and what goes wrong."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from policyc.compiler.cli.main import run
from tests.end_to_end.command import policyc_here

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "examples" / "online-shop"
POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  podSelector: {}
  ingress: [{ports: [{port: 80}]}]
"""


def policyc(
    *arguments: str, cwd: Path = ROOT, stdin: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    """The command; with variables of its own it is another process."""
    if not env:
        return policyc_here(*arguments, cwd=cwd, stdin=stdin)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [sys.executable, "-m", "policyc.compiler.cli", *arguments],
        cwd=cwd,
        env={**os.environ, "PATH": path, **env},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    path = tmp_path / "web.yaml"
    path.write_text(POLICY)
    return path


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    """Hash seeds of Python differ. LLVM runs in this process, and its bundles have the C, too."""
    arguments = ("-f", "examples/online-shop/policies", "--cluster", "examples/online-shop/cluster")
    arguments += ("--backend", "llvm")
    for name, seed in (("one", "1"), ("two", "2")):
        done = policyc("compile", *arguments, "-o", str(tmp_path / name), PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


def test_the_manifest_lists_the_contents_of_the_bundle(tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    done = policyc("compile", "-f", str(SHOP / "policies"), "--cluster", str(SHOP / "cluster"),
                   "-o", str(out), "--format", "json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary, manifest = json.loads(done.stdout), json.loads((out / "manifest.json").read_text())
    assert summary["policies"] >= 12
    assert manifest["schema"] == "policyc.dev/bundle/v1"
    assert manifest["minimum_kernel"] == "6.1"
    assert manifest["proof"]["decision_ir_equals_policy_ir"] == "proved"
    assert {m["name"] for m in manifest["maps"]} >= {"pc_class", "pc_nodes"}
    assert {i["path"] for i in manifest["inputs"]} >= {str(SHOP / "policies" / "shop.yaml")}
    rules = json.loads((out / "rules.json").read_text())["rules"]
    assert [rule["id"] for rule in rules] == list(range(len(rules)))
    for rule in rules[2:]:
        assert rule["places"][0]["file"].endswith(".yaml")
        assert rule["places"][0]["line"] > 0


def test_policies_alone_compile_from_standard_input(tmp_path: Path) -> None:
    done = policyc("compile", "-f", "-", "-o", str(tmp_path / "bundle"), stdin=POLICY)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "bundle" / "manifest.json").read_text())["options"][
        "universe"
    ] == ("symbolic")


def test_a_bundle_replaces_an_older_one(policies: Path, tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    assert policyc("compile", "-f", str(policies), "-o", str(out)).returncode == 0
    before = tree(out)
    policies.write_text(POLICY.replace("80", "8080"))
    assert policyc("compile", "-f", str(policies), "-o", str(out)).returncode == 0
    assert tree(out)["policy.bpf.c"] != before["policy.bpf.c"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bundle", "web.yaml"]


@pytest.mark.parametrize("made", ["folder", "file", "other json"])
def test_a_directory_without_a_bundle_is_never_replaced(
    policies: Path, tmp_path: Path, made: str
) -> None:
    out = tmp_path / "out"
    if made == "file":
        out.write_text("precious")
    else:
        out.mkdir()
        (out / "precious").write_text("precious")
        if made == "other json":
            (out / "manifest.json").write_text('{"schema": "something else"}')
    done = policyc("compile", "-f", str(policies), "-o", str(out))
    assert done.returncode == 2
    assert "PC0901" in done.stderr and "not a bundle" in done.stderr
    assert (out if made == "file" else out / "precious").read_text() == "precious"


def test_a_target_that_cannot_be_written_is_named(policies: Path) -> None:
    done = policyc("compile", "-f", str(policies), "-o", "/proc/none/bundle")
    assert done.returncode == 2
    assert "PC0902" in done.stderr and "/proc/none/bundle" in done.stderr


def test_without_clang_nothing_is_written_and_the_package_is_named(
    policies: Path, tmp_path: Path
) -> None:
    out = tmp_path / "bundle"
    done = policyc("compile", "-f", str(policies), "-o", str(out), POLICYC_CLANG="/no/clang")
    assert done.returncode == 3
    assert "clang is not installed" in done.stderr and "apt install clang" in done.stderr
    assert "--backend llvm" in done.stderr
    assert not out.exists()


def test_an_error_writes_nothing_and_shows_every_place(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(POLICY.replace("ingress", "ingres"))
    (tmp_path / "worse.yaml").write_text(POLICY.replace("port: 80", "port: 70000"))
    out = tmp_path / "bundle"
    done = policyc("compile", "-f", str(tmp_path), "-o", str(out))
    assert done.returncode == 2
    assert "bad.yaml:6:3" in done.stderr and "ingress" in done.stderr
    assert "worse.yaml:6:" in done.stderr
    assert not out.exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.yaml", "worse.yaml"]


@pytest.mark.parametrize("arguments", [
    ("compile",),
    ("compile", "-f", "x"),
    ("compile", "-f", "-", "--cluster", "-", "--cluster", "-", "-o", "x"),
    ("compile", "-f", "x", "-o", "b", "--emit", "nothing"),
    ("nothing",),
])  # fmt: skip
def test_wrong_usage_is_exit_code_two(arguments: tuple[str, ...]) -> None:
    done = policyc(*arguments)
    assert done.returncode == 2
    assert "Usage" in done.stderr or "No such command" in done.stderr


@pytest.mark.parametrize("stage", ["policy-ir", "atoms", "decision-ir", "plan", "c", "seeds"])
def test_every_stage_can_be_read(policies: Path, stage: str) -> None:
    done = policyc("compile", "-f", str(policies), "--emit", stage)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 2


@pytest.mark.parametrize(
    "tool", ["/bin/false", "no program", pytest.param("relative", marks=pytest.mark.slow)]
)
def test_a_wrong_clang_is_reported_in_one_line(policies: Path, tmp_path: Path, tool: str) -> None:
    if tool == "no program":
        made = tmp_path / "tool"
        made.write_bytes(b"\x00\x01")
        made.chmod(0o755)
        tool = str(made)
    if tool == "relative":
        (tmp_path / "clang-here").symlink_to(shutil.which("clang") or "")
        done = policyc(
            "compile", "-f", str(policies), "-o", "b", cwd=tmp_path, POLICYC_CLANG="./clang-here"
        )
        assert done.returncode == 0, done.stderr
        return
    done = policyc("compile", "-f", str(policies), "-o", str(tmp_path / "b"), POLICYC_CLANG=tool)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr and tool in done.stderr
    assert not (tmp_path / "b").exists()


def test_a_bundle_behind_a_link_is_replaced_and_the_link_kept(
    policies: Path, tmp_path: Path
) -> None:
    real, link = tmp_path / "v1", tmp_path / "current"
    assert policyc("compile", "-f", str(policies), "-o", str(real)).returncode == 0
    link.symlink_to("v1")
    policies.write_text(POLICY.replace("80", "8080"))
    assert policyc("compile", "-f", str(policies), "-o", str(link)).returncode == 0
    assert link.is_symlink()
    assert "TCP 8080" in (real / "policy.bpf.c").read_text()


def test_a_target_that_may_not_be_looked_at_is_named(
    policies: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700 if os.geteuid() == 0 else 0)
    arguments = ["compile", "-f", str(policies), "-o"]
    assert (
        run([*arguments, str(tmp_path / "open")]) == 0
    )  # the user `nobody` may not read this checkout
    me = os.geteuid()
    os.seteuid(65534 if me == 0 else me)
    try:
        code = run([*arguments, str(closed / "b")])
    finally:
        os.seteuid(me)
    assert code == 2
    assert "PC0902" in capsys.readouterr().err
