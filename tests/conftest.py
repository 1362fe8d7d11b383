# SPDX-License-Identifier: Apache-2.0
"""Options of the whole suite, where kernel tests may be left out, and programs that they share."""

import gc
import os
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import rerun
from tests.families import mark_twins
from tests.shared import made_once
from tests.slices import mark_beyond_covering

if TYPE_CHECKING:
    from tests.kernel.support.bed import Beds


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite golden files with what is made now"
    )
    parser.addoption(
        rerun.OPTION,
        action="store_true",
        help=f"run a failed test that is marked {rerun.MARK} once more, alone",
    )


def pytest_configure(config: pytest.Config) -> None:
    rerun.register(config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and collected tests live as long as the run: the garbage collector passes them over."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before -m selects by mark
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without root the kernel tests are skipped, and say so; with root they run, and fail if need be.

    Slow tests have an hour each.
    """
    mark_beyond_covering(items)
    mark_twins(items)  # of what is left
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(3600))
    if os.geteuid() != 0:
        for item in items:
            if item.get_closest_marker("kernel"):
                item.add_marker(pytest.mark.skip(reason="loading BPF needs root"))


@pytest.fixture(scope="session", autouse=True)
def _node_objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The compiler's own node objects are compiled once a run."""
    from tests.node_objects import compiled_once

    with compiled_once(tmp_path_factory):
        yield


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """hooks.bpf.o and the objects of tests; prebuilt objects where clang is emulated."""
    from tests.kernel.support.objects import (
        FOLDER,
        compile_objects,
    )

    made = os.environ.get(FOLDER)
    return Path(made) if made else made_once(tmp_path_factory, "objects", compile_objects)


@pytest.fixture(scope="session")
def beds(objects: Path) -> "Iterator[Beds]":
    """Loaded programs that all tests of this process share."""
    from tests.kernel.support.bed import Beds

    with closing(Beds(objects)) as made:
        yield made


@pytest.fixture
def loads(request: pytest.FixtureRequest) -> Iterator[None]:
    """Loads take them from a bed, but where the test is marked `fresh`."""
    from tests.kernel.support.bed import loads_open

    if request.node.get_closest_marker("fresh"):
        yield
    else:
        with loads_open(request.getfixturevalue("beds").open):
            yield


@pytest.fixture(scope="module")
def loads_of_module(beds: "Beds") -> Iterator[None]:
    """Loads take them from a bed, for labs of a whole module."""
    from tests.kernel.support.bed import loads_open

    with loads_open(beds.open):
        yield


@pytest.fixture
def loads_of_children(loads: None, beds: "Beds") -> None:
    """So do loads of children, one at a time: the hooks are verified before any child is forked."""
    beds.prepare()
