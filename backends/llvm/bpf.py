# SPDX-License-Identifier: Apache-2.0
"""The policy program as a BPF object, by llvmlite: no clang, no headers.

The program without its policy is kept as bitcode (`prebuilt/`, made by `make prebuilt`). This module
adds the map sizes, the constants and the search code of one lookup plan, and removes maps that the plan
does not have. Then LLVM inlines, folds and writes the object.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources

import llvmlite
from llvmlite import binding

from policyc.backends.ebpf_c.seeds import Seed
from policyc.backends.llvm.elf import without_debug_sections
from policyc.backends.llvm.known import known_functions
from policyc.ir.errors import InternalError
from policyc.ir.plan import LookupPlan
from policyc.ir.viewed import Verdicts

SHELL = "policy_shell.bc"
PLACE_HOLDERS = {
    "pc_counts": 2047934465,
    "pc_class": 2047934466,
    "pc_nodes": 2047934467,
    "pc_cells_in": 2047934468,
    "pc_buckets_in": 2047934469,
    "pc_usual_in": 2047934470,
    "pc_root4_in": 2047934471,
    "pc_cidr4_in": 2047934472,
    "pc_cidr6_in": 2047934473,
    "pc_cells_eg": 2047934474,
    "pc_buckets_eg": 2047934475,
    "pc_usual_eg": 2047934476,
    "pc_root4_eg": 2047934477,
    "pc_cidr4_eg": 2047934478,
    "pc_cidr6_eg": 2047934479,
}
"""The number that stands for a map's size in the fixed part of the program."""
OF_EFFECTS = (
    *("pc_effects", "pc_quotes", "pc_answers"),
    *("pc_limits", "pc_limits_out"),
    *("pc_events", "pc_event_count", "pc_event_paces"),
)
"""Maps that exist only if rules have effects; pc_effects is as large as pc_counts."""
OF_SOCKETS = (
    *(
        "pc_conn_epoch",
        "pc_socket_host",
        "pc_socket_pods",
        "pc_node_nums",
        "pc_vteps",
        "pc_external",
    ),
    *("pc_ep", "pc_ep4", "pc_ep6", "pc_if", "pc_frontends", "pc_choices", "pc_backends"),
)
"""Maps that only the programs at sockets use (datapath/policy_connect.h, policy_bypass.h)."""
_AT_SOCKETS = ("pc_policy_conn4", "pc_policy_conn6", "pc_bypass_deny")
_SOCKET_FUNCTIONS = (*_AT_SOCKETS, "pc_endpoint_at", "pc_has_address")
_POINTER = "!DIDerivedType(tag: DW_TAG_pointer_type, "
_POINTED_TO = re.compile(
    r'^!(\d+) = .*!DICompositeType\(tag: DW_TAG_structure_type, name: "(?:bpf_flow_keys|bpf_sock)"',
    re.MULTILINE,
)
_USED = re.compile(r"^@llvm\.compiler\.used = .*$", re.MULTILINE)
_DECLARED = re.compile(r"^declare .*@pc_(constant|diagram|column4|column6)\(.*$", re.MULTILINE)


def policy_text(
    verdicts: Verdicts, plan: LookupPlan, seeds: tuple[Seed, ...], at_sockets: bool = False
) -> str:
    """The IR of the policy program; `seeds` name the maps and give their sizes.

    `at_sockets`: with its programs at sockets.
    """
    sizes = {seed.map_name: seed.entries for seed in seeds}
    text = specialised(shell_text(), sizes, plan, at_sockets)
    return f"{text}\n{known_functions(verdicts, plan)}"


def specialised(
    shell: str, sizes: Mapping[str, int], plan: LookupPlan, at_sockets: bool = False
) -> str:
    """The fixed part's IR with the maps of one plan, without the functions that are defined for it."""
    text = _DECLARED.sub("", shell)
    # Rule ids are compared with the size of their counters, even if there are no counters.
    numbers = {**dict.fromkeys(PLACE_HOLDERS, 1), **sizes, "pc_counts": plan.rules.capacity}
    for name, holder in PLACE_HOLDERS.items():
        text = text.replace(str(holder), str(numbers[name]))
    unused = {name for name in (*PLACE_HOLDERS, *OF_EFFECTS) if not sizes.get(name)}
    if not at_sockets:
        unused |= {*OF_SOCKETS, *_AT_SOCKETS}
        for name in _SOCKET_FUNCTIONS:
            text = text.replace(f"define dso_local i32 @{name}(", f"define internal i32 @{name}(")
    for name in unused:
        text = text.replace(f"@{name} = dso_local global", f"@{name} = internal global")
    found = _USED.search(text)
    if found is None:
        raise InternalError(f"{SHELL} has no list of what is used")
    kept = [name for name in re.findall(r"ptr @(\w+)", found[0]) if name not in unused]
    used = ", ".join(f"ptr @{name}" for name in kept)
    count = len(kept)
    line = f"@llvm.compiler.used = appending global [{count} x ptr] [{used}]"
    line += ', section "llvm.metadata"'
    return text[: found.start()] + line + text[found.end() :]


@cache
def shell_text() -> str:
    """The IR of the fixed part (policy_shell.bpf.c)."""
    return shell_of((resources.files("policyc.backends.llvm") / "prebuilt" / SHELL).read_bytes())


def shell_of(bitcode: bytes) -> str:
    """Bitcode of the fixed part, also of an older LLVM, as this LLVM's IR.

    The types that struct __sk_buff only points to become void. LLVM declares such types in BTF in the
    order of their addresses in memory, so equal IR would not give equal bytes.
    """
    text = str(binding.parse_bitcode(bitcode, binding.create_context()))
    for number in _POINTED_TO.findall(text):
        text = text.replace(f"{_POINTER}baseType: !{number},", f"{_POINTER}baseType: null,")
    return text


def llvm_version() -> str:
    """The versions of llvmlite and LLVM, as `llvmlite 0.50.0 (LLVM 22.1.0)`."""
    number = ".".join(map(str, binding.llvm_version_info))
    return f"llvmlite {llvmlite.__version__} (LLVM {number})"


def compile_text(text: str) -> bytes:
    """The object; InternalError if LLVM refuses the IR."""
    _initialize()
    try:
        # A context of its own: in a shared one, the numbers in names depend on earlier modules.
        module = binding.parse_assembly(text, binding.create_context())
        module.verify()
    except RuntimeError as failure:
        raise InternalError(f"LLVM refuses the policy program: {failure}") from failure
    machine = binding.Target.from_triple("bpf").create_target_machine(
        cpu="v3",  # v4 is refused by 6.1
        opt=2,
        reloc="default",
        codemodel="default",
    )
    options = binding.create_pipeline_tuning_options(speed_level=2)
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return without_debug_sections(machine.emit_object(module))


@cache
def _initialize() -> None:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
