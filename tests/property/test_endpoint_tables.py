# SPDX-License-Identifier: Apache-2.0
"""The tables of addresses: what is laid out is found, and nothing else is, whatever comes and goes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.runtime.endpoints.endpoint_tables import (
    ID_MASK,
    LINE,
    LOCAL,
    NODE,
    TableFullError,
    first4,
    held4,
    held6,
    laid_out,
    who4,
    who6,
)
from tests.property.length import examples

SEEDS = st.integers(min_value=0, max_value=2**32 - 1)
WHO = st.builds(
    lambda number, flag: number | flag,
    st.integers(min_value=1, max_value=ID_MASK - 1),
    st.sampled_from((0, NODE, LOCAL)),
)
GROUPS = [group for group in range(1, 20000) if first4(group << 3, 52) == 5]
"""Of eight addresses each, which have the same first line in a table of 4096 lines or fewer."""
ADDRESSES4 = st.one_of(
    st.integers(min_value=1, max_value=2**32 - 1),
    st.integers(min_value=0x0A000001, max_value=0x0A000100),
    st.builds(lambda group, at: group << 3 | at, st.sampled_from(GROUPS), st.integers(0, 7)),
)
ADDRESSES6 = st.one_of(
    st.integers(min_value=1, max_value=2**128 - 1),
    st.integers(min_value=1, max_value=200).map(lambda low: 0xFD00 << 112 | low),
    st.integers(min_value=1, max_value=200).map(lambda high: 0xFD00 << 112 | high << 64),
)
CHANGES = st.lists(
    st.tuples(
        st.dictionaries(ADDRESSES4, WHO, max_size=60),
        st.dictionaries(ADDRESSES6, WHO, max_size=30),
        st.sets(st.integers(0, 200)),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=examples(80, 2))
@given(SEEDS, CHANGES, st.lists(ADDRESSES4), st.lists(ADDRESSES6))
def test_tables_are_dictionaries(
    seed: int,
    changes: list[tuple[dict[int, int], dict[int, int], set[int]]],
    others4: list[int],
    others6: list[int],
) -> None:
    known4: dict[int, int] = {}
    known6: dict[int, int] = {}
    for added4, added6, gone in changes:
        for known, added in ((known4, added4), (known6, added6)):
            known |= added
            for at, address in enumerate(list(known)):
                if at in gone:
                    del known[address]
        buffer = laid_out(known4, known6, 256, 256, seed)
        assert held4(buffer.table4.lines) == known4
        assert held6(buffer.table6.lines) == known6
        for address in (*known4, *others4, 0):
            assert who4(buffer, address) == known4.get(address, 0)
        for address in (*known6, *others6, 0):
            assert who6(buffer, address) == known6.get(address, 0)


@settings(max_examples=examples(25, 2))
@given(SEEDS, st.dictionaries(ADDRESSES4, WHO, min_size=30, max_size=80), st.integers(1, 3))
def test_a_table_that_is_too_small_is_refused_or_complete(
    seed: int, known: dict[int, int], bits: int
) -> None:
    n_lines = 1 << bits
    try:
        buffer = laid_out(known, {}, n_lines, 2, seed)
    except TableFullError:
        return
    assert len(buffer.table4.lines) <= n_lines * LINE
    assert len(known) <= n_lines * 8
    assert held4(buffer.table4.lines) == known
    assert all(who4(buffer, address) == who for address, who in known.items())
