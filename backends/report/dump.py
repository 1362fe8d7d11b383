# SPDX-License-Identifier: Apache-2.0
"""Each stage of the pipeline as readable text: `policyc compile --emit`."""

import struct
from collections.abc import Iterable, Iterator

from policyc.backends.ebpf_c.seeds import Seed
from policyc.ir.atoms import AddressColumn, Atoms, Column, NamedNumbers, NodeColumn, Row
from policyc.ir.decision import DecisionIR, diagram_regions
from policyc.ir.describe import (
    describe_condition,
    describe_peer,
    describe_ports,
    describe_rule,
    describe_selector,
)
from policyc.ir.plan import DirectionPlan, LookupPlan
from policyc.ir.policy import Direction, PolicySet
from policyc.ir.printable import printable_line
from policyc.ir.selectors import NEVER
from policyc.ir.services import describe_services
from policyc.ir.trees import diagram_name
from policyc.ir.universe import FAMILIES
from policyc.ir.vocabulary import Vocabulary


def dump_policy_ir(policies: PolicySet) -> str:
    """Tiers, policies and rules, each with its place."""
    lines = []
    for tier in policies.tiers:
        lines.append(f"tier {tier.name} ({tier.mode.value}, unmatched {tier.unmatched.value})")
        for policy in tier.policies:
            isolates = ", ".join(sorted(d.value for d in policy.isolates)) or "nothing"
            lines.append(f"  {policy.kind} {policy.qualified_name}  # {policy.origin.span}")
            lines.append(f"    selects {describe_selector(policy.subject)}; isolates {isolates}")
            if policy.hosts != NEVER:
                lines.append(
                    f"    applies to host interfaces with {describe_condition(policy.hosts)}"
                )
            for direction in Direction:
                for rule in policy.rules(direction):
                    lines.append(
                        f"    {direction.value}: {describe_rule(rule, direction)}"
                        f"  # {rule.origin.path} {rule.origin.span}"
                    )
    return _page(lines)


def _page(lines: Iterable[str]) -> str:
    """The lines of a stage, each of them printable."""
    return "\n".join(map(printable_line, lines))


def dump_atoms(atoms: Atoms) -> str:
    """Selectors, blocks and named ports with their indices; address atoms; rows and columns."""
    v = atoms.vocabulary
    lines = ["selectors:"]
    lines += [f"  bit {i}: {describe_selector(s)}" for i, s in enumerate(v.selectors)]
    lines += ["blocks:", *(f"  block {i}: {describe_peer(b)}" for i, b in enumerate(v.blocks))]
    if v.node_conditions:
        lines.append("nodes:")
        lines += [f"  node {i}: {describe_condition(c)}" for i, c in enumerate(v.node_conditions)]
    lines.append("named ports:")
    lines += [f"  port {i}: {describe_ports(p)}" for i, p in enumerate(v.named_ports)]
    for family, addresses in atoms.classifier.addresses.items():
        lines.append(f"IPv{family} address atoms:")
        for atom, mask in enumerate(addresses.blocks):
            lines.append(f"  atom {atom}: {_bits('block', mask)}")
    lines.append("rows (endpoint classes as subjects):")
    by_row: dict[int, list[str]] = {}
    for name, row in sorted(atoms.row_of.items()):
        by_row.setdefault(row, []).append(name)
    for i, signature in enumerate(atoms.rows):
        held = ", ".join(by_row.get(i, ())) or "no endpoint yet"
        lines.append(f"  row {i}: {_bits('bit', signature.bits)}"
                     f"{_named(signature.named, v)}{_own(signature)}: {held}")  # fmt: skip
    lines.append("columns (peers):")
    lines += [f"  column {i}: {_column(c, v)}" for i, c in enumerate(atoms.columns)]
    return _page(lines)


def _bits(word: str, mask: int) -> str:
    held = [str(i) for i in range(mask.bit_length()) if mask >> i & 1]
    return f"{word}s {', '.join(held)}" if held else f"no {word}"


def _named(named: NamedNumbers, vocabulary: Vocabulary) -> str:
    return "".join(
        f", {describe_ports(vocabulary.named_ports[i])} = {', '.join(map(str, sorted(numbers)))}"
        for i, numbers in named
    )


def _column(column: Column, vocabulary: Vocabulary) -> str:
    where = f"IPv{column.family} atom {column.atom}"
    match column:
        case AddressColumn():
            return f"address, {where}"
        case NodeColumn(conditions=conditions, is_local=is_local):
            whose = "own node" if is_local else "node"
            return f"{whose}, {where}, {_bits('node', conditions)}"
        case _:
            bits, named = _bits("bit", column.bits), _named(column.named, vocabulary)
            return f"endpoint, {where}, {bits}{named}"


def _own(row: Row) -> str:
    """The blocks that the subject's own addresses are in, if rules test them."""
    return "".join(f", own IPv{f} {_bits('block', row.own(f))}" for f in FAMILIES if row.own(f))


def dump_decision_ir(decision: DecisionIR) -> str:
    """Rules, diagrams, and the table of each direction with equal cells of a row together."""
    lines = ["rules:"]
    lines += [f"  rule {i}: {entry.describe()}" for i, entry in enumerate(decision.rules)]
    lines.append("diagrams:")
    actions = set(decision.action_diagrams)
    for index, diagram in enumerate(decision.diagrams):
        regions = diagram_regions(diagram)
        if index in actions:
            lines.append(f"  diagram {index} {decision.describe_diagram(index)}")
        decided = "; ".join(
            f"rule {leaf}: {describe_services(keys)}" for leaf, keys in sorted(regions.items())
        )
        if any(cell.rule == index for cell in decision.cells):
            lines.append(f"  diagram {index} decided by {decided}")
    for direction in Direction:
        lines.append(f"{direction.value}:")
        for index, row in enumerate(decision.table(direction)):
            lines.append(f"  row {index}:")
            lines += _row_lines(decision, row)
    return _page(lines)


def _row_lines(decision: DecisionIR, row: tuple[int, ...]) -> Iterator[str]:
    groups: dict[int, list[int]] = {}
    for column, cell in enumerate(row):
        groups.setdefault(cell, []).append(column)
    for at, columns in groups.items():
        pair = decision.cells[at]
        yield (
            f"    columns {_ranges(columns)}: {decision.describe_diagram(pair.action)}"
            f" (diagrams {pair.action}, {pair.rule})"
        )


def _ranges(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def dump_plan(plan: LookupPlan) -> str:
    """Sizes and layouts."""
    lines = [
        f"{name}: {size.used} used, room for {size.capacity}"
        for name, size in (("nodes", plan.node_room), ("rules", plan.rules))
    ]
    lines.append(f"endpoints: room for {plan.endpoints}")
    lines.append(f"class of an endpoint: {', '.join(plan.class_fields) or 'not asked'}")
    told = ", ".join(kind.name for kind in sorted(plan.distinguished)) or "none"
    lines.append(f"protocols whose ports or types rules read: {told}")
    lines.append(f"counted for each rule: {plan.counters.value}")
    for direction in plan.directions.values():
        lines += _direction_lines(direction)
    code = ", ".join(map(diagram_name, plan.code_words)) or "none"
    lines.append(f"diagrams in code: {code}; all others by {plan.rounds} rounds of search")
    return _page(lines)


def _direction_lines(plan: DirectionPlan) -> Iterator[str]:
    name = plan.direction.value
    if not plan.is_used:
        yield f"{name}: no policy applies"
        return
    yield f"{name}: {plan.cells.value} cells" + (
        f", {plan.buckets} buckets" if plan.buckets else ""
    )
    for what, size in (("rows", plan.rows), ("columns", plan.columns)):
        yield f"  {what}: {size.used} used, room for {size.capacity}"
    for index, ids in enumerate((plan.row_ids, plan.column_ids)):
        yield f"  id of each {('row', 'column')[index]}: {', '.join(map(str, ids))}"
    for family, address in plan.addresses.items():
        yield f"  IPv{family} addresses: {address.layout.value}, {len(address.runs)} runs"


def dump_seeds(seeds: tuple[Seed, ...]) -> str:
    """Every map with its initial words; runs of equal values are counted."""
    lines = []
    for seed in seeds:
        lines.append(
            f"{seed.map_name} ({seed.kind}, {seed.entries} entries): {', '.join(seed.fields)}"
        )
        lines += _seed_lines(seed)
    return _page(lines)


def _seed_lines(seed: Seed) -> Iterator[str]:
    size = seed.key_bytes + 4 * len(seed.fields)
    entries = [seed.data[at : at + size] for at in range(0, len(seed.data), size)]
    at = 0
    while at < len(entries):
        end = at
        while end + 1 < len(entries) and entries[end + 1] == entries[at]:
            end += 1
        words = struct.unpack(f"<{len(seed.fields)}I", entries[at][seed.key_bytes :])
        where = f"{at}" if end == at else f"{at}-{end}"
        if seed.key_bytes:
            where = f"{entries[at][4 : seed.key_bytes].hex()}/{entries[at][0]}"
        yield f"  {where}: {', '.join(map(str, words))}"
        at = end + 1
