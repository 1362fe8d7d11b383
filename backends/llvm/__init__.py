# SPDX-License-Identifier: Apache-2.0
"""The Decision IR as LLVM IR: for this process (native code) and for the kernel (BPF without clang).

Text with no assumption about the target: `text`, `trees`. Native: `layout` chooses tables and code,
`kernels` writes the module, `host` compiles it, `ends` and `batch` define inputs and outputs, and
`native` is the interface for callers. Needs the extra `native` (llvmlite, numpy).
"""
