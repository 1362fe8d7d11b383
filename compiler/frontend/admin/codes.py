# SPDX-License-Identifier: Apache-2.0
"""The findings about policy.networking.k8s.io policies (PC11xx).

Messages up to PC1113 are those of the API server where it validates by the CRD's schema.
"""

from policyc.ir.diagnostics import Code, Severity

_E, _W = Severity.ERROR, Severity.WARNING

REQUIRED = Code("PC1101", _E, "{where}: Required value")
TOO_MANY = Code("PC1102", _E, "{where}: Too many: {count}: must have at most {limit}")
TOO_FEW = Code(
    "PC1103",
    _E,
    "{where}: Invalid value: {count}: {where} in body should have at least 1 {what}",
)
BELOW = Code(
    "PC1104",
    _E,
    "{where}: Invalid value: {value}: {where} in body should be greater than or equal to {limit}",
)
ABOVE = Code(
    "PC1105",
    _E,
    "{where}: Invalid value: {value}: {where} in body should be less than or equal to {limit}",
)
CHOICE = Code("PC1106", _E, "{where}: Unsupported value: {value}: supported values: {choices}")
TOO_LONG = Code("PC1107", _E, "{where}: Too long: may not be more than {limit} bytes")
DUPLICATE = Code("PC1108", _E, "{where}: Duplicate value: {value}")
PATTERN = Code(
    "PC1109", _E, "{where}: Invalid value: {value}: {where} in body should match '{pattern}'"
)
BAD_NETWORK = Code("PC1110", _E, "{where}: Invalid value: {value}: Invalid CIDR format provided")
RANGE_ORDER = Code("PC1111", _E, "{where}: Invalid value: Start port must be less than End port")
NAMED_PORT_PEER = Code(
    "PC1112",
    _E,
    "{where}: Invalid value: {peers} peer cannot be set with namedPorts "
    "since there are no namedPorts for {peers}",
)
BASELINE_NAME = Code(
    "PC1113",
    _E,
    "Invalid value: Only one baseline admin network policy with "
    'metadata.name="default" can be created in the cluster',
)
BAD_PROTOCOL = Code(
    "PC1114", _E, "{where}: {value} is not a protocol with ports; use TCP, UDP or SCTP"
)
RANGE_REVERSED = Code("PC1115", _E, "{where}: the range end {end} is below its start {start}")
DOMAIN_ACTION = Code(
    "PC1116", _E, "{where}: domain names need a rule that allows, but this rule has {action}"
)
NULL_LABEL = Code("PC1117", _E, "{where}: the value of `{key}` is null")
HOST_BITS = Code(
    "PC1118", _W, "{where}: {value} has bits set beyond the prefix length; it means {network}"
)
EMPTY_PORT_NAME = Code("PC1119", _W, "{where}: an empty port name matches no port: {outcome}")
NOT_NAMESPACED = Code("PC1120", _W, "{where}: a {kind} is cluster-scoped; its namespace is ignored")
PRIORITY_CONFLICT = Code(
    "PC1121",
    _E,
    "{policy} and {other} have priority {priority}, and {rule} and {other_rule} can both match "
    "with different actions",
)
PRIORITY_SHARED = Code("PC1122", _W, "these policies have the same priority {priority}: {policies}")
