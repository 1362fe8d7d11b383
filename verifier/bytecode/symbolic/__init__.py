# SPDX-License-Identifier: Apache-2.0
"""All runs of a program at once: states are merged where paths join, never followed one by one."""
