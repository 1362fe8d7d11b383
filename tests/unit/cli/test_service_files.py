# SPDX-License-Identifier: Apache-2.0
"""Files of Services for a node: YAML with places, JSON without PyYAML."""

import subprocess
import sys
from pathlib import Path

import pytest

from policyc.compiler.cli.service_files import read_objects
from policyc.runtime.errors import InputError
from policyc.runtime.services.all_objects import read_services
from policyc.runtime.services.services import OwnNode

YAML = """\
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web, creationTimestamp: 2024-05-01T00:00:00Z}
spec:
  clusterIP: 10.96.0.1
  ports:
    - port: 80
---
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  namespace: shop
  name: web-1
  labels: {kubernetes.io/service-name: web}
addressType: IPv4
ports: [{port: 8080}]
endpoints:
  - addresses: ["10.0.0.1"]
"""
JSON = (
    '{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},'
    ' "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80}]}}'
)


def written(folder: Path, text: str, name: str = "services.yaml") -> tuple[Path]:
    (folder / name).write_text(text)
    return (folder / name,)


def test_documents_of_a_yaml_file(tmp_path: Path) -> None:
    (found,) = read_services(read_objects(written(tmp_path, YAML)), OwnNode("node-1"))
    assert [str(each.address) for each in found.backends] == ["10.0.0.1"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("port: 80\n", "port: 80000\n", r"services.yaml:7:13: \$.spec.ports\[0\].port: expected"),
        ("clusterIP:", "clusterip:", r"services.yaml:5:14: \$.spec.clusterip: unknown field"),
        ("kind: Service\n", "kind: Service\nkind: Service\n", r"services.yaml:3:1: the key `kind`"),
        ("metadata: {", "metadata: [", r"services.yaml:3:\d+: not YAML"),
    ],
)
def test_a_mistake_is_shown_with_line_and_column(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_services(read_objects(written(tmp_path, YAML.replace(old, new, 1))), OwnNode("node-1"))


def test_a_missing_services_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_objects((tmp_path / "none.yaml",))


def test_json_needs_no_yaml(tmp_path: Path) -> None:
    (file,) = written(tmp_path, JSON, "services.json")
    code = (
        "import sys; sys.modules['yaml'] = None\n"
        "from pathlib import Path\n"
        "from policyc.compiler.cli.service_files import read_objects\n"
        f"print(len(read_objects((Path({str(file)!r}),))))\n"
        "try: read_objects((Path('x.yaml'),))\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\nHostError x.yaml: YAML needs PyYAML, which is not installed\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("&a [*a]", "an alias (`*name`) refers to 1:1: write its value instead"),
        ("&a {x: *a}", "an alias"),
        ("a: &a [1]\nb: *a", "an alias (`*name`) refers to 1:4: write its value instead"),
        ("port: !!int abc", ":1:7: YAML reads `abc` as another type"),
        ("when: 2024-13-45", ":1:7: YAML reads `2024-13-45` as another type"),
        ("a: " + "9" * 5000, ":1:4: YAML reads `9999"),
        ("[" * 5000 + "]" * 5000, "nested too deeply"),
    ],
    ids=["itself", "itself in a mapping", "alias", "no number", "no date", "digits", "depth"],
)
def test_an_invalid_object_is_reported_with_its_position(
    tmp_path: Path, text: str, told: str
) -> None:
    with pytest.raises(InputError) as error:
        read_objects(written(tmp_path, text))
    assert told in str(error.value)


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a": ' + "9" * 5000 + "}"], ids=["deep", "long"])
def test_json_that_python_cannot_read_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"services\.json"):
        read_objects(written(tmp_path, text, "services.json"))
