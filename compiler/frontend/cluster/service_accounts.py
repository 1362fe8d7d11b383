# SPDX-License-Identifier: Apache-2.0
"""v1 ServiceAccounts: their labels, which Calico's and other selectors read."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from policyc.compiler.frontend.cluster.pods import decode_named
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.metadata import ObjectMeta
from policyc.compiler.frontend.yaml.tree import Mapping
from policyc.ir.universe import Endpoint


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """A v1 ServiceAccount; only its metadata is used."""

    metadata: ObjectMeta


def decode_service_account(
    decoder: Decoder, node: Mapping, namespace: str
) -> ServiceAccount | None:
    """The service account; None if it has no readable name."""
    metadata = decode_named(decoder, node, namespace)
    return None if metadata is None else ServiceAccount(metadata)


def with_service_accounts(
    endpoints: Iterable[Endpoint], accounts: Iterable[ServiceAccount]
) -> list[Endpoint]:
    """The endpoints with the labels of their service accounts; without an object there are none."""
    labels = {(a.metadata.namespace, a.metadata.name): a.metadata.labels for a in accounts}
    return [
        replace(e, service_account_labels=dict(labels[e.namespace, e.service_account]))
        if labels.get((e.namespace, e.service_account))
        else e
        for e in endpoints
    ]
