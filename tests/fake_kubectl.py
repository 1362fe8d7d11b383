# SPDX-License-Identifier: Apache-2.0
"""A kubectl for tests: it answers from recorded JSON, and logs its arguments."""

import json
import sys
from pathlib import Path
from typing import Any

Object = dict[str, Any]
_SCRIPT = """\
#!{python} -SE
import json, pathlib, sys
folder = pathlib.Path({folder!r})
with (folder / "log").open("a") as log:
    log.write(" ".join(sys.argv[1:]) + chr(10))
given = [each for each in sys.argv[1:] if not each.startswith(("--context=", "--kubeconfig="))]
recorded = json.loads((folder / "recorded.json").read_text())
answer = recorded.get(" ".join(given[:3]) if given[1] == "--raw" else given[1])
if answer is None:
    print("Error from server (NotFound): " + given[1] + " not found", file=sys.stderr)
    sys.exit(1)
if isinstance(answer, str):
    print(answer, file=sys.stderr)
    sys.exit(1)
for option in given:
    if option.startswith("--namespace="):
        inside = [e for e in answer["items"] if e["metadata"]["namespace"] == option[12:]]
        answer = {{**answer, "items": inside}}
if given[1] == "namespaces.v1." and not given[2].startswith("-"):
    (answer,) = [e for e in answer["items"] if e["metadata"]["name"] == given[2]]
print(json.dumps(answer))
"""
FORBIDDEN = 'Error from server (Forbidden): nodes is forbidden: User "a" cannot list resource'


class FakeKubectl:
    """The program `kubectl` in a folder, and the cluster that it shows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.recorded: dict[str, Any] = {"view": {"contexts": None}}
        self._versions: dict[str, list[Object]] = {}
        for plural in ("namespaces", "nodes", "pods", "services", "serviceaccounts"):
            self.serve(f"{plural}.v1.", [])
        folder.mkdir(exist_ok=True)
        script = folder / "kubectl"
        script.write_text(_SCRIPT.format(python=sys.executable, folder=str(folder)))
        script.chmod(0o755)

    def serve(self, resource: str, objects: list[Object] | str) -> None:
        """Serve the objects of a resource such as `pods.v1.`, or fail with a message."""
        listed = {"kind": "List", "apiVersion": "v1", "items": objects}
        self.recorded[resource] = listed if isinstance(objects, list) else objects

    def serve_policies(
        self,
        version: str,
        kind: str,
        plural: str,
        objects: list[Object] | str,
        is_namespaced: bool = True,
    ) -> None:
        """Serve a kind of a group, which discovery then has."""
        group, _, number = version.rpartition("/")
        resource = {"name": plural, "kind": kind, "namespaced": is_namespaced, "verbs": ["list"]}
        status = {**resource, "name": f"{plural}/status", "verbs": ["get"]}
        self._versions.setdefault(version, []).extend([resource, status])
        self.serve(f"{plural}.{number}.{group}", objects)

    def start(self) -> None:
        """Write down what is served; call it after changes."""
        groups: dict[str, list[Object]] = {}
        for version, resources in self._versions.items():
            groups.setdefault(version.rpartition("/")[0], []).append({"groupVersion": version})
            self.recorded[f"get --raw /apis/{version}"] = {"resources": resources}
        listed = [{"name": name, "versions": versions} for name, versions in groups.items()]
        self.recorded["get --raw /apis"] = {"groups": listed}
        self.write()

    def write(self) -> None:
        """Write down the answers as they are."""
        (self.folder / "recorded.json").write_text(json.dumps(self.recorded))

    def calls(self) -> list[str]:
        """The arguments of every run."""
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []
