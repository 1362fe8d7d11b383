# SPDX-License-Identifier: Apache-2.0
"""Flows as users write them -> flows of the universe.

An end is `namespace/pod`, `node/NAME` or an address. An address that a pod holds is that pod, as the
datapath sees it. An address of a node is that node, without the knowledge that the flow comes from it
(A22, B33). An entry that cannot be a flow is a finding that names the flow and the end.
"""

from dataclasses import dataclass, replace
from ipaddress import IPv6Address

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.kubernetes.addresses import parse_address
from policyc.compiler.frontend.spelling import nearest
from policyc.compiler.frontend.yaml.tree import clipped
from policyc.ir.diagnostics import Diagnostic, Report
from policyc.ir.services import ICMP_NUMBER, ICMPV6_NUMBER, Protocol, Service
from policyc.ir.spans import NOWHERE, Span
from policyc.ir.universe import FAMILIES, Address, End, Endpoint, Flow, Node, Universe, end_name

_NUMBERS = {protocol.name.lower(): protocol.value for protocol in Protocol}
_ICMP_FAMILIES = {"icmp": None, "icmpv4": 4, "icmpv6": 6, "icmp6": 6}
"""ICMP by its names; `icmp` alone means the ICMP of the flow's family."""
_WITH_PORTS = frozenset(_NUMBERS.values())
NODE_PREFIX = "node/"
"""The prefix of a node's name as an end."""
_ECHO_REQUEST = {4: 8 << 8, 6: 128 << 8}
"""ICMP without a type is an echo request, as in "can it ping"."""


@dataclass(frozen=True, slots=True)
class FlowRequest:
    """A flow as written; `name` is its name in findings. `family` None: the default one."""

    name: str
    span: Span
    src: str
    dst: str
    protocol: str
    port: int | None = None
    icmp_type: int | None = None
    icmp_code: int | None = None
    family: int | None = None
    source_port: int | None = None


_ANY_REQUEST = FlowRequest("", NOWHERE, "", "", "")


class _BadFlowError(Exception):
    """The request is not a flow; carries the finding with the reason."""

    def __init__(self, finding: Diagnostic) -> None:
        self.finding = finding
        super().__init__(finding.message)


class UniverseIndex:
    """Finds the ends of flows: pods and nodes by name and by address. `nodes` are all of them."""

    def __init__(self, universe: Universe) -> None:
        self.nodes = universe.nodes
        self._by_name = {endpoint.qualified_name: endpoint for endpoint in universe.endpoints}
        self._by_address = {
            address: endpoint
            for endpoint in universe.endpoints
            if not endpoint.host_network  # its address is the node's, not its own (A21)
            for address in endpoint.addresses
        }
        self._nodes = {f"{NODE_PREFIX}{node.name}": node for node in universe.nodes}
        self._by_node_address = {
            address: replace(node, speaks=False)
            for node in universe.nodes
            for address in node.addresses
        }

    def flow(self, request: FlowRequest, report: Report) -> Flow | None:
        """The flow; None if it is not one, which is reported."""
        try:
            from_address, to_address = _written(request.src), _written(request.dst)
            src = self._end(request, "src", request.src, from_address)
            dst = self._end(request, "dst", request.dst, to_address)
            family = _family(request, (src, from_address), (dst, to_address))
            service = _service(request, family)
            source_port = _source_port(request, service)
            src, dst = _with_address(src, from_address), _with_address(dst, to_address)
            return Flow(src, dst, service, family, source_port)
        except _BadFlowError as bad:
            report.add(bad.finding)
            return None

    def end(self, text: str) -> tuple[End, tuple[int, ...]] | None:
        """The end that a text names, with its possible families; None if there is none.

        The possible flows between two ends depend on these families alone.
        """
        written = _written(text)
        try:
            end = self._end(_ANY_REQUEST, "src", text, written)
        except _BadFlowError:
            return None
        return _with_address(end, written), _families(end, written)

    def _end(self, request: FlowRequest, end: str, text: str, address: Address | None) -> End:
        """The pod or node of that name or address, or an address that none of them holds."""
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            problem = f"{end} {text} is an IPv4 address written as IPv6: no packet has it"
            raise _bad_service(request, problem, f"write {address.ipv4_mapped}")
        if address is not None:
            found = self._by_address.get(address) or self._by_node_address.get(address)
            return address if found is None else found
        named = self._by_name.get(text) or self._nodes.get(text)
        if named is not None:
            return named
        if text.startswith(NODE_PREFIX) and text != NODE_PREFIX:
            finding = codes.UNKNOWN_NODE.at(
                request.span, end, flow=request.name, end=end, name=clipped(text[5:])
            )
            raise _BadFlowError(finding.help(self._hint(text)))
        if text.count("/") != 1 or text[0] == "/" or text[-1] == "/":
            finding = codes.BAD_END.at(
                request.span, end, flow=request.name, end=end, text=clipped(text)
            )
            hint = "write namespace/pod, node/NAME, 10.0.0.1 or 2001:db8::1"
            raise _BadFlowError(finding.help(hint))
        finding = codes.UNKNOWN_POD.at(
            request.span, end, flow=request.name, end=end, name=clipped(text)
        )
        raise _BadFlowError(finding.help(self._hint(text)))

    def _hint(self, text: str) -> str:
        known = self._nodes if text.startswith(NODE_PREFIX) else self._by_name
        if not known:
            what = "nodes" if known is self._nodes else "pods"
            return f"no {what} are known: give the cluster with --cluster"
        near = nearest(text, known)
        return f"did you mean `{near}`?" if near else ""


def _written(text: str) -> Address | None:
    """The address as the end is written; it determines the family, also if a pod holds it."""
    return parse_address(text)


def _families(end: End, written: Address | None) -> tuple[int, ...]:
    """The families an end can use; an end with an unknown address may have both."""
    if written is not None:
        return (written.version,)
    assert isinstance(end, Endpoint | Node)
    if isinstance(end, Endpoint) and not end.addresses_known:
        return FAMILIES
    return tuple(address.version for address in end.addresses)


def _with_address(end: End, written: Address | None) -> End:
    """A node may have several addresses of a family; the flow has the one that was written."""
    if isinstance(end, Node) and written is not None:
        return replace(end, addresses=(written,))
    return end


def _family(
    request: FlowRequest, src: tuple[End, Address | None], dst: tuple[End, Address | None]
) -> int:
    """The requested family; else the only one both ends have, and 4 before 6."""
    wanted = _wanted(request)
    for name, (end, written) in (("src", src), ("dst", dst)):
        _check_address(request, name, end, written, wanted)
    common = sorted(set(_families(*src)) & set(_families(*dst)))
    if wanted is None and common:
        return common[0]
    if wanted is not None and wanted in common:
        return wanted
    finding = codes.NO_COMMON_FAMILY.at(
        request.span, "family", flow=request.name, src=_shown(*src), dst=_shown(*dst)
    )
    raise _BadFlowError(finding)


def _wanted(request: FlowRequest) -> int | None:
    """The family that the request names; its protocol may name one, too."""
    by_protocol = _ICMP_FAMILIES.get(request.protocol.lower())
    if request.family and by_protocol and request.family != by_protocol:
        problem = f"{request.protocol} does not run over IPv{request.family}"
        raise _bad_service(request, problem, "remove the family, or write icmp")
    return request.family or by_protocol


def _shown(end: End, written: Address | None) -> str:
    """The end as a message about families names it: the written address, and its holder."""
    match end:
        case Endpoint() if written is not None:
            return f"{written} (pod {end.qualified_name})"
        case Node() if written is not None:
            return f"{written} (node {end.name})"
        case _:
            return end_name(end)


def _check_address(
    request: FlowRequest, name: str, end: End, written: Address | None, wanted: int | None
) -> None:
    """An end takes part in flows of its own families; a live pod may have none yet (A25)."""
    families = _families(end, written)
    if families and (wanted is None or wanted in families):
        return
    if written is not None:
        problem = f"{name} {written} is not an IPv{wanted} address"
        raise _bad_service(request, problem, "remove the family, or give the other address")
    which = f"IPv{wanted} " if families else ""
    finding = codes.NO_ADDRESS.at(
        request.span, name, flow=request.name, end=name, name=end_name(end), which=which
    )
    raise _BadFlowError(finding)


def _service(request: FlowRequest, family: int) -> Service:
    """The service of the flow; a port for protocols with ports, type and code for ICMP."""
    number = _protocol_number(request, family)
    if number in (ICMP_NUMBER, ICMPV6_NUMBER):
        return _icmp(request, number, family)
    if request.icmp_type is not None or request.icmp_code is not None:
        problem = f"icmp_type and icmp_code have no meaning for {request.protocol}"
        raise _bad_service(request, problem, "leave them out")
    if number in _WITH_PORTS:
        return _with_port(request, number)
    _check_no_port(request)
    return Service(number)


def _protocol_number(request: FlowRequest, family: int) -> int:
    name = request.protocol.lower()
    if name in _NUMBERS:
        return _NUMBERS[name]
    if name in _ICMP_FAMILIES:
        return ICMP_NUMBER if family == 4 else ICMPV6_NUMBER
    if name.isascii() and name.isdigit() and len(name) <= 3 and int(name) <= 255:
        return int(name)
    near = nearest(name, [*_NUMBERS, *_ICMP_FAMILIES], cutoff=0.6)
    hint = f"did you mean `{near}`?" if near else "tcp, udp, sctp, icmp or a number 0 to 255"
    raise _bad_service(request, f"unknown protocol {clipped(repr(request.protocol))}", hint)


def _with_port(request: FlowRequest, number: int) -> Service:
    if request.port is None:
        hint = f"write {request.protocol}/443"
        raise _bad_service(request, f"{request.protocol} needs a port", hint)
    if not 1 <= request.port <= 65535:
        raise _bad_service(request, f"port {request.port} is not in 1 to 65535")
    return Service(number, request.port)


def _source_port(request: FlowRequest, service: Service) -> int | None:
    """The source port of the connection, if the flow has it."""
    port = request.source_port
    if port is None:
        return None
    if service.number not in _WITH_PORTS:
        problem = f"protocol {request.protocol} has no ports"
        raise _bad_service(request, problem, "leave the source port out")
    if not 1 <= port <= 65535:
        raise _bad_service(request, f"source port {port} is not in 1 to 65535")
    return port


def _check_no_port(request: FlowRequest) -> None:
    if request.port is not None:
        problem = f"protocol {request.protocol} has no ports"
        raise _bad_service(request, problem, "leave the port out")


def _icmp(request: FlowRequest, number: int, family: int) -> Service:
    _check_no_port(request)
    if number != (ICMP_NUMBER if family == 4 else ICMPV6_NUMBER):
        problem = f"protocol {number} does not run over IPv{family}"
        raise _bad_service(request, problem, "write icmp for that of the flow's family")
    if request.icmp_type is None and request.icmp_code is None:
        return Service(number, _ECHO_REQUEST[family])
    kind, code = request.icmp_type or 0, request.icmp_code or 0
    if not (0 <= kind <= 255 and 0 <= code <= 255):
        raise _bad_service(request, "ICMP type and code are 0 to 255")
    return Service(number, kind << 8 | code)


def _bad_service(request: FlowRequest, problem: str, hint: str = "") -> _BadFlowError:
    finding = codes.BAD_SERVICE.at(request.span, "protocol", flow=request.name, problem=problem)
    return _BadFlowError(finding.help(hint))
