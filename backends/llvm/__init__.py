# SPDX-License-Identifier: Apache-2.0
"""The Decision IR as LLVM IR: for this process (native code) and for the kernel (BPF without clang)."""
