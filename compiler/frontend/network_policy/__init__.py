# SPDX-License-Identifier: Apache-2.0
"""networking.k8s.io NetworkPolicy: decoded, defaulted, validated, lowered to the Policy IR."""
