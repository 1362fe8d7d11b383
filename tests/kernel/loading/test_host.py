# SPDX-License-Identifier: Apache-2.0
"""A missing feature of the host is reported with its remedy and exit code 3."""

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from policyc.compiler.cli.main import run as policyc
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import (
    features,
    host,
)
from policyc.runtime.load import node as runtime
from policyc.runtime.load.request import LoadRequest
from tests.kernel.support.node_under_test import NodeUnderTest
from tests.kernel.support.table_policy import NamePlacer

pytestmark = [pytest.mark.kernel, pytest.mark.fresh]
_CLONE_NEWNS = 0x00020000
_libc = ctypes.CDLL(None, use_errno=True)


def _said_in_child(step: Callable[[], object]) -> str:
    """Run a step in a child process; gives the `HostError` that it raised, and its hint."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            step()
            answer = "nothing"
        except HostError as error:
            answer = f"{error.exit_code} {error} | {error.hint}"
        except BaseException as error:
            answer = repr(error)
        os.write(write, answer.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    return answer


def _without_mounts(step: Callable[[], object], *hide: str) -> Callable[[], object]:
    """The step, in a mount namespace where something is hidden behind an empty file system."""

    def hidden() -> object:
        assert _libc.unshare(_CLONE_NEWNS) == 0
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        for path in hide:
            subprocess.run(["mount", "-t", "tmpfs", "none", path], check=True)
        return step()

    return hidden


@pytest.mark.slow
def test_a_child_process_that_hides_no_mount_loads(node: NodeUnderTest) -> None:
    assert _said_in_child(_without_mounts(lambda: node.load(node.policy()))) == "nothing"
    node.unload()


def test_a_kernel_without_btf_is_reported(node: NodeUnderTest) -> None:
    said = _said_in_child(_without_mounts(lambda: node.load(node.policy()), "/sys/kernel/btf"))
    assert said.startswith("3 the kernel has no BTF: /sys/kernel/btf/vmlinux is missing")
    assert "CONFIG_DEBUG_INFO_BTF" in said


def test_a_missing_bpffs_is_reported(node: NodeUnderTest, tmp_path: Path) -> None:
    node.bpffs = tmp_path / "elsewhere" / "policyc"
    with pytest.raises(HostError, match="is not in a bpf file system") as caught:
        node.load(node.policy())
    assert "mount -t bpf bpf" in caught.value.hint
    assert not (tmp_path / "elsewhere").exists()


def test_a_bpffs_missing_at_its_usual_place_is_reported(node: NodeUnderTest) -> None:
    node.bpffs = Path("/sys/fs/bpf/policyc-test")
    said = _said_in_child(_without_mounts(lambda: node.load(node.policy()), "/sys/fs"))
    assert said.startswith("3 /sys/fs/bpf/policyc-test is not in a bpf file system")


@pytest.fixture
def readable(node: NodeUnderTest) -> Iterator[tuple[Path, Path]]:
    """A bundle and an endpoints file that everybody may read."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    shutil.copytree(node.bundle(node.policy()), folder / "bundle")
    shutil.copy(node.endpoints(), folder / "endpoints.json")
    yield folder / "bundle", folder / "endpoints.json"
    shutil.rmtree(folder)


def test_a_command_without_root_is_reported(
    node: NodeUnderTest, readable: tuple[Path, Path]
) -> None:
    def as_nobody() -> None:
        os.seteuid(65534)
        runtime.load(
            LoadRequest(bundle=readable[0], endpoints=readable[1], bpffs=node.bpffs),
            placer=NamePlacer,
        )

    assert _said_in_child(as_nobody).startswith("3 this needs root")

    def unload_as_nobody() -> None:
        os.seteuid(65534)
        runtime.unload(bpffs=node.bpffs)

    assert _said_in_child(unload_as_nobody).startswith("3 this needs root")


def test_a_kernel_that_is_too_old_is_reported(node: NodeUnderTest) -> None:
    with pytest.raises(HostError, match=r"the bundle needs Linux 99\.0 or later"):
        runtime.load(
            LoadRequest(
                bundle=node.bundle(node.policy(), kernel="99.0"),
                endpoints=node.endpoints(),
                bpffs=node.bpffs,
                state_root=node.state_root,
            ),
            placer=NamePlacer,
        )


@pytest.mark.slow
def test_a_kernel_with_preempt_rt_is_reported(
    node: NodeUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "REALTIME", tmp_path / "realtime")
    (tmp_path / "realtime").write_text("1\n")
    with pytest.raises(HostError, match="PREEMPT_RT"):
        node.load(node.policy())
    assert not node.bpffs.exists()
    (tmp_path / "realtime").write_text("0\n")
    node.load(node.policy())


def test_tcx_is_refused_on_a_kernel_without_tcx(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = features.Feature("attaching by tcx links", "6.6", lambda: False)
    monkeypatch.setattr(features, "TCX", absent)
    with pytest.raises(HostError, match=r"attaching by tcx links needs Linux 6\.6, this is"):
        node.load(node.policy(), mode="tcx")
    loaded = node.load(node.policy(), mode="auto")
    assert {each.kind for each in loaded.generation.attachments} == {"clsact"}


def test_the_probe_for_tcx_agrees_with_the_kernels_version() -> None:
    major, minor = (int(part) for part in os.uname().release.split(".")[:2])
    assert features.TCX.is_there() == ((major, minor) >= (6, 6))


@pytest.mark.slow
def test_the_error_quotes_the_verifier_and_names_the_flag_for_the_log(
    node: NodeUnderTest,
    variant: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = variant(
        "broken", {"policy_run.h": ("count->packets += 1;", "count[PC_RULES * 1000].packets += 1;")}
    )
    bundle, endpoints = node.bundle(node.policy(), broken), node.endpoints()
    monkeypatch.setattr(runtime, "_tables", NamePlacer)
    command = [
        "node",
        "load",
        str(bundle),
        "--endpoints",
        str(endpoints),
        "--bpffs",
        str(node.bpffs),
    ]
    assert policyc(command) == 3
    short = capsys.readouterr().err
    assert "the kernel refused it: invalid access to map value" in short
    assert "--verbose" in short
    assert len(short.splitlines()) < 5
    assert policyc([*command, "--verbose"]) == 3
    assert "processed" in capsys.readouterr().err


def test_the_commands_and_their_exit_codes(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runtime, "_tables", NamePlacer)
    node.node_addresses = ()
    bpffs = ["--bpffs", str(node.bpffs)]
    bundle, endpoints = str(node.bundle(node.policy())), str(node.endpoints())
    load = ["node", "load", bundle, "--endpoints", endpoints, *bpffs]
    assert policyc(["node", "status", *bpffs]) == 0
    assert capsys.readouterr().out == "nothing is loaded\n"
    try:
        assert policyc(load) == 0
        assert policyc(load) == 0
        assert "replaced: epoch 2, 3 endpoints, 2 of this node" in capsys.readouterr().err
        assert policyc(["node", "status", *bpffs]) == 0
        text = capsys.readouterr().out
        for word in ("pc_from_pod", "shop/a", "pca", "pc_ct4", "131072"):
            assert word in text
        assert policyc(["node", "status", *bpffs, "--format", "json"]) == 0
        assert '"epoch": 2' in capsys.readouterr().out
        assert policyc([*load, "--attach", "sometimes"]) == 2
        assert policyc(["node", "load", bundle, *bpffs]) == 2
        assert policyc(["node", "load", "/nowhere", "--endpoints", endpoints, *bpffs]) == 2
    finally:
        assert policyc(["node", "unload", *bpffs]) == 0
    capsys.readouterr()
    assert policyc(["node", "unload", *bpffs]) == 0
    assert "nothing is loaded" in capsys.readouterr().err
