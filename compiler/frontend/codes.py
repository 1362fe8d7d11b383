# SPDX-License-Identifier: Apache-2.0
"""Every finding of the front end and of `policyc eval`, by its stable code.

PC01 loading, PC02 decoding, PC03 kinds and names, PC04 NetworkPolicy as the API server validates it,
PC05 NetworkPolicy warnings, PC06 cluster objects, PC07 flows. docs/diagnostics.md has the cause and the
remedy of each. A message that starts with a field path and `Invalid value`, `Required value`,
`Forbidden` or `Unsupported value` is the API server's own.
"""

from policyc.ir.diagnostics import Code, Severity

_E, _W = Severity.ERROR, Severity.WARNING

NO_SUCH_FILE = Code("PC0101", _E, "no such file or directory: {name}")
UNREADABLE = Code("PC0102", _E, "cannot read {name}: {reason}")
NOTHING_HERE = Code("PC0103", _E, "no file to read ({looked_for}) in {name}")
NOT_UTF8 = Code("PC0104", _E, "not UTF-8: byte {byte}")
YAML_SYNTAX = Code("PC0105", _E, "not valid YAML: {problem}")
TAB = Code("PC0106", _E, "a tab character where YAML wants spaces")
DUPLICATE_KEY = Code("PC0107", _E, "the field `{key}` is given twice")
KEY_NOT_STRING = Code("PC0108", _E, "a field name must be a string, found {found}")
MERGE_KEY = Code("PC0109", _E, "merge keys (`<<`) are not supported: YAML parsers disagree on them")
TAG = Code("PC0110", _E, "the YAML tag {tag} is not supported")
NO_ANCHOR = Code("PC0111", _E, "the alias *{name} has no anchor before it")
ALIAS_IN_ITSELF = Code("PC0112", _E, "the alias *{name} stands inside its own anchor")
ALIAS_BOMB = Code(
    "PC0113", _E, "the aliases of this file stand for more than {limit} values; it looks malicious"
)
TOO_DEEP = Code("PC0114", _E, "nested more than {limit} levels deep")
NOT_AN_OBJECT = Code("PC0115", _E, "expected a Kubernetes object, found {found}")
NO_DOCUMENTS = Code("PC0116", _W, "no objects in {name}")
NO_POLICY = Code("PC0117", _E, "there is no policy in the input: the result would allow everything")
TOO_LARGE = Code("PC0118", _E, "{name} is larger than {limit} MiB")
ODD_LINE_BREAK = Code(
    "PC0119", _E, "the character {character}: only some YAML parsers treat it as a line break"
)
BYTE_ORDER_MARK = Code("PC0120", _E, "a byte order mark (U+FEFF) in the middle of the file")

WRONG_TYPE = Code("PC0201", _E, "{where}: expected {expected}, found {found}")
UNKNOWN_FIELD = Code("PC0202", _E, 'unknown field "{where}"')
NOT_INT32 = Code("PC0203", _E, "{where}: {value} does not fit a 32-bit integer")
NULL_STRING = Code("PC0204", _W, "{where}: the value of `{key}` is null and means the empty string")

EMPTY_STATUS = Code(
    "PC0205", Severity.NOTE, "the empty `status` is ignored: NetworkPolicy has none from 1.28 on"
)

NO_TYPE = Code("PC0301", _E, "the object has no {field}")
UNKNOWN_POLICY_KIND = Code("PC0302", _E, "policyc knows no policy kind {kind} of {api_version}")
POLICY_VERSION = Code("PC0303", _E, "{kind} of {api_version} is not supported")
NOT_SUPPORTED = Code(
    "PC0304",
    _E,
    "{kind} of {api_version} is {owner}, not Kubernetes' NetworkPolicy: not supported yet",
)
MISSPELT_KIND = Code("PC0305", _E, "{kind} of {api_version} looks like a misspelt policy kind")
UNKNOWN_KIND = Code("PC0306", _E, "unknown kind {kind} of {api_version}{count}")
UNKNOWN_VERSION = Code("PC0307", _E, "unknown version of {kind}: {api_version}")
DUPLICATE_OBJECT = Code("PC0308", _E, "{kind} {name} is given twice")
POLICY_IN_CLUSTER = Code(
    "PC0309", _E, "{kind} {name} is among the cluster's objects, but not among the policies"
)
BAD_KUBE_VERSION = Code("PC0310", _E, "not a Kubernetes version: {text}")
LIST_WITHOUT_ITEMS = Code("PC0311", _E, "the {kind} has no `items`")

NAME_REQUIRED = Code("PC0401", _E, "{where}: Required value: name or generateName is required")
NAME_GENERATED = Code("PC0402", _E, "{where}: Required value: an object from a file needs a name")
NAME_INVALID = Code("PC0403", _E, "{where}: Invalid value: {value}: {problem}")
LABEL_INVALID = Code("PC0404", _E, "{where}: Invalid value: {value}: {problem}")
VALUES_REQUIRED = Code(
    "PC0405", _E, "{where}: Required value: must be specified when `operator` is 'In' or 'NotIn'"
)
VALUES_FORBIDDEN = Code(
    "PC0406",
    _E,
    "{where}: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
)
OPERATOR_INVALID = Code(
    "PC0407", _E, "{where}: Invalid value: {value}: not a valid selector operator"
)
PEER_REQUIRED = Code("PC0408", _E, "{where}: Required value: must specify a peer")
PEER_FORBIDDEN = Code(
    "PC0409", _E, "{where}: Forbidden: may not specify both ipBlock and another peer"
)
CIDR_REQUIRED = Code("PC0410", _E, "{where}: Required value")
CIDR_INVALID = Code(
    "PC0411",
    _E,
    "{where}: Invalid value: {value}: "
    "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
)
CIDR_ZEROS = Code(
    "PC0412",
    _E,
    "{where}: Invalid value: {value}: must not have leading 0s in IP or prefix length",
)
CIDR_MAPPED = Code(
    "PC0413", _E, "{where}: Invalid value: {value}: must not have an IPv4-mapped IPv6 address"
)
CIDR_HOST_BITS = Code(
    "PC0414",
    _E,
    "{where}: Invalid value: {value}: must not have bits set beyond the prefix length",
)
EXCEPT_OUTSIDE = Code(
    "PC0415", _E, "{where}: Invalid value: {value}: must be a strict subset of `cidr`"
)
PROTOCOL_UNSUPPORTED = Code(
    "PC0416",
    _E,
    '{where}: Unsupported value: {value}: supported values: "TCP", "UDP", "SCTP"',
)
PORT_RANGE = Code(
    "PC0417", _E, "{where}: Invalid value: {value}: must be between 1 and 65535, inclusive"
)
PORT_NAME = Code("PC0418", _E, "{where}: Invalid value: {value}: {problem}")
END_PORT_BELOW = Code(
    "PC0419", _E, "{where}: Invalid value: {value}: must be greater than or equal to `port`"
)
END_PORT_WITHOUT_PORT = Code(
    "PC0420",
    _E,
    "{where}: Invalid value: {value}: may not be specified when `port` is not specified",
)
END_PORT_WITH_NAME = Code(
    "PC0421",
    _E,
    "{where}: Invalid value: {value}: may not be specified when `port` is non-numeric",
)
TYPES_TOO_MANY = Code(
    "PC0422", _E, "{where}: Invalid value: {value}: may not specify more than two policyTypes"
)
TYPE_UNSUPPORTED = Code(
    "PC0423", _E, '{where}: Unsupported value: {value}: supported values: "Ingress", "Egress"'
)
ANNOTATION_INVALID = Code("PC0424", _E, "{where}: Invalid value: {value}: {problem}")
ANNOTATIONS_TOO_LONG = Code("PC0425", _E, "{where}: Too long: may not be more than {limit} bytes")
OWNER_INVALID = Code("PC0426", _E, '{where}: Invalid value: "": must not be empty')

DEAD_RULES = Code(
    "PC0501", _W, "{where}: these rules do nothing: policyTypes does not list {direction}"
)
NULL_ALLOWS_ALL = Code("PC0502", _W, "{where}: null is read as an empty {what}: {meaning}")
ISOLATES_INGRESS = Code(
    "PC0503", _W, "{where}: without policyTypes this policy also denies all ingress to its pods"
)
EGRESS_NOT_ISOLATED = Code(
    "PC0504",
    _W,
    "{where}: without policyTypes an empty egress list does not restrict egress at all",
)
CIDR_AMBIGUOUS = Code(
    "PC0505",
    _W,
    '{where}: CIDR value {value} is ambiguous in this context (should be "{network}" or "{host}"?)',
)
CIDR_NON_STANDARD = Code(
    "PC0506", _W, '{where}: non-standard CIDR value {value} is invalid: use "{network}"'
)
CIDR_NON_CANONICAL = Code(
    "PC0507",
    _W,
    '{where}: IPv6 CIDR value {value} should be in RFC 5952 canonical format ("{canonical}")',
)

BAD_ADDRESS = Code("PC0601", _E, "{where}: {value} is not an IP address")
BAD_CIDR = Code("PC0602", _E, "{where}: {value} is not a CIDR")
BAD_PORT = Code("PC0603", _E, "{where}: {value} is not a port (1 to 65535)")
BAD_PROTOCOL = Code("PC0604", _E, "{where}: {value} is not a protocol; use TCP, UDP or SCTP")
SHARED_ADDRESS = Code("PC0605", _E, "pod {name} has the address {address} of pod {other}")
OBJECT_NAME_REQUIRED = Code("PC0606", _E, "{where}: the object needs a name")
BAD_PHASE = Code(
    "PC0607",
    _E,
    "{where}: Unsupported value: {value}: "
    'supported values: "Pending", "Running", "Succeeded", "Failed", "Unknown"',
)
TWO_ADDRESSES = Code("PC0608", _E, "{where}: a second {family} address of one pod")
ADDRESSES_DIFFER = Code("PC0609", _E, "{where}: is not the first address of the list")
NAMESPACE_MISSING = Code(
    "PC0610",
    _W,
    "{policy} reads the namespace label {key}, but there is no Namespace object for {names}",
)
NODE_MISSING = Code("PC0611", _W, "{policy} reads nodes, but there is no Node object{names}")
NODE_WITHOUT_ADDRESS = Code(
    "PC0612", _W, "{policy} matches nodes by address, but no address of {names} is known"
)

FLOWS_SYNTAX = Code("PC0701", _E, "{flow}: {problem}")
UNKNOWN_POD = Code("PC0702", _E, "{flow}: {end} {name} is not a pod of the cluster")
BAD_END = Code(
    "PC0703", _E, "{flow}: {end} {text} is neither namespace/pod, node/NAME nor an address"
)
NO_ADDRESS = Code("PC0704", _E, "{flow}: {end} {name} is live but has no {which}address")
NO_COMMON_FAMILY = Code("PC0705", _E, "{flow}: {src} and {dst} have no address family in common")
BAD_SERVICE = Code("PC0706", _E, "{flow}: {problem}")
DEPENDS_ON_UNKNOWN = Code(
    "PC0707", _W, "{flow}: the verdict depends on {what} of {name}, which is not known"
)
DEPENDS_ON_OPAQUE = Code(
    "PC0711", _W, "{flow}: the verdict depends on a rule that policyc does not support: {rule}"
)
IGNORED_FIELD = Code("PC0709", _W, "{flow}: the field `{name}` is ignored")
UNKNOWN_NODE = Code("PC0710", _E, "{flow}: {end} {name} is not a node of the cluster")
OBSERVED_SYNTAX = Code("PC0712", _E, "not a record of the format {form}: {problem}")
NO_OBSERVED_FLOW = Code("PC0713", _E, "no flow of {name} can be placed in the cluster{why}")
BAD_SCENARIO = Code("PC0708", _E, "scenario: {problem}")
