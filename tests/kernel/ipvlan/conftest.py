# SPDX-License-Identifier: Apache-2.0
"""One lab for the tests of a file; each test loads what it needs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.ipvlan import bed
from tests.kernel.ipvlan.emulated import emulated


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, loads_of_module: None) -> Iterator[bed.Slaves]:
    """Pods on ipvlan slaves, or on what stands for them; nothing is loaded."""
    make = bed.slaves if bed.IN_GUEST else emulated
    with make(tmp_path_factory.mktemp("slaves")) as made:
        yield made


@pytest.fixture(scope="session")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle with the policies of the bed."""
    return bed.bundle(tmp_path_factory.mktemp("open"), bed.POLICIES, "open")


@pytest.fixture(scope="module")
def loaded(lab: bed.Slaves, opened: Path) -> Iterator[None]:
    """The policies of the bed are in force."""
    lab.load(opened)
    yield
    lab.unload()


@pytest.fixture(scope="session")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that denies everything."""
    return bed.bundle(tmp_path_factory.mktemp("closed"), bed.CLOSED, "closed")
