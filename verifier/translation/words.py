# SPDX-License-Identifier: Apache-2.0
"""Words of 32 bits over a `Domain`: the same code for numbers and terms."""

from dataclasses import dataclass

from policyc.verifier.bytecode.values import Bits, Cmp, Domain, Op, Truth

WIDTH = 32
MASK = (1 << WIDTH) - 1


@dataclass(frozen=True, slots=True)
class Words:
    """The operations on words that a reading needs."""

    domain: Domain

    def add(self, one: Bits, other: Bits) -> Bits:
        """The sum, modulo 2^32."""
        return self.domain.binary(Op.ADD, one, other, WIDTH)

    def subtract(self, one: Bits, other: Bits) -> Bits:
        """The difference, modulo 2^32."""
        return self.domain.binary(Op.SUB, one, other, WIDTH)

    def times(self, one: Bits, other: Bits) -> Bits:
        """The product, modulo 2^32."""
        return self.domain.binary(Op.MUL, one, other, WIDTH)

    def mask(self, one: Bits, bits: int) -> Bits:
        """The bits of a word that are among these."""
        return self.domain.binary(Op.AND, one, bits, WIDTH)

    def with_bits(self, one: Bits, bits: Bits) -> Bits:
        """The bits of both."""
        return self.domain.binary(Op.OR, one, bits, WIDTH)

    def down(self, one: Bits, by: Bits) -> Bits:
        """Shifted right, by less than 32."""
        return self.domain.binary(Op.LSHR, one, by, WIDTH)

    def up(self, one: Bits, by: int) -> Bits:
        """Shifted left, by less than 32."""
        return self.domain.binary(Op.SHL, one, by, WIDTH)

    def equal(self, one: Bits, other: Bits) -> Truth:
        """Whether they are the same."""
        return self.domain.compare(Cmp.EQ, one, other, WIDTH)

    def at_most(self, one: Bits, other: Bits) -> Truth:
        """One <= other, unsigned."""
        return self.domain.compare(Cmp.ULE, one, other, WIDTH)

    def has(self, word: Bits, bit: int) -> Truth:
        """Whether a bit is set."""
        return self.equal(self.mask(word, bit), bit)

    def has_of(self, word: Bits, bits: int, among: int) -> Truth:
        """Whether of the bits `among` exactly these are set."""
        return self.equal(self.mask(word, among), bits)

    def choose(self, truth: Truth, one: Bits, other: Bits) -> Bits:
        """`one` where it is true, else `other`."""
        return self.domain.choose(truth, one, other, WIDTH)

    def all_of(self, *truths: Truth) -> Truth:
        """Whether every one is true."""
        found: Truth = True
        for truth in truths:
            found = self.domain.both(found, truth)
        return found
