# SPDX-License-Identifier: Apache-2.0
"""Emit the specialised first-packet program in readable C: its maps, its searches and its diagrams.

docs/bundle-format.md fixes what the generated part provides to the headers it includes. Features that
the policies do not use are not emitted. Comments name the rules and their lines, so that a policy's
author finds the policy in the program.
"""

from collections.abc import Iterable, Mapping, Sequence

from policyc.backends.ebpf_c.comments import (
    MAX_LINES,
    MAX_RULES_OF_DIAGRAM,
    NOTHING,
    class_lines,
    comment,
    rule_lines,
    rules_in_words,
    rules_of,
    verdict_lines,
)
from policyc.backends.ebpf_c.emit_addresses import emit_addresses
from policyc.backends.ebpf_c.tree import tree
from policyc.ir.decision import DecisionIR, Diagram
from policyc.ir.effects import EffectBits
from policyc.ir.intervals import IntervalSet
from policyc.ir.plan import (
    AddressLayout,
    CellLayout,
    DirectionPlan,
    LookupPlan,
)
from policyc.ir.policy import Direction
from policyc.ir.services import ALL_SERVICES, Service, describe_services
from policyc.ir.trees import (
    LEAF,
    diagram_name,
    is_fan,
    is_range,
    parts_of_fan,
)
from policyc.ir.universe import FAMILIES
from policyc.ir.viewed import Verdicts, verdicts_of

Columns = Mapping[Direction, Mapping[int, Sequence[str]]]
"""The `columns_in_words` of rows, by their ids."""
NO_COLUMNS: Columns = {}
LICENCE = "/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */"


def emit_c(decision: DecisionIR, plan: LookupPlan, verdicts: Verdicts | None = None) -> str:
    """The text of policy.bpf.c."""
    ids = {each.direction: (each.row_ids, each.column_ids) for each in plan.used_directions}
    return c_of(verdicts or verdicts_of(decision, ids), plan, classes_in_words(decision, plan))


def classes_in_words(decision: DecisionIR, plan: LookupPlan) -> dict[Direction, list[str]]:
    """The lines about the rows and columns of each direction, which do not depend on verdicts."""
    return {each.direction: list(class_lines(decision, each)) for each in plan.used_directions}


def c_of(
    verdicts: Verdicts,
    plan: LookupPlan,
    classes: Mapping[Direction, Iterable[str]],
    columns: Columns = NO_COLUMNS,
) -> str:
    """As `emit_c`, with the lines about classes given, and the `columns_in_words` of some rows."""
    parts = [_head(verdicts, plan, classes, columns), _defines(plan)]
    if plan.used_directions:
        parts += [_maps(plan), CLASS_AT, *_diagrams(verdicts, plan)]
    for direction in (Direction.EGRESS, Direction.INGRESS):
        parts += _direction(plan.directions[direction])
    return "\n\n".join([*parts, '#include "policy_run.h"']) + "\n"


def _head(
    verdicts: Verdicts,
    plan: LookupPlan,
    classes: Mapping[Direction, Iterable[str]],
    columns: Columns,
) -> str:
    lines = [
        "Generated from network policies: do not edit, compile them again.",
        "",
        "Rules, by id:",
    ]
    lines += [f"  {line}" for line in rule_lines(verdicts)]
    for direction in plan.used_directions:
        name = direction.direction
        lines += ["", *classes[name]]
        known = columns.get(name, NOTHING)
        lines += verdict_lines(verdicts.tables[name], plan, direction, known)
    lines += diagram_lines(verdicts, plan)
    first, *rest = lines
    text = [f"/* {first}", *(f" * {line}".rstrip() for line in rest), " */"]
    return "\n".join([LICENCE, *text])


def _defines(plan: LookupPlan) -> str:
    told = sum(1 << kind for kind in plan.told_apart)
    names = ", ".join(kind.name for kind in sorted(plan.told_apart)) or "none"
    effects = [f"#define PC_{bit.name}S 1" for bit in EffectBits if bit & plan.effects]
    return "\n".join(
        [
            f"#define PC_RULES {plan.rules.capacity}",
            f"#define PC_COUNTED_WORDS {plan.counters.words} /* {plan.counters.value} */",
            f"#define PC_TOLD_APART {told:#x} /* protocols whose ports are asked: {names} */",
            *effects,
            '#include "policy_words.h"',
            '#include "service.h"',
        ]
    )


def _maps(plan: LookupPlan) -> str:
    fields = [f"\t__u32 {field};" for field in plan.class_fields]
    size = 1 << (len(fields) - 1).bit_length()  # never across two cache lines
    if size > len(fields):
        fields.append(f"\t__u32 zero[{size - len(fields)}];")
    lines = [
        "/* What the tables know of a pod or node: its row as subject, its column as peer. */",
        "struct pc_class {",
        *fields,
        "};",
        "",
        f"PC_TABLE(pc_class, {plan.endpoints}, struct pc_class);",
        f"PC_TABLE(pc_nodes, {plan.node_room.capacity}, struct pc_node);",
    ]
    for direction in plan.used_directions:
        short = direction.short
        if direction.cells is CellLayout.DENSE:
            lines.append(f"PC_TABLE(pc_cells_{short}, {direction.dense_words}, __u32);")
        else:
            lines.append(f"PC_TABLE(pc_buckets_{short}, {direction.buckets}, struct pc_bucket);")
            lines.append(f"PC_TABLE(pc_usual_{short}, {direction.rows.capacity}, __u32);")
        for family, address in direction.addresses.items():
            if address.layout is AddressLayout.LPM:
                key = f"struct pc_cidr{family}_key"
                lines.append(f"PC_TRIE(pc_cidr{family}_{short}, {address.entries}, {key});")
            if address.roots:
                lines.append(f"PC_TABLE(pc_root{family}_{short}, {len(address.roots)}, __u32);")
    return "\n".join(lines)


CLASS_AT = """\
static __always_inline const struct pc_class *pc_class_at(__u32 id)
{
	return bpf_map_lookup_elem(&pc_class, &id);
}"""


def diagram_lines(verdicts: Verdicts, plan: LookupPlan) -> list[str]:
    """The diagrams that are not in code, each with the services it allows: they are in pc_nodes."""
    cells = cells_by_tree(plan)
    code = set(plan.code_words)
    there = sorted(word for word in cells if word not in code)
    if not there:
        return []
    lines = ["", "Diagrams in pc_nodes, by their root"]
    in_words: dict[tuple[tuple[int, bool], ...], str] = {}
    for word in there[:MAX_LINES]:
        diagram = verdicts.diagrams[cells[word]]
        actions = tuple((lo, verdicts.allows[rule]) for lo, rule in diagram)
        allowed = in_words.get(actions)
        if allowed is None:  # diagrams of other rules often allow the same services
            allowed = in_words[actions] = describe_services(_allowed(verdicts, diagram))
        by = ", ".join(map(str, rules_of(diagram)[:MAX_RULES_OF_DIAGRAM]))
        lines.append(f"  {diagram_name(word)}: allows {allowed}; decided by rules {by}")
    if len(there) > MAX_LINES:
        lines.append(f"  ... and {len(there) - MAX_LINES} more")
    return lines


def cells_by_tree(plan: LookupPlan) -> dict[int, int]:
    """Word of a diagram with several answers -> its cell."""
    return {word: cell for cell, word in enumerate(plan.cell_words) if not word & LEAF}


def _allowed(verdicts: Verdicts, diagram: Diagram) -> IntervalSet:
    """The services that a rule diagram allows."""
    ends = [*(lo - 1 for lo, _ in diagram[1:]), ALL_SERVICES.spans[-1][1]]
    steps = zip(diagram, ends, strict=True)
    return IntervalSet.of((lo, hi) for (lo, rule), hi in steps if verdicts.allows[rule])


def _diagrams(verdicts: Verdicts, plan: LookupPlan) -> list[str]:
    """A function for each diagram in code, and the choice between them and the search."""
    cells = cells_by_tree(plan)
    parts = [_diagram(verdicts, verdicts.diagrams[cells[word]], word) for word in plan.code_words]
    lines = [
        "/* The verdict on a service: the word itself, or what its diagram says. */",
        "static __always_inline __u32 pc_verdict_of(__u32 word, __u32 service)",
        "{",
        "\tif (word & PC_LEAF)",
        "\t\treturn word;",
    ]
    if plan.code_words:
        lines.append("\tswitch (word) {")
        for word in sorted(plan.code_words):
            lines += [f"\tcase {_case(word)}:", f"\t\treturn {_function(word)}(service);"]
        lines.append("\t}")
    search = "pc_search_fans" if plan.has_fans else "pc_search_service"
    lines += [f"\treturn {search}(&pc_nodes, word, service, {plan.rounds});", "}"]
    return [*parts, "\n".join(lines)]


def _diagram(verdicts: Verdicts, diagram: Diagram, word: int) -> str:
    lines = [f"/* allows {describe_services(_allowed(verdicts, diagram))}"]
    lines += [f" * {text}" for text in rules_in_words(verdicts, rules_of(diagram))]
    lines[-1] += " */"
    steps = [(f"{lo:#07x}", _verdict(rule, verdicts.allows[rule])) for lo, rule in diagram]
    body = tree(steps, lambda at: f"service < {at} /* {_key(at)} */", 1)
    head = f"static __always_inline __u32 {_function(word)}(__u32 service)"
    return "\n".join([*lines, head, "{", *body, "}"])


def _function(word: int) -> str:
    return f"pc_diagram_{diagram_name(word).replace('.', '_')}"


def _case(word: int) -> str:
    if is_fan(word):
        return f"PC_FAN_AT({', '.join(map(str, parts_of_fan(word)))})"
    return f"PC_RANGE_AT({diagram_name(word).replace('.', ', ')})" if is_range(word) else str(word)


def _verdict(rule: int, allows: bool) -> str:
    return f"PC_ALLOWED({rule})" if allows else f"PC_DENIED({rule})"


def _key(threshold: str) -> str:
    return comment(str(Service.from_key(int(threshold, 16))))


TITLES = {
    Direction.INGRESS: "Who may reach a pod of this node",
    Direction.EGRESS: "Whom a pod of this node may reach",
}


def _direction(direction: DirectionPlan) -> list[str]:
    """pc_ingress() or pc_egress(), after the searches for addresses."""
    name = direction.direction.value
    title = f"/* {TITLES[direction.direction]}: "
    head = f"static __always_inline __u32 pc_{name}(const struct pc_flow *flow, __u32 service)"
    if not direction.is_used:
        body = ["\t(void)flow;", "\t(void)service;", "\treturn PC_ALLOWED(PC_RULE_NOT_ISOLATED);"]
        return ["\n".join([f"{title}no policy says anything. */", head, "{", *body, "}"])]
    short = direction.short
    is_ingress = direction.direction is Direction.INGRESS
    subject, peer = ("dst", "src") if is_ingress else ("src", "dst")
    address = "saddr" if is_ingress else "daddr"
    fields = direction.column_fields
    if fields[4] == fields[6]:
        column = f"peer->{fields[4]}"
    else:
        column = f"flow->t.family == PC_IPV4 ? peer->{fields[4]} : peer->{fields[6]}"
    runs = {family: direction.addresses[family].runs for family in FAMILIES}
    if len(runs[4]) == len(runs[6]) == 1 and runs[4][0][1] == runs[6][0][1]:
        outside = [f"\t\tcolumn = {runs[4][0][1]}; /* no policy names addresses */"]
        searches = []
    else:
        outside = [
            "\t\tcolumn = flow->t.family == PC_IPV4",
            f"\t\t\t     ? pc_column4_{short}(flow->t.{address}.word[0])",
            f"\t\t\t     : pc_column6_{short}(&flow->t.{address});",
        ]
        searches = [emit_addresses(direction, family) for family in FAMILIES]
    if direction.cells is CellLayout.DENSE:
        sizes = f"{direction.rows.capacity}, {direction.columns.capacity}"
        cell = f"pc_dense(&pc_cells_{short}, {sizes}, own->{name}_row, column)"
    else:
        table = f"&pc_buckets_{short}, {direction.buckets}, &pc_usual_{short}"
        cell = f"pc_hashed({table}, own->{name}_row, column)"
    sizes = f"{direction.rows.used - 1} classes of pods, {direction.columns.used - 1} of peers"
    body = [
        f"{title}{sizes}. */",
        head,
        "{",
        f"\tconst struct pc_class *own = pc_class_at(flow->{subject}.id), *peer;",
        "\t__u32 column, word;",
        "",
        "\tif (!own)",
        "\t\treturn PC_NOTHING;",
        f"\tif (flow->{peer}.id) {{",
        f"\t\tpeer = pc_class_at(flow->{peer}.id);",
        "\t\tif (!peer)",
        "\t\t\treturn PC_NOTHING;",
        f"\t\tcolumn = {column};",
        "\t} else {",
        *outside,
        "\t}",
        f"\tword = {cell};",
        "\treturn pc_verdict_of(word, service);",
        "}",
    ]
    return [*searches, "\n".join(body)]
