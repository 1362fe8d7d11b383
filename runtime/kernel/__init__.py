# SPDX-License-Identifier: Apache-2.0
"""The kernel's interfaces: bpf(2), libbpf, BTF, rtnetlink, pins, clocks, ring buffers."""
