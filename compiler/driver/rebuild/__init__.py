# SPDX-License-Identifier: Apache-2.0
"""Incremental compilation after a few policies changed, from the record in the build cache."""
