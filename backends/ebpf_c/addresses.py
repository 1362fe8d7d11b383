# SPDX-License-Identifier: Apache-2.0
"""The lookup of the column of an address that no endpoint holds: constant, code, trees or trie."""

from collections.abc import Mapping
from ipaddress import ip_network

from policyc.backends.ebpf_c import costs
from policyc.backends.ebpf_c.address_trees import best_tree, tree_of_fans, tree_plan
from policyc.backends.ebpf_c.choice import Candidate, Choice, choose
from policyc.ir.atoms import AddressAtoms
from policyc.ir.decision import DecisionIR
from policyc.ir.plan import AddressLayout, AddressPlan, address_runs, prefix_atoms
from policyc.ir.policy import Network
from policyc.ir.trees import Nodes
from policyc.ir.views import ColumnView, View


def plan_addresses(
    decision: DecisionIR,
    view: View,
    family: int,
    columns: Mapping[ColumnView, int],
    nodes: Nodes,
    code_leaves: int,
    asked: AddressLayout | None,
) -> tuple[AddressPlan, Choice]:
    """The plan for one family in one direction, and the choice; a tree's nodes are added to `nodes`."""
    atoms = decision.atoms.classifier.addresses[family]
    runs = address_runs(atoms, view, columns)
    part = f"{view.direction.value} IPv{family} addresses ({len(runs)} runs)"
    if len(runs) == 1:
        alone = Candidate(AddressLayout.CONSTANT.value, 0.0, 1)
        return AddressPlan(family, AddressLayout.CONSTANT, runs), Choice(part, alone.name, (alone,))
    prefixes = column_prefixes(decision, view, family, columns)
    trees = {AddressLayout.TREE: best_tree(runs, family)}
    if family == 4 and (with_fans := tree_of_fans(runs)).fans:
        trees[AddressLayout.FANS] = with_fans
    instructions = round(len(runs) * costs.INSTRUCTIONS_PER_LEAF * (1 if family == 4 else 2))
    over = "" if len(runs) <= code_leaves else f"more than {code_leaves} leaves: clang's time"
    candidates = (
        Candidate(
            AddressLayout.CODE.value,
            costs.CODE.at(len(runs)) * (1 if family == 4 else 1.5),
            instructions,
            refused=over,
        ),
        *(
            Candidate(
                layout.value,
                tree.ns,
                tree.instructions,
                tree.table_bytes,
                tree.refused,
            )
            for layout, tree in trees.items()
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
    if layout in trees:
        return tree_plan(family, runs, trees[layout], nodes), choice
    if layout is AddressLayout.LPM:
        return AddressPlan(family, layout, runs, entries=len(prefixes)), choice
    return AddressPlan(family, layout, runs), choice


def column_prefixes(
    decision: DecisionIR, view: View, family: int, columns: Mapping[ColumnView, int]
) -> list[tuple[Network, int]]:
    """The longest-prefix table of a direction, without prefixes that repeat the prefix around them."""
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
        # The atoms leave out the family's whole space if longer prefixes cover all of it.
        whole = ip_network("0.0.0.0/0" if family == 4 else "::/0")
        table.insert(0, (whole, table[0][1]))
    return table
