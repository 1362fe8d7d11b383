# SPDX-License-Identifier: Apache-2.0
"""The JSON schemas as package data: `policyc schema` prints them."""
