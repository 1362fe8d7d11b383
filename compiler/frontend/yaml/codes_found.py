# SPDX-License-Identifier: Apache-2.0
"""The findings about files of a directory that have no Kubernetes object."""

from policyc.ir.diagnostics import Code, Severity

FILES_PASSED_OVER = Code("PC0133", Severity.NOTE, "skipped: {files} without a Kubernetes object")
TEMPLATES_PASSED_OVER = Code(
    "PC0134", Severity.WARNING, "skipped: {files} of a template that is not rendered"
)
NOT_BUILT = Code("PC0135", Severity.WARNING, "not built: {files}{fields}")
EXCLUDED = Code("PC0137", Severity.NOTE, "skipped: {files} by `exclude`")
CREATORS = Code(
    "PC0136", Severity.WARNING, "policies or pods that {objects} create are not in the input"
)
