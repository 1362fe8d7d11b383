# SPDX-License-Identifier: Apache-2.0
"""Specialised eBPF C and map seeds from the Decision IR."""
