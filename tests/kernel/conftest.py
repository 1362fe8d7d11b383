# SPDX-License-Identifier: Apache-2.0
"""A node in a network namespace of its own, with a bpffs of its own, that goes away with the test.

The namespaces have no names and the mount is private: what is left after a crash is nothing.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from policyc.runtime.bundle import HOOKS_OBJECT
from tests.kernel.bed import WIPE_OBJECT, Beds, loads_open
from tests.kernel.follower import Follower
from tests.kernel.node_under_test import NodeUnderTest
from tests.kernel.service_wire import ServiceWire
from tests.kernel.table_policy import ANY
from tests.kernel.two_nodes import TwoNodes
from tests.kernel_corpus.surroundings import own_bpffs, own_network

HERE = Path(__file__).parent
DATAPATH = HERE.parents[1] / "runtime" / "datapath"
PREBUILT = HERE.parents[1] / "backends" / "llvm" / "prebuilt"
PICKS_OBJECT = "picks.bpf.o"
OBJECTS = "POLICYC_TEST_OBJECTS"
"""A folder with what `compile_objects` makes."""
CLANG = [
    "clang", "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-fno-strict-aliasing", "-Wall", "-Wextra",
    "-Werror", f"-ffile-prefix-map={DATAPATH.parents[1]}=.", f"-I{DATAPATH}",
    f"-idirafter/usr/include/{os.uname().machine}-linux-gnu",
]  # fmt: skip


def compile_c(source: Path, target: Path, *flags: str) -> None:
    """Compile as the compiler driver does: BTF stays, debug information goes."""
    subprocess.run([*CLANG, *flags, "-c", str(source), "-o", str(target)], check=True)
    subprocess.run(["llvm-strip", "-g", str(target)], check=True)


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """hooks.bpf.o and the tests' own; where clang is emulated, those made before."""
    made = os.environ.get(OBJECTS)
    return Path(made) if made else compile_objects(tmp_path_factory.mktemp("objects"))


def compile_objects(folder: Path) -> Path:
    """Into a folder that is there."""
    compile_c(DATAPATH / "hooks.bpf.c", folder / "hooks.bpf.o")
    compile_c(HERE / "policy.bpf.c", folder / "policy.bpf.o")
    compile_c(HERE / "wipe.bpf.c", folder / WIPE_OBJECT)
    compile_c(HERE / "picks.bpf.c", folder / PICKS_OBJECT)
    return folder


@pytest.fixture(scope="session")
def beds(objects: Path) -> Iterator[Beds]:
    """What is verified once for all tests of this process."""
    with closing(Beds(objects, (PREBUILT / HOOKS_OBJECT,))) as made:
        yield made


@pytest.fixture
def loads(request: pytest.FixtureRequest) -> Iterator[None]:
    """Loads take them from a bed, but where the test is marked `fresh`."""
    if request.node.get_closest_marker("fresh"):
        yield
    else:
        with loads_open(request.getfixturevalue("beds").open):
            yield


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
    """Two nodes with a pod each, and two clients outside; nothing is loaded yet."""
    with ExitStack() as owned:
        made = TwoNodes(tmp_path, owned)
        yield made
        for node in made.loaded:
            made.unload(node)


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


@pytest.fixture
def variant(objects: Path, tmp_path: Path) -> Callable[[str, dict[str, tuple[str, str]]], Path]:
    """Compiles another pair of objects, from headers edited as {"ct_map.h": (old, new)}."""

    def make(name: str, edits: dict[str, tuple[str, str]]) -> Path:
        source = tmp_path / f"{name}-source"
        shutil.copytree(DATAPATH, source, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
        for file, (old, new) in edits.items():
            text = (source / file).read_text()
            assert old in text, f"{file} has no {old!r}"
            (source / file).write_text(text.replace(old, new))
        target = tmp_path / name
        target.mkdir()
        include = f"-I{source}"
        compile_c(source / "hooks.bpf.c", target / "hooks.bpf.o", include)
        shutil.copy(HERE / "policy.bpf.c", source / "policy.bpf.c")
        compile_c(source / "policy.bpf.c", target / "policy.bpf.o", include)
        return target

    return make
