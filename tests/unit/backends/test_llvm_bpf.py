# SPDX-License-Identifier: Apache-2.0
"""The policy program without clang: its shell is the C that is there, and the object is whole."""

import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from policyc.backends.ebpf_c.clang import clang_version
from policyc.backends.ebpf_c.frames import MEASURED, NO_CODE, Budgets
from policyc.backends.llvm.bpf import PLACE_HOLDERS, compile_text, policy_text, shell_of, shell_text
from policyc.backends.llvm.elf import HEADER, SECTION
from policyc.backends.llvm.known import LAYOUTS, constants
from policyc.compiler.driver.compile.bundle import (
    BYPASS_PROGRAMS,
    HOOKS,
    PREROUTING_PROGRAMS,
    SLAVE_PROGRAMS,
    SOCKET_HOOKS,
    XDP_PROGRAMS,
)
from policyc.compiler.driver.compile.compile import (
    Inputs,
    decide_read,
    read_inputs,
)
from policyc.compiler.driver.compile.emission import emit_all
from policyc.compiler.driver.compile.target import NODE_OBJECTS
from policyc.compiler.frontend.read import ReadOptions
from policyc.compiler.frontend.yaml.sources import sources_of
from policyc.ir.decision import DecisionIR
from policyc.ir.plan import CellLayout
from policyc.ir.policy import Direction
from tests.slices import one_in

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[3]
SHELL = (ROOT / "runtime" / "datapath" / "policy_shell.bpf.c").read_text()


@pytest.fixture(scope="module")
def decision() -> DecisionIR:
    folder = ROOT / "examples" / "online-shop"
    given = [sources_of((str(folder / name),), None) for name in ("policies", "cluster")]
    return decide_read(read_inputs(Inputs(given[0], given[1], ReadOptions()))).decision


def test_the_shell_and_the_backend_have_the_same_constants(decision: DecisionIR) -> None:
    known = re.search(r"enum pc_known \{(.*?)\};", SHELL, re.DOTALL)
    layouts = re.search(r"enum pc_layout \{(.*?)\};", SHELL, re.DOTALL)
    assert known and layouts
    plan = emit_all(decision).plan
    for direction in Direction:
        given = constants(plan, plan.directions[direction])
        assert len(given) == len(re.findall(r"^\s*PC_K_\w+,", known[1], re.MULTILINE))
    assert sorted(set(LAYOUTS.values())) == [int(n) for n in re.findall(r"= (\d+)", layouts[1])]


def test_every_size_in_the_shell_has_a_number_that_stands_for_it() -> None:
    numbers = {
        int(number) for number in re.findall(r"^#define PC_\w+\s+(20479344\d\d)", SHELL, re.M)
    }
    assert numbers == set(PLACE_HOLDERS.values())
    text = shell_text()
    for name, number in PLACE_HOLDERS.items():
        assert str(number) in text, name


@pytest.mark.parametrize(
    "budgets",
    one_in(3, [MEASURED, NO_CODE, Budgets(cells=CellLayout.HASH)]),
    ids=["chosen", "tables", "hash"],
)
def test_the_object_has_the_maps_of_the_plan_and_no_debug_sections(
    decision: DecisionIR, budgets: Budgets
) -> None:
    emitted = emit_all(decision, budgets)
    text = policy_text(emitted.layout.verdicts, emitted.plan, emitted.seeds)
    data = compile_text(text)
    assert compile_text(text) == data, "the same text, the same bytes"
    names = sections(data)
    assert {"tc", ".maps", "license", ".BTF", ".BTF.ext", ".symtab"} <= names.keys()
    assert not [name for name in names if "debug" in name]
    symbols = strings(names[".strtab"])
    for name in PLACE_HOLDERS:
        assert (name in symbols) == any(seed.map_name == name for seed in emitted.seeds), name
    assert "pc_constant" not in symbols, "all of it is inlined"


def sections(data: bytes) -> dict[str, bytes]:
    header = HEADER.unpack_from(data)
    start, size, count, names_at = header[6], header[11], header[12], header[13]
    raw = [SECTION.unpack_from(data, start + at * size) for at in range(count)]
    table = data[raw[names_at][4] : raw[names_at][4] + raw[names_at][5]]
    return {
        table[fields[0] : table.index(b"\0", fields[0])].decode(): data[
            fields[4] : fields[4] + fields[5]
        ]
        for fields in raw
    }


def strings(table: bytes) -> set[str]:
    return {each.decode() for each in table.split(b"\0")}


def test_symbols_keep_their_places(decision: DecisionIR) -> None:
    emitted = emit_all(decision)
    found = sections(
        compile_text(policy_text(emitted.layout.verdicts, emitted.plan, emitted.seeds))
    )
    symbols = list(struct.iter_unpack("<IBBHQQ", found[".symtab"]))
    count = len(found)
    for relocations in (data for name, data in found.items() if name.startswith(".rel")):
        for _, info in struct.iter_unpack("<QQ", relocations):
            assert symbols[info >> 32][3] < count or symbols[info >> 32][3] >= 0xFF00


def test_the_prebuilt_parts_are_of_the_current_c() -> None:
    tool = ROOT / "tools" / "prebuilt.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_this_clang_builds_the_same_again(tmp_path: Path) -> None:
    import importlib.util
    import json

    spec = importlib.util.spec_from_file_location("prebuilt", ROOT / "tools" / "prebuilt.py")
    assert spec and spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    folder = ROOT / "backends" / "llvm" / "prebuilt"
    kept = {name: (folder / name).read_bytes() for name in (tool.SHELL, *NODE_OBJECTS)}
    made = tool.made(tmp_path)
    if json.loads((folder / "prebuilt.json").read_text())["clang"] == clang_version():
        assert made == kept
    # Another clang writes other bytes, with the same programs and maps in them.
    names = [set(re.findall(r"@(pc_\w+)", shell_of(each[tool.SHELL]))) for each in (made, kept)]
    assert names[0] == names[1] and "pc_policy_run" in names[0]
    programs = (
        HOOKS,
        SOCKET_HOOKS,
        BYPASS_PROGRAMS,
        XDP_PROGRAMS,
        SLAVE_PROGRAMS,
        PREROUTING_PROGRAMS,
    )
    for name, wanted in zip(NODE_OBJECTS, programs, strict=True):
        symbols = [strings(sections(each[name])[".strtab"]) for each in (made, kept)]
        ours = [{name for name in each if name.startswith("pc_")} for each in symbols]
        assert ours[0] == ours[1] and set(wanted) <= ours[0]


def test_a_change_of_the_datapath_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util
    import shutil

    spec = importlib.util.spec_from_file_location("prebuilt", ROOT / "tools" / "prebuilt.py")
    assert spec and spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    shutil.copytree(ROOT / "runtime" / "datapath", tmp_path / "datapath")
    monkeypatch.setattr(tool, "DATAPATH", tmp_path / "datapath")
    assert tool.is_fresh()
    with (tmp_path / "datapath" / "flow.h").open("a") as header:
        header.write("/* more */\n")
    assert not tool.is_fresh()


def test_the_shell_has_no_co_re_relocations() -> None:
    """LLVM's pass for CO-RE relocations keeps state of one module and crashes on the next."""
    assert "llvm.preserve" not in shell_text()


def test_one_process_compiles_again_and_again(decision: DecisionIR) -> None:
    emitted = emit_all(decision, NO_CODE)
    text = policy_text(emitted.layout.verdicts, emitted.plan, emitted.seeds)
    assert len({compile_text(text) for _ in range(2)}) == 1
