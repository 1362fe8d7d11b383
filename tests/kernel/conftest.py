# SPDX-License-Identifier: Apache-2.0
"""A node in its own network namespace with its own bpffs. Both end with the test.

The namespaces have no names and the mount is private, so a crash leaves nothing behind.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from policyc.runtime.kernel import features
from policyc.runtime.kernel.features import Feature
from tests.kernel.support.follower import Follower
from tests.kernel.support.node_under_test import NodeUnderTest
from tests.kernel.support.objects import (
    DATAPATH,
    HERE,
    PICKS_OBJECT,
    Edits,
    compile_c,
    headers_of,
)
from tests.kernel.support.service_wire import ServiceWire
from tests.kernel.support.table_policy import ANY
from tests.kernel.support.two_nodes import TwoNodes
from tests.kernel_corpus.surroundings import own_bpffs, own_network
from tests.shared import made_once


@pytest.fixture(params=("best", "open files"))
def listing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How sockets are listed: by the best way of this kernel, and by open files."""
    if request.param == "open files":
        without = Feature("none", "6.1", lambda: False)
        monkeypatch.setattr(features, "MAP_ITERATORS", without)


@pytest.fixture(scope="session")
def picks_program(objects: Path) -> Path:
    """An object that chooses endpoints many times in a run (picks.py)."""
    return objects / PICKS_OBJECT


@pytest.fixture
def node(loads: None, objects: Path, tmp_path: Path) -> Iterator[NodeUnderTest]:
    """Pods a and b on this node, c on another, all isolated; nothing is loaded yet."""
    with own_network(), own_bpffs(tmp_path / "bpffs") as bpffs:
        under_test = NodeUnderTest(tmp_path, objects, bpffs)
        under_test.make_devices()
        try:
            yield under_test
        finally:
            under_test.close()


@pytest.fixture
def lab(loads: None, tmp_path: Path) -> Iterator[TwoNodes]:
    """Two nodes with a pod each, and two external clients. Nothing is loaded yet."""
    with ExitStack() as owned:
        made = TwoNodes(tmp_path, owned)
        yield made
        for node in made.loaded:
            made.unload(node)


@pytest.fixture
def one_cpu() -> Iterator[None]:
    """What a program keeps for each CPU is of this one."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.fixture
def wire(node: NodeUnderTest) -> Iterator[ServiceWire]:
    """The node's pods with stacks of their own."""
    with ExitStack() as owned:
        owned.callback(node.unload)
        yield ServiceWire(node, owned)


@pytest.fixture
def follower(node: NodeUnderTest, tmp_path: Path) -> Iterator[Follower]:
    """Follows a watch on a loaded node, whose pod a may reach the others and the world."""
    node.load(node.policy().allow("a", "c", ANY).allow("a", "b", ANY).allow("a", "world", ANY))
    made = Follower(node, tmp_path)
    yield made
    made.kill()


@pytest.fixture(scope="session")
def compiled_variants(
    objects: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Edits], Path]:
    """Folders with another pair of objects; each is compiled once, which takes seconds.

    An object that has none of the headers is as before.
    """

    def compiled(edits: Edits, target: Path) -> None:
        source = tmp_path_factory.mktemp("variant") / "source"
        shutil.copytree(DATAPATH, source, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
        for file, (old, new) in edits.items():
            text = (source / file).read_text()
            assert old in text, f"{file} has no {old!r}"
            (source / file).write_text(text.replace(old, new))
        shutil.copy(HERE / "policy.bpf.c", source / "policy.bpf.c")
        for name in ("hooks.bpf", "policy.bpf"):
            if edits.keys() & headers_of(source / f"{name}.c"):
                compile_c(source / f"{name}.c", target / f"{name}.o", f"-I{source}")
            else:
                shutil.copy(objects / f"{name}.o", target / f"{name}.o")

    def once(edits: Edits) -> Path:
        name = hashlib.sha256(repr(edits).encode()).hexdigest()
        return made_once(tmp_path_factory, f"variant-{name}", partial(compiled, edits))

    return once


@pytest.fixture
def variant(
    compiled_variants: Callable[[Edits], Path], tmp_path: Path
) -> Callable[[str, Edits], Path]:
    """Another pair of objects under a name, from headers edited as {"ct_map.h": (old, new)}."""

    def make(name: str, edits: Edits) -> Path:
        return Path(shutil.copytree(compiled_variants(edits), tmp_path / name))

    return make
