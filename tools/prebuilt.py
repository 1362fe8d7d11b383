# SPDX-License-Identifier: Apache-2.0
"""The parts of a bundle that do not depend on a policy, for machines without clang: `make prebuilt`.

Writes the bitcode of the policy program's shell and the hooks' objects into backends/llvm/prebuilt,
with the digests of the C that they were made from. `--check` says whether they still are, without clang.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATAPATH = ROOT / "runtime" / "datapath"
TARGET = ROOT / "backends" / "llvm" / "prebuilt"
RECORD = "prebuilt.json"
SHELL = "policy_shell.bc"


def sources() -> dict[str, str]:
    """Each file of the datapath with its digest."""
    files = sorted(path for path in DATAPATH.iterdir() if path.suffix in (".h", ".c"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def made(folder: Path) -> dict[str, bytes]:
    """Each file, as this machine's clang makes them."""
    from policyc.backends.ebpf_c import clang
    from policyc.compiler.driver.compile.objects import node_object
    from policyc.compiler.driver.compile.target import NODE_OBJECTS

    (folder / "datapath").mkdir()
    for path in DATAPATH.iterdir():
        if path.suffix in (".h", ".c"):
            (folder / "datapath" / path.name).write_bytes(path.read_bytes())
    # Nothing is optimised yet: sizes and searches are still to come.
    command = [
        clang.find_tool("clang"),
        *clang.flags("datapath"),
        "-Xclang",
        "-disable-llvm-passes",
    ]
    command += ["-emit-llvm", "-c", "datapath/policy_shell.bpf.c", "-o", SHELL]
    subprocess.run(command, cwd=folder, check=True)
    objects = {name: node_object(name, None) for name in NODE_OBJECTS}
    return {SHELL: (folder / SHELL).read_bytes()} | objects


def write() -> None:
    """Make all files anew."""
    from policyc.backends.ebpf_c.clang import clang_version

    with tempfile.TemporaryDirectory() as folder:
        files = made(Path(folder))
    TARGET.mkdir(exist_ok=True)
    for name, data in files.items():
        (TARGET / name).write_bytes(data)
    record = {
        "clang": clang_version(),
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
        "sources": sources(),
    }
    (TARGET / RECORD).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


def is_fresh() -> bool:
    """Whether what is there was made from the C that is there."""
    try:
        record = json.loads((TARGET / RECORD).read_text())
        files = {name: (TARGET / name).read_bytes() for name in record["files"]}
    except (OSError, ValueError):
        return False
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return bool(record["sources"] == sources() and record["files"] == digests)


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        if not is_fresh():
            sys.exit("backends/llvm/prebuilt was made from other C: run `make prebuilt`")
    else:
        write()
