# SPDX-License-Identifier: Apache-2.0
"""`policyc diff` gives the same answer wherever its work is done: here, in processes, on Dask."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from policyc.compiler.cli.main import run
from tests.dask_cluster import dask_cluster

SHOP = Path(__file__).parents[2] / "examples" / "online-shop"


@pytest.fixture(scope="module")
def dask() -> Iterator[str]:
    with dask_cluster(2) as address:
        yield address


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shop's policies with another port, and a namespace less."""
    folder = tmp_path_factory.mktemp("changed")
    for file in (SHOP / "policies").glob("*.yaml"):
        text = file.read_text().replace("port: 5432", "port: 5433")
        if file.stem != "monitoring":
            (folder / file.name).write_text(text)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "universe"),
    [
        pytest.param("processes", "symbolic", marks=pytest.mark.slow),
        ("dask", "cluster"),
        pytest.param("processes", "cluster", marks=pytest.mark.slow),
        pytest.param("dask", "symbolic", marks=pytest.mark.slow),
    ],
)
def test_diff_gives_the_same_answer_in_processes_and_on_dask(
    universe: str, where: str, changed: Path, dask: str, tmp_path: Path
) -> None:
    command = ["diff", str(SHOP / "policies"), str(changed), "--format", "json"]
    command += ["--cluster", str(SHOP / "cluster"), "--universe", universe]
    elsewhere = ["--jobs", "2"] if where == "processes" else ["--executor", dask]
    answers = []
    for number, options in enumerate(([], elsewhere)):
        file = tmp_path / f"{number}.json"
        assert run([*command, *options, "-o", str(file)]) == 1
        answers.append(json.loads(file.read_text()))
    assert answers[0] == answers[1]
    assert answers[0]["result"] == "both"
    assert len(answers[0]["differences"]) > 3
