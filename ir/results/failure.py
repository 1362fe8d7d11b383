# SPDX-License-Identifier: Apache-2.0
"""The result of a command that could not answer. Data only."""

from dataclasses import dataclass
from enum import Enum

from policyc.ir.diagnostics import Diagnostic
from policyc.ir.errors import CodedHostError, HostError, InputError, InternalError


class FailureKind(Enum):
    """The cause of a failure."""

    INPUT = "input"
    """The input or the usage is wrong (exit 2)."""
    HOST = "host"
    """A tool or a kernel feature is missing (exit 3)."""
    INTERNAL = "internal"
    """policyc itself is wrong (exit 3)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that stopped a command.

    `findings` are those of wrong input, or the one that has the code of a host failure.
    """

    kind: FailureKind
    message: str
    exit_code: int
    hint: str = ""
    findings: tuple[Diagnostic, ...] = ()

    @staticmethod
    def of(error: InputError | HostError | InternalError) -> "Failure":
        """The failure that corresponds to an exception of policyc."""
        match error:
            case InputError():
                return Failure(
                    FailureKind.INPUT, str(error), error.exit_code, findings=error.findings
                )
            case CodedHostError(findings=findings):
                return Failure(FailureKind.HOST, str(error), error.exit_code, error.hint, findings)
            case HostError():
                return Failure(FailureKind.HOST, str(error), error.exit_code, error.hint)
            case InternalError():
                return Failure(FailureKind.INTERNAL, str(error), error.exit_code)
