# SPDX-License-Identifier: Apache-2.0
"""The findings about the rule language and ExtendedPolicy (PC14xx)."""

from policyc.ir.diagnostics import Code, Severity

_E, _W = Severity.ERROR, Severity.WARNING

SYNTAX = Code("PC1401", _E, "expected {expected}, found {found}")
STRAY = Code("PC1402", _E, "unexpected {found}; expected {expected}")
TOO_DEEP = Code("PC1403", _E, "parentheses and negations are nested more than {limit} deep")
UNKNOWN_ATTRIBUTE = Code("PC1404", _E, "`{name}` has no labels")
KEY_INVALID = Code("PC1405", _E, "{key} is not a label key: {problem}")
VALUE_INVALID = Code("PC1406", _E, "{value} cannot be {what}: {problem}")
TEXT_EMPTY = Code("PC1407", _E, "every value contains the empty text")
NOT_OF_NODES = Code("PC1408", _E, "a node has no {what}")
UNKNOWN_PROTOCOL = Code("PC1409", _E, "`{name}` is not a protocol with ports")
PORT_INVALID = Code("PC1410", _E, "`{port}` is not a port: {problem}")
RANGE_BACKWARDS = Code("PC1411", _E, "the range ends at {hi}, below its start {lo}")
NUMBER_OUT = Code("PC1412", _E, "{what} must be {lo} to {hi}, found {number}")
UNKNOWN_ICMP = Code("PC1413", _E, "`{name}` is not a type of {family}")
ADDRESS_INVALID = Code("PC1414", _E, "{text} is not an address or CIDR: {problem}")
EXCEPT_OUTSIDE = Code("PC1415", _E, "{hole} is not a proper subset of {network}")
UNKNOWN_ENTITY = Code("PC1416", _E, "`{name}` is not an entity")
UNKNOWN_SERVICE = Code("PC1417", _E, "the input has no Service {name}")
WRONG_SIDE = Code("PC1418", _E, "`{found}` in a rule of the {section} section")
MODIFIER_TWICE = Code("PC1419", _E, "`{word}` is given twice")
LIMIT_NOT_ALLOW = Code("PC1420", _E, "`limit` needs a rule that allows, found {action}")
RATE_INVALID = Code("PC1421", _E, "`{text}` is not a rate")
NAME_INVALID = Code("PC1422", _E, "{text} cannot be a name: {problem}")
NO_SECTION = Code("PC1423", _E, "a rule before any section")
SECTION_TWICE = Code("PC1424", _E, "a second `{section}` section")
NO_RULES = Code("PC1425", _E, "{where}: the policy has neither an ingress nor an egress section")
REQUIRED = Code("PC1426", _E, "{where}: Required value")
TIER_BUILT_IN = Code("PC1427", _E, "{where}: Invalid value: {value}: this order belongs to {tier}")
TIER_NEGATIVE = Code("PC1428", _E, "{where}: Invalid value: {value}: must not be negative")
EXCEPT_FAMILY = Code("PC1429", _E, "{hole} and {network} have different address families")
EXCEPT_LIST = Code("PC1431", _E, "{peer} adds nothing: {network} already contains all of it")
OTHER_NAMESPACE = Code(
    "PC1432", _W, "the policy is in namespace {home}, so it selects no pod of {others}"
)
WITH_OF_OTHERS = Code("PC1433", _E, "`with` selects nodes, but `{name}` also has other peers")
USELESS_MODIFIER = Code("PC1430", _E, "`log` on a rule whose action is `log`")
