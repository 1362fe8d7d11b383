# SPDX-License-Identifier: Apache-2.0
"""Seeds with one wrong thing."""

import struct
from collections.abc import Callable

from policyc.ir.trees import LEAF

LAYOUTS = (
    "all-together-calico",
    "calico-own-addresses",
    "calico-protocols",
    "cidr6-except",
    "cidrs-100",
    "cidrs-nested",
    "close-blocks",
    "counters-none",
    "deep-diagram-127",
    "example-online-shop-unknown",
    "extended-actions",
    "named-ports-egress",
    "no-policies",
    "node-n1",
    "runs4-65",
    "runs6-33",
    "too-many-pairs",
    "wide-diagrams",
)
"""Cases that between them have every layout of cells, diagrams and addresses."""

Damage = Callable[[bytearray], None]


def word(at: int, change: Callable[[int], int]) -> Damage:
    """Change the word at an index."""

    def damage(data: bytearray) -> None:
        (old,) = struct.unpack_from("<I", data, 4 * at)
        struct.pack_into("<I", data, 4 * at, change(old) & 0xFFFFFFFF)

    return damage


def first(found: Callable[[int], bool], change: Callable[[int], int]) -> Damage:
    """Change the first word of which something is so."""

    def damage(data: bytearray) -> None:
        words = struct.unpack(f"<{len(data) // 4}I", data)
        at = next(at for at, value in enumerate(words) if found(value))
        word(at, change)(data)

    return damage


def cut(data: bytearray) -> None:
    """Without its second half."""
    del data[len(data) // 8 * 4 :]


def moved(data: bytearray) -> None:
    """Every line in the place of the one before it."""
    del data[:64]


def is_leaf(value: int) -> bool:
    return bool(value & LEAF)


FAULTS: dict[str, tuple[str, str, Damage]] = {
    "a denial becomes an allowance": (
        "cidrs-100", "pc_cells_in", first(is_leaf, lambda old: old ^ 1 << 30)
    ),
    "another rule": ("cidrs-100", "pc_cells_in", first(is_leaf, lambda old: old + 1)),
    "a cell is nothing": ("cidrs-100", "pc_cells_in", first(is_leaf, lambda _: 0)),
    "a table is cut off": ("cidrs-100", "pc_cells_in", cut),
    "a row too high": ("cidrs-100", "pc_cells_in", lambda data: data.__delitem__(slice(0, 4))),
    "a port too high": ("deep-diagram-127", "pc_nodes", word(16, lambda old: old + 1)),
    "children change places": (
        "deep-diagram-127",
        "pc_nodes",
        lambda data: data.__setitem__(slice(92, 100), data[96:100] + data[92:96]),
    ),
    "an address too high": ("runs4-65", "pc_nodes", word(16, lambda old: old + 1)),
    "a root leads elsewhere": ("close-blocks", "pc_root4_in", first(is_leaf, lambda old: old ^ 3)),
    "nobody's row allows": ("cidrs-100", "pc_cells_in", word(1, lambda _: 0xC0000000)),
    "fans begin a line late": ("close-blocks", "pc_nodes", moved),
    "an IPv6 address too high": ("runs6-33", "pc_nodes", word(16, lambda old: old + 1)),
    "a bucket has another row": ("too-many-pairs", "pc_buckets_in", word(1, lambda old: old + 1)),
    "a bucket has another word": ("too-many-pairs", "pc_buckets_in", word(8, lambda old: old ^ 1)),
    "a bucket that nobody filled": ("too-many-pairs", "pc_buckets_in", word(12, lambda _: 0)),
    "a row's usual word": ("too-many-pairs", "pc_usual_in", word(1, lambda old: old ^ 1 << 30)),
}  # fmt: skip
