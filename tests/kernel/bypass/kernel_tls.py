# SPDX-License-Identifier: Apache-2.0
"""The kernel's TLS that begins on a bypassed connection.

`tests/guest/bypass_tls.sh SERIES` runs these tests. The kernel needs its module `tls`, so `make test`
does not collect this file. Kernels refuse keys (EINVAL) for a socket that was added, or they take them.
Either way no data is bypassed from then on.
"""

import errno
import socket
import struct

import pytest

from tests.kernel.bypass.test_late_tls import begins_late, lab, node
from tests.kernel.support.bypass_lab import connection, counted, deliver, exchanged
from tests.kernel.support.socket_lab import Socketed

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("loads_of_children")]
__all__ = ["lab", "node"]

TCP_ULP, SOL_TLS, TLS_TX, TLS_RX = 31, 282, 1, 2
TLS_1_2, AES_GCM_128 = 0x0303, 51
KEY = struct.pack("=HH36s", TLS_1_2, AES_GCM_128, bytes(range(36)))
"""struct tls12_crypto_info_aes_gcm_128: the version, the cipher, then iv, key, salt and sequence."""
APPLICATION_DATA = 23
SECRET = b"not for the wire"


def begin(of: socket.socket, direction: int) -> bool:
    """Give the socket to the kernel's TLS, with a key. False: the kernel refuses the key."""
    of.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
    try:
        of.setsockopt(SOL_TLS, direction, KEY)
    except OSError as error:
        assert error.errno == errno.EINVAL
        return False
    return True


def test_the_kernel_takes_keys_for_a_connection_that_is_not_bypassed(node: Socketed) -> None:
    with connection(node) as talking:
        assert begin(talking.client, TLS_TX) and begin(talking.server, TLS_RX)
        deliver(talking.client, talking.server, SECRET)


@pytest.mark.parametrize("ends", ["client", "server", "both"])
def test_tls_with_a_handshake(node: Socketed, ends: str) -> None:
    """OpenSSL encrypts by itself where the kernel refuses the keys."""
    begins_late(node, (ends != "server", ends != "client"))


@pytest.mark.parametrize("ends", ["sender", "both"])
def test_keys_without_a_handshake(node: Socketed, ends: str) -> None:
    """As if the handshake were older than the bypass."""
    with connection(node) as talking:
        exchanged(node, talking)
        before = counted(node).messages
        has_key = begin(talking.client, TLS_TX)
        if ends == "both":
            assert begin(talking.server, TLS_RX) == has_key
            for size in (1, 1000, 16384, 50000):
                deliver(talking.client, talking.server, b"s" * size)
        else:
            talking.client.sendall(SECRET)
            found = talking.server.recv(1000)
            assert (found[0] == APPLICATION_DATA and SECRET not in found) or not has_key
        deliver(talking.server, talking.client, b"an answer in plaintext")
        assert counted(node).messages == before and set(counted(node).left) == {"tls"}


def test_an_end_that_has_no_keys_yet_gets_its_data_by_the_stack(node: Socketed) -> None:
    with connection(node) as talking:
        exchanged(node, talking)
        before = counted(node).messages
        talking.server.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
        talking.exchange()
        assert counted(node).messages == before and counted(node).left == {"tls": 2}
