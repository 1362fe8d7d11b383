# SPDX-License-Identifier: Apache-2.0
"""The outcomes on which `diff` fails; `any`: on any of them."""

FAIL_ON = ("any", "widened", "narrowed", "none")
