# SPDX-License-Identifier: Apache-2.0
"""A sidecar to which iptables redirects a pod's connections: its own ones are bypassed, no others."""

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.kernel.bypass.test_bypass import OPEN, load
from tests.kernel.support.arrival import WAITS
from tests.kernel.support.bypass_lab import Connection, counted, inside, listening
from tests.kernel.support.socket_lab import PODS, Socketed, host_of, socket_lab

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("loads_of_children")]

PORT, SIDECAR = 9000, 15001
SIDECAR_MARK = 7
"""Of the sidecar's own packets, which are not redirected."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Socketed]:
    folder, pods = tmp_path_factory.mktemp("sidecar"), (PODS["web"], PODS["client"])
    with socket_lab(folder, OPEN, "c", pods, options=("--socket-programs",)) as found:
        found.bypass = "tcp"
        load(found)
        yield found
        found.unload()


def copy(of: socket.socket, to: socket.socket) -> None:
    """Until the end."""
    try:
        while data := of.recv(65536):
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)
    except OSError:
        pass


@contextmanager
def through_a_sidecar(node: Socketed) -> Iterator[Connection]:
    """A connection from `client` to `web` whose client end is that of a sidecar."""
    rule = ["-p", "tcp", "--dport", str(PORT), "-m", "mark", "!", "--mark", str(SIDECAR_MARK)]
    namespace = node.lab.ends["shop/client"].namespace.name
    table = ["ip", "netns", "exec", namespace, "iptables", "-t", "nat"]
    subprocess.run(
        [*table, "-A", "OUTPUT", *rule, "-j", "REDIRECT", "--to", str(SIDECAR)], check=True
    )

    def connect(marked: bool) -> socket.socket:
        made = socket.socket()
        made.settimeout(WAITS)
        if marked:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, SIDECAR_MARK)
        made.connect((host_of("web").ip4, PORT))
        return made

    try:
        with (
            listening(node, "client", SIDECAR) as proxy,
            listening(node, "web", PORT) as accepting,
            inside(node, "client", lambda: connect(marked=False)) as client,
            proxy.accept()[0] as taken,
            inside(node, "client", lambda: connect(marked=True)) as onward,
            accepting.accept()[0] as server,
        ):
            ways = ((taken, onward), (onward, taken))
            threads = [threading.Thread(target=copy, args=each) for each in ways]
            for each in threads:
                each.start()
            server.settimeout(WAITS)
            yield Connection(client, server)
            client.close()
            server.close()
            for each in threads:
                each.join()
    finally:
        subprocess.run([*table, "-F", "OUTPUT"], check=True)


@pytest.mark.slow
def test_a_connection_through_a_sidecar_works_and_its_outer_part_alone_may_be_bypassed(
    node: Socketed,
) -> None:
    with through_a_sidecar(node) as talking:
        for _ in range(500):
            talking.exchange(b"q" * 1000, b"a" * 3000)
            threading.Event().wait(0.01)
        assert counted(node).connections <= 1
