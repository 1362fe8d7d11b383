# SPDX-License-Identifier: Apache-2.0
"""The effect of a policy change on every connection that could exist."""
