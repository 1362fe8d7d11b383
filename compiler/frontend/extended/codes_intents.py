# SPDX-License-Identifier: Apache-2.0
"""The findings about intents (PC15xx). Findings about the words they share with rules are PC14xx."""

from policyc.ir.diagnostics import Code, Severity

_E = Severity.ERROR

TWO_SCOPES = Code("PC1501", _E, "an intent has one scope, found both `ingress` and `egress`")
NAME_TWICE = Code("PC1502", _E, "two intents are named {name}")
SERVICE_WITHOUT_PODS = Code("PC1503", _E, "{what} is not supported: policyc cannot know its pods")
NO_INTENTS = Code("PC1504", _E, "there is no intent in {name}: nothing would be checked")
