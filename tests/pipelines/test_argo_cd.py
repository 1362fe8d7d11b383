# SPDX-License-Identifier: Apache-2.0
"""The Argo CD example: the Job's arguments verify the files of the ConfigMap."""

import shutil
from pathlib import Path

import pytest
import yaml

from policyc.compiler.cli.main import run

EXAMPLE = Path(__file__).parents[2] / "examples" / "argo-cd"
JOB = yaml.safe_load((EXAMPLE / "presync.yaml").read_text())
KUSTOMIZATION = yaml.safe_load((EXAMPLE / "kustomization.yaml").read_text())


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """The Job's arguments, with the ConfigMap mounted in a temporary directory."""
    (generator,) = KUSTOMIZATION["configMapGenerator"]
    spec = JOB["spec"]["template"]["spec"]
    (volume,), (container,) = spec["volumes"], spec["containers"]
    assert volume["configMap"]["name"] == generator["name"]
    (mount,) = container["volumeMounts"]
    for name in generator["files"]:
        shutil.copyfile(EXAMPLE / name, tmp_path / name)
    path = mount["mountPath"]
    return [each.replace(path, str(tmp_path), 1) for each in container["args"]]


def test_the_sync_goes_on_while_the_intents_hold(arguments: list[str]) -> None:
    assert run(arguments) == 0


def test_the_sync_stops_if_a_policy_breaks_an_intent(arguments: list[str], tmp_path: Path) -> None:
    policies = tmp_path / "policies.yaml"
    policies.write_text(policies.read_text().replace("app: orders", "app: web"))
    assert run(arguments) == 1


def test_resources_and_hooks_are_those_that_argo_cd_knows() -> None:
    assert all((EXAMPLE / name).is_file() for name in KUSTOMIZATION["resources"])
    assert JOB["metadata"]["annotations"]["argocd.argoproj.io/hook"] == "PreSync"
    wave = KUSTOMIZATION["generatorOptions"]["annotations"]["argocd.argoproj.io/sync-wave"]
    assert int(wave) < 0, "the ConfigMap is there before the Job"
    assert JOB["metadata"]["name"], "kustomize and BeforeHookCreation need a name"
    assert KUSTOMIZATION["generatorOptions"]["disableNameSuffixHash"]
    assert JOB["spec"]["backoffLimit"] == 0, "a broken intent is not tried again"
