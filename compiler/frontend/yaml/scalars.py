# SPDX-License-Identifier: Apache-2.0
"""The meaning of a plain (unquoted) YAML scalar in Kubernetes.

Kubernetes reads YAML with sigs.k8s.io/yaml, whose scalars are those of YAML 1.1 as goyaml.v2 resolves
them: `no` and `on` are booleans, `0o17` and `1_000` are integers, `1e3` is a float, a date is a string
and `1:30` is one too.
"""

import re
from math import isfinite

from policyc.ir.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class OddNumber:
    """A number that YAML readers disagree about (`017`, `0x1f`, `1_000`, `+5`)."""

    text: str


Value = str | int | float | bool | OddNumber | None

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_BOOLS = dict.fromkeys(_TRUE, True) | dict.fromkeys(_FALSE, False)
_INT = re.compile(r"-?(0|[1-9][0-9]*)")
_ODD_INT = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|[0-9]+)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_NUMBER_STARTS = frozenset("0123456789+-.")
MAX_DIGITS = 40
"""Longer numbers fit no field; Python would spend quadratic time on them."""


def resolve(text: str) -> Value:
    """The value of a plain scalar."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    return _number(text) if text[0] in _NUMBER_STARTS else text


def _number(text: str) -> Value:
    if _INT.fullmatch(text):
        return int(text) if len(text) <= MAX_DIGITS else OddNumber(text)
    bare = text.replace("_", "")
    if _ODD_INT.fullmatch(bare):
        return OddNumber(text)
    if _FLOAT.fullmatch(bare):
        value = float(bare)
        return (
            value if isfinite(value) else OddNumber(text)
        )  # a string for goyaml, infinity for others
    return OddNumber(text) if _NOT_FINITE.fullmatch(text) else text
