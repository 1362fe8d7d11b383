# SPDX-License-Identifier: Apache-2.0
"""The search for the column of an address that no endpoint holds: constant, code, tree or trie."""

from collections.abc import Mapping
from ipaddress import ip_network

from policyc.backends.ebpf_c import costs
from policyc.backends.ebpf_c.choice import Candidate, Choice, choose
from policyc.ir.atoms import AddressAtoms
from policyc.ir.classes import dataclass
from policyc.ir.decision import DecisionIR
from policyc.ir.plan import AddressLayout, AddressPlan, address_runs, prefix_atoms
from policyc.ir.policy import Network
from policyc.ir.tree import LEAF, NODE_BYTES, Nodes, column_word, depth_of
from policyc.ir.views import ColumnView, View

ROOT_BITS = (0, 8, 12, 16)
"""Leading bits of an IPv4 address that may index a table, instead of the first nodes."""

Runs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Tree:
    """A tree that could be built: the nodes on the way, on average over the runs, and its bytes."""

    root_bits: int
    depth: float
    n_nodes: int

    @property
    def ns(self) -> float:
        table = costs.ARRAY.at(4 << self.root_bits) if self.root_bits else 0.0
        return table + self.depth * costs.NODE.at(self.n_nodes * NODE_BYTES)

    @property
    def table_bytes(self) -> int:
        return self.n_nodes * NODE_BYTES + (4 << self.root_bits if self.root_bits else 0)


def plan_addresses(
    decision: DecisionIR,
    view: View,
    family: int,
    columns: Mapping[ColumnView, int],
    nodes: Nodes,
    code_leaves: int,
    asked: AddressLayout | None,
) -> tuple[AddressPlan, Choice]:
    """The plan for one family in one direction, and why; nodes of a tree go to `nodes`."""
    atoms = decision.atoms.classifier.addresses[family]
    runs = address_runs(atoms, view, columns)
    part = f"{view.direction.value} IPv{family} addresses ({len(runs)} runs)"
    if len(runs) == 1:
        alone = Candidate(AddressLayout.CONSTANT.value, 0.0, 1)
        return AddressPlan(family, AddressLayout.CONSTANT, runs), Choice(part, alone.name, (alone,))
    prefixes = column_prefixes(decision, view, family, columns)
    tree = _best_tree(runs) if family == 4 else _tree6(runs)
    instructions = round(len(runs) * costs.INSTRUCTIONS_PER_LEAF * (1 if family == 4 else 2))
    over = "" if len(runs) <= code_leaves else f"more than {code_leaves} leaves: clang's time"
    candidates = (
        Candidate(
            AddressLayout.CODE.value,
            costs.CODE.at(len(runs)) * (1 if family == 4 else 1.5),
            instructions,
            refused=over,
        ),
        Candidate(
            AddressLayout.TREE.value,
            tree.ns,
            round(costs.INSTRUCTIONS_OF_ARRAY + costs.INSTRUCTIONS_PER_NODE * (tree.depth + 1)),
            tree.table_bytes,
        ),
        Candidate(
            AddressLayout.LPM.value,
            costs.LPM.at(len(prefixes)),
            costs.INSTRUCTIONS_OF_LPM,
            (64 if family == 4 else 80) * len(prefixes),
        ),
    )
    choice = choose(part, candidates, asked.value if asked else None)
    assert choice is not None, "a tree is never refused"
    layout = AddressLayout(choice.chosen)
    if layout is AddressLayout.TREE:
        return _tree_plan(family, runs, tree.root_bits, nodes), choice
    if layout is AddressLayout.LPM:
        return AddressPlan(family, layout, runs, entries=len(prefixes)), choice
    return AddressPlan(family, layout, runs), choice


def column_prefixes(
    decision: DecisionIR, view: View, family: int, columns: Mapping[ColumnView, int]
) -> list[tuple[Network, int]]:
    """The longest-prefix table of a direction: without prefixes that say what is around them."""
    atoms: AddressAtoms = decision.atoms.classifier.addresses[family]
    blocks = decision.atoms.vocabulary.blocks
    ids = [columns[view.address(family, mask)] for mask in atoms.blocks]
    table: list[tuple[Network, int]] = []
    around: list[tuple[Network, int]] = []
    for prefix, atom in prefix_atoms(blocks, atoms):
        while around and prefix.network_address not in around[-1][0]:
            around.pop()
        if not around or around[-1][1] != ids[atom]:
            around.append((prefix, ids[atom]))
            table.append((prefix, ids[atom]))
    if not table or table[0][0].prefixlen != 0:
        # The whole family is left out of the atoms where longer prefixes cover all of it.
        whole = ip_network("0.0.0.0/0" if family == 4 else "::/0")
        table.insert(0, (whole, table[0][1]))
    return table


def _best_tree(runs: Runs) -> _Tree:
    return min((_tree4(runs, bits) for bits in ROOT_BITS), key=lambda tree: tree.ns)


def _tree4(runs: Runs, root_bits: int) -> _Tree:
    below = 32 - root_bits
    inside: dict[int, int] = {}
    for start, _ in runs:
        inside[start >> below] = inside.get(start >> below, 0) + 1
    sizes = [n + bool(slot) for slot, n in inside.items()]
    depth = sum(depth_of(n) * n for n in sizes) / sum(sizes)
    n_nodes = sum(-(-n // 7) for n in sizes if n > 1)
    return _Tree(root_bits, depth, n_nodes)


def _tree6(runs: Runs) -> _Tree:
    tried = Nodes()
    root = tried.tree128([(start, column_word(column)) for start, column in runs])
    return _Tree(0, float(sum(tried.rounds(root))), len(tried.nodes))


def _tree_plan(family: int, runs: Runs, root_bits: int, nodes: Nodes) -> AddressPlan:
    words = [(start, column_word(column)) for start, column in runs]
    if family == 6:
        root = nodes.tree128(words)
        return AddressPlan(family, AddressLayout.TREE, runs, root=root, rounds=nodes.rounds(root))
    if not root_bits:
        root = nodes.tree(words)
        return AddressPlan(family, AddressLayout.TREE, runs, root=root, rounds=nodes.rounds(root))
    roots = _roots(words, root_bits, nodes)
    rounds = max((nodes.rounds(word)[0] for word in set(roots) if not word & LEAF), default=0)
    return AddressPlan(
        family,
        AddressLayout.TREE,
        runs,
        root_bits=root_bits,
        roots=roots,
        rounds=(rounds, 0, 0, 0),
    )


def _roots(words: list[tuple[int, int]], root_bits: int, nodes: Nodes) -> tuple[int, ...]:
    """The word of each value of the leading bits: a leaf for whole stretches in which no run begins."""
    below, n_slots = 32 - root_bits, 1 << root_bits
    roots: list[int] = []
    at = 0  # the run that has the first address of the next slot
    while (slot := len(roots)) < n_slots:
        end = at + 1
        while end < len(words) and words[end][0] < (slot + 1) << below:
            end += 1
        stretch = 1
        if end == at + 1:
            stretch = (words[end][0] >> below if end < len(words) else n_slots) - slot
        roots += [nodes.tree(words[at:end])] * stretch
        while at + 1 < len(words) and words[at + 1][0] <= len(roots) << below:
            at += 1
    return tuple(roots)
