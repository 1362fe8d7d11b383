# SPDX-License-Identifier: Apache-2.0
"""policyc.dev: ExtendedPolicy and Intent, and the rule language that both are written in."""
