# SPDX-License-Identifier: Apache-2.0
"""The two buckets that may hold the word of a (row, column): the formula of docs/bundle-format.md."""

from policyc.verifier.bytecode.values import Bits, Domain, Op

WORD_BITS, KEY_BITS = 32, 64
FIRST_FACTOR, SECOND_FACTOR = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
SLOTS = 4
"""Entries of a bucket: their keys, then their words."""
FILLED = 12
"""The word of a bucket that marks it as filled."""


def bucket_places(domain: Domain, row: Bits, column: Bits, n_buckets: int) -> tuple[Bits, Bits]:
    """The two buckets of a key; `n_buckets` is a power of two."""

    def folded(bits: Bits, by: int) -> Bits:
        return domain.binary(Op.XOR, bits, domain.binary(Op.LSHR, bits, by, KEY_BITS), KEY_BITS)

    key = domain.concat([(column, WORD_BITS), (row, WORD_BITS)])
    mixed = folded(domain.binary(Op.MUL, key, FIRST_FACTOR, KEY_BITS), 32)
    mixed = domain.binary(Op.MUL, mixed, SECOND_FACTOR, KEY_BITS)
    high = domain.extract(mixed, 32, WORD_BITS, KEY_BITS)
    low = domain.truncate(folded(mixed, 47), WORD_BITS, KEY_BITS)
    most = n_buckets - 1
    return domain.binary(Op.AND, high, most, WORD_BITS), domain.binary(Op.AND, low, most, WORD_BITS)
