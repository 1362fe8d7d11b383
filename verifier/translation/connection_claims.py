# SPDX-License-Identifier: Apache-2.0
"""What the policy program may do to connections: nothing that lets a denied flow go on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from policyc.verifier.bytecode.symbolic.surroundings import Deed
from policyc.verifier.bytecode.symbolic.unknown import UnknownMemory
from policyc.verifier.bytecode.values import Bits, Op, mask
from policyc.verifier.translation.claims import Claim, number_in
from policyc.verifier.translation.policy_claims import PolicyClaims
from policyc.verifier.translation.policy_runs import PolicyRuns
from policyc.verifier.z3_when_used import z3

CONNECTIONS = ("pc_ct4", "pc_ct6", "pc_ct4_new", "pc_ct6_new")
RULE_BITS = 32
CT_DENIED = 32
"""PC_CT_DENIED of runtime/datapath/ct_state.h."""


@dataclass
class ConnectionClaims:
    """Claims on what is stored into the tables of connections. Under which key is not among them."""

    runs: PolicyRuns
    policy: PolicyClaims

    def of(self, deed: Deed) -> Iterator[Claim]:
        """Stored only after allow, with the rules that decided, or those of an entry it is a copy of."""
        if deed.what == "update":
            never = z3.And(deed.guard.term(), z3.Not(self.policy.is_allowed))
            yield Claim(
                f"an entry of {deed.map} is stored though the flow is denied", never, deed.at
            )
            for name, rule in self._rules.items():
                at = 8 * self._of_entry(name)
                value = self.runs.domain.extract(number_in(deed.value), at, 32, 8 * deed.size)
                said = [rule, *self._copied(value, name)]
                wrong = z3.And(deed.guard.term(), *(self._term(value) != each for each in said))
                yield Claim(f"{deed.map} is stored with another {name}", wrong, deed.at)
        elif deed.what == "store":
            yield from self._of_store(deed)

    def _of_store(self, deed: Deed) -> Iterator[Claim]:
        """Into an entry that was found: which member it is tells what must hold."""
        guard, allowed = deed.guard.term(), self.policy.is_allowed
        said = f"an entry of {deed.map}"
        is_denied = z3.And(guard, z3.Not(allowed))
        name = self._member(deed)
        if name is None:
            yield Claim(f"{said} is written to across its members", guard, deed.at)
        elif name == "decided":
            yield Claim(f"{said} is decided though the flow is denied", is_denied, deed.at)
        elif name in self._rules:
            wrong = z3.And(guard, self._term(number_in(deed.value)) != self._rules[name])
            yield Claim(f"{said} has another {name}", wrong, deed.at)
            yield Claim(f"{said} has a {name} though the flow is denied", is_denied, deed.at)
        elif name == "state":
            never = z3.And(is_denied, self._term(number_in(deed.value)) & CT_DENIED == 0)
            yield Claim(f"{said} goes on though the flow is denied", never, deed.at)
        elif name == "epoch":
            assert deed.before is not None, "a store has a memory before it"
            further = self._of_entry("state") - self._of_entry("epoch") & mask(64)
            place = self.runs.domain.binary(Op.ADD, deed.offset, further, 64)
            state = number_in(deed.before.load(place, 4))
            never = z3.And(is_denied, self._term(state) & CT_DENIED == 0)
            yield Claim(f"{said} is of now though the flow is denied", never, deed.at)

    def _member(self, deed: Deed) -> str | None:
        """Which of the members that are claimed about a store is into, "" for none of them.

        None where it is into a part of one, or more than one.
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
    def _rules(self) -> Mapping[str, Any]:
        return {"egress_rule": self.policy.egress.rule, "ingress_rule": self.policy.ingress.rule}

    def _of_entry(self, name: str) -> int:
        return self.runs.source.btf.offset_of("pc_ct", name)

    def _term(self, value: Bits) -> Any:
        return self.runs.domain.lift(value, 32)

    def _copied(self, value: Bits, name: str) -> Iterator[Any]:
        """What of entries of connections, as they were found, a value may be a copy of.

        Those of one value of a map are bytes by their places. Of a value with several entries words of
        eight bytes were read: either half is taken for the member.
        """
        titles = tuple(f"{deed.map}#" for deed in self.runs.deeds if deed.map in CONNECTIONS)
        regions: set[str] = set()
        for each in _variables(value):
            title, is_byte, _ = str(each).partition("@")
            if not title.startswith(titles):
                continue
            if is_byte:
                regions.add(title)
            elif each.size() == 2 * RULE_BITS:
                yield from (z3.Extract(at + RULE_BITS - 1, at, each) for at in (0, RULE_BITS))
        at = self._of_entry(name)
        for title in sorted(regions):
            size = self.runs.program.maps[title.partition("#")[0]].value_size
            found = UnknownMemory(self.runs.domain, title, size).load(at, RULE_BITS // 8)
            yield self.runs.domain.lift(number_in(found), RULE_BITS)


def _variables(term: Any) -> Iterator[Any]:
    """The variables in a term, each once."""
    work, seen = [] if isinstance(term, int) else [term], set()
    while work:
        each = work.pop()
        if each.get_id() in seen:
            continue
        seen.add(each.get_id())
        work += each.children()
        if z3.is_const(each) and each.decl().kind() == z3.Z3_OP_UNINTERPRETED:
            yield each
