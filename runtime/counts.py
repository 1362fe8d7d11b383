# SPDX-License-Identifier: Apache-2.0
"""Counts in words, where the noun agrees with the number: the twin of `ir/counts.py` on a node."""


def counted(number: int, one: str, many: str = "") -> str:
    """`1 endpoint`, `2 endpoints`, `no endpoints`; `many` where it is not `one` and an s."""
    return f"{number or 'no'} {one if number == 1 else many or f'{one}s'}"
