# SPDX-License-Identifier: Apache-2.0
"""Subjects and peers of policy.networking.k8s.io policies, decoded and validated (B32, B33, C39)."""

import re
from dataclasses import dataclass

from policyc.compiler.frontend.admin import codes
from policyc.compiler.frontend.admin.crd_schema import SchemaDecoder
from policyc.compiler.frontend.admin.policy import (
    AdminPeer,
    DomainNames,
    Networks,
    NodesOf,
    PodsOf,
)
from policyc.compiler.frontend.kubernetes.addresses import parse_cidr
from policyc.compiler.frontend.kubernetes.metadata import quoted
from policyc.compiler.frontend.kubernetes.selectors import (
    Selector,
    decode_selector,
    validate_selector,
)
from policyc.compiler.frontend.unsupported import UnsupportedPart
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Scalar,
)
from policyc.ir.policy import Network

MAX_NETWORKS = 25
MAX_CIDR = 43
_SUBJECT_FIELDS = frozenset({"namespaces", "pods"})
_PODS_FIELDS = frozenset({"namespaceSelector", "podSelector"})
_DOMAIN_FORM = (
    r"^(\*\.)?([a-zA-z0-9]([-a-zA-Z0-9_]*[a-zA-Z0-9])?\.)+"
    r"[a-zA-z0-9]([-a-zA-Z0-9_]*[a-zA-Z0-9])?\.?$"
)
"""As the CRDs have it, `A-z` included."""
_LABEL = r"[a-zA-z0-9](?:[-a-zA-Z0-9_]*[a-zA-Z0-9])?"
_DOMAIN = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})+\.?")


@dataclass(frozen=True, slots=True)
class Peers:
    """Reads subjects and peers; `needs_namespaces`: `pods` must have a namespaceSelector (C39)."""

    decoder: SchemaDecoder
    needs_namespaces: bool

    def subject(self, spec: Mapping) -> PodsOf | None:
        """`spec.subject`; None if it is missing or wrong."""
        path = "spec.subject"
        node = self.decoder.required_object(spec, "subject", "spec", _SUBJECT_FIELDS)
        if node is None:
            return None
        found = self._one(node, path, _SUBJECT_FIELDS)
        return found if isinstance(found, PodsOf) else None

    def read(
        self, rule: Mapping, name: str, path: str, known: frozenset[str], limit: int
    ) -> tuple[AdminPeer, ...]:
        """The peers of a rule, in a required field."""
        self.decoder.required(rule, name, path)
        found = []
        for item, where in self.decoder.counted(rule, name, path, limit):
            node = self.decoder.item_object(item, where, known)
            if node is not None:
                found.append(self._one(node, where, known))
        return tuple(peer for peer in found if peer is not None)

    def _one(self, node: Mapping, path: str, known: frozenset[str]) -> AdminPeer | None:
        match self.decoder.one_of(node, path, sorted(known)):
            case "namespaces":
                selector = self._selector(node, "namespaces", path)
                return None if selector is None else PodsOf(selector, None)
            case "pods":
                return self._pods(node, path)
            case "nodes":
                selector = self._selector(node, "nodes", path)
                return None if selector is None else NodesOf(selector)
            case "networks":
                return self._networks(node, path)
            case "domainNames":
                return self._domains(node, path)
            case _:
                return None

    def _pods(self, parent: Mapping, path: str) -> PodsOf | None:
        path = f"{path}.pods"
        node = self.decoder.mapping(parent.get("pods"), path, _PODS_FIELDS)
        if node is None:
            return None
        self.decoder.required(node, "podSelector", path)
        if self.needs_namespaces:
            self.decoder.required(node, "namespaceSelector", path)
        return PodsOf(
            self._selector(node, "namespaceSelector", path),
            self._selector(node, "podSelector", path),
        )

    def _selector(self, parent: Mapping, name: str, path: str) -> Selector | None:
        """A label selector, validated as NetworkPolicy's are; the CRDs do not validate it (C39)."""
        selector = decode_selector(self.decoder, parent, name, path)
        if selector is None:
            return None
        validate_selector(selector, f"{path}.{name}", self.decoder.report)
        return selector

    def _networks(self, parent: Mapping, path: str) -> Networks:
        read = self.decoder.text_set(parent, "networks", path, MAX_NETWORKS)
        found = (self._network(text, node, where) for text, node, where in read)
        return Networks(tuple(network for network in found if network is not None))

    def _network(self, text: str, node: Scalar, where: str) -> Network | None:
        """A CIDR that isCIDR accepts, host bits masked with a warning (C39)."""
        cidr = parse_cidr(text) if len(text) <= MAX_CIDR else None
        if cidr is None or cidr.has_leading_zeros or cidr.is_mapped:
            finding = codes.BAD_NETWORK.at(node.span, where, where=where, value=quoted(text))
            self.decoder.report.add(finding.help(_network_hint(text)))
            return None
        if cidr.has_host_bits:
            warning = codes.HOST_BITS.at(
                node.span, where, where=where, value=quoted(text), network=cidr.network
            )
            self.decoder.report.add(warning.help(f"write {cidr.network}"))
        return cidr.network

    def _domains(self, parent: Mapping, path: str) -> DomainNames:
        for text, node, where in self.decoder.text_set(parent, "domainNames", path, MAX_NETWORKS):
            if not _DOMAIN.fullmatch(text):
                finding = codes.PATTERN.at(
                    node.span, where, where=where, value=quoted(text), pattern=_DOMAIN_FORM
                )
                self.decoder.report.add(finding.help("write a.example.com or *.example.com"))
        where = f"{path}.domainNames"
        span = parent.entries["domainNames"].key.span
        return DomainNames(UnsupportedPart(span, where, "domain names", is_peer=True))


def _network_hint(text: str) -> str:
    bits = 128 if ":" in text else 32
    if parse_cidr(f"{text}/{bits}") is not None:
        return f"for one address, write {text}/{bits}"
    cidr = parse_cidr(text)
    return "" if cidr is None else f"write {cidr.network}"
