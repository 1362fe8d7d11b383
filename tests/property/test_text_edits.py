# SPDX-License-Identifier: Apache-2.0
"""Text without some items of a list means the list without these items, and the rest stays as it is."""

import random

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.compiler.driver.check.fixes.edits import applied
from policyc.compiler.driver.check.fixes.lists import without_items
from policyc.compiler.frontend.yaml.marked import (
    MarkedMapping,
    MarkedSequence,
    marked_documents,
)
from tests.property.length import examples

BLOCK = (
    "- %d",
    "- a: %d",
    "- {a: %d, b: [x,\n   y]}",
    "-\n    a: %d",
    "- a: |\n      # no comment\n      %d\n",
    "- a:\n    - %d\n    # deeper",
    "- - %d\n    - '- x'",
    "- 'a\n\n    %d'",
)
FLOW = ("%d", "{a: %d}", "[%d, 'x, y']", "{a: %d,\n  b: 1}", '"a %d"')
BETWEEN = ("", "", "\n", "  # about it\n", "    # inside\n", "\n  # about it\n")
BESIDE = ("", "", "  # beside")


def block_list(rng: random.Random, n: int) -> str:
    parts = ["before: 1\nlist:", rng.choice(BESIDE), "\n"]
    for at in range(n):
        item = rng.choice(BLOCK) % at
        beside = "" if "\n" in item else rng.choice(BESIDE)
        parts += (rng.choice(BETWEEN), f"  {item}{beside}\n")
    return "".join((*parts, rng.choice(("after: 1\n", "# end\nafter: 1", ""))))


def flow_list(rng: random.Random, n: int) -> str:
    comma = rng.choice((", ", ",", " ,\n  "))
    end = rng.choice(("]", " ]", ",]" if n else "]"))
    listed = comma.join(rng.choice(FLOW) % at for at in range(n))
    return f"before: 1\nlist: [{listed}{end} # beside\nafter: 1\n"


@settings(max_examples=examples(2000, 20), deadline=None)
@given(st.integers(min_value=0, max_value=2**32), st.booleans(), st.booleans())
def test_a_list_without_items_is_read_as_that(seed: int, is_flow: bool, is_dos: bool) -> None:
    rng = random.Random(seed)
    n = rng.randint(1, 5)
    text = (flow_list if is_flow else block_list)(rng, n)
    text = text.replace("\n", "\r\n") if is_dos else text
    gone = set(rng.sample(range(n), rng.randint(1, n)))
    root = marked_documents(text)[0].root
    assert isinstance(root, MarkedMapping)
    entry = root.entry("list")
    assert entry is not None
    key, items = entry
    assert isinstance(items, MarkedSequence)
    new = applied(text, without_items(text, key, items, gone))
    expected = yaml.safe_load(text)
    expected["list"] = [item for at, item in enumerate(expected["list"]) if at not in gone]
    assert yaml.safe_load(new) == expected, f"{text}\n{new}"
    kept = iter(text.replace("list:", "list: []") if len(gone) == n and not is_flow else text)
    assert all(character in kept for character in new), "text was added or reordered"
