# SPDX-License-Identifier: Apache-2.0
"""Services that follow a watch: single changes give the same tables as one complete write."""

import json
import os
import random
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from policyc.runtime.bundle.address_value import unpacked
from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.errors import InputError
from policyc.runtime.maps.services import NO_NEW, Backends, Choices, Frontends
from policyc.runtime.services import tables as service_tables
from policyc.runtime.services.follow import (
    Applied,
    follow,
)
from policyc.runtime.services.live import (
    Live,
    RefillError,
    StaleError,
)
from policyc.runtime.services.services import (
    Backend,
    Frontend,
)
from policyc.runtime.services.update import loaded
from policyc.runtime.services.wanted_tables import WAYS
from policyc.runtime.services.watched_objects import WatchedServices
from tests.eventually import DEADLINE, eventually
from tests.kernel.support.follower import (
    Follower,
    told,
)
from tests.kernel.support.node_under_test import (
    A,
    B,
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ACK,
    SYN,
    Host,
    tcp,
)
from tests.kernel.support.service_frames import (
    answer,
    as_to,
    to_vip,
)
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
    service,
    slices,
    value,
    web,
)
from tests.kernel.support.table_policy import ANY
from tests.slices import at_length, one_in

pytestmark = [pytest.mark.kernel, *at_length(pytest.mark.fresh)]
Resolved = dict[bytes, tuple[tuple[int, ...], list["Found"], list["Found"]]]
Found = tuple[str, int, str]
"""An endpoint's address and port, and how clients outside are answered."""


def resolved(node: NodeUnderTest) -> Resolved:
    """What a packet would find at each address and port: flags, endpoints, those of the node."""
    with loaded(node.bpffs, node.state_root) as held:
        buffer = held.word.buffer
    found: Resolved = {}
    with (
        Backends(node.pins) as backends,
        Choices(node.pins) as choices,
        Frontends(node.pins) as frontends,
    ):
        ids = memoryview(choices.memory).cast("I")[buffer * (choices.most + 2) :]
        for key in frontends.keys_of(buffer):
            value = frontends.get(key)
            assert value is not None
            first, count, local_first, n_local, *rest = struct.unpack("=11I", value)
            parts = [
                sorted(_endpoint(backends, ident, key) for ident in ids[begin : begin + n])
                for begin, n in ((first, count), (local_first, n_local))
            ]
            found[key[:19] + bytes([key[19] & ~1])] = tuple(rest), parts[0], parts[1]
        ids.release()
    return found


def _endpoint(backends: Backends, ident: int, key: bytes) -> Found:
    """The backend of an id that is its own, and stands behind this address and port."""
    size, place = backends.format.size, ident & 0xFFFF
    entry = backends.memory[place * size : (place + 1) * size]
    (own, *_, address, front, port, front_port, protocol, family, state) = struct.unpack_from(
        "=II16s16s2s2sBBB", entry
    )
    assert own == ident
    assert (front, front_port, protocol) == (key[:16], key[16:18], key[18])
    way = next(way for way, bits in WAYS.items() if state & ~NO_NEW == bits)
    return str(unpacked(address, family)), int.from_bytes(port, "big"), way or ""


def n_rows(node: NodeUnderTest) -> int:
    return service_tables.usage(node.pins)["pc_backends"][0]


@contextmanager
def following(
    node: NodeUnderTest, first: Iterable[JsonValue] = ()
) -> Iterator[tuple[WatchedServices, Live]]:
    """What follows a watch that begins with these objects; they are in force."""
    with loaded(node.bpffs, node.state_root) as held:
        world = WatchedServices(held.own)
        for each in first:
            world.take(each)
        world.changes()
        live = Live(held.pins, held.replace(world.frontends.values()), held.generation.nodes)
    try:
        yield world, live
    finally:
        live.close()


NAMES = [f"service-{n}" for n in range(6)]
CONDITIONS = [
    {"ready": True},
    {"ready": True},
    {"ready": False},
    {"ready": False, "serving": True, "terminating": True},
]


def some_object(dice: random.Random) -> dict[str, Any]:
    """A watch event: a Service, or endpoints of one, comes, changes, or goes."""
    name = dice.choice(NAMES)
    kind = dice.choice(["ADDED", "MODIFIED", "MODIFIED", "DELETED"])
    if dice.random() < 0.3:
        number = NAMES.index(name) + dice.choice([0, 0, 0, 1])  # two may want one address
        raw = service(name).raw
        if dice.random() < 0.5:
            way = dice.choice(["tunnel", "dsr"])
            raw["metadata"]["annotations"] = {"policyc.dev/outside": way}
        raw["spec"]["clusterIPs"] = [f"10.96.1.{number}", f"fd96:1::{number + 1:x}"]
        raw["spec"]["internalTrafficPolicy"] = dice.choice(["Cluster", "Cluster", "Local"])
        if dice.random() < 0.3:
            raw["spec"]["externalIPs"] = [f"192.0.2.{number}"]
            raw["spec"]["externalTrafficPolicy"] = dice.choice(["Cluster", "Local"])
        return {"type": kind, "object": raw}
    raw = dice.choice(slices([], name)).raw
    family = raw["addressType"][-1]
    for _ in range(dice.randrange(6)):
        number = dice.randrange(1, 30)
        address = f"10.0.9.{number}" if family == "4" else f"fd00:9::{number:x}"
        each = {"addresses": [address], "conditions": dice.choice(CONDITIONS)}
        raw["endpoints"].append(each | {"nodeName": dice.choice(["node-1", "node-2"])})
    return {"type": kind, "object": raw}


def ended(frontend: Frontend, backend: Backend) -> Found:
    return str(backend.address), backend.port, frontend.return_path or ""


@pytest.mark.parametrize("seed", one_in(20, range(20)))
def test_single_changes_and_one_write_give_the_same_tables(node: NodeUnderTest, seed: int) -> None:
    dice = random.Random(seed)
    node.load(node.policy(), services=[])
    plan = service_tables.planner(node.pins, {})
    with following(node) as (world, live):
        for _ in range(40):
            for _ in range(dice.randrange(1, 6)):
                world.take(JsonValue(some_object(dice), Path("watch")))
            live.apply(world.changes())
            singly, rows = resolved(node), n_rows(node)
            expected = {
                plan.key_of(each, 0): (
                    sorted(ended(each, b) for b in each.backends if b.takes_new),
                    sorted(ended(each, b) for b in each.backends if b.takes_local),
                )
                for each in world.frontends.values()
            }
            assert {key: (new, local) for key, (_, new, local) in singly.items()} == expected
        with loaded(node.bpffs, node.state_root) as held:
            held.replace(world.frontends.values())
        assert resolved(node) == singly
        assert n_rows(node) == rows, "an endpoint that went has left no row"


def test_a_connection_ends_only_when_its_endpoint_is_removed(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "c", ANY).allow("a", "b", ANY), services=[])
    with following(node, web(C)) as (world, live):
        assert node.leaves("a", to_vip(tcp(4000, PORT, SYN))) == as_to(C, tcp(4000, TARGET, SYN))
        assert node.arrives("a", answer(C, tcp(TARGET, 4000, SYN | ACK)))
        for each in slices([B, C]):
            world.take(value({"type": "MODIFIED", "object": each.raw}))
        live.apply(world.changes())
        assert node.leaves("a", to_vip(tcp(4000, PORT))) == as_to(C, tcp(4000, TARGET))
        for each in slices([B]):
            world.take(value({"type": "MODIFIED", "object": each.raw}))
        live.apply(world.changes())
        assert node.leaves("a", to_vip(tcp(4000, PORT))) is None
        assert node.leaves("a", to_vip(tcp(4001, PORT, SYN))) == as_to(B, tcp(4001, TARGET, SYN))
        assert node.drops() == {"backend gone": 1}


def test_tables_replaced_by_another_command_are_not_changed(node: NodeUnderTest) -> None:
    node.load(node.policy(), services=[])
    with following(node) as (world, live):
        for each in web(C):
            world.take(each)
        live.apply(world.changes())
        node.serve(web(B, C))
        node.serve(web(A, B, C))  # twice: the same buffer is in force again
        before = resolved(node)
        for each in slices([]):
            world.take(each)
        with pytest.raises(StaleError):
            live.apply(world.changes())
        assert resolved(node) == before


def test_tables_replaced_by_equal_ones_are_not_changed(node: NodeUnderTest) -> None:
    node.load(node.policy(), services=[])
    with following(node, web(C)) as (world, live):
        node.serve(web(B))
        node.serve(web(B))  # the same buffer, with parts of the same places and sizes
        before = resolved(node)
        for each in slices([C, B]):
            world.take(each)
        with pytest.raises(StaleError):
            live.apply(world.changes())
        other = service("other", Host("", "10.96.9.9", "fd96:9::9"))
        for each in (other, *slices([A], "other")):
            world.take(each)
        with pytest.raises(StaleError):
            live.apply(world.changes())
        assert resolved(node) == before


def test_tables_that_were_unloaded_are_not_changed(node: NodeUnderTest) -> None:
    node.load(node.policy(), services=[])
    with following(node) as (world, live):
        node.unload()
        node.load(node.policy(), services=[])
        node.serve([])
        for each in web(C):
            world.take(each)
        with pytest.raises(StaleError):
            live.apply(world.changes())


def test_source_ranges_cannot_be_added_by_a_single_change(node: NodeUnderTest) -> None:
    node.load(node.policy(), services=[])
    with following(node) as (world, live):
        raw = service(type="LoadBalancer", loadBalancerSourceRanges=["192.0.2.0/24"]).raw
        raw["status"] = {"loadBalancer": {"ingress": [{"ip": "198.51.100.7"}]}}
        world.take(value(raw))
        with pytest.raises(RefillError):
            live.apply(world.changes())
        assert not resolved(node)


def test_the_command_follows_a_watch(node: NodeUnderTest, follower: Follower) -> None:
    follower.tell(*told(web(C)))
    done = follower.acknowledged()
    assert (done["events"], done["changed"], done["whole"]) == (3, 2, True)
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN))) == as_to(C, tcp(4000, TARGET, SYN))
    follower.tell(*told(slices([B]), "MODIFIED"), {"type": "BOOKMARK", "object": {}})
    done = follower.acknowledged()
    assert (done["events"], done["changed"], done["whole"]) == (3, 2, False)
    assert node.leaves("a", to_vip(tcp(4001, PORT, SYN))) == as_to(B, tcp(4001, TARGET, SYN))
    node.serve(web(B))
    follower.tell(*told(slices([C]), "MODIFIED"))
    assert follower.acknowledged()["whole"], "foreign tables are replaced"
    assert node.leaves("a", to_vip(tcp(4002, PORT, SYN))) == as_to(C, tcp(4002, TARGET, SYN))
    follower.tell(*told(slices([B])))
    assert not follower.acknowledged()["whole"]
    assert follower.end() == (0, "")
    assert node.leaves("a", to_vip(tcp(4003, PORT, SYN))) == as_to(B, tcp(4003, TARGET, SYN))


def test_an_invalid_update_keeps_the_previous_object(
    node: NodeUnderTest, follower: Follower
) -> None:
    follower.tell(*told(web(C)))
    follower.acknowledged()
    wrong = slices([B])[0].raw
    wrong["endpoints"][0]["addresses"] = ["10.0.0.300"]
    follower.tell({"type": "MODIFIED", "object": wrong}, *told(slices([B])[1:], "MODIFIED"))
    assert follower.acknowledged()["changed"] == 1
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN))) == as_to(C, tcp(4000, TARGET, SYN))
    code, said = follower.end()
    assert code == 0
    assert said.startswith("left as it was: ")
    assert "10.0.0.300" in said and "/watch: $.object.endpoints[0].addresses[0]" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"type": "ERROR", "object": {"message": "too old"}}', "the watch failed: too old"),
        ('{"type": "ADDED",\n "object": nothing at all}', ":12: not JSON: Expecting value"),
        ('{"type": "ADDED", "type": "ADDED"}', "the field `type` is given twice"),
        ('{"type": "ADDED", "object": {', "it ends in the middle of a value"),
    ],
    ids=["an error", "no JSON", "a field twice", "half of one"],
)
def test_a_watch_that_fails_ends_the_command(
    node: NodeUnderTest, follower: Follower, text: str, said: str
) -> None:
    follower.tell(*told(web(C)))
    follower.acknowledged()
    follower.write(text)
    code, complaint = follower.end()
    assert code == 2
    assert said in complaint
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN))) == as_to(C, tcp(4000, TARGET, SYN))


def test_a_signal_ends_the_command_and_services_stay_in_force(
    node: NodeUnderTest, follower: Follower
) -> None:
    follower.tell(*told(web(C)))
    follower.acknowledged()
    follower.process.terminate()
    follower.process.wait(DEADLINE)
    assert follower.process.returncode == 0
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN))) == as_to(C, tcp(4000, TARGET, SYN))


def test_a_stream_without_pauses_is_followed(node: NodeUnderTest, follower: Follower) -> None:
    done: list[dict[str, Any]] = []
    reader = threading.Thread(target=lambda: done.append(follower.acknowledged()))
    reader.start()
    follower.tell(*told(web(C)))
    until = time.monotonic() + DEADLINE
    while not done and time.monotonic() < until:
        follower.tell({"type": "BOOKMARK", "object": {}})
        time.sleep(0.05)
    assert done, "after three seconds, thirty times the silence that was waited for"
    reader.join()
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN))) == as_to(C, tcp(4000, TARGET, SYN))
    assert follower.end() == (0, "")


def test_the_follower_waits_for_another_command(node: NodeUnderTest, follower: Follower) -> None:
    follower.tell(*told(web(C)))
    follower.acknowledged()
    with loaded(node.bpffs, node.state_root):
        follower.tell(*told(slices([B]), "MODIFIED"))
        time.sleep(0.5)
        assert follower.process.poll() is None
        assert node.leaves("a", to_vip(tcp(4000, PORT, SYN))) == as_to(C, tcp(4000, TARGET, SYN))
    assert follower.acknowledged()["changed"] == 2
    assert node.leaves("a", to_vip(tcp(4001, PORT, SYN))) == as_to(B, tcp(4001, TARGET, SYN))
    assert follower.end() == (0, "")


def test_nothing_is_in_force_before_each_stream_has_begun(
    node: NodeUnderTest, tmp_path: Path
) -> None:
    """Services without their endpoints would end established connections."""
    node.load(node.policy().allow("a", "c", ANY), services=web(C))
    streams = [tmp_path / "services", tmp_path / "slices"]
    for each in streams:
        os.mkfifo(each)
    seen: list[Applied] = []
    stop: list[bool] = []
    complaints: list[str] = []

    def run() -> None:
        follow(
            [*streams, streams[0]],
            told=seen.append,
            is_over=lambda: bool(stop),
            bpffs=node.bpffs,
            state_root=node.state_root,
            settled=0.1,
            warn=complaints.append,
        )

    thread = threading.Thread(target=run)
    thread.start()
    try:
        with streams[0].open("w") as services, streams[1].open("w") as endpoints:
            services.write(json.dumps(told([service()])[0]))
            services.flush()
            time.sleep(1)
            assert not seen, "ten times the silence, but of one only"
            assert node.leaves("a", to_vip(tcp(4000, PORT, SYN))) == as_to(
                C, tcp(4000, TARGET, SYN)
            )
            endpoints.write("".join(json.dumps(each) for each in told(slices([C]))))
            endpoints.flush()
            eventually(lambda: seen, "both are applied")
            assert [(each.events, each.changed) for each in seen] == [(3, 2)]
    finally:
        stop.append(True)
        thread.join()
    assert not complaints
    assert node.leaves("a", to_vip(tcp(4001, PORT, SYN))) == as_to(C, tcp(4001, TARGET, SYN))


@pytest.mark.parametrize("silent", ["services", "slices"])
def test_a_watch_that_ends_at_once_removes_no_service(
    node: NodeUnderTest, tmp_path: Path, silent: str
) -> None:
    """As when kubectl is refused, for one kind or for both."""
    node.load(node.policy().allow("a", "c", ANY), services=web(C))
    streams = {"services": tmp_path / "services", "slices": tmp_path / "slices"}
    streams["services"].write_text(json.dumps(told([service()])[0]))
    streams["slices"].write_text("".join(json.dumps(each) for each in told(slices([C]))))
    streams[silent].write_text("\n")
    with pytest.raises(InputError, match=f"/{silent}: the stream ended without an object"):
        follow([*streams.values()], told=print, bpffs=node.bpffs, state_root=node.state_root)
    assert node.leaves("a", to_vip(tcp(4000, PORT, SYN))) == as_to(C, tcp(4000, TARGET, SYN))


def test_a_stream_that_is_a_folder_is_an_error(node: NodeUnderTest, tmp_path: Path) -> None:
    node.load(node.policy())
    with pytest.raises(InputError, match=f"{tmp_path}: cannot be read: Is a directory"):
        follow([tmp_path], told=print, bpffs=node.bpffs, state_root=node.state_root)
