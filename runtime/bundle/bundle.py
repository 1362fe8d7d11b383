# SPDX-License-Identifier: Apache-2.0
"""Reads a bundle (docs/bundle-format.md), and believes nothing that its digests do not cover.

Takes a directory, gives a frozen `Bundle`, and touches no kernel. Every error is an `InputError`.
"""

import hashlib
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from policyc.runtime.bundle import regular_file
from policyc.runtime.bundle.json_value import (
    JsonValue,
    parsed,
)
from policyc.runtime.errors import InputError

SCHEMA = "policyc.dev/bundle/v1"
MANIFEST = "manifest.json"
POLICY_OBJECT = "policy.bpf.o"
HOOKS_OBJECT = "hooks.bpf.o"
SOCKETS_OBJECT = "sockets.bpf.o"
BYPASS_OBJECT = "bypass.bpf.o"
XDP_OBJECT = "xdp.bpf.o"
SLAVES_OBJECT = "slaves.bpf.o"
PREROUTING_OBJECT = "prerouting.bpf.o"
_NEEDED = (POLICY_OBJECT, HOOKS_OBJECT, "plan.json", "classifier.json", "rules.json")

DENY_OWN_NODE = "deny-own-node"
"""The action that also denies what a pod's own node generates (`ir/policy.py: Action`)."""
MOST_BYTES = 1 << 30
"""The limit for all files of a bundle together."""
WORD = 4  # bytes; seeds consist of little-endian 32-bit words


@dataclass(frozen=True, slots=True)
class MapSpec:
    """A map as the manifest declares it; the seed of an array has no keys (`key_words` 0)."""

    name: str
    object: str
    kind: str
    entries: int
    seed: str | None
    key_words: int
    value_words: int

    @property
    def seed_entry_size(self) -> int:
        """Bytes of one entry of the seed."""
        return (self.key_words + self.value_words) * WORD


@dataclass(frozen=True)
class Bundle:
    """A bundle whose files exist, with the digests that its manifest states."""

    path: Path
    digest: str  # of the manifest, and through it of every file
    policyc: str
    minimum_kernel: tuple[int, int]
    maps: tuple[MapSpec, ...]
    digests: dict[str, str]
    node: str = ""  # the only node whose pods have rows; empty: any node

    @cached_property
    def plan(self) -> dict[str, Any]:
        """plan.json: sizes, layouts, reserved ids."""
        return self._json("plan.json").object()

    @property
    def endpoints(self) -> int:
        """How many endpoints of the cluster a node can distinguish, including one id for "none"."""
        found = self.plan.get("endpoints")
        if not isinstance(found, int) or found < 1:
            raise InputError(f"{self.path / 'plan.json'}: $.endpoints: expected a number above 0")
        return found

    @cached_property
    def classifier(self) -> dict[str, Any]:
        """classifier.json: places endpoints that the compiler has not seen."""
        return self._json("classifier.json").object()

    @cached_property
    def rules(self) -> tuple[dict[str, Any], ...]:
        """rules.json: one entry per rule, ordered by id."""
        value = self._json("rules.json")
        if isinstance(value.raw, dict) and "rules" in value.raw:
            value = value.members()["rules"]
        return tuple(item.object() for item in value.items())

    @cached_property
    def binds_own_node(self) -> bool:
        """Whether some rule also denies what a pod's own node generates (semantics A22)."""
        return any(rule.get("action") == DENY_OWN_NODE for rule in self.rules)

    def map(self, name: str) -> MapSpec:
        """The map of that name."""
        for spec in self.maps:
            if spec.name == name:
                return spec
        raise InputError(f"{self.path / MANIFEST}: $.maps: there is no map `{name}`")

    def seed(self, name: str) -> bytes:
        """The seed of a map, whole entries; empty for a map without a seed."""
        spec = self.map(name)
        return _read(self.path / spec.seed) if spec.seed else b""

    def seed_words(self, name: str) -> tuple[int, ...]:
        """The seed of an array as its words."""
        data = self.seed(name)
        return struct.unpack(f"<{len(data) // WORD}I", data)

    def _json(self, name: str) -> JsonValue:
        return _parsed(_read(self.path / name), self.path / name)


def read_bundle(path: Path) -> Bundle:
    """Read the manifest, and check every file against it."""
    manifest_path = path / MANIFEST
    if not path.is_dir():
        raise InputError(
            f"{path}: is not a directory", "give the directory that `policyc compile` wrote"
        )
    if not manifest_path.exists():
        raise InputError(
            f"{path}: has no {MANIFEST}", "give the directory that `policyc compile` wrote"
        )
    raw = _read(manifest_path)
    manifest = _parsed(raw, manifest_path)
    members = manifest.members()
    _check_schema(manifest, members)
    for name in ("minimum_kernel", "maps", "files"):
        if name not in members:
            manifest.fail(f"the field `{name}` is missing")
    digests = _check_files(path, members["files"])
    return Bundle(
        path=path,
        digest=hashlib.sha256(raw).hexdigest(),
        policyc=members["policyc"].text() if "policyc" in members else "",
        minimum_kernel=_kernel_version(members["minimum_kernel"]),
        maps=tuple(_map_spec(item, path, digests) for item in members["maps"].items()),
        digests=digests,
        node=members["node"].text() if "node" in members else "",
    )


def _check_schema(manifest: JsonValue, members: dict[str, JsonValue]) -> None:
    if "schema" not in members:
        manifest.fail("the field `schema` is missing")
    schema = members["schema"].text()
    if schema != SCHEMA:
        members["schema"].fail(
            f"expected {SCHEMA!r}, found {schema!r}",
            "the bundle is from another release of policyc; compile it again with this one",
        )


def _check_files(path: Path, files: JsonValue) -> dict[str, str]:
    digests: dict[str, str] = {}
    left = MOST_BYTES
    for name, value in files.members().items():
        digests[name] = value.text().removeprefix("sha256").lstrip(" :")
        if not _is_name(name):
            value.fail(f"the file {name!r} has an invalid name")
        if Path(name).is_absolute() or ".." in Path(name).parts:
            value.fail(f"the file {name!r} is outside the bundle")
        try:
            found, size = _digest(path / name, left)
            left -= size
        except OSError as error:
            value.fail(f"the file {name!r} cannot be read: {error.strerror}")
        if found != digests[name]:
            value.fail(
                f"the file {name!r} has sha256 {found}, expected {digests[name]}",
                "the file changed or was truncated after `policyc compile` wrote it",
            )
    for name in _NEEDED:
        if name not in digests:
            files.fail(f"the file `{name}` is missing")
    return digests


def _digest(path: Path, most: int) -> tuple[str, int]:
    """The SHA-256 of a file, and its size."""
    hashed, size = hashlib.sha256(), 0
    for piece in regular_file.pieces(path, most):
        hashed.update(piece)
        size += len(piece)
    return hashed.hexdigest(), size


def _read(path: Path) -> bytes:
    try:
        return regular_file.read(path, MOST_BYTES)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def _parsed(raw: bytes, path: Path) -> JsonValue:
    try:
        return parsed(raw.decode(), path)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text") from error


def _is_name(name: str) -> bool:
    """Whether a file in a bundle may have this name."""
    try:
        return bool(name) and b"\0" not in name.encode()
    except UnicodeEncodeError:
        return False


def _kernel_version(value: JsonValue) -> tuple[int, int]:
    major, _, minor = value.text().partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        value.fail(f"expected a kernel version as 6.1, found {value.raw!r}")
    return int(major), int(minor)


def _map_spec(value: JsonValue, path: Path, digests: dict[str, str]) -> MapSpec:
    fields = value.members()
    for name in ("name", "object", "kind", "entries"):
        if name not in fields:
            value.fail(f"the field `{name}` is missing")

    def words(name: str) -> int:
        return fields[name].number(0, 64) if name in fields else 0

    has_seed = "seed" in fields and fields["seed"].raw is not None
    spec = MapSpec(
        name=fields["name"].text(),
        object=fields["object"].text(),
        kind=fields["kind"].text(),
        entries=fields["entries"].number(0, 2**32 - 1),
        seed=fields["seed"].text() if has_seed else None,
        key_words=words("key_words"),
        value_words=words("value_words"),
    )
    if spec.seed is not None:
        _check_seed(value, spec, path, digests)
    return spec


def _check_seed(value: JsonValue, spec: MapSpec, path: Path, digests: dict[str, str]) -> None:
    if spec.seed not in digests:
        value.fail(f"the seed {spec.seed!r} is not among `$.files`")
    size = (path / spec.seed).stat().st_size
    if spec.seed_entry_size == 0 or size % spec.seed_entry_size:
        value.fail(f"the seed has {size} bytes, not a multiple of {spec.seed_entry_size}")
    if size // spec.seed_entry_size > spec.entries:
        value.fail(f"the seed has {size // spec.seed_entry_size} entries, the map {spec.entries}")
