# SPDX-License-Identifier: Apache-2.0
"""The findings about Cilium's objects (PC13xx). Findings of any CRD's schema are in codes_admin."""

from policyc.ir.diagnostics import Code, Severity

_E, _W = Severity.ERROR, Severity.WARNING

NO_SPEC = Code("PC1301", _E, "the {kind} has neither `spec` nor `specs`")
SELECTORS = Code(
    "PC1302", _E, "{where}: exactly one of endpointSelector and nodeSelector is needed"
)
NODE_SELECTOR_PLACE = Code(
    "PC1303", _E, "{where}: only a CiliumClusterwideNetworkPolicy may select nodes"
)
COMBINED = Code("PC1304", _E, "{where}: one rule cannot have both {one} and {other}")
ICMP_WITH_PORTS = Code("PC1305", _E, "{where}: one rule cannot have both icmps and toPorts")
BAD_CIDR = Code("PC1306", _E, "{where}: {value} is not a CIDR")
EXCEPT_OUTSIDE = Code("PC1307", _E, "{where}: {value} is not inside {cidr}")
BAD_PORT = Code("PC1308", _E, "{where}: {value} is neither a port nor a port name")
END_BELOW = Code("PC1309", _E, "{where}: endPort {end} is below port {port}")
PORT_OF_PROTOCOL = Code(
    "PC1310", _E, "{where}: {protocol} has no ports: `port` must be 0 or missing"
)
BAD_ICMP_TYPE = Code("PC1311", _E, "{where}: {value} is not an ICMP type of {family}")
REQUIRES = Code(
    "PC1312",
    _E,
    "{where}: policyc does not support {field}, which limits the rules of other policies, too",
)
UNKNOWN_GROUP = Code("PC1313", _E, "{where}: there is no CiliumCIDRGroup {name}")
BAD_LABEL = Code("PC1314", _E, "{where}: {value}: {problem}")
OTHER_NAMESPACE = Code(
    "PC1315",
    _W,
    "{where}: the subjects are in the policy's own namespace, {namespace}; {value} is ignored",
)
NO_RULES = Code(
    "PC1316",
    _E,
    "{where}: the policy has no rule in ingress, ingressDeny, egress or egressDeny; Cilium rejects it",
)
EMPTY_PEERS = Code("PC1317", _W, "{where}: an empty list selects no peer: the rule does nothing")
EMPTY_PORTS = Code("PC1318", _W, "{where}: no ports are listed: the entry matches nothing")
END_PORT_WITH_NAME = Code("PC1319", _W, "{where}: endPort has no effect with a port name")
NEGATIVE = Code(
    "PC1320",
    _W,
    "{where}: all terms of this selector are negated; Cilium with `policyDefaultLocalCluster: false` "
    "would also select nodes and external addresses",
)
FINDS_NONE = Code(
    "PC1321", _W, "{where}: the selector matches no given {kind}, so it selects no peer"
)
NULL_LIST = Code("PC1322", _W, "{where}: null counts as missing: the rule {does} {what}")
SERVICES_WITH_PORTS = Code(
    "PC1323",
    _W,
    "{where}: Cilium before 1.17 refuses a policy with toServices and toPorts in one rule",
)
