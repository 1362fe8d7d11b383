# SPDX-License-Identifier: Apache-2.0
"""Emit the specialised policy program: sizes, the address trees, the action diagrams, in readable C.

docs/bundle-format.md fixes what the generated part provides to the headers it includes. Comments name
the rules and their lines, so that a policy's author finds the policy in it.
"""

from collections import defaultdict
from ipaddress import IPv4Address, IPv6Address

from policyc.backends.ebpf_c.tree import tree
from policyc.ir.decision import DecisionIR
from policyc.ir.plan import (
    FIRST_DIAGRAM,
    AddressLayout,
    LookupPlan,
    address_column_id,
    diagram_id,
    row_id,
)
from policyc.ir.services import Service
from policyc.ir.words import describe_selector

LICENCE = "/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */"
MAX_COMMENT_RULES = 200
MAX_DIAGRAM_RULES = 10
LOW_HALF = (1 << 64) - 1


def emit_c(decision: DecisionIR, plan: LookupPlan) -> str:
    """The text of policy.bpf.c."""
    parts = [
        _head(decision),
        _sizes(plan),
        '#include "policy_maps.h"',
        _column(decision, plan, 4),
        _column(decision, plan, 6),
        _action(decision, plan),
        '#include "policy_run.h"',
    ]
    return "\n\n".join(parts) + "\n"


def _head(decision: DecisionIR) -> str:
    lines = [
        LICENCE,
        "/* Generated from network policies: do not edit, compile them again.",
        " *",
        " * Rules, by id:",
    ]
    shown = decision.rules[:MAX_COMMENT_RULES]
    lines += [f" *   {at}: {_comment(entry.describe())}" for at, entry in enumerate(shown)]
    if len(decision.rules) > len(shown):
        lines.append(f" *   ... and {len(decision.rules) - len(shown)} more, in rules.json")
    return "\n".join([*lines, " *", *_row_lines(decision), " */"])


def _row_lines(decision: DecisionIR) -> list[str]:
    """The endpoint classes as subjects: which selectors hold."""
    lines = [" * Rows (endpoint classes as subjects), by the selectors that hold:"]
    selectors = decision.atoms.vocabulary.selectors
    for index, row in enumerate(decision.atoms.rows[:MAX_COMMENT_RULES]):
        held = [describe_selector(s) for bit, s in enumerate(selectors) if row.bits >> bit & 1]
        lines.append(f" *   {row_id(index)}: {_comment('; '.join(held) or 'none')}")
    if len(decision.atoms.rows) > MAX_COMMENT_RULES:
        lines.append(f" *   ... and {len(decision.atoms.rows) - MAX_COMMENT_RULES} more")
    return lines


def _comment(text: str) -> str:
    """Text that cannot end the comment it stands in, nor continue a line: file names are the user's."""
    shown = "".join(c if c.isprintable() and c not in "\\?" else "." for c in text)
    return shown.replace("*/", "* /").replace("/*", "/ *")


def _sizes(plan: LookupPlan) -> str:
    sizes = {
        "PC_ROWS": plan.rows.capacity,
        "PC_COLUMNS": plan.columns.capacity,
        "PC_DIAGRAMS": plan.diagrams.capacity,
        "PC_STEPS": plan.steps.capacity,
        "PC_RULES": plan.rules.capacity,
        "PC_ENDPOINTS": plan.endpoints,
        "PC_STEP_ROUNDS": plan.step_rounds,
        "PC_CIDR4_ENTRIES": plan.cidr4_entries,
        "PC_CIDR6_ENTRIES": plan.cidr6_entries,
    }
    return "\n".join(f"#define {name} {value}" for name, value in sizes.items())


PARAMETER = {4: "__be32 address", 6: "const struct pc_addr6 *address"}


def _column(decision: DecisionIR, plan: LookupPlan, family: int) -> str:
    """The function that finds the column of an address that is no pod's."""
    head = f"static __always_inline __u32 pc_column{family}({PARAMETER[family]})\n{{"
    if plan.address_layout(family) is AddressLayout.LPM:
        return f"{head}\n\treturn pc_cidr{family}_column(address);\n}}"
    runs = [
        (f"{first:#x}", str(address_column_id(decision, family, atom)))
        for first, _, atom in decision.atoms.classifier.addresses[family].runs()
    ]
    if len(runs) == 1:
        return f"{head}\n\t(void)address; /* one column for all */\n\treturn {runs[0][1]};\n}}"
    locals_, below = (_locals4(), _below4) if family == 4 else (_locals6(runs), _below6)
    return "\n".join([head, *locals_, "", *tree(runs, below, 1), "}"])


def _locals4() -> list[str]:
    return ["\t__u32 a = bpf_ntohl(address);"]


def _locals6(runs: list[tuple[str, str]]) -> list[str]:
    """The halves of the address that some comparison reads."""
    halves = ["\t__u64 hi = pc_addr6_high(address);"]
    if any(int(at, 16) & LOW_HALF for at, _ in runs):
        halves.append("\t__u64 lo = pc_addr6_low(address);")
    return halves


def _below4(threshold: str) -> str:
    value = int(threshold, 16)
    return f"a < 0x{value:08x} /* {IPv4Address(value)} */"


def _below6(threshold: str) -> str:
    value = int(threshold, 16)
    high, low = value >> 64, value & LOW_HALF
    below = f"hi < 0x{high:016x}ULL"
    if low:
        below += f" || (hi == 0x{high:016x}ULL && lo < 0x{low:016x}ULL)"
    return f"{below} /* {IPv6Address(value)} */"


def _action(decision: DecisionIR, plan: LookupPlan) -> str:
    lines = ["static __always_inline __u32 pc_action(__u32 diagram, __u32 service)", "{"]
    if plan.code_diagrams:
        lines.append("\tswitch (diagram) {")
        rules = _rules_by_diagram(decision)
        for at in plan.code_diagrams:
            index = at - FIRST_DIAGRAM
            lines += [f"\tcase {at}: {{", f"\t\t/* {decision.describe_diagram(index)}"]
            lines += [f"\t\t * {text}" for text in _rules_in_words(decision, rules[at])]
            lines[-1] += " */"
            steps = [(f"0x{lo:05x}", str(leaf)) for lo, leaf in decision.diagrams[index]]
            lines += tree(steps, lambda at: f"service < {at} /* {_key(at)} */", 2)
            lines.append("\t}")
        lines += ["\tdefault:", "\t\tbreak;", "\t}"]
    return "\n".join([*lines, "\treturn pc_table_leaf(diagram, service);", "}"])


def _key(threshold: str) -> str:
    return str(Service.from_key(int(threshold, 16)))


def _rules_by_diagram(decision: DecisionIR) -> dict[int, list[int]]:
    """Action diagram id -> the ids of rules that decide in cells which use it."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    for cell in decision.cells:
        found[diagram_id(cell.action)] |= {leaf for _, leaf in decision.diagrams[cell.rule]}
    return {at: sorted(rules) for at, rules in found.items()}


def _rules_in_words(decision: DecisionIR, rules: list[int]) -> list[str]:
    shown = [_comment(decision.rules[rule].describe()) for rule in rules[:MAX_DIAGRAM_RULES]]
    if len(rules) > len(shown):
        shown.append(f"... and {len(rules) - len(shown)} more rules")
    return shown
