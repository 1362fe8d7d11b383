# SPDX-License-Identifier: Apache-2.0
"""The findings about Calico's objects (PC12xx)."""

from policyc.ir.diagnostics import Code, Severity

_E, _W = Severity.ERROR, Severity.WARNING

SELECTOR_SYNTAX = Code("PC1201", _E, "{where}: expected {expected}, found {found}")
SELECTOR_DEPTH = Code("PC1202", _E, "{where}: parentheses are nested more than {limit} deep")
GLOBAL_MISPLACED = Code(
    "PC1203", _E, "{where}: global() stands alone, and only in the namespaceSelector of a rule"
)
CHOICE = Code("PC1204", _E, "{where}: {value} is none of {choices}")
REQUIRED = Code("PC1205", _E, "{where}: a value is required")
PROTOCOL = Code("PC1206", _E, "{where}: {value} is no protocol")
PORTS_WITHOUT_PROTOCOL = Code(
    "PC1207", _E, "{where}: ports need `protocol: TCP`, `UDP` or `SCTP` in the same rule"
)
PORT = Code("PC1208", _E, "{where}: {value} is no port: {problem}")
ICMP = Code("PC1209", _E, "{where}: {problem}")
NET = Code("PC1210", _E, "{where}: {value} is no CIDR{problem}")
NET_HOST_BITS = Code("PC1211", _E, "{where}: {value} has bits set beyond the prefix length")
FAMILIES = Code("PC1212", _E, "{where}: {value} is of another address family than {other}")
CONFLICT = Code("PC1213", _E, "{where}: {problem}")
SERVICES_PLACE = Code(
    "PC1214",
    _E,
    "{where}: services belong into the source of ingress rules and the destination of egress rules",
)
SERVICE_UNKNOWN = Code("PC1215", _E, "{where}: there is no Service {name}")
TIER_UNKNOWN = Code("PC1216", _E, "{where}: there is no tier {name}")
TIER_BUILT_IN = Code("PC1217", _E, "{where}: the tier {name} always has {field} {value}")
TIER_IN_NAME = Code(
    "PC1218",
    _E,
    "{where}: the name says that the policy is in the tier {tier}, and there is no spec.tier: "
    "some versions of Calico take it from the name, others take the default tier",
)
DUPLICATE = Code("PC1219", _E, "{where}: {value} is given twice")
STAGED_DELETE = Code(
    "PC1220", _E, "{where}: the staged deletion of a policy has no fields but `tier`"
)
ADDRESS = Code("PC1221", _E, "{where}: {value} is no address")
NAMESPACE_UNKNOWN = Code(
    "PC1222",
    _W,
    "{where}: labels of the namespace {namespace} are read, which has {name}, and there is no "
    "Namespace object: it has only the labels with its name",
)
OWN_LABEL = Code("PC1223", _E, "{where}: {key} is a label that Calico sets itself")
STORED_METADATA = Code(
    "PC1224", _E, "{where}: the annotation is no JSON object with labels, as Calico writes it"
)
NOT_NAMESPACED = Code(
    "PC1225", _W, "{where}: a {kind} is for the whole cluster; its namespace is ignored"
)
NAME = Code("PC1226", _E, "{where}: {value}: {problem}")
DEAD_RULES = Code("PC1227", _W, "{where}: these rules do nothing: types does not list {direction}")
DIFFERENT_IN_CLUSTER = Code("PC1228", _E, "{name} is given with -f, and otherwise with --cluster")
ACCOUNT_MISSING = Code(
    "PC1229",
    _W,
    "{policy} reads the service account label {key}, but there is no ServiceAccount object for "
    "{names}",
)

TIER_WITHOUT_ORDER = Code(
    "PC1230",
    _W,
    "the tier {name} has no order: it is taken to stand at {order}, beside the default tier",
)
NEGATIVE_FINDS_NETS = Code(
    "PC1231", _W, "{where}: this also matches {name}, which has no such label"
)
NOT_SELECTOR_KEEPS_NETS = Code(
    "PC1232",
    _W,
    "{where}: Calico takes pods and sets out by labels, and no addresses: a pod that this excludes "
    "still matches by an address of {name}",
)
NOT_ON_FORWARD = Code(
    "PC1233",
    _W,
    "{where}: policyc does not ask this policy about what a host forwards, only about pods and what "
    "begins or ends at the host",
)
