# SPDX-License-Identifier: Apache-2.0
"""projectcalico.org: policies, tiers, network sets, host endpoints, and the selector language."""
