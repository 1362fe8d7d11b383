# SPDX-License-Identifier: Apache-2.0
"""The fields of cluster objects that are read, and other valid fields with similar names.

A cluster object may have fields that policyc does not know. But a field that is spelled nearly like a
field that is read, and is not a field of the API, is a mistake that would change verdicts.
"""

from policyc.ir.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a type that are read, and the API's others."""

    read: frozenset[str]
    others: frozenset[str]


def _fields(read: str, others: str = "") -> Fields:
    return Fields(frozenset(read.split()), frozenset(others.split()))


OBJECT = _fields("apiVersion kind metadata spec status")
METADATA = _fields(
    "name generateName namespace labels ownerReferences",
    "annotations clusterName creationTimestamp deletionGracePeriodSeconds deletionTimestamp "
    "finalizers generation managedFields resourceVersion selfLink uid",
)
WORKLOAD_SPEC = _fields("template jobTemplate", "podTemplate")
TEMPLATE = _fields("metadata spec")
POD_SPEC = _fields(
    "containers hostNetwork initContainers nodeName serviceAccount serviceAccountName",
    "activeDeadlineSeconds affinity automountServiceAccountToken dnsConfig dnsPolicy "
    "enableServiceLinks ephemeralContainers hostAliases hostIPC hostPID hostUsers hostname "
    "hostnameOverride imagePullSecrets nodeSelector os overhead preemptionPolicy priority "
    "priorityClassName readinessGates resourceClaims resources restartPolicy runtimeClassName "
    "schedulerName schedulingGates securityContext setHostnameAsFQDN shareProcessNamespace "
    "subdomain terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes",
)
CONTAINER = _fields("ports restartPolicy", "restartPolicyRules resizePolicy imagePullPolicy")
CONTAINER_PORT = _fields("name containerPort protocol", "hostPort hostIP")
POD_STATUS = _fields(
    "phase podIP podIPs hostIP hostIPs",
    "conditions containerStatuses message nominatedNodeName qosClass reason resize startTime",
)
POD_IP = _fields("ip")
NODE_SPEC = _fields("podCIDR podCIDRs", "providerID taints unschedulable")
NODE_STATUS = _fields("addresses", "allocatable capacity conditions images nodeInfo")
NODE_ADDRESS = _fields("type address")
