# SPDX-License-Identifier: Apache-2.0
"""The findings about Calico's objects (PC12xx)."""

from policyc.ir.diagnostics import Code, Severity

_E, _W = Severity.ERROR, Severity.WARNING

SELECTOR_SYNTAX = Code("PC1201", _E, "{where}: expected {expected}, found {found}")
SELECTOR_DEPTH = Code("PC1202", _E, "{where}: parentheses are nested more than {limit} deep")
GLOBAL_MISPLACED = Code(
    "PC1203",
    _E,
    "{where}: global() must be the whole selector, and only in the namespaceSelector of a rule",
)
CHOICE = Code("PC1204", _E, "{where}: {value} is not one of {choices}")
REQUIRED = Code("PC1205", _E, "{where}: a value is required")
PROTOCOL = Code("PC1206", _E, "{where}: {value} is not a protocol")
PORTS_WITHOUT_PROTOCOL = Code(
    "PC1207", _E, "{where}: ports need `protocol: TCP`, `UDP` or `SCTP` in the same rule"
)
PORT = Code("PC1208", _E, "{where}: {value} is not a port: {problem}")
ICMP = Code("PC1209", _E, "{where}: {problem}")
NET = Code("PC1210", _E, "{where}: {value} is not a CIDR{problem}")
NET_HOST_BITS = Code("PC1211", _E, "{where}: {value} has bits set beyond the prefix length")
FAMILIES = Code("PC1212", _E, "{where}: {value} and {other} have different address families")
CONFLICT = Code("PC1213", _E, "{where}: {problem}")
SERVICES_PLACE = Code(
    "PC1214",
    _E,
    "{where}: services are valid only in the source of ingress rules and the destination of egress "
    "rules",
)
SERVICE_UNKNOWN = Code("PC1215", _E, "{where}: there is no Service {name}")
TIER_UNKNOWN = Code("PC1216", _E, "{where}: there is no tier {name}")
TIER_BUILT_IN = Code("PC1217", _E, "{where}: the tier {name} always has {field} {value}")
TIER_IN_NAME = Code(
    "PC1218",
    _E,
    "{where}: the name has the prefix of the tier {tier}, but spec.tier is missing: some versions of "
    "Calico use the tier of the name, others the default tier",
)
DUPLICATE = Code("PC1219", _E, "{where}: {value} is given twice")
STAGED_DELETE = Code(
    "PC1220", _E, "{where}: a staged deletion of a policy may only have the field `tier`"
)
ADDRESS = Code("PC1221", _E, "{where}: {value} is not an address")
NAMESPACE_UNKNOWN = Code(
    "PC1222",
    _W,
    "{where}: the policy reads labels of the namespace {namespace} of {name}, which has no Namespace "
    "object: policyc assumes only the labels of its name",
)
OWN_LABEL = Code("PC1223", _E, "{where}: {key} is a label that Calico sets itself")
STORED_METADATA = Code(
    "PC1224", _E, "{where}: the annotation is not a JSON object with Calico's labels"
)
NOT_NAMESPACED = Code("PC1225", _W, "{where}: a {kind} is cluster-scoped; its namespace is ignored")
NAME = Code("PC1226", _E, "{where}: {value}: {problem}")
DEAD_RULES = Code("PC1227", _W, "{where}: these rules do nothing: types does not list {direction}")
DIFFERENT_IN_CLUSTER = Code("PC1228", _E, "-f and --cluster give different versions of {name}")
ACCOUNT_MISSING = Code(
    "PC1229",
    _W,
    "{policy} reads the service account label {key}, but there is no ServiceAccount object for "
    "{names}",
)

TIER_WITHOUT_ORDER = Code(
    "PC1230",
    _W,
    "the tier {name} has no order: policyc assumes {order}, the order of the default tier",
)
NEGATIVE_FINDS_NETS = Code(
    "PC1231", _W, "{where}: this also matches {name}, which has no such label"
)
NOT_SELECTOR_KEEPS_NETS = Code(
    "PC1232",
    _W,
    "{where}: Calico excludes pods and network sets here, but not their addresses: an excluded pod "
    "still matches by an address of {name}",
)
NOT_ON_FORWARD = Code(
    "PC1233",
    _W,
    "{where}: policyc applies this policy to pods and to connections of the host itself, not to "
    "traffic that a host forwards",
)
