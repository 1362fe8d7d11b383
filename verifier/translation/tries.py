# SPDX-License-Identifier: Apache-2.0
"""The result of a longest-prefix-match table for every address: a step function."""

from policyc.verifier.translation.seeded import Prefixes
from policyc.verifier.translation.steps import Steps, joined


def longest_prefixes(trie: Prefixes) -> Steps:
    """The column of every address; 0, which fails closed, if no prefix contains it."""
    pieces: dict[int, int] = {0: 0}
    around: list[tuple[int, int]] = []  # (first address after an open prefix, its column)
    for (first, length), column in sorted(trie.columns.items()):
        while around and around[-1][0] <= first:
            _close(pieces, around)
        pieces[first] = column
        around.append((first + (1 << (trie.bits - length)), column))
    while around:
        _close(pieces, around)
    pieces.pop(1 << trie.bits, None)
    return joined(iter(sorted(pieces.items())))


def _close(pieces: dict[int, int], around: list[tuple[int, int]]) -> None:
    """After the end of the innermost open prefix, the prefix around it applies again."""
    end, _ = around.pop()
    pieces[end] = around[-1][1] if around else 0
