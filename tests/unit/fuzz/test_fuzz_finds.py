# SPDX-License-Identifier: Apache-2.0
"""A wrong backend is found, made small and written; the case fails with the fault and passes without."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from policyc.backends.ebpf_c.seeds import Seed
from policyc.compiler.cli.main import run
from policyc.compiler.driver.cache.build_cache import BuildCache
from policyc.compiler.driver.compile import (
    emission,
    objects,
)
from policyc.compiler.fuzz import hunt

pytestmark = pytest.mark.thorough

SCHEMA = Path(__file__).parents[3] / "docs/schemas/fuzz-v1.schema.json"
_compiled = objects.policy_object
_seeds = emission.make_seeds


def without_udp(text: str, cache: BuildCache | None) -> bytes:
    """C that does not distinguish UDP from protocols without ports."""

    def cleared(found: re.Match[str]) -> str:
        return f"#define PC_TOLD_APART {int(found[1], 16) & ~2:#x}"

    return _compiled(re.sub(r"#define PC_TOLD_APART (0x[0-9a-f]+)", cleared, text), cache)


def with_wrong_leaves(*given: Any) -> tuple[Seed, ...]:
    """Seeds in which the first node allows instead of denies."""
    found = []
    for seed in _seeds(*given):
        data = bytearray(bytes(seed.data))
        if seed.map_name == "pc_nodes":
            for at in range(28, len(data) - 3, 64):  # child[0], below the lowest key that is named
                word = int.from_bytes(data[at : at + 4], "little")
                if word & 0x80000000 and not word & 0x40000000:
                    data[at : at + 4] = (word | 0x40000000).to_bytes(4, "little")
        found.append(
            Seed(seed.map_name, seed.kind, seed.entries, seed.fields, bytes(data), seed.key_bytes)
        )
    return tuple(found)


@contextmanager
def fault(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, wrong: object
) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, wrong)
        yield


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small enough after a few seconds, too."""
    monkeypatch.setattr(hunt, "SHRINKING", 6.0)


def search(out: Path, *options: str) -> list[str]:
    return ["fuzz", "--seed", "6", "--out", str(out), "--format", "json", *options]


def check(text: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text)
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(value)
    return value


@pytest.mark.slow
def test_fuzz_finds_a_fault_of_the_c_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    stages = ["--backends", "decision,executor-c"]
    with fault(monkeypatch, objects, "policy_object", without_udp):
        assert run(search(tmp_path, "--examples", "300", *stages)) == 1
        said = check(capfd.readouterr().out)
        (found,) = said["disagreements"]
        assert said["result"] == "disagreement"
        assert (found["stage"], found["flow"]["protocol"]) == ("executor-c", "udp")
        (file,) = tmp_path.iterdir()
        assert found["file"] == str(file)
        assert run(["fuzz", "--replay", str(file), *stages]) == 1
        assert str(file) in capfd.readouterr().out
    case = yaml.safe_load(file.read_text())
    kinds = [each["kind"] for each in case["objects"]]
    assert len(case["flows"]) == 1
    assert len([kind for kind in kinds if kind not in ("Pod", "Namespace", "Node")]) == 1, kinds
    assert len(kinds) <= 4, f"what is left that it does not need? {kinds}"
    assert run(["fuzz", "--replay", str(file), *stages]) == 0
    assert run(["fuzz", "--replay", str(file), "--format", "json"]) == 0
    assert check(capfd.readouterr().out.splitlines()[-1])["examples"] == 1


@pytest.mark.slow
@pytest.mark.kernel
def test_wrong_seeds_are_seen_in_the_kernel_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with fault(monkeypatch, emission, "make_seeds", with_wrong_leaves):
        assert run(search(tmp_path, "--examples", "300", "--backends", "decision,executor-c")) == 1
        (file,) = tmp_path.iterdir()
        for stage in ("kernel-c", "kernel-llvm", "executor-llvm"):
            assert run(["fuzz", "--replay", str(file), "--backends", stage]) == 1, stage
    assert run(["fuzz", "--replay", str(file)]) == 0
    assert "every stage agrees" in capfd.readouterr().out


def test_a_stage_that_fails_is_a_disagreement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> bytes:
        raise AssertionError("no room")

    with fault(monkeypatch, objects, "policy_object", fails):
        assert run(search(tmp_path, "--examples", "5", "--backends", "executor-c")) == 1
    (found,) = check(capfd.readouterr().out)["disagreements"]
    assert found["flow"] is None
    assert found["answer"] == "AssertionError: no room"
    (file,) = tmp_path.iterdir()
    assert "flows" not in yaml.safe_load(file.read_text())
    assert run(["fuzz", "--replay", str(file), "--backends", "executor-c"]) == 0
