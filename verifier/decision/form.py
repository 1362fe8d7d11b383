# SPDX-License-Identifier: Apache-2.0
"""Lemma 0: the Decision IR has the form that the other lemmas, the seeds and the node rely on.

Every id is valid, every number fits the bits that hold it, every diagram is a function, no entry occurs
twice, and the vocabulary has everything that the policies read. Python's unbounded integers would wrap
in Z3's bit vectors, and a negative id would count from the end. Such an IR is refuted here, before
either happens.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import lt
from typing import Any

from policyc.ir.atoms import (
    ADDRESS_BITS,
    AddressAtoms,
    AddressColumn,
    EndpointColumn,
    NamedNumbers,
    NodeColumn,
)
from policyc.ir.decision import (
    ALLOW_LEAF,
    DENY_LEAF,
    DecisionIR,
    Diagram,
    TableLeaf,
    TableRule,
    table_leaves,
)
from policyc.ir.peers import AddressPeer, EndpointPeer, Leaf, NodePeer, Where, leaves
from policyc.ir.policy import Direction, NamedPort, PolicySet, Rule
from policyc.ir.selectors import NEVER
from policyc.ir.services import ALL_SERVICES
from policyc.ir.universe import FAMILIES
from policyc.ir.vocabulary import Vocabulary
from policyc.verifier.decision.outcome import Broken

LAST_KEY = ALL_SERVICES.spans[-1][1]


def form_faults(
    policies: PolicySet, decision: DecisionIR, is_partition_known: bool = False
) -> Iterator[Broken]:
    """The faults of the form; the words name the first fault of each part.

    `is_partition_known`: lists, addresses and columns are those of a decision that was proved.
    """
    for words in (
        *(() if is_partition_known else _partition(decision)),
        *_vocabulary(policies, decision),
        *_rows(decision),
        *_diagrams(decision),
        *_cells(decision),
        *_tables(decision),
    ):
        yield Broken("form", words)


def _partition(decision: DecisionIR) -> Iterator[str]:
    yield from _lists(decision)
    yield from _addresses(decision)
    yield from _columns(decision)


def _lists(decision: DecisionIR) -> Iterator[str]:
    """No entry of the vocabulary occurs twice."""
    v = decision.atoms.vocabulary
    for name, items in (
        ("selectors", v.selectors),
        ("blocks", v.blocks),
        ("node conditions", v.node_conditions),
        ("named ports", v.named_ports),
    ):
        if len(set(items)) != len(items):
            yield f"the vocabulary's {name} are not distinct"


def _vocabulary(policies: PolicySet, decision: DecisionIR) -> Iterator[str]:
    """Nothing that the policies read is missing from the lists or from the masks over them."""
    v = decision.atoms.vocabulary
    for mask, items in (
        (v.subject_bits, v.selectors),
        (v.peer_bits, v.selectors),
        (v.own_blocks, v.blocks),
        (v.ingress_ports, v.named_ports),
        (v.egress_ports, v.named_ports),
    ):
        if not 0 <= mask < 1 << len(items):
            yield "a mask of the vocabulary has bits that stand for nothing"
    for tier in policies.tiers:
        for policy in tier.policies:
            name = policy.title
            if policy.hosts != NEVER:
                yield f"{name} has host policy, which the tables do not"
            if not _has(v.bit_of, policy.subject, v.subject_bits):
                yield f"the vocabulary lacks the subject of {name}"
            for direction in Direction:
                ports = v.ingress_ports if direction is Direction.INGRESS else v.egress_ports
                for rule in policy.rules(direction):
                    if not _reads_known(rule, v, ports):
                        yield f"the vocabulary lacks a peer or port of {name} {rule.origin.path}"


def _reads_known(rule: Rule, v: Vocabulary, ports: int) -> bool:
    """The vocabulary has every selector, block, node and named port of a rule, and all its requirements.

    Source ports cannot be stored in tables.
    """
    if rule.source_ports is not None:
        return False
    every_block = (1 << len(v.blocks)) - 1
    if not all(
        _knows(leaf, v, v.peer_bits, every_block) for peer in rule.peers for leaf in leaves(peer)
    ):
        return False
    if not all(_knows(leaf, v, v.subject_bits, v.own_blocks) for leaf in leaves(rule.own)):
        return False
    named = (port for port in (*rule.ports, *rule.except_ports) if isinstance(port, NamedPort))
    return all(_has(v.port_of, port, ports) for port in named)


def _knows(leaf: Leaf, v: Vocabulary, bits: int, blocks: int) -> bool:
    """The vocabulary has a leaf, among the selectors and blocks that rules test on its side."""
    match leaf:
        case EndpointPeer(selector):
            return _has(v.bit_of, selector, bits)
        case AddressPeer():
            return _has(v.block_of, leaf, blocks)
        case NodePeer(condition, where):
            is_placed = where is Where.ANYWHERE or v.reads_locality
            return condition in v.node_of and v.reads_nodes and is_placed
        case _:
            return True


def _has(indices: Mapping[Any, int], item: object, mask: int) -> bool:
    index = indices.get(item)
    return index is not None and bool(mask >> index & 1)


def _addresses(decision: DecisionIR) -> Iterator[str]:
    addresses = decision.atoms.classifier.addresses
    if tuple(addresses) != FAMILIES:
        yield "the address atoms are not those of IPv4 and IPv6"
        return
    for family, atoms in addresses.items():
        yield from _runs(decision, family, atoms)


def _runs(decision: DecisionIR, family: int, atoms: AddressAtoms) -> Iterator[str]:
    blocks = decision.atoms.vocabulary.blocks
    own = sum(1 << i for i, block in enumerate(blocks) if block.network.version == family)
    starts = atoms.starts
    if atoms.family != family:
        yield f"the IPv{family} atoms call themselves IPv{atoms.family}"
    if not starts or starts[0] != 0 or not _ascends(starts):
        yield f"the IPv{family} runs do not ascend from 0"
    elif starts[-1] >= 1 << ADDRESS_BITS[family]:
        yield f"an IPv{family} run starts behind the last address"
    if len(atoms.atoms) != len(starts) or any(
        not 0 <= atom < len(atoms.blocks) for atom in atoms.atoms
    ):
        yield f"an IPv{family} run has no atom"
    if any(mask < 0 or mask & ~own for mask in atoms.blocks):
        yield f"an IPv{family} atom is in a block of another family, or in none that exists"


def _rows(decision: DecisionIR) -> Iterator[str]:
    atoms, v = decision.atoms, decision.atoms.vocabulary
    if len(set(atoms.rows)) != len(atoms.rows):
        yield "a row stands twice"
    for row in atoms.rows:
        if row.bits < 0 or row.bits & ~v.subject_bits:
            yield "a row has a bit that is no subject's"
        if any(not _are_own(row.own(f), f, decision) for f in FAMILIES):
            yield "a row has blocks that no address has, or that no rule asks of it"
        yield from _named(row.named, v.ingress_ports, "a row")
    if any(not 0 <= index < len(atoms.rows) for index in atoms.row_of.values()):
        yield "an endpoint is in a row that is not there"


def _are_own(blocks: int, family: int, decision: DecisionIR) -> bool:
    """Some address is in exactly these of the blocks that rules test on a subject; or it has none."""
    own = decision.atoms.vocabulary.own_blocks
    atoms = decision.atoms.classifier.addresses[family]
    return blocks == 0 or any(blocks == mask & own for mask in atoms.blocks)


def _columns(decision: DecisionIR) -> Iterator[str]:
    atoms, v = decision.atoms, decision.atoms.vocabulary
    if len(set(atoms.columns)) != len(atoms.columns):
        yield "a column stands twice"
    addresses = atoms.classifier.addresses
    for column in atoms.columns:
        n_atoms = len(addresses[column.family].blocks) if column.family in FAMILIES else 0
        if not 0 <= column.atom < n_atoms:
            yield "a column has an address atom that is not there"
        elif isinstance(column, NodeColumn):
            if not 0 <= column.conditions < 1 << len(v.node_conditions):
                yield "a column has a node condition that is not there"
            if not v.reads_nodes or column.is_local > v.reads_locality:
                yield "a column is of a node, and no rule reads nodes"
        elif isinstance(column, EndpointColumn):
            if column.bits < 0 or column.bits & ~v.peer_bits:
                yield "a column has a bit that is no peer's"
            yield from _named(column.named, v.egress_ports, "a column")
    for family in FAMILIES:
        for atom in range(len(addresses[family].blocks)):
            if AddressColumn(family, atom) not in atoms.column_index:
                yield f"IPv{family} address atom {atom} has no column"


def _named(named: NamedNumbers, mask: int, what: str) -> Iterator[str]:
    indices = [index for index, _ in named]
    if not _ascends(indices) or any(index < 0 or not mask >> index & 1 for index in indices):
        yield f"{what} has named ports that no rule reads"
    if any(not numbers or min(numbers) < 0 or max(numbers) > 0xFFFF for _, numbers in named):
        yield f"{what} has a named port without a number"


def _diagrams(decision: DecisionIR) -> Iterator[str]:
    for index, diagram in enumerate(decision.diagrams):
        if not _is_function(diagram):
            yield f"diagram {index} does not ascend from 0 to the last service"


def _is_function(diagram: Diagram) -> bool:
    keys = [lo for lo, _ in diagram]
    return bool(keys) and keys[0] == 0 and _ascends(keys) and keys[-1] <= LAST_KEY


def _cells(decision: DecisionIR) -> Iterator[str]:
    diagrams, n_rules = decision.diagrams, len(decision.rules)
    for index, cell in enumerate(decision.cells):
        if not (0 <= cell.action < len(diagrams) and 0 <= cell.rule < len(diagrams)):
            yield f"cell {index} names a diagram that is not there"
            continue
        if not {leaf for _, leaf in diagrams[cell.action]} <= {DENY_LEAF, ALLOW_LEAF}:
            yield f"the action diagram of cell {index} has a leaf that is no action"
        rules = {leaf for _, leaf in diagrams[cell.rule]}
        if rules and not 0 <= min(rules) <= max(rules) < n_rules:
            yield f"the rule diagram of cell {index} has a leaf that is no rule"
    shape = len(decision.atoms.rows), len(decision.atoms.columns)
    for direction in Direction:
        table = decision.table(direction)
        if len(table) != shape[0] or any(len(row) != shape[1] for row in table):
            yield f"the {direction.value} table has not one cell per row and column"
        elif any(row and (min(row) < 0 or max(row) >= len(decision.cells)) for row in set(table)):
            yield f"the {direction.value} table names a cell that is not there"


def _tables(decision: DecisionIR) -> Iterator[str]:
    v = decision.atoms.vocabulary
    for tier in decision.tables:
        for policy in tier.policies:
            if not 0 <= policy.subject < len(v.selectors):
                yield f"the tables' subject of {policy.name} is not there"
            for direction in Direction:
                for rule in policy.rules(direction):
                    if not _is_table_rule(rule, decision):
                        yield f"a rule of {policy.name} in the tables names what is not there"


def _is_table_rule(rule: TableRule, decision: DecisionIR) -> bool:
    v = decision.atoms.vocabulary
    peers = (*(rule.peers or ()), *(() if rule.own is None else (rule.own,)))
    are_known = all(_is_leaf(leaf, v) for peer in peers for leaf in table_leaves(peer))
    services = all(
        0 <= service[0] <= service[1] <= LAST_KEY
        if isinstance(service, tuple)
        else 0 <= service < len(v.named_ports)
        for service in (*(rule.services or ()), *rule.except_services)
    )
    return are_known and services and 0 <= rule.rule < len(decision.rules)


def _is_leaf(leaf: TableLeaf, v: Vocabulary) -> bool:
    kind, index = leaf
    nodes = len(v.node_conditions)
    sizes = {"bit": len(v.selectors), "block": len(v.blocks)}
    sizes |= dict.fromkeys(("node", "local", "remote"), nodes)
    return 0 <= index < sizes.get(kind, 0)


def _ascends(numbers: Sequence[int]) -> bool:
    return all(map(lt, numbers, numbers[1:]))
