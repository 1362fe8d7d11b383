# SPDX-License-Identifier: Apache-2.0
"""Calico's NetworkSet and GlobalNetworkSet: networks that selectors match by labels (semantics D43)."""

from policyc.compiler.frontend.calico import codes
from policyc.compiler.frontend.calico.labels import NAMESPACE
from policyc.compiler.frontend.calico.metadata import decode_calico_metadata
from policyc.compiler.frontend.calico.policy import decode_spec
from policyc.compiler.frontend.calico.values import set_nets
from policyc.compiler.frontend.found import AddressSet, Found
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.objects import RawObject
from policyc.compiler.frontend.lowered import Pending, Reading
from policyc.compiler.frontend.yaml.tree import Mapping


def read_network_set(raw: RawObject, reading: Reading) -> Pending | None:
    """The set; a GlobalNetworkSet has no namespace."""
    decoder = Decoder(reading.report)
    namespace = "" if raw.kind == "GlobalNetworkSet" else reading.default_namespace
    metadata = decode_calico_metadata(decoder, raw, namespace)
    spec = decode_spec(decoder, raw.node, frozenset({"nets"}))
    if metadata is None or spec is None:
        return None
    if NAMESPACE in metadata.labels and raw.api_version.startswith("projectcalico"):
        where = "metadata.labels"
        labels = metadata.node.get("labels")
        assert isinstance(labels, Mapping)
        span = labels.entries[NAMESPACE].key.span
        reading.report.add(codes.OWN_LABEL.at(span, where, where=where, key=NAMESPACE))
    nets = set_nets(decoder, spec, "nets", "spec")
    found = AddressSet(
        f"{raw.kind} {metadata.qualified_name}",
        metadata.namespace,
        metadata.labels,
        tuple(net.network for net in nets),
    )
    return Pending(metadata, found=Found(address_sets=(found,)))
