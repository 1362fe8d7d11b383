# SPDX-License-Identifier: Apache-2.0
"""The findings about policies of several APIs in one input (PC16xx)."""

from policyc.ir.diagnostics import Code, Severity

CALICO_WITH_CILIUM = Code(
    "PC1601",
    Severity.ERROR,
    "{kind} and {other}: a cluster enforces Calico's policies or Cilium's, not both",
)
WRONG_PROFILE = Code(
    "PC1602", Severity.ERROR, "{kind} is {owner}'s and means nothing under --profile {profile}"
)
ADMIN_WITH_CLUSTER = Code(
    "PC1603",
    Severity.ERROR,
    "{kind} and {other}: the two generations of this API do not define their relative order",
)
UNSUPPORTED = Code("PC1604", Severity.ERROR, "{where}: policyc does not support {what}")
UNSUPPORTED_CLOSED = Code(
    "PC1605", Severity.WARNING, "{where}: policyc does not support {what}; {outcome}"
)
UNSUPPORTED_SUBJECT = Code(
    "PC1606", Severity.ERROR, "{where}: policyc does not support {what} as a subject"
)
ENGINE_DEPARTS = Code("PC1607", Severity.WARNING, "{where}: {text}: Cilium {engine} ({reference})")
