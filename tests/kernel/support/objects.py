# SPDX-License-Identifier: Apache-2.0
"""The objects that the kernel tests load: the prebuilt hooks, and the tests' own programs."""

import os
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

from policyc.runtime.bundle.bundle import HOOKS_OBJECT
from policyc.verifier.bytecode.instructions import SLOT
from policyc.verifier.bytecode.object import read_object
from tests.kernel.support.bed import WIPE_OBJECT

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
DATAPATH = ROOT / "runtime" / "datapath"
PREBUILT = ROOT / "backends" / "llvm" / "prebuilt"
PICKS_OBJECT = "picks.bpf.o"
FOLDER = "POLICYC_TEST_OBJECTS"
"""Names a folder with what `compile_objects` makes, where clang is emulated."""
CLANG = [
    "clang", "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-fno-strict-aliasing", "-Wall", "-Wextra",
    "-Werror", f"-ffile-prefix-map={DATAPATH.parents[1]}=.", f"-I{DATAPATH}",
    f"-idirafter/usr/include/{os.uname().machine}-linux-gnu",
]  # fmt: skip

BTF_KIND_ARRAY = 3

Edits = dict[str, tuple[str, str]]
"""By header, a text and what stands there instead."""
SMALL_TABLES: Edits = {
    "ct_map.h": (
        "PC_CT4_ENTRIES 131072\n#define PC_CT6_ENTRIES 65536",
        "PC_CT4_ENTRIES 64\n#define PC_CT6_ENTRIES 64",
    )
}
"""Tables of established connections with 64 entries."""
RENAMED_MAPS = {"pc_clock": "pc_block", "pc_backends": "pc_rackends"}
"""Two maps with other names than the runtime knows, as long as those that it knows."""
OTHER_FIELDS = {"flow_id": "flow_no"}
"""A field of values that have the same size, with another meaning."""


def refused_hooks(objects: Path, target: Path) -> Path:
    """The objects, in another folder. pc_from_pod begins with r9, which has no value yet."""
    r1_is_r9 = bytes.fromhex("bf91 0000 0000 0000")
    return _other_instruction(objects, target, lambda at, _code: r1_is_r9 if at == 0 else None)


def other_hooks(objects: Path, target: Path) -> Path:
    """The objects, in another folder. pc_from_pod does the same, with another instruction.

    `r1 = 1` becomes `w1 = 1`, which clears the upper half of the register.
    """
    wide, narrow = (bytes.fromhex(f"{code} 01 0000 01000000") for code in ("b7", "b4"))
    return _other_instruction(objects, target, lambda _at, code: narrow if code == wide else None)


def _other_instruction(
    objects: Path, target: Path, other: Callable[[int, bytes], bytes | None]
) -> Path:
    """Where `other` first gives one for the number of an instruction of pc_from_pod and its code."""
    shutil.copytree(objects, target)
    path = target / HOOKS_OBJECT
    code = bytearray(path.read_bytes())
    found = read_object(bytes(code))
    place = found.places["pc_from_pod"]
    section = next(each for each in found.elf.sections if each.index == place.section)
    begin = code.index(section.data) + place.start * SLOT
    for number in range(place.end - place.start):
        at = begin + number * SLOT
        if instead := other(number, bytes(code[at : at + SLOT])):
            code[at : at + SLOT] = instead
            path.write_bytes(code)
            return target
    raise AssertionError("pc_from_pod has no such instruction")


def renamed(objects: Path, target: Path, names: dict[str, str]) -> Path:
    """The objects with other names, in another folder. To rename needs no compiler."""
    target.mkdir()
    for path in objects.glob("*.o"):
        code = path.read_bytes()
        for old, new in names.items():
            code = code.replace(f"\0{old}\0".encode(), f"\0{new}\0".encode())
        (target / path.name).write_bytes(code)
    return target


def fewer_entries(objects: Path, target: Path, old: int, new: int) -> Path:
    """The objects, in another folder. Maps of the hooks with `old` entries have `new` ones.

    BTF has the number as the length of an array type.
    """
    shutil.copytree(objects, target)
    path = target / HOOKS_OBJECT
    code = path.read_bytes()
    array = re.escape(struct.pack("<III", 0, BTF_KIND_ARRAY << 24, 0))  # no name, no size
    length = re.compile(array + b".{8}" + re.escape(struct.pack("<I", old)), re.DOTALL)
    changed, n = length.subn(lambda found: found[0][:-4] + struct.pack("<I", new), code)
    assert n, f"no map has {old} entries"
    path.write_bytes(changed)
    return target


def compile_c(source: Path, target: Path, *flags: str) -> None:
    """Compile as the compiler driver does: BTF stays, debug information goes."""
    subprocess.run([*CLANG, *flags, "-c", str(source), "-o", str(target)], check=True)
    subprocess.run(["llvm-strip", "-g", str(target)], check=True)


def headers_of(source: Path) -> set[str]:
    """The names of the headers that a source includes, also by others."""
    command = [*CLANG, f"-I{source.parent}", "-MM", str(source)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {Path(word).name for word in said.split() if word.endswith(".h")}


def compile_objects(folder: Path) -> Path:
    """Into a folder that is there. Hooks are the prebuilt ones: pre-commit compares them with the C."""
    shutil.copy(PREBUILT / HOOKS_OBJECT, folder / HOOKS_OBJECT)
    compile_c(HERE / "policy.bpf.c", folder / "policy.bpf.o")
    compile_c(HERE / "wipe.bpf.c", folder / WIPE_OBJECT)
    compile_c(HERE / "picks.bpf.c", folder / PICKS_OBJECT)
    return folder
