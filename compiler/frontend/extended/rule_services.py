# SPDX-License-Identifier: Apache-2.0
"""Services of the rule language -> port entries of the IR (semantics G54, G55)."""

from collections.abc import Iterable, Iterator

from policyc.compiler.frontend.extended import codes
from policyc.compiler.frontend.extended.rule_hints import suggestion
from policyc.compiler.frontend.extended.rule_passage import Passage
from policyc.compiler.frontend.kubernetes.names import port_name_problems
from policyc.compiler.frontend.yaml.tree import clipped
from policyc.grammar import tree
from policyc.grammar.icmp_types import ICMP_TYPES, ICMPV6_TYPES
from policyc.grammar.tokens import NUMBER, Token
from policyc.ir.policy import (
    AnyService,
    EveryPort,
    IcmpType,
    NamedPort,
    PortRange,
    Ports,
    ProtocolNumber,
)
from policyc.ir.services import Kind, Protocol

PORTS = range(1, 65536)
BYTE = range(256)
_PROTOCOLS = {protocol.name.lower(): protocol for protocol in Protocol}
_TYPES = {Kind.ICMP: ICMP_TYPES, Kind.ICMPV6: ICMPV6_TYPES}


def services(written: Iterable[tree.Service], passage: Passage) -> tuple[Ports, ...]:
    """The meaning of the services; none at all is any. Wrong ones are reported and left out."""
    found = [ports for service in written for ports in _service(service, passage)]
    return tuple(dict.fromkeys(found)) or (AnyService(),)


def _service(service: tree.Service, passage: Passage) -> Iterator[Ports]:
    token = service.token
    match token.kind:
        case "any":
            yield AnyService()
        case "tcp" | "udp" | "sctp":
            yield EveryPort(_PROTOCOLS[token.kind])
        case "protocol":
            assert service.number is not None
            number = bounded(service.number, BYTE, "a protocol's number", passage)
            if number is not None:
                yield ProtocolNumber(number)
        case "icmp" | "icmpv6":
            yield from _icmp(service, passage)
        case _:
            yield from _with_port(token, passage)


def _with_port(token: Token, passage: Passage) -> Iterator[Ports]:
    name, _, port = token.text.partition("/")
    protocol = _PROTOCOLS.get(name)
    if protocol is None:
        hint = (
            f"write `{name} TYPE`" if name in ("icmp", "icmpv6") else suggestion(name, _PROTOCOLS)
        )
        passage.say(codes.UNKNOWN_PROTOCOL, passage.span(token, 0, len(name)), hint, name=name)
        return
    skip = len(name) + 1
    first, dash, last = port.partition("-")
    if port == "any":
        yield EveryPort(protocol)
    elif first.isdigit() and (last.isdigit() or not dash):
        lo = _port_number(token, skip, first, passage)
        hi = _port_number(token, skip + len(first) + 1, last, passage) if dash else lo
        if lo is not None and hi is not None and lo > hi:
            passage.say(
                codes.RANGE_BACKWARDS, passage.span(token, skip), "swap the two", lo=lo, hi=hi
            )
        elif lo is not None and hi is not None:
            yield PortRange(protocol, lo, hi)
    else:
        problems = port_name_problems(port)
        for problem in problems[:1]:
            span = passage.span(token, skip) if port else passage.span(token)
            passage.say(codes.PORT_INVALID, span, _PORT_HINT, port=clipped(port), problem=problem)
        if not problems:
            yield NamedPort(protocol, port)


_PORT_HINT = "a port is tcp/80, tcp/8000-8100, the name of a container's port, or tcp/any"


def _port_number(token: Token, skip: int, text: str, passage: Passage) -> int | None:
    return bounded(Token(NUMBER, text, token.start + skip), PORTS, "a port", passage)


def bounded(token: Token, allowed: range, what: str, passage: Passage) -> int | None:
    """The number of a word, None (and reported) if it is out of range."""
    number = int(token.text) if len(token.text) <= 12 else allowed.stop
    if number in allowed and token.text == str(number):
        return number
    hint = f"without leading zeros: {number}" if number in allowed else ""
    passage.say(
        codes.NUMBER_OUT,
        token,
        hint,
        what=what,
        lo=allowed.start,
        hi=allowed.stop - 1,
        number=clipped(token.text),
    )
    return None


def _icmp(service: tree.Service, passage: Passage) -> Iterator[Ports]:
    """ICMP of one family for a number; of both for a name, or none, after the word `icmp` (G55)."""
    kinds = (Kind.ICMPV6,) if service.token.kind == "icmpv6" else (Kind.ICMP, Kind.ICMPV6)
    written, code = service.number, None
    if written is None:
        yield from (IcmpType(kind) for kind in kinds)
        return
    if service.code is not None:
        code = bounded(service.code, BYTE, "an ICMP code", passage)
        if code is None:
            return
    if written.kind == NUMBER or service.code is not None:
        kinds = kinds[:1]
    if written.kind == NUMBER:
        number = bounded(written, BYTE, "an ICMP type", passage)
        if number is not None:
            yield IcmpType(kinds[0], number, code)
        return
    found = [IcmpType(k, _TYPES[k][written.text], code) for k in kinds if written.text in _TYPES[k]]
    if not found:
        _say_unknown(service, written, kinds, passage)
    yield from found


def _say_unknown(
    service: tree.Service, written: Token, kinds: tuple[Kind, ...], passage: Passage
) -> None:
    names = {name for kind in kinds for name in _TYPES[kind]}
    family = "ICMPv6" if service.token.kind == "icmpv6" else "ICMP"
    if written.text in ICMPV6_TYPES:
        hint = f"it is a type of ICMPv6: icmpv6 {written.text}"
    elif written.text in ICMP_TYPES:
        hint = "it is a type of IPv4's ICMP only"
    else:
        begun = sorted(name for name in names if name.startswith(f"{written.text}-"))
        meant = " or ".join(f"`{name}`" for name in begun)
        hint = f"did you mean {meant}?" if begun else suggestion(written.text, names)
    passage.say(codes.UNKNOWN_ICMP, written, hint, name=clipped(written.text), family=family)
