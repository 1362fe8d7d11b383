# SPDX-License-Identifier: Apache-2.0
"""A directory of node bundles: each distinct file once, by digest, and for each node links to them.

`DIR/index.json` has the nodes and the digests of their manifests, `DIR/objects/sha256/<hex>` every
distinct file, and `DIR/nodes/<node>/...` a bundle of hard links: a copy of it needs nothing else.
"""

import errno
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from policyc.backends.ebpf_c.seeds import Data
from policyc.compiler.driver.codes import NOT_NODE_BUNDLES
from policyc.compiler.driver.compile.bundle import (
    MANIFEST,
    cannot_write,
    digest,
)
from policyc.ir.errors import InputError
from policyc.ir.spans import Span

INDEX = "index.json"
INDEX_SCHEMA = "policyc.dev/node-bundles/v1"
NODES = "nodes"
OBJECTS = Path("objects") / "sha256"
_CANNOT_LINK = frozenset({errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS})
"""Too many links to one file, or a file system without links: then it is a copy."""


@dataclass(frozen=True, slots=True)
class NodeBundle:
    """One node's bundle: path in it -> digest of the file. `pods` are its own and the unplaced ones."""

    node: str
    files: Mapping[str, str]
    pods: int
    rows: int


class NodeStore:
    """The directory under construction; `out` is its name in messages."""

    def __init__(self, work: Path, out: Path) -> None:
        self._work = work
        self._out = out
        self._known: set[str] = set()
        with self._failures():
            (work / OBJECTS).mkdir(parents=True)
            (work / NODES).mkdir()

    @property
    def n_objects(self) -> int:
        """The number of distinct files."""
        return len(self._known)

    def add(self, data: Data) -> str:
        """Store a file's content; returns its digest."""
        name = digest(data)
        if name not in self._known:
            with self._failures():
                (self._work / OBJECTS / name).write_bytes(data)
            self._known.add(name)
        return name

    def link(self, bundle: NodeBundle) -> None:
        """Make the bundle's directory; its files were added before."""
        folder = self._work / NODES / bundle.node
        with self._failures():
            folder.mkdir()
            for path, name in bundle.files.items():
                (folder / path).parent.mkdir(exist_ok=True)
                _link(self._work / OBJECTS / name, folder / path)

    def finish(self, bundles: Iterable[NodeBundle]) -> None:
        """Write the index."""
        index = {
            "schema": INDEX_SCHEMA,
            "policyc": metadata.version("policyc"),
            "nodes": {
                bundle.node: {"bundle": f"{NODES}/{bundle.node}", "digest": bundle.files[MANIFEST]}
                for bundle in bundles
            },
        }
        text = json.dumps(index, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        with self._failures():
            (self._work / INDEX).write_text(text, encoding="utf-8")

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as failure:
            raise cannot_write(self._out, failure) from failure


def check_node_bundles(out: Path) -> None:
    """Refuse to replace a directory that is not one of node bundles, before any work is done."""
    try:
        if not out.exists() and not out.is_symlink():
            return
    except OSError as failure:
        raise cannot_write(out, failure) from failure
    try:
        known = json.loads((out / INDEX).read_text("utf-8"))["schema"]
    except (OSError, ValueError, KeyError, TypeError):
        known = None
    if known != INDEX_SCHEMA:
        finding = NOT_NODE_BUNDLES.at(Span(str(out), 0, 0), target=out)
        raise InputError(
            [finding.help("name a path that does not exist, or an older one of these")]
        )


def _link(target: Path, link: Path) -> None:
    try:
        link.hardlink_to(target)
    except OSError as failure:
        if failure.errno not in _CANNOT_LINK:
            raise
        shutil.copyfile(target, link)
