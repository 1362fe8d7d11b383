# SPDX-License-Identifier: Apache-2.0
"""Objects for tests: the prebuilt ones, and the policy programs of golden bundles by LLVM."""

from functools import cache
from importlib import resources
from pathlib import Path

from policyc.compiler.driver.compile.compile import (
    Compiled,
    compile_inputs,
)
from policyc.compiler.driver.compile.inputs import Inputs
from policyc.compiler.driver.compile.target import (
    NODE_OBJECTS,
    Backend,
    Target,
)
from policyc.compiler.frontend.read import ReadOptions
from policyc.compiler.frontend.yaml.sources import PathSource
from policyc.verifier.bytecode.core_relocations import CoreKind, CoreRelocation

EMITTED = Path(__file__).parents[3] / "golden" / "emitted"
CASES = sorted(path.name for path in EMITTED.iterdir() if path.is_dir())
PREBUILT = NODE_OBJECTS


@cache
def prebuilt(name: str) -> bytes:
    return (resources.files("policyc.backends.llvm") / "prebuilt" / name).read_bytes()


@cache
def compiled(case: str) -> Compiled:
    folder = EMITTED / case
    cluster = (folder / "cluster.yaml",) if (folder / "cluster.yaml").exists() else ()
    inputs = Inputs(
        (PathSource(str(folder / "policies.yaml")),),
        tuple(PathSource(str(each)) for each in cluster),
        ReadOptions(),
    )
    return compile_inputs(inputs, None, lambda stage: None)


@cache
def policy_object(case: str, backend: Backend = Backend.LLVM) -> bytes:
    emitted = compiled(case).emitted
    return Target(backend).policy_object(
        emitted.layout.verdicts, emitted.plan, emitted.c, emitted.seeds, None
    )


SIZES = {"0": 8, "0:0": 8, "0:1": 8, "0:2": 2, "0:3": 2, "0:4": 4, "0:0:0:0:0": 4}
"""Of the fields of `struct sk_buff___pc` and `struct tcp_sock`, as the objects declare them."""
TCP_SIZES = {
    **{("tcp_sock", f"0:{at}"): size for at, size in enumerate((0, 4, 4, 4, 4, 8, 8))},
    ("net", "0:0"): 8,
    ("sock", "0:0:0:0"): 8,
    ("sock", "0:1"): 8,
    ("sock", "0:2"): 8,
    ("tcp_sock", "0:0:1"): 8,
    ("sk_buff___stamped", "0:0"): 4,
    ("sk_buff___stamped", "0:1"): 2,
    **{("netns_xfrm___pc", f"0:0:{at}"): 4 for at in range(3)},
    **{("netns_xfrm___pc", f"0:1:{at}"): 1 for at in range(3)},
    ("nf_hook_entries___pc", "0:0"): 2,
    ("ipv6_devconf___pc", "0:0"): 4,
}
"""Of what the bypass reads of sockets, PREROUTING of packets, and the hooks of IPsec policies,
netfilter and IPv6 settings."""


class SomeKernel:
    """Answers for `struct sk_buff` and sockets: sizes as in the object, and some offsets; no tcx."""

    def answer(self, relocation: CoreRelocation) -> int | None:
        match relocation.kind:
            case CoreKind.FIELD_BYTE_SIZE:
                named = TCP_SIZES.get((relocation.type, relocation.access))
                return named or SIZES.get(relocation.access, 8)
            case CoreKind.FIELD_BYTE_OFFSET:
                return 16 * (1 + int(relocation.access.partition(":")[2].rpartition(":")[2] or 0))
            case CoreKind.TYPE_EXISTS:
                return 0
        return 1
