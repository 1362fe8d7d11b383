# SPDX-License-Identifier: Apache-2.0
"""The fields of objects that a snapshot keeps, where the API has several forms of one thing."""

import json
from typing import Any

import pytest
import yaml

from policyc.compiler.driver.snapshot.kept import is_copy, kept
from policyc.compiler.driver.snapshot.yaml_text import text_of

STORE, API = "crd.projectcalico.org/v1", "projectcalico.org/v3"


def test_sidecars_keep_their_ports_and_other_init_containers_are_left_out() -> None:
    port = {"name": "p", "containerPort": 1, "hostPort": 2}
    sidecar = {"name": "s", "restartPolicy": "Always", "ports": [port], "image": "i"}
    once = {"name": "o", "ports": [port]}
    pod = {
        "metadata": {"name": "a"},
        "spec": {"hostNetwork": True, "initContainers": [sidecar, once]},
    }
    ports = [{"name": "p", "containerPort": 1}]
    assert kept(pod, "v1", "Pod")["spec"] == {
        "hostNetwork": True,
        "initContainers": [{"name": "s", "restartPolicy": "Always", "ports": ports}],
    }


def test_annotations_of_policyc_alone_are_kept() -> None:
    notes = {"policyc.dev/x": "1", "example.org/policyc.dev/y": "2"}
    namespace = {"metadata": {"name": "a", "annotations": notes}}
    found = kept(namespace, "v1", "Namespace")
    assert found["metadata"] == {"name": "a", "annotations": {"policyc.dev/x": "1"}}


def test_labels_of_calico_s_store_come_out_of_their_annotation() -> None:
    stored = json.dumps({"uid": "u", "labels": {"role": "db"}, "annotations": {"x": "y"}})
    value = {
        "metadata": {"name": "a", "annotations": {"projectcalico.org/metadata": stored}},
        "spec": {"nets": ["10.0.0.0/8"]},
    }
    assert kept(value, STORE, "GlobalNetworkSet") == {
        "apiVersion": STORE,
        "kind": "GlobalNetworkSet",
        "metadata": {"name": "a", "labels": {"role": "db"}},
        "spec": {"nets": ["10.0.0.0/8"]},
    }


@pytest.mark.parametrize(
    ("version", "name", "expected"),
    [
        (API, "knp.default.web", True),
        (API, "web", False),
        ("networking.k8s.io/v1", "knp.default.a", False),
    ],
)
def test_calico_s_copies_of_network_policies_are_no_policies(
    version: str, name: str, expected: bool
) -> None:
    assert is_copy({"metadata": {"name": name}}, version) is expected


def test_rules_of_a_policy_stay_as_they_are_with_empty_selectors() -> None:
    value: dict[str, Any] = {
        "metadata": {"name": "a"},
        "specs": [{"endpointSelector": {}, "ingress": [{}]}, {"egress": None}],
        "status": {"x": 1},
    }
    found = kept(value, "cilium.io/v2", "CiliumNetworkPolicy")
    assert found["specs"] == value["specs"]
    assert "status" not in found


@pytest.mark.parametrize(
    "text", ["1e3", "on", "0o7", "~", "", "a: b", "x #y", "é\n", "1_000", "web-1", "N"]
)
def test_strings_are_strings_for_every_reader(text: str) -> None:
    written = text_of([{"a": text, "b": 1, "c": True}])
    assert yaml.safe_load(written.split("---\n")[1]) == {"a": text, "b": 1, "c": True}
    is_word = text == "web-1"
    assert ('a: "' in written) is not is_word
    assert written.isascii()
