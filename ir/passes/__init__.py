# SPDX-License-Identifier: Apache-2.0
"""Passes from a Policy IR to a Policy IR. The meaning stays, or changes as the pass states."""
