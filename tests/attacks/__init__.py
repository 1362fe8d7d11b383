# SPDX-License-Identifier: Apache-2.0
"""Tests that load BPF into the kernel they run on. They need root."""
