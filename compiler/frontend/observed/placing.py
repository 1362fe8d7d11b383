# SPDX-License-Identifier: Apache-2.0
"""Recorded ends -> ends of the cluster: by name, else by labels, else by address; never guessed."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from policyc.compiler.frontend.cluster.universe import Cluster
from policyc.compiler.frontend.flows.reading import NODE_PREFIX, UniverseIndex
from policyc.compiler.frontend.kubernetes.addresses import parse_address
from policyc.compiler.frontend.observed.records import EndRecord
from policyc.ir.universe import Address, End, Endpoint

OF_ONE_POD = frozenset(
    {
        "pod-template-hash",
        "controller-revision-hash",
        "pod-template-generation",
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/controller-uid",
        "controller-uid",
    }
)
"""Labels that controllers set on each pod or revision; workloads are not named by them."""


@dataclass(frozen=True, slots=True)
class Placed:
    """An end of the cluster or outside. `text` names it for `UniverseIndex`."""

    end: End
    families: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Unplaced:
    """The reason why a recorded end is no known end."""

    why: str


@dataclass
class Placing:
    """Finds recorded ends in a cluster."""

    cluster: Cluster
    index: UniverseIndex = field(init=False)
    _pods: dict[str, list[Endpoint]] = field(default_factory=lambda: defaultdict(list))
    _services: dict[Address, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.index = UniverseIndex(self.cluster.universe)
        for endpoint in self.cluster.universe.endpoints:
            self._pods[endpoint.namespace].append(endpoint)
        for service in self.cluster.services:
            name = f"{service.metadata.namespace}/{service.metadata.name}"
            given = (*service.cluster_ips, *service.external_ips, *service.load_balancer_ips)
            self._services |= dict.fromkeys(given, name)

    def place(self, record: EndRecord) -> Placed | Unplaced:
        """The end, or why it is not known."""
        if record.node:
            found = self._named(f"{NODE_PREFIX}{record.node}")
            return found or Unplaced("a node that the cluster does not have")
        if record.namespace and record.pod:
            found = self._named(f"{record.namespace}/{record.pod}")
            if found is not None:
                return found
        if record.namespace:
            return self._pod(record)
        return self._at(record.address)

    def _named(self, text: str) -> Placed | None:
        found = self.index.end(text)
        return None if found is None else Placed(*found, text)

    def _pod(self, record: EndRecord) -> Placed | Unplaced:
        """A pod of a name that the cluster does not have: deleted since, or aggregated."""
        pods = self._pods.get(record.namespace, [])
        alike = _with_labels(pods, record.labels) or _with_prefix(pods, record.pod)
        if alike:
            live = min(alike, key=lambda pod: pod.is_template)
            named = self._named(live.qualified_name) if _are_alike(alike) else None
            return named or Unplaced("pods that fit several workloads")
        placed = self._at(record.address)
        if isinstance(placed, Placed) and _is_in(placed.end, record.namespace):
            return placed
        return Unplaced("pods that the cluster does not have, neither by name nor by labels")

    def _at(self, text: str) -> Placed | Unplaced:
        address = parse_address(text)
        if address is None:
            return Unplaced("ends recorded without pod and address")
        found = self.index.end(text)
        if found is None:
            return Unplaced("IPv4 addresses written as IPv6")
        if isinstance(found[0], type(address)):
            if address in self._services:
                return Unplaced("addresses of Services, whose pods are not recorded")
            if self._is_of_pods(address):
                return Unplaced("addresses of pod networks that no pod of the cluster has")
        return Placed(*found, text)

    def _is_of_pods(self, address: Address) -> bool:
        networks = (network for node in self.cluster.nodes for network in node.pod_cidrs)
        return any(address.version == net.version and address in net for net in networks)


def _is_in(end: End, namespace: str) -> bool:
    return isinstance(end, Endpoint) and end.namespace == namespace


def lasting_labels(endpoint: Endpoint) -> dict[str, str]:
    """The labels that every pod of a workload has."""
    return {key: value for key, value in endpoint.labels.items() if key not in OF_ONE_POD}


def _with_labels(pods: Iterable[Endpoint], labels: Sequence[str]) -> list[Endpoint]:
    """The pods with all recorded labels but those of single pods; none without such labels."""
    pairs = [(key, value) for key, _, value in (label.partition("=") for label in labels)]
    wanted = {key: value for key, value in pairs if key not in OF_ONE_POD}
    if not wanted:
        return []
    return [pod for pod in pods if wanted.items() <= pod.labels.items()]


def _with_prefix(pods: Iterable[Endpoint], name: str) -> list[Endpoint]:
    """The pods of an aggregated name such as `web-7d9f*`."""
    prefix = name.removesuffix("*")
    return [pod for pod in pods if pod.name.startswith(prefix)] if name != prefix else []


def _are_alike(pods: Sequence[Endpoint]) -> bool:
    """Whether all are of one workload, as far as policies can see."""
    kinds = {
        (tuple(sorted(lasting_labels(pod).items())), pod.service_account, pod.host_network)
        for pod in pods
    }
    return len(kinds) == 1
