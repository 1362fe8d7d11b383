# SPDX-License-Identifier: Apache-2.0
"""The stages by name, and the stages that this machine supports."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from policyc.compiler.driver.compile.target import (
    Backend,
    Target,
)
from policyc.compiler.fuzz.stages.stage import Stage
from policyc.ir.errors import HostError, InternalError

REFERENCE = "semantics"
"""The stage with which all others are compared."""
STAGES = (
    "decision",
    "z3",
    "native",
    "executor-c",
    "executor-llvm",
    "kernel-c",
    "kernel-llvm",
)
"""Every stage, in the order of the pipeline."""


def why_not(name: str) -> str:
    """The reason why a stage cannot run on this machine; empty if it can."""
    if name == "z3":
        return "" if find_spec("z3") else "z3 is not installed"
    if name == "native":
        from policyc.compiler.driver.eval.native_flows import missing_for_native

        missing = missing_for_native()
        return f"{missing} is not installed" if missing else ""
    if name == "decision":
        return ""
    try:
        Target(Backend(name.rpartition("-")[2])).require()
    except HostError as missing_tool:
        return str(missing_tool)
    if name.startswith("kernel"):
        from policyc.compiler.fuzz.stages.kernel import why_not_kernel

        return why_not_kernel()
    return ""


@contextmanager
def ready(names: Sequence[str]) -> Iterator[tuple[Stage, ...]]:
    """The stages of these names, for as long as the context is open."""
    with ExitStack() as held:
        bpffs = None
        if any(name.startswith("kernel") for name in names):
            from policyc.compiler.fuzz.stages.kernel import own_bpffs

            bpffs = held.enter_context(own_bpffs())
        yield tuple(_stage(name, bpffs) for name in names)


def _stage(name: str, bpffs: Path | None) -> Stage:
    if name == "decision":
        from policyc.compiler.fuzz.stages.decision import DecisionStage

        return DecisionStage()
    if name == "z3":
        from policyc.compiler.fuzz.stages.z3_formula import Z3Stage

        return Z3Stage()
    if name == "native":
        from policyc.compiler.fuzz.stages.native import NativeStage

        return NativeStage()
    where, _, backend = name.rpartition("-")
    if where == "executor":
        from policyc.compiler.fuzz.stages.executor import ExecutorStage

        return ExecutorStage(Backend(backend))
    from policyc.compiler.fuzz.stages.kernel import KernelStage

    if bpffs is None:
        raise InternalError("a kernel stage without a BPF file system")
    return KernelStage(Backend(backend), bpffs)
