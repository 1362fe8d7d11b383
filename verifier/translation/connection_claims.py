# SPDX-License-Identifier: Apache-2.0
"""Claims about what the policy program does to connections: no store lets a denied flow pass."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from policyc.verifier.bytecode.nodes import Node, variables
from policyc.verifier.bytecode.symbolic.environment import Deed
from policyc.verifier.bytecode.symbolic.unknown import UnknownMemory
from policyc.verifier.bytecode.values import Bits, Op, Truth, mask
from policyc.verifier.translation.claims import Claim, number_in
from policyc.verifier.translation.policy_claims import PolicyClaims
from policyc.verifier.translation.policy_runs import PolicyRuns
from policyc.verifier.translation.words import Words

CONNECTIONS = ("pc_ct4", "pc_ct6", "pc_ct4_new", "pc_ct6_new")
RULE_BITS = 32
CT_DENIED = 32
"""PC_CT_DENIED of runtime/datapath/ct_state.h."""


@dataclass
class ConnectionClaims:
    """Claims on the values that are stored in connection tables, and their keys."""

    runs: PolicyRuns
    policy: PolicyClaims

    def of(self, deed: Deed) -> Iterator[Claim]:
        """Stored only after allow, with the rules that decided, or those of a copied entry."""
        if deed.what == "update":
            never = self._all(deed.guard.term(), self._not(self.policy.is_allowed))
            yield Claim(
                f"an entry of {deed.map} is stored though the flow is denied", never, deed.at
            )
            keys = (self.runs.domain.equal(deed.key, key, width) for key, width in self._keys(deed))
            elsewhere = self._all(deed.guard.term(), *map(self._not, keys))
            yield Claim(f"an entry of {deed.map} is stored as another flow's", elsewhere, deed.at)
            for name, rule in {**self._rules, "epoch": self.runs.field("epoch")}.items():
                at = 8 * self._of_entry(name)
                value = self.runs.domain.extract(number_in(deed.value), at, 32, 8 * deed.size)
                said = [rule, *self._copied(value, name)]
                wrong = self._all(deed.guard.term(), *(self._differ(value, each) for each in said))
                yield Claim(f"{deed.map} is stored with another {name}", wrong, deed.at)
        elif deed.what == "store":
            yield from self._of_store(deed)

    def _keys(self, deed: Deed) -> Iterator[tuple[Bits, int]]:
        """The keys of the current flow, in bits: as it is, and as the client sent it (`ct_pre_nat.h`).

        Either end may come first: any order finds the entry of both directions (`ct_key.h`).
        """
        field, domain = self.runs.field, self.runs.domain
        whole = 128
        size = 32 if "4" in deed.map else whole
        source, own = (
            field("tuple.saddr"),
            (field("tuple.sport"), field("tuple.daddr"), field("tuple.dport")),
        )
        client = (field("nat.sport"), field("nat.daddr"), field("nat.dport"))
        for sport, daddr, dport in (own, client):
            ends = [(source, sport), (daddr, dport)]
            for (one, one_port), (other, other_port) in (ends, ends[::-1]):
                parts: list[tuple[Bits, int]] = [
                    (domain.extract(one, 0, size, whole), size),
                    (domain.extract(other, 0, size, whole), size),
                    (one_port, 16),
                    (other_port, 16),
                    (field("tuple.proto"), 8),
                    (field("tuple.sub"), 8),
                    (0, 16),
                ]
                yield domain.concat(parts), sum(width for _, width in parts)

    def _of_store(self, deed: Deed) -> Iterator[Claim]:
        """A store into an entry that was found: the member determines the claim."""
        guard, allowed = deed.guard.term(), self.policy.is_allowed
        said = f"an entry of {deed.map}"
        is_denied = self._all(guard, self._not(allowed))
        name = self._member(deed)
        if name is None:
            yield Claim(f"{said} is written to across its members", guard, deed.at)
        elif name == "decided":
            yield Claim(f"{said} is decided though the flow is denied", is_denied, deed.at)
        elif name in self._rules:
            wrong = self._all(guard, self._differ(number_in(deed.value), self._rules[name]))
            yield Claim(f"{said} has another {name}", wrong, deed.at)
            yield Claim(f"{said} has a {name} though the flow is denied", is_denied, deed.at)
        elif name == "state":
            never = self._all(is_denied, self._is_open(number_in(deed.value)))
            yield Claim(f"{said} goes on though the flow is denied", never, deed.at)
        elif name == "epoch":
            due = self.runs.field("epoch")
            wrong = self._all(guard, self._differ(number_in(deed.value), due))
            yield Claim(f"{said} is of another epoch than the flow", wrong, deed.at)
            assert deed.before is not None, "a store has a memory before it"
            further = self._of_entry("state") - self._of_entry("epoch") & mask(64)
            place = self.runs.domain.binary(Op.ADD, deed.offset, further, 64)
            never = self._all(is_denied, self._is_open(number_in(deed.before.load(place, 4))))
            yield Claim(f"{said} is of now though the flow is denied", never, deed.at)

    def _member(self, deed: Deed) -> str | None:
        """The claimed member that a store writes, "" for none of them.

        None if it writes a part of one, or more than one.
        """
        if not isinstance(deed.offset, int):
            return None
        touched = [
            (name, at, size)
            for name, at, size in self._members
            if at < deed.offset + deed.size and deed.offset < at + size
        ]
        if not touched:
            return ""
        whole = touched == [(touched[0][0], deed.offset, deed.size)]
        return touched[0][0] if whole else None

    @cached_property
    def _members(self) -> list[tuple[str, int, int]]:
        names = ("epoch", "state", "egress_rule", "ingress_rule", "decided")
        btf = self.runs.source.btf
        places = ((name, btf.place("pc_ct", name)) for name in names)
        return [(name, place.offset, btf.size(place.type)) for name, place in places]

    @cached_property
    def _rules(self) -> Mapping[str, Bits]:
        return {"egress_rule": self.policy.egress.rule, "ingress_rule": self.policy.ingress.rule}

    def _of_entry(self, name: str) -> int:
        return self.runs.source.btf.offset_of("pc_ct", name)

    def _all(self, *truths: Truth) -> Truth:
        return self.runs.domain.all_of(truths)

    def _not(self, truth: Truth) -> Truth:
        return self.runs.domain.no(truth)

    def _differ(self, one: Bits, other: Bits) -> Truth:
        return self._not(self.runs.domain.equal(one, other, RULE_BITS))

    def _is_open(self, state: Bits) -> Truth:
        """The word of a state does not say that the flow is denied."""
        words = Words(self.runs.domain)
        return self._not(words.has(state, CT_DENIED))

    def _copied(self, value: Bits, name: str) -> Iterator[Bits]:
        """The members of connection entries, as they were found, that a value may be a copy of.

        The members of a single map value are bytes at their offsets. From a value with several entries,
        words of eight bytes were read: either 32-bit part counts as the member.
        """
        titles = tuple(f"{deed.map}#" for deed in self.runs.deeds if deed.map in CONNECTIONS)
        regions: set[str] = set()
        domain = self.runs.domain
        for each in variables(value) if isinstance(value, Node) else ():
            title, is_byte, _ = str(each.args[0]).partition("@")
            if not title.startswith(titles):
                continue
            if is_byte:
                regions.add(title)
            elif each.width == 2 * RULE_BITS:
                yield from (
                    domain.extract(each, at, RULE_BITS, each.width) for at in (0, RULE_BITS)
                )
        at = self._of_entry(name)
        for title in sorted(regions):
            size = self.runs.program.maps[title.partition("#")[0]].value_size
            yield number_in(UnknownMemory(domain, title, size).load(at, RULE_BITS // 8))
