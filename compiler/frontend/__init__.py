# SPDX-License-Identifier: Apache-2.0
"""YAML with source spans to typed API objects, and from those to the Policy IR."""
