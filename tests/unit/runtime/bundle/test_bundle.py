# SPDX-License-Identifier: Apache-2.0
"""A bundle is checked against its digests, and its faults are reported."""

import hashlib
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from policyc.runtime.bundle.bundle import read_bundle
from policyc.runtime.errors import InputError

Manifest = dict[str, Any]
SEED = struct.pack("<4I", 1, 2, 3, 4)


def write(folder: Path, edit: Callable[[Manifest], object] = lambda _: None) -> Path:
    (folder / "seeds").mkdir(parents=True)
    (folder / "seeds" / "pc_cell_in.bin").write_bytes(SEED)
    for name in ("policy.bpf.o", "hooks.bpf.o"):
        (folder / name).write_bytes(b"object")
    (folder / "plan.json").write_text('{"endpoints": 16}')
    (folder / "classifier.json").write_text('{"selectors": []}')
    (folder / "rules.json").write_text('{"rules": [{"id": 0}, {"id": 1}]}')
    files = [path for path in folder.rglob("*") if path.is_file()]
    manifest: Manifest = {
        "schema": "policyc.dev/bundle/v1", "policyc": "0.1.0", "minimum_kernel": "6.1",
        "maps": [{"name": "pc_cell_in", "object": "policy.bpf.o", "kind": "array", "entries": 8,
                  "seed": "seeds/pc_cell_in.bin", "key_words": 0, "value_words": 2}],
        "files": {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
                  for p in files},
    }  # fmt: skip
    edit(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_a_valid_bundle_is_read(tmp_path: Path) -> None:
    bundle = read_bundle(write(tmp_path / "b"))
    assert bundle.minimum_kernel == (6, 1)
    assert bundle.plan == {"endpoints": 16}
    assert bundle.classifier == {"selectors": []}
    assert [rule["id"] for rule in bundle.rules] == [0, 1]
    assert bundle.seed_words("pc_cell_in") == (1, 2, 3, 4)
    with pytest.raises(InputError, match="there is no map `pc_other`"):
        bundle.map("pc_other")


def test_a_map_without_a_seed_is_read_as_empty(tmp_path: Path) -> None:
    bundle = read_bundle(write(tmp_path / "b", lambda m: m["maps"][0].update(seed=None)))
    assert bundle.seed("pc_cell_in") == b""


BAD: list[tuple[str, Callable[[Manifest], object], str]] = [
    ("another schema", lambda m: m.update(schema="policyc.dev/bundle/v2"), "$.schema: expected"),
    ("no schema", lambda m: m.pop("schema"), "the field `schema` is missing"),
    ("no maps", lambda m: m.pop("maps"), "the field `maps` is missing"),
    ("no object", lambda m: m["files"].pop("hooks.bpf.o"), "the file `hooks.bpf.o` is missing"),
    ("a file that is gone", lambda m: m["files"].update(gone="0"), "'gone' cannot be read"),
    ("a file elsewhere", lambda m: m["files"].update({"../x": "0"}), "is outside the bundle"),
    ("a wrong digest", lambda m: m["files"].update({"plan.json": "0" * 64}), "expected 0000"),
    ("a kernel that is none", lambda m: m.update(minimum_kernel="new"), "a kernel version as 6.1"),
    ("a seed too long", lambda m: m["maps"][0].update(entries=1), "has 2 entries, the map 1"),
    ("a seed cut off", lambda m: m["maps"][0].update(value_words=3), "not a multiple of 12"),
    ("a seed without a digest", lambda m: m["files"].pop("seeds/pc_cell_in.bin"), "not among"),
    ("a map without a name", lambda m: m["maps"][0].pop("name"), "$.maps[0]: the field `name`"),
]


@pytest.mark.parametrize(("edit", "message"), [c[1:] for c in BAD], ids=[c[0] for c in BAD])
def test_a_bundle_is_refused_with(
    tmp_path: Path, edit: Callable[[Manifest], object], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        read_bundle(write(tmp_path / "b", edit))
    assert message in str(caught.value)


def test_a_file_changed_after_it_was_compiled(tmp_path: Path) -> None:
    folder = write(tmp_path / "b")
    (folder / "policy.bpf.o").write_bytes(b"OBJECT")
    with pytest.raises(InputError, match=r"'policy\.bpf\.o' has sha256"):
        read_bundle(folder)


@pytest.mark.parametrize(
    ("make", "message"), [(False, "is not a directory"), (True, "has no manif")]
)
def test_invalid_bundles_are_refused(tmp_path: Path, make: bool, message: str) -> None:
    if make:
        (tmp_path / "b").mkdir()
    with pytest.raises(InputError, match=message):
        read_bundle(tmp_path / "b")


def _in_place_of(path: Path, what: str) -> None:
    path.unlink()
    match what:
        case "FIFO":
            os.mkfifo(path)
        case "huge file":
            with path.open("wb") as file:
                file.truncate(1 << 40)
        case "directory":
            path.mkdir()
        case _:
            path.symlink_to(what)


@pytest.mark.parametrize("name", ["manifest.json", "rules.json", "seeds/pc_cell_in.bin"])
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("FIFO", "it is not a regular file"),
        ("/dev/zero", "it is not a regular file"),
        ("/dev/tty", "it is not a regular file"),
        ("directory", "it is not a regular file"),
        ("huge file", "it is larger than"),
        ("/proc/kmsg", "cannot be read|has sha256|not JSON|has no"),
    ],
)
def test_a_bundle_file_that_is_not_regular_is_refused(
    tmp_path: Path, name: str, what: str, message: str
) -> None:
    """At the command line, where a reader that waits would never end."""
    folder = write(tmp_path / "b")
    _in_place_of(folder / name, what)
    load = f"['node', 'load', {str(folder)!r}, '--endpoints', '/nowhere']"
    done = subprocess.run(
        [sys.executable, "-c", f"from policyc.compiler.cli.main import run; exit(run({load}))"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    with pytest.raises(InputError, match=message) as failed:
        read_bundle(folder)
    assert name in str(failed.value)


def test_the_files_of_a_bundle_are_bounded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "b")
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    monkeypatch.setattr("policyc.runtime.bundle.bundle.MOST_BYTES", total)
    read_bundle(folder)
    without_manifest = total - (folder / "manifest.json").stat().st_size
    monkeypatch.setattr("policyc.runtime.bundle.bundle.MOST_BYTES", without_manifest - 1)
    with pytest.raises(InputError, match="larger than"):
        read_bundle(folder)
