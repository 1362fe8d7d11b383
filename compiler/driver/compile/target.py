# SPDX-License-Identifier: Apache-2.0
"""The compiler of a bundle: clang on C, or LLVM in this process; and what its program has."""

from enum import Enum
from functools import cache as once
from typing import TYPE_CHECKING

from policyc.compiler.driver.cache.build_cache import (
    BuildCache,
    key_of,
)
from policyc.compiler.driver.installed import folder_of
from policyc.ir.errors import HostError
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.plan import Counters, LookupPlan

if TYPE_CHECKING:  # the command line needs targets before it knows whether anything is compiled
    from policyc.backends.ebpf_c.seeds import Seed
    from policyc.ir.viewed import Verdicts

HOOKS, SOCKETS, BYPASS, XDP = "hooks.bpf.o", "sockets.bpf.o", "bypass.bpf.o", "xdp.bpf.o"
SLAVES, PREROUTING = "slaves.bpf.o", "prerouting.bpf.o"
NODE_OBJECTS = (HOOKS, SOCKETS, BYPASS, XDP, SLAVES, PREROUTING)
"""The objects that are the same for every policy."""


class Backend(Enum):
    """The compiler of the policy program."""

    C = "c"
    LLVM = "llvm"


@dataclass(frozen=True)
class Target:
    """The backend, the counters for each rule, and whether there are programs at sockets."""

    backend: Backend = Backend.C
    counters: Counters = Counters.BYTES
    at_sockets: bool = False

    def require(self) -> None:
        """HostError unless the compiler is installed: checked before the work, not after it."""
        if self.backend is Backend.C:
            from policyc.backends.ebpf_c.clang import find_tool

            find_tool("clang")
        else:
            llvm_release()

    def release(self, cache: BuildCache | None) -> dict[str, str]:
        """The compiler, for the manifest: {"clang": version} or {"llvm": version}."""
        if self.backend is Backend.C:
            from policyc.compiler.driver.compile import objects

            return {"clang": objects.clang_release(cache)}
        return {"llvm": llvm_release()}

    @property
    def shared_objects(self) -> tuple[str, ...]:
        """Objects of the node, besides the hooks, whose maps the policy program shares."""
        return (SOCKETS,) if self.at_sockets else ()

    def node_objects(self, cache: BuildCache | None) -> dict[str, bytes]:
        """NODE_OBJECTS by name; without clang, the prebuilt ones."""
        if self.backend is Backend.C:
            from policyc.compiler.driver.compile import objects

            return {name: objects.node_object(name, cache) for name in NODE_OBJECTS}
        return {name: _prebuilt(name) for name in NODE_OBJECTS}

    def policy_object(
        self,
        verdicts: "Verdicts",
        plan: LookupPlan,
        c: str,
        seeds: "tuple[Seed, ...]",
        cache: BuildCache | None,
    ) -> bytes:
        """The policy program; `c` is its source, which LLVM does not read."""
        if self.backend is Backend.C:
            from policyc.compiler.driver.compile import objects

            return objects.policy_object(c, cache)
        from policyc.backends.llvm import bpf

        text = bpf.policy_text(verdicts, plan, seeds, self.at_sockets)
        if cache is None:
            return bpf.compile_text(text)
        key = key_of("llvm object", llvm_release(), text)
        found = cache.get(key)
        if found is None:
            found = bpf.compile_text(text)
            cache.put(key, found)
        return found


DEFAULT_TARGET = Target()


def usual_backend(counters: Counters) -> Backend:
    """The backend if none is asked for: clang where it is installed or needed, else LLVM here."""
    from policyc.backends.ebpf_c.clang import is_asked_for_or_installed

    needs_clang = counters is Counters.PACKETS
    return Backend.C if needs_clang or is_asked_for_or_installed() else Backend.LLVM


@once
def llvm_release() -> str:
    """The versions of llvmlite and its LLVM; HostError if llvmlite is missing."""
    try:
        from policyc.backends.llvm.bpf import llvm_version

        return llvm_version()
    except ImportError as missing:
        raise HostError(
            "llvmlite is not installed; nothing was compiled",
            "pip install llvmlite, or apt install clang llvm and compile with --backend c",
        ) from missing


@once
def _prebuilt(name: str) -> bytes:
    return (folder_of("policyc.backends.llvm") / "prebuilt" / name).read_bytes()
