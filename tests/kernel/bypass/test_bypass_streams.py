# SPDX-License-Identifier: Apache-2.0
"""Random conversations beside changes of the policy: no byte is lost, and none changes its place."""

import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.kernel.bypass.test_bypass import OPEN, SHUT, load
from tests.kernel.support.bundles import compiled
from tests.kernel.support.bypass_lab import connection, counted, exchanged, received
from tests.kernel.support.conversation import Conversation, Stream, size_of
from tests.kernel.support.lives import Lives
from tests.kernel.support.socket_lab import PODS, Socketed, host_of, socket_lab
from tests.property.length import examples

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("loads_of_children")]

SECONDS = examples(8, 2)
SHORT, SEVERAL = 100_000, 20
"""Short connections of one run of pingpong, and others at a time."""
LOADS, ENDED = 12, 60
"""Changes of the policy and other connections, at least."""
seeds = pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 12))]
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Socketed]:
    folder, pods = tmp_path_factory.mktemp("streams"), tuple(PODS.values())
    with socket_lab(folder, OPEN, "c", pods, options=("--socket-programs",)) as found:
        compiled(folder, OPEN, "--backend", "c", "--socket-programs", name="again")
        compiled(folder, SHUT, "--backend", "c", "--socket-programs", name="shut")
        found.bypass = "tcp"
        yield found


@pytest.fixture
def node(lab: Socketed) -> Iterator[Socketed]:
    load(lab)
    yield lab
    lab.unload()


@seeds
def test_conversations_survive_policies_that_allow_them(node: Socketed, seed: int) -> None:
    with ExitStack() as held:
        talking = []
        for n, way in enumerate(("IPv4", "IPv6", "mapped", "IPv4")):
            ends = ("guarded", "web") if n % 2 else ("client", "cart")
            one = held.enter_context(connection(node, ends, way, 9000 + n))
            talking.append(Conversation(one.client, one.server, f"{seed} {n}", polls=n > 1))
        for each in talking:
            each.start()
        until, bundles = time.monotonic() + SECONDS, ("again", "bundle")
        try:
            while time.monotonic() < until and not any(each.errors for each in talking):
                time.sleep(0.4)
                bundles = bundles[::-1]
                load(node, bundles[0])
        finally:
            for each in talking:
                each.stop.set()
        for each in talking:
            each.finish()
        assert all(each.exchanges for each in talking)
        found = counted(node)
        assert found.connections == len(talking) and found.messages > 100
        assert found.left["policy"] > 0


@seeds
def test_a_denial_lets_no_byte_through_that_was_sent_after_it(node: Socketed, seed: int) -> None:
    """The receiver gets a prefix of what was sent, and nothing that was sent after the load."""
    chance = random.Random(seed)
    with connection(node, ("guarded", "web")) as talking:
        exchanged(node, talking)
        data, sent, told = Stream(f"{seed}"), bytearray(), threading.Event()
        after = []

        def send() -> None:
            try:
                while True:
                    is_after = told.is_set()
                    part = data.next(size_of(chance))
                    talking.client.sendall(part)
                    (after if is_after else sent).extend(part)
                    time.sleep(chance.random() / 100)
            except OSError:
                pass

        found = bytearray()

        def receive() -> None:
            try:
                while part := talking.server.recv(65536):
                    found.extend(part)
            except OSError:
                pass

        threads = [threading.Thread(target=each) for each in (send, receive)]
        for each in threads:
            each.start()
        time.sleep(0.2)
        load(node, "shut")
        told.set()
        for each in threads:
            each.join()
        assert not after and found
        whole = Stream(f"{seed}").next  # the same bytes again
        chance = random.Random(seed)
        again = bytearray()
        while len(again) < len(found):
            again += whole(size_of(chance))
            chance.random()
        assert again[: len(found)] == found


@pytest.mark.parametrize("who", ["client", "server"])
def test_the_other_end_of_a_killed_process_gets_a_prefix_and_the_end(
    node: Socketed, who: str
) -> None:
    with connection(node) as talking:
        exchanged(node, talking)
        ends = {"client": talking.client, "server": talking.server}
        killed = ends.pop(who)
        (other,) = ends.values()
        data = bytes(range(256)) * 400
        pid = os.fork()
        if pid == 0:
            other.close()
            while True:
                killed.sendall(data)
                killed.recv(1)
        killed.close()
        for _ in range(50):
            assert received(other, len(data)) == data
            other.sendall(b"x")
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        rest = b""
        try:
            while part := other.recv(65536):
                rest += part
        except ConnectionResetError:
            pass
        assert data.startswith(rest) or rest == data
        with pytest.raises(OSError):
            for _ in range(1000):
                other.sendall(data)
                time.sleep(0.01)


def is_read(found: bytearray, due: bytes) -> bool:
    """Whether a reader has all of it."""
    return bytes(found) == due


def test_readers_that_wait_and_wait_for_all_get_everything(node: Socketed) -> None:
    """A thread of its own reads each end, and may wait in recv() when its other end is added."""
    with connection(node) as talking:
        found: dict[str, bytearray] = {"client": bytearray(), "server": bytearray()}

        def read(name: str, taken: socket.socket) -> None:
            while part := taken.recv(100, socket.MSG_WAITALL):
                found[name] += part

        ends = {"client": talking.client, "server": talking.server}
        readers = [threading.Thread(target=read, args=each) for each in ends.items()]
        for reader in readers:
            reader.start()
        sent = {"client": b"", "server": b""}
        until = time.monotonic() + 5
        while time.monotonic() < until:
            for name, other in (("client", "server"), ("server", "client")):
                data = random.randbytes(100)
                ends[name].sendall(data[:25])
                ends[name].sendall(data[25:])
                sent[name] += data
                eventually(partial(is_read, found[other], sent[name]), "all was read")
            time.sleep(0.005)
        for each in ends.values():
            each.shutdown(socket.SHUT_WR)
        for reader in readers:
            reader.join()


@pytest.mark.slow
def test_short_and_bypassed_connections_beside_changes_of_the_policy(
    node: Socketed, tmp_path: Path
) -> None:
    """A connection for each request, as fast as one CPU can, beside others that live for seconds.

    None of them fails. Each of the others is bypassed before it ends.
    """
    source, program = Path(__file__).parents[2] / "bench" / "pingpong.c", tmp_path / "pingpong"
    subprocess.run(["clang", "-O2", source, "-o", program], check=True)
    client, server = (node.lab.ends[f"shop/{name}"].namespace for name in ("client", "web"))
    words = ("connect", client, server, host_of("web").ip4, 7777, SHORT, 0, os.getpid())
    lives, enough = Lives(node, ("guarded", "web"), SEVERAL), threading.Event()
    seconds: list[float] = []

    def connect() -> None:
        while not enough.is_set():
            done = subprocess.run([program, *map(str, words)], stdout=subprocess.PIPE, check=False)
            if done.returncode:
                return
            seconds.append(float(done.stdout.split()[1]) * SHORT / 1e9)

    connecting = threading.Thread(target=connect)
    connecting.start()
    lives.start()
    loads, bundles = 0, ("again", "bundle")
    try:
        while loads < LOADS or len(lives.ended) < ENDED:
            assert connecting.is_alive() and lives.is_alive()
            loads, bundles = loads + 1, bundles[::-1]
            load(node, bundles[0])
            time.sleep(0.2)
        assert connecting.is_alive()
    finally:
        enough.set()
        ended = lives.finish()
        connecting.join()
    found = counted(node)
    rate = SHORT * len(seconds) / sum(seconds)
    print(f"{loads} loads, {rate:.0f} short connections a second; {len(ended)} others: {found}")
    assert found.connections >= len(ended) and all(life.bypassed > 1 for life in ended)
    assert sum(life.bypassed for life in ended) > 10 * ENDED
    assert found.left["policy"] > SEVERAL
