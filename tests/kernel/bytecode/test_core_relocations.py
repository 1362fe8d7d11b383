# SPDX-License-Identifier: Apache-2.0
"""CO-RE relocations are resolved from a kernel's BTF as libbpf resolves them: the programs agree."""

from pathlib import Path

import pytest

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.libbpf import Object
from policyc.verifier.bytecode.btf import Btf, read_btf
from policyc.verifier.bytecode.concrete import Around, run
from policyc.verifier.bytecode.core_layouts import KernelLayouts
from policyc.verifier.bytecode.object import read_object
from policyc.verifier.bytecode.program import link_program
from tests.kernel.support.objects import (
    HERE,
    compile_c,
)
from tests.unit.verifier.bytecode.objects import prebuilt

pytestmark = pytest.mark.kernel
FRAME = bytes(64)


@pytest.fixture(scope="module")
def kernel() -> Btf:
    return read_btf(Path("/sys/kernel/btf/vmlinux").read_bytes())


def test_every_kind_of_relocation_is_resolved_as_libbpf_resolves_it(
    kernel: Btf, tmp_path: Path
) -> None:
    target = tmp_path / "core.bpf.o"
    compile_c(HERE / "core.bpf.c", target, "-Wno-unused-parameter")
    read = read_object(target.read_bytes())
    layouts = KernelLayouts(read.btf, kernel)
    assert len(read.entries) == 22
    with Object(target, tmp_path) as loaded:
        loaded.load()
        for name in read.entries:
            by_kernel = bpf_syscall.prog_test_run(loaded.program_fd(name), FRAME) & 0xFFFFFFFF
            assert run(Around(link_program(read, name, layouts)), FRAME).result == by_kernel, name


def test_the_hooks_are_linked_for_this_kernel(kernel: Btf) -> None:
    read = read_object(prebuilt("hooks.bpf.o"))
    layouts = KernelLayouts(read.btf, kernel)
    for entry in read.entries:
        assert link_program(read, entry, layouts).functions[entry].blocks
