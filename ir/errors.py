# SPDX-License-Identifier: Apache-2.0
"""The exceptions of policyc and their exit codes. Findings are values, not exceptions."""

from collections.abc import Sequence

from policyc.ir.diagnostics import Diagnostic


class InputError(Exception):
    """The input or the usage is wrong (exit 2). Carries every finding of the run."""

    exit_code = 2

    def __init__(self, findings: Sequence[Diagnostic]) -> None:
        self.findings = tuple(findings)
        super().__init__("; ".join(f"{f.span}: {f.message}" for f in self.findings if f.is_error))

    def __reduce__(self) -> tuple[type["InputError"], tuple[tuple[Diagnostic, ...]]]:
        """Pickled by its findings, so that another process can raise it here."""
        return InputError, (self.findings,)


class HostError(Exception):
    """A tool or a kernel feature is missing (exit 3). `hint` names the remedy."""

    exit_code = 3

    def __init__(self, message: str, hint: str = "") -> None:
        self.hint = hint
        super().__init__(message)

    def __reduce__(self) -> tuple[type["HostError"], tuple[str | Diagnostic, ...]]:
        """Pickled with its hint, so that another process can raise it here."""
        return HostError, (str(self), self.hint)


class CodedHostError(HostError):
    """A HostError with a stable code, which is shown like other findings."""

    def __init__(self, finding: Diagnostic) -> None:
        self.findings = (finding,)
        super().__init__(finding.message, finding.hint)

    def __reduce__(self) -> tuple[type["HostError"], tuple[str | Diagnostic, ...]]:
        """Pickled by its finding, so that another process can raise it here."""
        return CodedHostError, self.findings


class InternalError(Exception):
    """policyc itself is wrong (exit 3): a broken invariant, a refuted proof."""

    exit_code = 3
