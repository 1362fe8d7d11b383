# SPDX-License-Identifier: Apache-2.0
"""Balanced decision trees as C: sorted thresholds and a leaf for each gap between them."""

from collections.abc import Callable, Sequence


def tree(
    steps: Sequence[tuple[str, str]], less_than: Callable[[str], str], indent: int
) -> list[str]:
    """C lines that return the leaf of the last step whose threshold is not above the value.

    `steps` are (threshold, leaf) as C expressions, ascending; the first threshold is the domain's
    least value and never compared. `less_than(threshold)` is the C condition `value < threshold`.
    """
    pad = "\t" * indent
    if len(steps) == 1:
        return [f"{pad}return {steps[0][1]};"]
    middle = len(steps) // 2
    return [
        f"{pad}if ({less_than(steps[middle][0])}) {{",
        *tree(steps[:middle], less_than, indent + 1),
        f"{pad}}}",
        *tree(steps[middle:], less_than, indent),
    ]
