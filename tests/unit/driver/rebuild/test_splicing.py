# SPDX-License-Identifier: Apache-2.0
"""Files that are spliced from unchanged pieces equal files that are written as a whole."""

import json

from hypothesis import given
from hypothesis import strategies as st

from policyc.compiler.driver.compile.json_lines import (
    joined_members,
    list_text,
    member_text,
)
from policyc.compiler.driver.rebuild.splicing import (
    HERE,
    file_of,
)

SEPARATOR = ",\n"
ITEMS = st.sampled_from(["", '{"a":1}', '{"b":"é\\u0000"}', '["x",\n"y"]'])


def whole(items: list[str]) -> str:
    shown = [item for item in items if item]
    return joined_members({"list": list_text(['{"first":0}', *shown]), "z": member_text("after")})


@given(
    st.lists(st.tuples(ITEMS, st.none() | ITEMS), max_size=8),
    st.lists(ITEMS.filter(bool), max_size=2),
)
def test_a_file_with_changes(items: list[tuple[str, str | None]], more: list[str]) -> None:
    before = [item for item, _ in items]
    head = joined_members({"list": list_text(['{"first":0}', HERE]), "z": member_text("after")})
    file = file_of(head, before, SEPARATOR)
    changed = {at: now for at, (_, now) in enumerate(items) if now is not None}
    today = [changed.get(at, item) for at, item in enumerate(before)]
    text = file.with_changes(changed, more).decode()
    assert text == whole([*today, *more])
    assert json.loads(text)["z"] == "after"
    assert [file.items.text(at) for at in range(len(before))] == before
