# SPDX-License-Identifier: Apache-2.0
"""The user's kubectl, which reaches the API server: contexts, certificates and exec plugins are its own.

Only this module runs it (docs/decisions/0064-snapshots-by-kubectl.md).
"""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

from policyc.ir.errors import HostError

VARIABLE = "POLICYC_KUBECTL"
CHUNK = 500
"""Objects in one answer of the API server, so that a large cluster is read in pieces."""
_FORBIDDEN = "(Forbidden)"


class ForbiddenError(HostError):
    """The API server refuses a request to this user."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with the options that choose a cluster; empty ones are kubectl's own defaults."""

    context: str = ""
    kubeconfig: str = ""

    def raw(self, path: str) -> dict[str, Any]:
        """The JSON document at a path of the API server. Raises HostError."""
        return self._json("get", "--raw", path)

    def objects(self, resource: str, scope: tuple[str, ...]) -> list[dict[str, Any]]:
        """All objects of a resource such as `pods.v1.`, by kubectl's options or names in `scope`.

        Raises ForbiddenError, and HostError for any other failure.
        """
        found = self._json("get", resource, *scope, "-o", "json", f"--chunk-size={CHUNK}")
        if "items" not in found:
            return [found]
        return list(found["items"] or ())

    def namespace(self) -> str:
        """The namespace of the context; `default` if it names none."""
        found = self._json("config", "view", "--minify", "-o", "json")
        for each in found.get("contexts") or ():
            return str(each.get("context", {}).get("namespace") or "default")
        return "default"

    def _json(self, *arguments: str) -> dict[str, Any]:
        command = [_program(), *self._cluster(), *arguments]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, check=False
            )
        except OSError as failure:
            raise HostError(f"kubectl cannot be run: {failure.strerror}") from failure
        said = done.stderr.decode("utf-8", "replace").strip()
        asked = " ".join(arguments[:3])
        if done.returncode:
            kind = ForbiddenError if _FORBIDDEN in said else HostError
            raise kind(f"kubectl {asked}: {_last_line(said) or f'exit code {done.returncode}'}")
        try:
            found = json.loads(done.stdout)
        except ValueError as failure:
            raise HostError(f"kubectl {asked}: the answer is not JSON") from failure
        if not isinstance(found, dict):
            raise HostError(f"kubectl {asked}: the answer is not an object")
        return found

    def _cluster(self) -> tuple[str, ...]:
        given = {"--context": self.context, "--kubeconfig": self.kubeconfig}
        return tuple(f"{option}={value}" for option, value in given.items() if value)


def _program() -> str:
    found = shutil.which(os.environ.get(VARIABLE) or "kubectl")
    if found is None:
        raise HostError(
            "kubectl is not installed; the cluster was not read",
            f"install kubectl, or set {VARIABLE} to its path",
        )
    return found


def _last_line(said: str) -> str:
    """Kubectl's verdict comes last, after lines of its log."""
    return said.splitlines()[-1] if said else ""
