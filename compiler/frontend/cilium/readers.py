# SPDX-License-Identifier: Apache-2.0
"""Reads Cilium's kinds: policies, and the CIDR groups that they refer to."""

from collections.abc import Iterable

from policyc.compiler.frontend.admin.crd_schema import SchemaDecoder
from policyc.compiler.frontend.admin.decoding import warn_of_namespace
from policyc.compiler.frontend.cilium.cidrs import (
    decode_networks,
)
from policyc.compiler.frontend.cilium.lowering import lower_spec
from policyc.compiler.frontend.cilium.policy import (
    OBJECT_FIELDS,
    CiliumSpec,
    decode_specs,
)
from policyc.compiler.frontend.found import CidrGroup, Found
from policyc.compiler.frontend.kubernetes.metadata import (
    ObjectMeta,
    decode_metadata,
    validate_metadata,
)
from policyc.compiler.frontend.kubernetes.objects import RawObject
from policyc.compiler.frontend.lowered import (
    CiliumSlot,
    Lowered,
    Pending,
    Reading,
    Surroundings,
)

_GROUP_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec"})


def read_cilium_policy(raw: RawObject, reading: Reading) -> Pending | None:
    """A CiliumNetworkPolicy."""
    return _read(raw, reading, reading.default_namespace)


def read_clusterwide_policy(raw: RawObject, reading: Reading) -> Pending | None:
    """A CiliumClusterwideNetworkPolicy."""
    return _read(raw, reading, "")


def _read(raw: RawObject, reading: Reading, namespace: str) -> Pending | None:
    decoder = SchemaDecoder(reading.report)
    decoder.mapping(raw.node, "", OBJECT_FIELDS)
    metadata = _metadata(decoder, raw, namespace)
    if metadata is None:
        return None
    specs = decode_specs(decoder, raw.node, metadata, raw.kind)
    return Pending(metadata, lambda around: _lowered(specs, metadata, raw.kind, around))


def _metadata(decoder: SchemaDecoder, raw: RawObject, namespace: str) -> ObjectMeta | None:
    metadata = decode_metadata(decoder, raw.node, namespace, is_strict=True)
    if metadata is None:
        return None
    validate_metadata(metadata, decoder.report)
    if not namespace:
        warn_of_namespace(metadata, raw.kind, decoder.report)
    return metadata


def _lowered(
    specs: Iterable[CiliumSpec], metadata: ObjectMeta, kind: str, around: Surroundings
) -> Iterable[Lowered]:
    for spec in specs:
        policy = lower_spec(spec, metadata, kind, around)
        if policy is not None:
            yield Lowered(policy, CiliumSlot())


def read_cidr_group(raw: RawObject, reading: Reading) -> Pending | None:
    """A CiliumCIDRGroup, for rules to refer to."""
    decoder = SchemaDecoder(reading.report)
    decoder.mapping(raw.node, "", _GROUP_FIELDS)
    metadata = _metadata(decoder, raw, "")
    spec = decoder.required_object(raw.node, "spec", "", frozenset({"externalCIDRs"}))
    if metadata is None or spec is None:
        return None
    decoder.required(spec, "externalCIDRs", "spec")
    networks = decode_networks(decoder, spec, "externalCIDRs", "spec")
    group = CidrGroup(metadata.name, metadata.labels, networks)
    return Pending(metadata, found=Found(cidr_groups=(group,)))
