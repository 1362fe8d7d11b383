# SPDX-License-Identifier: Apache-2.0
"""Errors on a node that a user can correct.

There are two kinds: the input is wrong (`InputError`, exit 2), or this host cannot do it (`HostError`,
exit 3). Any other exception is a bug of ours.
"""


class NodeError(Exception):
    """A message for the user, a hint what to do, and the exit code of the command."""

    exit_code = 3

    def __init__(self, message: str, hint: str = "", detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail  # long text, shown only on request: a verifier log


class InputError(NodeError):
    """The bundle, the endpoints file or the usage is wrong."""

    exit_code = 2


class HostError(NodeError):
    """The kernel, a tool or a privilege is missing."""

    exit_code = 3


class BusyError(HostError):
    """Another command is changing the node; the user may try again."""

    def __init__(self, doing: str) -> None:
        super().__init__(
            f"another `policyc node` command is changing this node: {doing}",
            "try again shortly, or with a longer --wait",
        )
        self.doing = doing
