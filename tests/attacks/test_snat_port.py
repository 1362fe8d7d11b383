# SPDX-License-Identifier: Apache-2.0
"""A pod tries to get the SNAT port of another pod's connection, with help of an external host.

The host sends RSTs and FINs under the server's address. Then time passes in the datapath's tables,
and the attacker's pod opens connections to the same server until it has every free SNAT port. The
server's packets of the victim's connection must never reach the attacker.
"""

import random
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from policyc.runtime.kernel.pins import Pins
from policyc.runtime.snat.snat import Masquerade
from tests.eventually import eventually
from tests.kernel.support.arrival import SILENCE, WAITS, connects
from tests.kernel.support.bundles import compiled
from tests.kernel.support.external_wire import POLICY
from tests.kernel.support.packets import (
    ACK,
    FIN,
    RST,
    Host,
    frame,
    tcp,
)
from tests.kernel.support.passing_time import let_pass
from tests.kernel.support.two_nodes import (
    BESIDE,
    PODS,
    UPLINK,
    TwoNodes,
    address,
)

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
TCP = socket.SOCK_STREAM
PORT = 8080
LOW, N_PORTS = 50000, 4
PORTS = range(LOW, LOW + N_PORTS)
SECRET = b"what the server tells the victim alone"
VICTIM, ATTACKER, SERVER, FORGER = "pod-a", "pod-c", "client1", "client2"
N_FORGED = 200
HOUR = 3600


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pods may open what they like; answers to them need no rule."""
    return compiled(tmp_path_factory.mktemp("snat-port"), POLICY)


class WithAttacker(TwoNodes):
    """Two pods on node a. The router lets the forger's addresses pass."""

    pods = PODS | BESIDE


@pytest.fixture
def lab(loads: None, tmp_path: Path) -> Iterator[WithAttacker]:
    with ExitStack() as owned:
        made = WithAttacker(tmp_path, owned)
        made.check_no_paths("router")
        yield made
        for node in made.loaded:
            made.unload(node)


class Segment(NamedTuple):
    """What a frame's TCP header says."""

    sport: int
    dport: int
    seq: int
    ack: int
    flags: int


@dataclass
class Seen:
    """Frames that a device has sent or received."""

    wire: socket.socket
    frames: list[bytes] = field(default_factory=list)

    def segments(self, family: int) -> list[Segment]:
        kind, proto, at = (b"\x08\x00", 23, 34) if family == 4 else (b"\x86\xdd", 20, 54)
        return [
            Segment(*struct.unpack_from("!HHIIxB", each, at))
            for each in self.all()
            if each[12:14] == kind and each[proto] == socket.IPPROTO_TCP
        ]

    def all(self) -> list[bytes]:
        while True:
            try:
                self.frames.append(self.wire.recv(1 << 16))
            except BlockingIOError:
                return self.frames

    def has(self, data: bytes) -> bool:
        return any(data in each for each in self.all())


@dataclass
class Scene:
    """The lab, the victim's connection, and what the pods' devices have seen."""

    lab: WithAttacker
    family: int
    objects: Path
    ports: range = PORTS

    def __post_init__(self) -> None:
        self.listener = self.lab.server(SERVER, self.family, TCP, PORT)
        self.on_wire = Seen(self.lab.capture("a", UPLINK))
        self.at_victim = Seen(self.lab.capture(VICTIM, "eth0"))
        self.at_attacker = Seen(self.lab.capture(ATTACKER, "eth0"))
        self.forger = self.lab.capture(FORGER, UPLINK)
        self.client, self.server = self.opened(VICTIM)
        self.port = int(self.server.getpeername()[1])
        assert self.port in self.ports
        self.talk(b"the connection is established")

    def opened(self, pod: str) -> tuple[socket.socket, socket.socket]:
        client = self.lab.connect(pod, self.family, address(SERVER, self.family), PORT)
        assert client, f"{pod} gets no port"
        return client, self.lab.accept(self.listener)

    def gets_port(self, pod: str, patience: float = WAITS) -> bool:
        """Whether the pod can open another connection; it stays open."""
        client = self.lab.open_socket(pod, self.family, TCP)
        if not connects(client, (address(SERVER, self.family), PORT), patience):
            client.close()  # or its next SYN would take the port
            return False
        self.lab.accept(self.listener)
        return True

    def talk(self, data: bytes) -> None:
        """Both ways, the victim first."""
        for sender, receiver in ((self.client, self.server), (self.server, self.client)):
            sender.sendall(data)
            assert receiver.recv(len(data), socket.MSG_WAITALL) == data

    def let_pass(self, seconds: float) -> None:
        let_pass(Pins(self.lab.bpffs("a")), self.objects, seconds)

    # --- the attacker -------------------------------------------------------------------------

    def exact(self) -> int:
        """The sequence number that the victim expects: its last acknowledgement."""
        sent = [each for each in self.on_wire.segments(self.family) if each.dport == PORT]
        return sent[-1].ack

    def forge(self, flags: int, *numbers: int) -> None:
        """Under the server's address; all have come to the victim afterwards."""
        lab, family = self.lab, self.family
        mac = lab.at["router"].network.mac(f"to-{FORGER}")
        own = Host(lab.at[FORGER].network.mac(UPLINK), *_addresses(SERVER))
        to = Host(mac, *_addresses("a"))
        for number in numbers:
            payload = tcp(PORT, self.port, flags, seq=number)
            self.forger.send(frame(own, to, payload, family=family))
        last = struct.pack("!I", numbers[-1])
        eventually(lambda: self.at_victim.has(last), "the forged packets reach the victim")

    def take_ports(self) -> None:
        """The attacker's pod opens connections until none is answered: those that are free, it gets."""
        for n in range(4 * len(self.ports)):
            made = self.lab.open_socket(ATTACKER, self.family, TCP)
            made.setblocking(False)
            if n < len(self.ports):
                made.bind(("", self.ports[n]))
            made.connect_ex((address(SERVER, self.family), PORT))
        for _ in range(len(self.ports) - 1):
            assert self.lab.accept(self.listener).getpeername()[1] in self.ports

    def require_secret(self) -> None:
        """The server speaks to the victim, and the attacker's pod hears nothing of it."""
        try:
            self.server.sendall(SECRET)
        except ConnectionError:
            pytest.fail("the attacker's pod has reset the victim's connection at the server")
        eventually(
            lambda: self.at_victim.has(SECRET) or self.at_attacker.has(SECRET),
            "a pod receives the data",
        )
        assert not self.at_attacker.has(SECRET), "the attacker's pod has the victim's port"


def _addresses(name: str) -> tuple[str, str]:
    return address(name, 4), address(name, 6)


def staged(
    lab: WithAttacker, bundle: Path, family: int, objects: Path, ports: range = PORTS
) -> Scene:
    lab.load("a", bundle, None, masquerade=Masquerade(ports))
    return Scene(lab, family, objects, ports)


def some(seed: int = 0) -> list[int]:
    return [random.Random(seed).getrandbits(32) for _ in range(N_FORGED)]


@families
@pytest.mark.parametrize("first", ["victim", "server"])
def test_forged_resets_free_no_port(
    lab: WithAttacker, bundle: Path, objects: Path, family: int, first: str
) -> None:
    scene = staged(lab, bundle, family, objects)
    scene.forge(RST, *some())
    scene.let_pass(11)
    scene.take_ports()
    if first == "victim":
        scene.client.sendall(b"go on")
        assert scene.server.recv(100) == b"go on"
    scene.require_secret()
    assert scene.client.recv(len(SECRET), socket.MSG_WAITALL) == SECRET
    scene.talk(b"the connection goes on")


@families
def test_a_forged_reset_that_the_victim_accepts_frees_no_port(
    lab: WithAttacker, bundle: Path, objects: Path, family: int
) -> None:
    """It ends the connection at the victim. The server does not know."""
    scene = staged(lab, bundle, family, objects)
    scene.forge(RST, *some(), scene.exact())
    with pytest.raises(ConnectionResetError):
        scene.client.recv(1)
    scene.let_pass(7 * HOUR)
    scene.take_ports()
    scene.require_secret()


@families
@pytest.mark.parametrize("is_exact", [False, True], ids=["random", "exact"])
def test_forged_fins_free_no_port(
    lab: WithAttacker, bundle: Path, objects: Path, family: int, is_exact: bool
) -> None:
    scene = staged(lab, bundle, family, objects)
    scene.forge(FIN | ACK, *some(), *([scene.exact()] if is_exact else []))
    scene.let_pass(7 * HOUR)
    scene.take_ports()
    scene.require_secret()
    if not is_exact:
        assert scene.client.recv(len(SECRET), socket.MSG_WAITALL) == SECRET
        scene.talk(b"the connection goes on")


@families
def test_forged_fins_do_not_end_a_half_closed_connection_of_the_victim(
    lab: WithAttacker, bundle: Path, objects: Path, family: int
) -> None:
    """The victim still waits for the server's data."""
    scene = staged(lab, bundle, family, objects)
    scene.client.shutdown(socket.SHUT_WR)
    assert scene.server.recv(1) == b""
    scene.forge(FIN | ACK, *some())
    scene.let_pass(2 * HOUR)
    scene.take_ports()
    scene.require_secret()
    assert scene.client.recv(len(SECRET), socket.MSG_WAITALL) == SECRET


def reset(sender: socket.socket, receiver: socket.socket) -> None:
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sender.close()
    with pytest.raises(ConnectionResetError):
        receiver.recv(1)


def closed(scene: Scene, who: str) -> None:
    """By FINs both ways; the last ACK is on the wire."""
    ends = scene.client, scene.server
    first, second = ends if who == "victim" else ends[::-1]
    first.shutdown(socket.SHUT_WR)
    assert second.recv(1) == b""
    second.shutdown(socket.SHUT_WR)
    assert first.recv(1) == b""

    def is_done() -> bool:
        """Each FIN has an acknowledgement that runs against it."""
        seen = scene.on_wire.segments(scene.family)
        fins = {(each.dport, (each.seq + 1) & 0xFFFFFFFF) for each in seen if each.flags & FIN}
        return len(fins) == 2 and fins <= {(each.sport, each.ack) for each in seen}

    eventually(is_done, "both FINs are acknowledged")
    for end in ends:
        end.close()


@families
@pytest.mark.parametrize("who", ["victim", "server"])
def test_only_the_same_pod_reuses_the_snat_port_of_a_reset_connection(
    lab: WithAttacker, bundle: Path, objects: Path, family: int, who: str
) -> None:
    """The pod gets the port after 10 s where no other port is free. No other pod gets it."""
    scene = staged(lab, bundle, family, objects, range(LOW, LOW + 1))
    ends = scene.client, scene.server
    reset(*(ends if who == "victim" else ends[::-1]))
    assert not scene.gets_port(VICTIM, SILENCE), "before ten seconds of silence"
    scene.let_pass(11)
    assert not scene.gets_port(ATTACKER, SILENCE)
    assert scene.gets_port(VICTIM)
    assert lab.status("a").drops["no port"] >= 2


@families
@pytest.mark.parametrize("who", ["victim", "server"])
def test_a_closed_snat_port_is_reserved_for_its_pod_before_other_pods_get_it(
    lab: WithAttacker, bundle: Path, objects: Path, family: int, who: str
) -> None:
    scene = staged(lab, bundle, family, objects, range(LOW, LOW + 2))
    closed(scene, who)
    assert scene.gets_port(VICTIM), "the other port is free"
    assert not scene.gets_port(VICTIM, SILENCE), "before thirty seconds of silence"
    scene.let_pass(40)
    assert not scene.gets_port(ATTACKER, SILENCE)
    scene.let_pass(81)
    assert scene.gets_port(ATTACKER), "after 120 s"
    assert not scene.gets_port(ATTACKER, SILENCE)


@families
def test_the_snat_port_of_a_refused_connection_is_free_after_a_minute(
    lab: WithAttacker, bundle: Path, objects: Path, family: int
) -> None:
    """A probe of a closed port must not reserve a SNAT port for hours."""
    scene = staged(lab, bundle, family, objects, range(LOW, LOW + 1))
    refusing = PORT + 1
    for pod, found in (
        (VICTIM, ConnectionRefusedError),
        (ATTACKER, TimeoutError),
        (ATTACKER, ConnectionRefusedError),
    ):
        made = lab.open_socket(pod, family, TCP)
        made.settimeout(SILENCE if found is TimeoutError else WAITS)
        with pytest.raises(found):
            made.connect((address(SERVER, family), refusing))
        made.close()
        scene.let_pass(31)
