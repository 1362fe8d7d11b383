# SPDX-License-Identifier: Apache-2.0
"""API groups of well-known projects whose objects filter no connections between pods.

They are skipped without a flag. Authorization of service meshes, for example, is not listed. A gateway
that may refuse a request is: it is no network policy. A kind that is spelled like a policy kind stays an
error in every group.

Some controllers make policies or pods of an object. Such objects are skipped with a warning, because the
input does not have what they make. Where that is not known of a group, it is assumed.
"""

import re

_PASSIVE = """
cert-manager.io policy.cert-manager.io trust.cert-manager.io
autoscaling.k8s.io karpenter.sh karpenter.k8s.aws descheduler keda.sh
bitnami.com external-secrets.io generators.external-secrets.io secrets.hashicorp.com
secrets-store.csi.x-k8s.io isindir.github.com
monitoring.coreos.com monitoring.googleapis.com monitoring.grafana.com
gateway.networking.k8s.io traefik.io traefik.containo.us projectcontour.io configuration.konghq.com
k8s.nginx.org telemetry.istio.io externaldns.k8s.io metallb.io
snapshot.storage.k8s.io groupsnapshot.storage.k8s.io objectbucket.io velero.io
argoproj.io source.toolkit.fluxcd.io notification.toolkit.fluxcd.io image.toolkit.fluxcd.io
source.extensions.fluxcd.io schema.plugin.fluxcd.io helm.toolkit.fluxcd.io
kustomize.toolkit.fluxcd.io
wgpolicyk8s.io templates.gatekeeper.sh config.gatekeeper.sh constraints.gatekeeper.sh
kueue.x-k8s.io scheduling.volcano.sh nfd.k8s-sigs.io
admissionregistration.k8s.io apiextensions.k8s.io apiregistration.k8s.io authentication.k8s.io
authorization.k8s.io autoscaling certificates.k8s.io coordination.k8s.io events.k8s.io
flowcontrol.apiserver.k8s.io metrics.k8s.io node.k8s.io policy rbac.authorization.k8s.io
resource.k8s.io scheduling.k8s.io storage.k8s.io storagemigration.k8s.io
apiserver.config.k8s.io audit.k8s.io kubeadm.k8s.io kubelet.config.k8s.io kubeproxy.config.k8s.io
kubescheduler.config.k8s.io kind.x-k8s.io k3d.io k0s.k0sproject.io k0sctl.k0sproject.io eksctl.io
kops.k8s.io backstage.io skaffold
"""
"""Custom resources; groups of Kubernetes itself; configuration files of tools."""

_CREATING = """
acme.cert-manager.io fleet.cattle.io helm.cattle.io upgrade.cattle.io tekton.dev triggers.tekton.dev
helm.fluxcd.io fluxcd.controlplane.io operator.victoriametrics.com opentelemetry.io jaegertracing.io
loki.grafana.com tempo.grafana.com grafana.integreatly.org logging.banzaicloud.io fluentbit.fluent.io
gateway.envoyproxy.io getambassador.io longhorn.io ceph.rook.io volsync.backube k8up.io
postgresql.cnpg.io acid.zalan.do kafka.strimzi.io mariadb.mmontes.io k8s.mariadb.com dragonflydb.io
elasticsearch.k8s.elastic.co kibana.k8s.elastic.co redis.redis.opstreelabs.in psmdb.percona.com
pxc.percona.com minio.min.io rabbitmq.com kyverno.io kubevirt.io cdi.kubevirt.io apps.kruise.io
jobset.x-k8s.io leaderworkerset.x-k8s.io batch.volcano.sh ray.io kubeflow.org nvidia.com
operators.coreos.com operator.tigera.io pkg.crossplane.io apiextensions.crossplane.io
kubernetes.crossplane.io kubernetes.m.crossplane.io helm.crossplane.io kubernetes.upbound.io
cluster.x-k8s.io
"""
"""Groups of operators."""

_CLOUDS = (
    ".upbound.io",
    ".crossplane.io",
    ".cnrm.cloud.google.com",
    ".services.k8s.aws",
    ".azure.com",
)
"""The ends of families of groups: resources of a cloud."""
_OTHER_FAMILIES = (".cluster.x-k8s.io", ".openebs.io", ".knative.dev")
_FIREWALL = re.compile(r"firewall|security|acl$|aclrule|policy|prefixlist|rule", re.I)
"""Kinds of a cloud that may filter the traffic of nodes."""

_ONLY = {
    "cloud.google.com": "BackendConfig",
    "crd.k8s.amazonaws.com": "ENIConfig",
    "elbv2.k8s.aws": "IngressClassParams",
    "networking.gke.io": "FrontendConfig ManagedCertificate",
    "networking.istio.io": "DestinationRule Gateway ProxyConfig ServiceEntry VirtualService "
    "WorkloadEntry WorkloadGroup",
}
"""Group -> its harmless kinds; others filter or redirect connections."""

_CREATES = {
    "argoproj.io": "AnalysisRun Application ApplicationSet ArgoCD CronWorkflow EventBus EventSource "
    "Experiment Rollout Sensor Workflow",
    "helm.toolkit.fluxcd.io": "HelmRelease",
    "keda.sh": "ScaledJob",
    "kustomize.toolkit.fluxcd.io": "Kustomization",
    "monitoring.coreos.com": "Alertmanager Prometheus PrometheusAgent ThanosRuler",
    "velero.io": "Restore",
}
"""Passive group -> the kinds of it whose controllers make policies or pods."""

_PASSIVE_GROUPS = frozenset(_PASSIVE.split())
_CREATING_GROUPS = frozenset(_CREATING.split())


def is_harmless(group: str, kind: str) -> bool:
    """Whether objects of a kind are known to filter no connections. `group` has no version."""
    if group in _ONLY:
        return kind in _ONLY[group].split()
    if group in _PASSIVE_GROUPS or group in _CREATING_GROUPS:
        return True
    if group.endswith(_CLOUDS):
        return _FIREWALL.search(kind) is None
    return group.endswith(_OTHER_FAMILIES)


def creates_objects(group: str, kind: str) -> bool:
    """Whether a controller may make policies or pods of an object, which then are not in the input."""
    if group in _CREATING_GROUPS or group.endswith(_OTHER_FAMILIES):
        return True
    return kind in _CREATES.get(group, "").split()
