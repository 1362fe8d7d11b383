# SPDX-License-Identifier: Apache-2.0
"""API groups of well-known projects whose objects restrict no traffic of pods: skipped without a flag.

A group is listed only if none of its kinds filters connections between pods. Authorization of service
meshes, for example, is not listed. A gateway that may refuse a request is: it is no network policy. A
kind that is spelled like a policy kind stays an error in every group.

Some kinds make other objects, which are not in the input. They are skipped, too, with a warning, because
policies or pods may be among these objects.
"""

_LISTED = """
acme.cert-manager.io cert-manager.io policy.cert-manager.io trust.cert-manager.io
argoproj.io fleet.cattle.io helm.cattle.io tekton.dev triggers.tekton.dev upgrade.cattle.io
autoscaling.k8s.io keda.sh karpenter.sh karpenter.k8s.aws descheduler
bitnami.com external-secrets.io generators.external-secrets.io secrets.hashicorp.com
secrets-store.csi.x-k8s.io isindir.github.com
monitoring.coreos.com monitoring.googleapis.com operator.victoriametrics.com opentelemetry.io
jaegertracing.io loki.grafana.com tempo.grafana.com grafana.integreatly.org grafana.com
monitoring.grafana.com logging.banzaicloud.io fluentbit.fluent.io
gateway.networking.k8s.io gateway.envoyproxy.io traefik.io traefik.containo.us projectcontour.io
configuration.konghq.com getambassador.io k8s.nginx.org networking.istio.io telemetry.istio.io
cloud.google.com networking.gke.io externaldns.k8s.io metallb.io elbv2.k8s.aws crd.k8s.amazonaws.com
snapshot.storage.k8s.io groupsnapshot.storage.k8s.io velero.io longhorn.io ceph.rook.io
volsync.backube objectbucket.io k8up.io
postgresql.cnpg.io acid.zalan.do kafka.strimzi.io mariadb.mmontes.io k8s.mariadb.com
dragonflydb.io elasticsearch.k8s.elastic.co kibana.k8s.elastic.co redis.redis.opstreelabs.in
psmdb.percona.com pxc.percona.com minio.min.io rabbitmq.com
kyverno.io wgpolicyk8s.io templates.gatekeeper.sh config.gatekeeper.sh constraints.gatekeeper.sh
kubevirt.io cdi.kubevirt.io apps.kruise.io jobset.x-k8s.io leaderworkerset.x-k8s.io
kueue.x-k8s.io batch.volcano.sh scheduling.volcano.sh ray.io kubeflow.org nfd.k8s-sigs.io
nvidia.com cluster.x-k8s.io operators.coreos.com operator.tigera.io
admissionregistration.k8s.io apiextensions.k8s.io apiregistration.k8s.io authentication.k8s.io
authorization.k8s.io autoscaling certificates.k8s.io coordination.k8s.io events.k8s.io
flowcontrol.apiserver.k8s.io metrics.k8s.io node.k8s.io policy rbac.authorization.k8s.io
resource.k8s.io scheduling.k8s.io storage.k8s.io storagemigration.k8s.io
apiserver.config.k8s.io audit.k8s.io kubeadm.k8s.io kubelet.config.k8s.io kubeproxy.config.k8s.io
kubescheduler.config.k8s.io kind.x-k8s.io k3d.io k0s.k0sproject.io k0sctl.k0sproject.io eksctl.io
kops.k8s.io backstage.io skaffold
"""
"""Custom resources; groups of Kubernetes itself; configuration files of tools."""
_GROUPS = frozenset(_LISTED.split())

_SUFFIXES = (
    ".fluxcd.io",
    ".fluxcd.controlplane.io",
    ".cluster.x-k8s.io",
    ".crossplane.io",
    ".upbound.io",
    ".cnrm.cloud.google.com",
    ".services.k8s.aws",
    ".azure.com",
    ".openebs.io",
    ".knative.dev",
)
"""The ends of families of groups, which belong to one project each."""

_FILTERS = {"networking.istio.io": "Sidecar"}
"""Group -> kinds of a listed group that do filter connections."""

_CREATES = {
    "argoproj.io": "Application ApplicationSet CronWorkflow Rollout Workflow WorkflowTemplate",
    "apps.kruise.io": "*",
    "batch.volcano.sh": "*",
    "elasticsearch.k8s.elastic.co": "*",
    "fleet.cattle.io": "Bundle GitRepo",
    "helm.cattle.io": "HelmChart",
    "helm.toolkit.fluxcd.io": "HelmRelease",
    "jobset.x-k8s.io": "*",
    "kafka.strimzi.io": "Kafka KafkaConnect KafkaBridge KafkaMirrorMaker2",
    "keda.sh": "ScaledJob",
    "kubevirt.io": "*",
    "kubeflow.org": "*",
    "kustomize.toolkit.fluxcd.io": "Kustomization",
    "kyverno.io": "ClusterPolicy Policy",
    "leaderworkerset.x-k8s.io": "*",
    "monitoring.coreos.com": "Alertmanager Prometheus PrometheusAgent ThanosRuler",
    "operators.coreos.com": "ClusterServiceVersion Subscription",
    "postgresql.cnpg.io": "Cluster Pooler",
    "ray.io": "*",
    "serving.knative.dev": "Configuration Revision Service",
    "tekton.dev": "PipelineRun TaskRun",
}
"""Group -> the kinds whose controllers make policies or pods; `*`: all kinds."""


def is_harmless(group: str, kind: str) -> bool:
    """Whether objects of a kind are known to restrict no traffic. `group` has no version."""
    is_listed = group in _GROUPS or group.endswith(_SUFFIXES)
    return is_listed and kind not in _FILTERS.get(group, "").split()


def creates_objects(group: str, kind: str) -> bool:
    """Whether a controller makes policies or pods of an object, which then are not in the input."""
    kinds = _CREATES.get(group, "")
    return kinds == "*" or kind in kinds.split()
