# SPDX-License-Identifier: Apache-2.0
"""The kinds of objects, and the treatment of each: the table behind the dispatch.

Dispatch is by apiVersion and kind together. A kind that is in no table is an error: nothing is guessed.
"""

from enum import Enum
from functools import lru_cache

from policyc.compiler.frontend.harmless_groups import creates_objects, is_harmless
from policyc.compiler.frontend.spelling import likeness, nearest
from policyc.ir.fast_dataclass import dataclass

POLICY_GROUPS = frozenset(
    {
        "networking.k8s.io",
        "policy.networking.k8s.io",
        "projectcalico.org",
        "crd.projectcalico.org",
        "cilium.io",
        "policyc.dev",
    }
)
"""Groups in which an unknown object might restrict traffic."""

NETWORK_POLICY = ("networking.k8s.io/v1", "NetworkPolicy")
EXTENDED_POLICY = ("policyc.dev/v1alpha1", "ExtendedPolicy")
INTENT = ("policyc.dev/v1alpha1", "Intent")
ADMIN_NETWORK_POLICY = ("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy")
BASELINE_ADMIN_NETWORK_POLICY = ("policy.networking.k8s.io/v1alpha1", "BaselineAdminNetworkPolicy")
CLUSTER_NETWORK_POLICY = ("policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy")

CALICO_VERSIONS = ("projectcalico.org/v3", "crd.projectcalico.org/v1")
"""Calico's API, and the store behind it, which dumps of a cluster may have."""
CALICO_KINDS = (
    *("NetworkPolicy", "GlobalNetworkPolicy", "Tier", "NetworkSet", "GlobalNetworkSet"),
    *("HostEndpoint", "StagedNetworkPolicy", "StagedGlobalNetworkPolicy"),
    "StagedKubernetesNetworkPolicy",
)

CILIUM_NETWORK_POLICY = ("cilium.io/v2", "CiliumNetworkPolicy")
CILIUM_CLUSTERWIDE_NETWORK_POLICY = ("cilium.io/v2", "CiliumClusterwideNetworkPolicy")
CILIUM_CIDR_GROUPS = (
    ("cilium.io/v2alpha1", "CiliumCIDRGroup"),
    ("cilium.io/v2", "CiliumCIDRGroup"),
)
CILIUM_KINDS = (
    CILIUM_NETWORK_POLICY,
    CILIUM_CLUSTERWIDE_NETWORK_POLICY,
    *CILIUM_CIDR_GROUPS,
)


class Role(Enum):
    """The role of a kind in policyc."""

    POLICY = "policy"
    CLUSTER = "cluster"
    PASSED_OVER = "passed over"
    CREATES = "passed over; its controller makes objects that the input does not have"


_CLUSTER_KINDS = {
    "v1": ("Namespace", "Pod", "Service", "Node", "ReplicationController", "ServiceAccount"),
    "apps/v1": ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"),
    "batch/v1": ("Job", "CronJob"),
    "discovery.k8s.io/v1": ("EndpointSlice",),
}

_CALICO_PASSED_OVER = (
    "BGPConfiguration BGPFilter BGPPeer BlockAffinity CalicoNodeStatus ClusterInformation IPAMBlock "
    "IPAMConfig IPAMConfiguration IPAMHandle IPPool IPReservation KubeControllersConfiguration"
)
"""Not Profile and FelixConfiguration: these affect verdicts."""

_CILIUM_PASSED_OVER = (
    "CiliumBGPAdvertisement CiliumBGPClusterConfig CiliumBGPNodeConfig CiliumBGPNodeConfigOverride "
    "CiliumBGPPeerConfig CiliumBGPPeeringPolicy CiliumGatewayClassConfig CiliumL2AnnouncementPolicy "
    "CiliumLoadBalancerIPPool CiliumNodeConfig"
)
"""Addresses, their announcement, and settings of nodes: in v2, v2alpha1 or both."""

_PASSED_OVER = {
    **dict.fromkeys(CALICO_VERSIONS, _CALICO_PASSED_OVER),
    "v1": "Binding ComponentStatus ConfigMap Endpoints Event LimitRange PersistentVolume "
    "PersistentVolumeClaim PodTemplate ResourceQuota Secret",
    "admissionregistration.k8s.io/v1": "MutatingWebhookConfiguration ValidatingAdmissionPolicy "
    "ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
    "apiextensions.k8s.io/v1": "CustomResourceDefinition",
    "apiregistration.k8s.io/v1": "APIService",
    "apps/v1": "ControllerRevision",
    "autoscaling/v1": "HorizontalPodAutoscaler",
    "autoscaling/v2": "HorizontalPodAutoscaler",
    "certificates.k8s.io/v1": "CertificateSigningRequest",
    "cilium.io/v2": f"CiliumEndpoint CiliumIdentity CiliumNode {_CILIUM_PASSED_OVER}",
    "cilium.io/v2alpha1": f"CiliumEndpointSlice CiliumPodIPPool {_CILIUM_PASSED_OVER}",
    "coordination.k8s.io/v1": "Lease",
    "events.k8s.io/v1": "Event",
    "flowcontrol.apiserver.k8s.io/v1": "FlowSchema PriorityLevelConfiguration",
    "gateway.networking.k8s.io/v1": "Gateway GatewayClass GRPCRoute HTTPRoute ReferenceGrant",
    "gateway.networking.k8s.io/v1beta1": "Gateway GatewayClass HTTPRoute ReferenceGrant",
    "networking.k8s.io/v1": "Ingress IngressClass IPAddress ServiceCIDR",
    "networking.k8s.io/v1beta1": "Ingress IngressClass IPAddress ServiceCIDR",
    "node.k8s.io/v1": "RuntimeClass",
    "policy/v1": "PodDisruptionBudget Eviction",
    "rbac.authorization.k8s.io/v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
    "resource.k8s.io/v1": "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
    "scheduling.k8s.io/v1": "PriorityClass",
    "storage.k8s.io/v1": "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment "
    "VolumeAttributesClass",
}

ROLES: dict[tuple[str, str], Role] = {
    NETWORK_POLICY: Role.POLICY,
    ADMIN_NETWORK_POLICY: Role.POLICY,
    BASELINE_ADMIN_NETWORK_POLICY: Role.POLICY,
    CLUSTER_NETWORK_POLICY: Role.POLICY,
    EXTENDED_POLICY: Role.POLICY,
    INTENT: Role.POLICY,
    **{(v, kind): Role.POLICY for v in CALICO_VERSIONS for kind in CALICO_KINDS},
    **dict.fromkeys(CILIUM_KINDS, Role.POLICY),
    **{(v, kind): Role.CLUSTER for v, kinds in _CLUSTER_KINDS.items() for kind in kinds},
    **{(v, kind): Role.PASSED_OVER for v, kinds in _PASSED_OVER.items() for kind in kinds.split()},
}
"""(apiVersion, kind) -> role, for every accepted kind."""

POLICY_KINDS = frozenset(
    {
        "NetworkPolicy",
        "AdminNetworkPolicy",
        "BaselineAdminNetworkPolicy",
        "ClusterNetworkPolicy",
        "GlobalNetworkPolicy",
        "StagedNetworkPolicy",
        "StagedGlobalNetworkPolicy",
        "StagedKubernetesNetworkPolicy",
        "CiliumNetworkPolicy",
        "CiliumClusterwideNetworkPolicy",
        "ExtendedPolicy",
    }
)
"""Kinds that restrict traffic, of any vendor. Anything spelled like one is an error."""

_OWNER_OF_GROUP = {
    "policy.networking.k8s.io": "SIG Network's policy API's",
    "projectcalico.org": "Calico's",
    "crd.projectcalico.org": "Calico's",
    "cilium.io": "Cilium's",
    "policyc.dev": "policyc's own",
}

_NOT_YET = {
    "cilium.io": {
        "CiliumEgressGatewayPolicy",
        "CiliumLocalRedirectPolicy",
        "CiliumEnvoyConfig",
        "CiliumClusterwideEnvoyConfig",
    },
}

ALIKE = 0.85
"""The similarity to a policy kind's name that counts as a misspelling, 0 to 1."""


@dataclass(frozen=True, slots=True)
class NotYet:
    """A known policy kind that is not supported yet; `owner` is its project."""

    owner: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """An unknown kind. `is_policy` says that no option may skip it."""

    is_policy: bool
    hint: str


@lru_cache(maxsize=1024)
def classify(api_version: str, kind: str) -> Role | NotYet | Unknown:
    """The treatment of an object with this apiVersion and kind."""
    role = ROLES.get((api_version, kind))
    if role is not None:
        return role
    group = api_version.rpartition("/")[0]
    if kind in _NOT_YET.get(group, ()):
        return NotYet(_OWNER_OF_GROUP[group])
    is_policy = group in POLICY_GROUPS or is_like_policy(kind)
    if is_harmless(group, kind) and not is_policy:
        return Role.CREATES if creates_objects(group, kind) else Role.PASSED_OVER
    return Unknown(is_policy, _hint(group, kind))


def is_like_policy(kind: str) -> bool:
    """Whether a kind is, or is spelled nearly like, one that restricts traffic."""
    if "networkpolic" in kind.lower():  # MultiNetworkPolicy, and future kinds
        return True
    return any(likeness(kind, known) >= ALIKE for known in POLICY_KINDS)


def _hint(group: str, kind: str) -> str:
    """The nearest known kind."""
    versions = sorted(v for v, known in ROLES if known == kind and not v.startswith("crd."))
    if kind == "Kustomization":
        return "build it: --kustomize DIR, or kustomize build DIR | policyc ... -f -"
    if versions:
        return f"{kind} is read from {' and '.join(versions)}"
    in_group = {
        known
        for (version, known), role in ROLES.items()
        if version.rpartition("/")[0] == group
        and not (role is Role.PASSED_OVER and version in CALICO_VERSIONS)
    }
    in_group |= _NOT_YET.get(group, set())
    near = nearest(kind, in_group) or nearest(kind, POLICY_KINDS, ALIKE)
    return f"did you mean `{near}`?" if near is not None and near != kind else ""
