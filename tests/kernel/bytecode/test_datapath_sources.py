# SPDX-License-Identifier: Apache-2.0
"""The datapath's C: headers compile alone, functions are short, programs of all sizes verify."""

import re
import subprocess
from pathlib import Path

import pytest

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.libbpf import Object
from tests.kernel.support.node_under_test import NodeUnderTest
from tests.kernel.support.objects import (
    CLANG,
    DATAPATH,
    HERE,
    ROOT,
    compile_c,
)
from tests.slices import one_in

HEADERS = sorted(DATAPATH.glob("*.h"))
EMITTED = sorted((ROOT / "tests" / "golden" / "emitted").glob("*/policy.bpf.c"))
SPDX = "/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */"


AT_THE_END = "policy_run.h", "policy_connect.h", "policy_bypass.h"
"""They stand at the end of the generated file."""
OBJECTS = [
    DATAPATH / name
    for name in (
        "hooks.bpf.c",
        "sockets.bpf.c",
        "bypass.bpf.c",
        "xdp.bpf.c",
        "slaves.bpf.c",
        "prerouting.bpf.c",
    )
]


@pytest.mark.parametrize("header", one_in(3, HEADERS), ids=lambda path: path.name)
def test_a_header_compiles_alone(header: Path) -> None:
    source = f'#define PC_RULES 16 /* as the generated file does */\n#include "{header.name}"\n'
    if header.name in AT_THE_END:
        source = (HERE / "policy.bpf.c").read_text()
        source = f"#define PC_AT_SOCKETS 1\n{source}"
    subprocess.run(
        [*CLANG, "-Wno-unused-function", "-fsyntax-only", "-x", "c", "-"],
        input=source, text=True, check=True,
    )  # fmt: skip


@pytest.mark.parametrize("path", [*HEADERS, *OBJECTS], ids=lambda path: path.name)
def test_a_source_is_short_and_names_its_licence(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert lines[0] == SPDX
    assert len(lines) <= 250
    starts = [i for i, line in enumerate(lines) if line == "{"]
    for start in starts:
        end = next(i for i in range(start, len(lines)) if lines[i] == "}")
        assert end - start <= 80, f"{path.name}:{start}"


def test_names_of_kernel_objects_fit_the_kernels_limit() -> None:
    text = "".join(path.read_text() for path in [*HEADERS, *OBJECTS])
    names = re.findall(r'(pc_\w+) SEC\("\.maps"\)', text) + re.findall(r"^int (\w+)\(", text, re.M)
    emitted = "".join(path.read_text() for path in EMITTED)
    names += re.findall(r"^PC_(?:TABLE|TRIE)\((\w+),", emitted, re.M)
    assert len(names) >= 20
    for name in names:
        assert name.startswith("pc_") and len(name) <= 15


@pytest.mark.slow
def test_the_same_source_gives_the_same_object(tmp_path: Path) -> None:
    for source in OBJECTS:
        for name in ("one.o", "two.o"):
            compile_c(source, tmp_path / name)
        assert (tmp_path / "one.o").read_bytes() == (tmp_path / "two.o").read_bytes()


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("rows", "columns", "rounds"),
    [(1, 1, 0), pytest.param(64, 100, 3, marks=pytest.mark.slow), (2000, 1500, 8)],
    ids=str,
)
def test_policies_of_every_size_pass_the_verifier(
    node: NodeUnderTest, tmp_path: Path, rows: int, columns: int, rounds: int
) -> None:
    text = (HERE / "policy.bpf.c").read_text()
    for name, value in (("ROWS", rows), ("COLUMNS", columns), ("ROUNDS", rounds)):
        text = re.sub(rf"#define PC_{name}\s+\d+", f"#define PC_{name} {value}", text)
    (tmp_path / "policy.bpf.c").write_text(text)
    compile_c(tmp_path / "policy.bpf.c", tmp_path / "policy.bpf.o")
    (node.bpffs / "maps").mkdir(parents=True)
    with Object(tmp_path / "policy.bpf.o", node.bpffs / "maps") as policy:
        policy.load()
        maps = dict(policy.own_maps())
        assert bpf_syscall.map_info(maps["pc_cells_in"]).max_entries == rows * columns
