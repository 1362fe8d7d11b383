# SPDX-License-Identifier: Apache-2.0
"""A List without its items is an error: otherwise its policies would be dropped silently."""

from pathlib import Path

import pytest

from policyc.compiler.cli.main import run

CASES = {
    "a List whose items are misspelt": (
        "apiVersion: v1\nkind: List\nitms:\n- {apiVersion: networking.k8s.io/v1}\n",
        '3:1: error[PC0202]: unknown field "itms"',
        "did you mean `items`?",
    ),
    "a NetworkPolicyList whose items begin with a capital": (
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicyList\nItems: []\nmetadata: {}\n",
        '3:1: error[PC0202]: unknown field "Items"',
        "did you mean `items`?",
    ),
    "a List without items": (
        "apiVersion: v1\nkind: List\n",
        "1:1: error[PC0311]: the List has no `items`",
        "write `items: []`",
    ),
    "a list whose items are null": (
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicyList\nitems:\n",
        "3:1: error[PC0311]: the NetworkPolicyList has no `items`",
        "write `items: []`",
    ),
    "a list inside a list": (
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: List, itmes: []}\n",
        '4:32: error[PC0202]: unknown field "itmes"',
        "did you mean `items`?",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_list_without_its_items_is_an_error(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, message, hint = CASES[case]
    path = tmp_path / "p.yaml"
    path.write_text(text)
    assert run(["eval", "-f", str(path), "10.0.0.1", "10.0.0.2", "tcp/80"]) == 2
    shown = capsys.readouterr().err
    assert f"{path}:{message}" in shown
    assert hint in shown
    assert "policyc: 1 error\n" in shown


def test_an_explicitly_empty_list_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("apiVersion: v1\nkind: List\nmetadata: {resourceVersion: ''}\nitems: []\n")
    assert run(["eval", "-f", str(path), "10.0.0.1", "10.0.0.2", "tcp/80"]) == 0
