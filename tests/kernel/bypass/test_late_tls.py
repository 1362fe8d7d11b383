# SPDX-License-Identifier: Apache-2.0
"""TLS that a program begins on a bypassed connection goes by the stack.

The kernel's TLS: kernel_tls.py.
"""

import random
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.bypass.test_bypass import OPEN, load
from tests.kernel.support.bypass_lab import (
    Connection,
    connection,
    counted,
    exchanged,
    received,
)
from tests.kernel.support.conversation import size_of
from tests.kernel.support.socket_lab import PODS, Socketed, socket_lab

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("loads_of_children")]

OP_ENABLE_KTLS = 8  # of OpenSSL 3.0; Python has a name for it since 3.12
EXCHANGES = 50


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Socketed]:
    folder, pods = tmp_path_factory.mktemp("tls"), (PODS["web"], PODS["client"])
    with socket_lab(folder, OPEN, "c", pods, options=("--socket-programs",)) as found:
        certificate = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=web")
        made = ("-keyout", folder / "key.pem", "-out", folder / "certificate.pem")
        subprocess.run(["openssl", *certificate, *made], check=True, capture_output=True)
        found.bypass = "tcp"
        yield found


@pytest.fixture
def node(lab: Socketed) -> Iterator[Socketed]:
    load(lab)
    yield lab
    lab.unload()


def context(folder: Path, is_server: bool, by_kernel: bool) -> ssl.SSLContext:
    """TLS 1.2: OpenSSL 3.0 leaves receiving to the kernel only there."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    made.maximum_version = ssl.TLSVersion.TLSv1_2
    made.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")
    if is_server:
        made.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    else:
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    if by_kernel:
        made.options |= OP_ENABLE_KTLS
    return made


def converse(node: Socketed, talking: Connection, by_kernel: tuple[bool, bool]) -> None:
    """TLS begins; requests and answers follow at once, of random sizes."""
    requests, answers, chance = [], [], random.Random(str(by_kernel))
    for _ in range(EXCHANGES):
        requests.append(chance.randbytes(size_of(chance)))
        answers.append(chance.randbytes(size_of(chance)))
    errors: list[BaseException] = []

    def serve() -> None:
        made = context(node.folder, True, by_kernel[1])
        try:
            with made.wrap_socket(talking.server, server_side=True) as server:
                for request, answer in zip(requests, answers, strict=True):
                    assert received(server, len(request)) == request
                    server.sendall(answer)
        except BaseException as error:
            errors.append(error)

    serving = threading.Thread(target=serve)
    serving.start()
    try:
        made = context(node.folder, False, by_kernel[0])
        with made.wrap_socket(talking.client) as client:
            for request, answer in zip(requests, answers, strict=True):
                client.sendall(request)
                assert received(client, len(answer)) == answer
    finally:
        serving.join()
    assert not errors, errors


def begins_late(node: Socketed, by_kernel: tuple[bool, bool]) -> None:
    with connection(node) as talking:
        exchanged(node, talking)
        before = counted(node).messages
        converse(node, talking, by_kernel)
        found = counted(node)
        assert found.messages == before and found.left == {"tls": 2}


def test_tls_of_programs(node: Socketed) -> None:
    begins_late(node, (False, False))
