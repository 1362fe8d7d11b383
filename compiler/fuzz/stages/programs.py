# SPDX-License-Identifier: Apache-2.0
"""The inputs of the policy program on a node: objects, map contents, and each end's class.

The bundle is written and read as a node reads it. The node's own tables place endpoints, also endpoints
that the compiler was not given.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from policyc.backends.ebpf_c.seeds import Seed
from policyc.compiler.driver.compile.bundle import (
    MANIFEST,
    Provenance,
    digest,
    encoded,
    manifest_file,
    node_texts,
    seed_files,
)
from policyc.compiler.driver.compile.emission import (
    Emitted,
    emit_all,
)
from policyc.compiler.driver.compile.json_lines import json_text
from policyc.compiler.driver.compile.target import (
    Backend,
    Target,
)
from policyc.compiler.fuzz.stages.answers import (
    Answer,
    Question,
    RuleJson,
    of_json,
)
from policyc.compiler.fuzz.stages.scenario import Scenario
from policyc.compiler.fuzz.strategies.draw import LAYOUTS
from policyc.ir.errors import InternalError
from policyc.ir.policy import Action, Direction
from policyc.ir.semantics import as_seen
from policyc.ir.universe import Address, End, Endpoint, Node, end_address
from policyc.runtime.bundle.bundle import (
    Bundle,
    read_bundle,
)
from policyc.runtime.endpoints.endpoints import (
    ContainerPort,
    EndpointRecord,
    NodeRecord,
)
from policyc.runtime.endpoints.placement import Placement
from policyc.runtime.policy.tables import PolicyTables
from policyc.verifier.bytecode.btf import Btf
from policyc.verifier.bytecode.definitions import MapDefinition

CLASSES = "pc_class"
Contents = Mapping[str, Mapping[bytes, bytes]]
"""Map contents by map name: key and value."""


@dataclass
class Setting:
    """A scenario on one node. The objects of all backends share its tables."""

    scenario: Scenario
    emitted: Emitted = field(init=False)
    tables: PolicyTables = field(init=False)
    rules: Sequence[RuleJson] = field(init=False)
    _objects: dict[Backend, bytes] = field(default_factory=dict)
    _classes: dict[object, int] = field(default_factory=dict)
    _places: list[Placement] = field(default_factory=list)
    _written: dict[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        budgets = LAYOUTS[self.scenario.draw.layout]
        self.emitted = emit_all(self.scenario.decided_early.decision, budgets)
        self.tables = _tables(self.scenario, self.emitted)
        for endpoint in self.scenario.universe.endpoints:
            if not endpoint.host_network and endpoint.addresses:
                self._put(endpoint.qualified_name, self.tables.place(_record(endpoint)))
        for question in self.scenario.questions:
            self.peer_class(question)
        refused = self.tables.refused()
        if refused:
            raise InternalError(f"the node's tables have no room for {', '.join(refused)}")
        self.rules = (*self.tables.bundle.rules, *self.tables.new_rules())

    def program(self, backend: Backend) -> bytes:
        """The program of this backend, compiled once for all stages that run it."""
        if backend not in self._objects:
            emitted = self.emitted
            self._objects[backend] = Target(backend).policy_object(
                emitted.layout.verdicts, emitted.plan, emitted.c, emitted.seeds, None
            )
        return self._objects[backend]

    def subject_class(self, question: Question) -> int:
        """The class of the pod whose policies decide."""
        subject = _subject(question)
        return self._classes[subject.qualified_name]

    def peer_class(self, question: Question) -> int:
        """The class of the peer; 0 if it is only an address."""
        if not question.is_decided:
            return 0
        peer = as_seen(_peer(question))
        match peer:
            case Endpoint():
                return self._classes[peer.qualified_name]
            case Node():
                address = _address(peer, question.flow.family)
                is_local = bool(peer.name) and peer.name == _subject(question).node
                key = (peer.name, address, is_local)
                if key not in self._classes:
                    record = NodeRecord(peer.name, dict(peer.labels), peer.addresses)
                    found = self.tables.place_node(record, address, is_local)
                    if found is None:
                        self._classes[key] = 0
                    else:
                        self._put(key, found)
                return self._classes[key]
            case _:
                return 0

    def _put(self, key: object, place: Placement) -> None:
        self._places.append(place)
        self._classes[key] = len(self._places)
        for write in self.tables.drain_writes():
            self._written[write.map_name, write.index] = write.words

    def contents(self, maps: Mapping[str, MapDefinition]) -> Contents:
        """The initial contents of a program's maps: seeds, the node's entries, classes."""
        found: dict[str, dict[bytes, bytes]] = {}
        for seed in self.emitted.seeds:
            if seed.map_name in maps and seed.data:
                found[seed.map_name] = dict(_entries(seed, maps[seed.map_name]))
        for (name, index), words in self._written.items():
            if name in maps:
                value = struct.pack(f"<{len(words)}I", *words)
                size = maps[name].value_size
                found.setdefault(name, {})[struct.pack("<I", index)] = value.ljust(size, b"\0")
        if CLASSES in maps:
            size = maps[CLASSES].value_size
            found[CLASSES] = {
                struct.pack("<I", number): _class(place, self.tables.class_fields, size)
                for number, place in enumerate(self._places, start=1)
            }
        return found

    def answer(self, rule: int, is_passed: bool) -> Answer:
        """The answer of a program that counted this rule and passed the packet, or dropped it."""
        said = of_json(self.rules, rule)
        if said.action.is_deny is not is_passed or (
            "limit" in self.rules[rule] and not said.action.is_deny
        ):  # a connection over a rule's limit is dropped, though the rule allows it
            return said
        return Answer(Action.ALLOW if is_passed else Action.DENY, said.decider)


def _class(place: Placement, fields: Sequence[str], size: int) -> bytes:
    return struct.pack(f"<{len(fields)}I", *(place[name] for name in fields)).ljust(size, b"\0")


def _entries(seed: Seed, definition: MapDefinition) -> Iterator[tuple[bytes, bytes]]:
    data, n_key = bytes(seed.data), seed.key_bytes
    size = definition.value_size + n_key
    for number, at in enumerate(range(0, len(data), size)):
        entry = data[at : at + size]
        yield (entry[:n_key] if n_key else struct.pack("<I", number)), entry[n_key:]


def _tables(scenario: Scenario, emitted: Emitted) -> PolicyTables:
    """The bundle's tables as a node reads them, without the hooks."""
    texts = node_texts(scenario.decided_early.decision)
    files = {
        "plan.json": json_text(emitted.plan.to_json()).encode(),
        **{name: encoded(text) for name, text in texts.items()},
        **{name: bytes(data) for name, data in seed_files(emitted).items()},
        "policy.bpf.o": b"",
        "hooks.bpf.o": b"",
    }
    digests = {name: digest(data) for name, data in files.items()}
    files[MANIFEST] = manifest_file(digests, emitted, Provenance((), {}, {}), {})
    with TemporaryDirectory(prefix="policyc-fuzz-") as folder:
        for name, data in files.items():
            path = Path(folder, name)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        return PolicyTables(_held(read_bundle(Path(folder))))


@dataclass(frozen=True)
class _HeldBundle(Bundle):
    """A bundle whose files were read, and may be deleted."""

    seeds: Mapping[str, bytes] = field(default_factory=dict)

    def seed(self, name: str) -> bytes:
        """The seed of a map."""
        return self.seeds[name]


def _held(bundle: Bundle) -> _HeldBundle:
    given = {each.name: getattr(bundle, each.name) for each in fields(bundle)}
    found = _HeldBundle(**given, seeds={spec.name: bundle.seed(spec.name) for spec in bundle.maps})
    for name in ("plan", "classifier", "rules"):
        getattr(found, name)  # cached from now on
    return found


def _record(endpoint: Endpoint) -> EndpointRecord:
    """The endpoint as the endpoints file gives it to a node."""
    return EndpointRecord(
        namespace=endpoint.namespace,
        name=endpoint.name,
        labels=dict(endpoint.labels),
        namespace_labels=dict(endpoint.namespace_labels),
        ports=tuple(ContainerPort(p.name, p.protocol, p.number) for p in endpoint.ports),
        addresses={a.version: a for a in endpoint.addresses},
        service_account=endpoint.service_account,
        node=endpoint.node,
        host_network=endpoint.host_network,
        interface=None,
        mac=None,
        service_account_labels=dict(endpoint.service_account_labels),
        node_labels=dict(endpoint.its_node.labels) if endpoint.its_node else {},
    )


def _subject(question: Question) -> Endpoint:
    flow = question.flow
    subject = flow.src if question.direction is Direction.EGRESS else flow.dst
    if not isinstance(subject, Endpoint):
        raise InternalError("only pods have policies here")
    return subject


def _peer(question: Question) -> End:
    flow = question.flow
    return flow.dst if question.direction is Direction.EGRESS else flow.src


def _address(end: End, family: int) -> Address:
    address = end_address(as_seen(end), family)
    if address is None:
        raise InternalError("an end of a flow has no address")
    return address


@dataclass
class FlowWriter:
    """Flows as the hooks store them for the program, in `struct pc_flow` of its object.

    Each has another source port, so that none matches the connection of another.
    """

    btf: Btf
    size: int
    _last: int = 0

    @cached_property
    def _places(self) -> Mapping[str, tuple[int, int]]:
        names = (
            "tuple.saddr", "tuple.daddr", "tuple.sport", "tuple.dport", "tuple.family",
            "tuple.proto", "src.id", "dst.id",
            "src.ifindex", "dst.ifindex", "src.flags", "dst.flags", "now", "second", "epoch",
            "packet.icmp", "packet.is_opening", "action.entry_op",
        )  # fmt: skip
        found = ((name, self.btf.place("pc_flow", name)) for name in names)
        return {name: (place.offset, place.size) for name, place in found}

    def write(self, question: Question, setting: Setting) -> bytes:
        """The flow with its subject as the only end of this node."""
        flow = question.flow
        own, peer = setting.subject_class(question), setting.peer_class(question)
        is_out = question.direction is Direction.EGRESS
        self._last += 1
        src, dst = (own, peer) if is_out else (peer, own)
        local, other = ("src", "dst") if is_out else ("dst", "src")
        value = flow.service.value
        has_ports = flow.service.number in (6, 17, 132)
        fields: dict[str, int | bytes] = {
            "tuple.saddr": _address(flow.src, flow.family).packed.ljust(16, b"\0"),
            "tuple.daddr": _address(flow.dst, flow.family).packed.ljust(16, b"\0"),
            "tuple.sport": self._last & 0xFFFF,
            "tuple.dport": value.to_bytes(2, "big") if has_ports else self._last >> 16,
            "tuple.family": flow.family,
            "tuple.proto": flow.service.number,
            "src.id": src,
            "dst.id": dst,
            f"{local}.ifindex": 1,
            f"{other}.flags": int(isinstance(as_seen(_peer(question)), Node) and peer != 0),
            "now": 1_000_000 + self._last,
            "second": 250,
            "epoch": 1,
            "packet.icmp": 0 if has_ports else value,
            "packet.is_opening": 1,
        }
        out = bytearray(self.size)
        for name, given in fields.items():
            offset, size = self._places[name]
            data = given if isinstance(given, bytes) else given.to_bytes(size, "little")
            out[offset : offset + size] = data
        return bytes(out)


def settings_of(scenario: Scenario) -> Setting:
    """The setting of a scenario, made once for all stages that run programs."""
    found = scenario.__dict__.get("_setting")
    if not isinstance(found, Setting):
        found = scenario.__dict__["_setting"] = Setting(scenario)
    return found
