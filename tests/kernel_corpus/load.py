# SPDX-License-Identifier: Apache-2.0
"""Load every bundle of a folder on the running kernel, and write the verifier's counts.

    python -m tests.kernel_corpus.load FOLDER RESULT.json [NAME...]

There is no compiler in it. RESULT has the kernel's release and, per bundle, the bytes of its maps and
per program its instructions after translation, those that the verifier went through, and the bytes of
machine code. A bundle that does not load is in `refused` with the kernel's words, one that gives a wrong
verdict in `wrong`.
"""

import argparse
import json
import os
import platform
import sys
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

from policyc.runtime.bundle.bundle import HOOKS_OBJECT
from policyc.runtime.errors import NodeError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.libbpf import Object
from tests.kernel_corpus.case import BUNDLES
from tests.kernel_corpus.surroundings import temporary_bpffs
from tests.kernel_corpus.verdicts import wrong_verdicts

LOG_LINES = 12
"""Of a verifier's log, the end says why."""


def load_all(folder: Path, names: tuple[str, ...] = ()) -> dict[str, Any]:
    """Load and run the bundles of these cases; without cases, all that the compiler did not refuse."""
    bundles, refused, wrong = {}, {}, {}
    with temporary_bpffs() as bpffs, _Loader(bpffs) as loader:
        for case, (suffix, bundle) in product(names or built(folder), BUNDLES.items()):
            try:
                bundles[case + suffix] = loader.measure(folder / case / bundle)
            except NodeError as failure:
                log = failure.detail.splitlines()[-LOG_LINES:]
                refused[case + suffix] = "\n".join([str(failure), *log])
                continue
            if (folder / case / "frames.json").exists():
                found = wrong_verdicts(folder / case, bundle)
                if found:
                    wrong[case + suffix] = found
    return {
        "kernel": platform.release(), "bundles": bundles, "refused": refused, "wrong": wrong,
    }  # fmt: skip


def built(folder: Path) -> list[str]:
    """Names of the cases that there are bundles of."""
    return sorted(path.parent.name for path in folder.glob(f"*/{BUNDLES['']}"))


class _Loader:
    """Loads objects. Equal objects, such as the hooks of all bundles, are loaded once."""

    def __init__(self, bpffs: Path) -> None:
        self._bpffs = bpffs
        self._known: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> "_Loader":
        return self

    def __exit__(self, *_: object) -> None:
        self._known.clear()

    def measure(self, bundle: Path) -> dict[str, Any]:
        """The cost of every program of a bundle, and the bytes of its own maps."""
        manifest = json.loads((bundle / "manifest.json").read_text())
        objects: dict[str, list[str]] = {}
        for program in manifest["programs"]:
            objects.setdefault(program["object"], []).append(program["name"])
        unnamed = {str(p.relative_to(bundle)) for p in bundle.rglob("*.bpf.o")} - set(objects)
        assert not unnamed, f"{bundle}: the manifest names no program of {sorted(unnamed)}"
        # Maps are shared by what has the same hooks: they are pinned under the hooks' digest.
        pins = self._bpffs / manifest["files"][HOOKS_OBJECT][:16]
        found: dict[str, Any] = {"programs": {}, "map_bytes": 0}
        for file, programs in objects.items():
            digest = manifest["files"][file]
            if digest not in self._known:
                self._known[digest] = _measure(bundle / file, pins, programs)
            found["programs"] |= self._known[digest]["programs"]
            found["map_bytes"] += self._known[digest]["map_bytes"]
        return found


def _measure(file: Path, pins: Path, programs: list[str]) -> dict[str, Any]:
    pins.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        loaded = stack.enter_context(Object(file, pins))
        loaded.load()
        taken = [name for name in programs if loaded.is_loaded(name)]
        infos = {name: bpf_syscall.prog_info(loaded.program_fd(name)) for name in taken}
        maps = [bpf_syscall.map_info(fd) for _, fd in loaded.own_maps()]
    return {
        "programs": {
            name: {
                "instructions": info.instructions // 8,
                "verified": info.verified,
                "jited_bytes": info.jited,
            }
            for name, info in infos.items()
        },
        "map_bytes": sum(_bytes(info) for info in maps),
    }


def _bytes(info: bpf_syscall.MapInfo) -> int:
    """The bytes of a full map: keys and values, or values of an array; of a per-CPU map for one CPU."""
    key = 0 if info.kind in _ARRAYS else info.key_size
    return info.max_entries * (key + info.value_size)


_ARRAYS = (2, 6)  # BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_PERCPU_ARRAY


def main() -> int:
    """Exit code 1: the kernel refused a bundle or gave a wrong verdict, which the result names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    assert os.geteuid() == 0, "loading BPF needs root"
    result = load_all(given.folder, tuple(given.names))
    given.result.write_text(json.dumps(result))
    for name, why in (result["refused"] | result["wrong"]).items():
        print(f"{name}: {why}")
    print(f"{len(result['bundles'])} bundles loaded on {result['kernel']}")
    return 1 if result["refused"] or result["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
