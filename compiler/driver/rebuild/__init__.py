# SPDX-License-Identifier: Apache-2.0
"""Compile again after a few policies changed, from what the last run left in the build cache."""
