# SPDX-License-Identifier: Apache-2.0
"""Common programs in the namespaces of `TwoNodes`. All end with their owner."""

import signal
import socket
import struct
import subprocess
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet
from scapy.utils import rdpcap

from tests.kernel.support.two_nodes import TwoNodes

PATIENCE = 30.0  # seconds in which a program has to be ready, or at its end
QUIET = 0.4  # seconds in which tcpdump writes nothing, though it waits for nothing
TUNNEL = 8477  # the port that nodes hand packets over by
_NGINX = """
daemon off; master_process off; error_log {folder}/error.log; pid {folder}/nginx.pid;
events {{ worker_connections 64; }}
http {{
  log_format who "$remote_addr"; access_log {folder}/access.log who;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen {port}; listen [::]:{port}; location / {{ return 200 "{body}"; }} }}
}}
"""


class Programs:
    """Of one lab."""

    def __init__(self, lab: TwoNodes, folder: Path, owned: ExitStack) -> None:
        self.lab, self.folder, self._owned = lab, folder, owned

    def start(self, where: str, *command: str) -> "subprocess.Popen[str]":
        """Until it is stopped, or all ends; its words are read from its standard error."""
        made = self.lab.at[where].within(
            lambda: subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
        )
        self._owned.callback(self.stop, made)
        return made

    @staticmethod
    def stop(program: "subprocess.Popen[str]") -> None:
        if program.poll() is None:
            program.send_signal(signal.SIGINT)
        try:
            program.wait(PATIENCE)
        finally:
            program.kill()
            if program.stderr:
                program.stderr.close()

    def say(self, where: str, *command: str) -> str:
        """What a program says; one that fails fails the test, with its words."""
        ended = self.ended(where, *command)
        assert ended.returncode == 0, (command, ended.stdout, ended.stderr)
        return ended.stdout

    def ended(self, where: str, *command: str) -> "subprocess.CompletedProcess[str]":
        return self.lab.at[where].within(
            lambda: subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        )

    def web_server(self, where: str, port: int, body: str) -> Path:
        """nginx, at every address there; gives its log, a line with the client's address a request."""
        configuration = self.folder / "nginx.conf"
        configuration.write_text(_NGINX.format(folder=self.folder, port=port, body=body))
        program = self.start(where, "nginx", "-c", str(configuration), "-p", str(self.folder))
        self._until_heard(program, port)
        return self.folder / "access.log"

    def iperf(self, where: str, port: int) -> None:
        """A server for one client: one that serves another may still be busy with the one before."""
        self._until_heard(self.start(where, "iperf3", "-s", "-1", "-p", str(port)), port)

    def name_server(self, where: str, address: str, port: int, answer: str) -> None:
        """Says the same address to every question, by UDP and by TCP."""
        family = 6 if ":" in address else 4
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            end = self.lab.server(where, family, kind, port)
            end.settimeout(None)
            serve = _answer_datagrams if kind == socket.SOCK_DGRAM else _answer_streams
            thread = threading.Thread(target=serve, args=(end, answer), daemon=True)
            thread.start()
            self._owned.callback(thread.join, PATIENCE)
            self._owned.callback(_end, end)

    def capture(self, where: str, device: str, words: str) -> "Capture":
        """Tcpdump of what the device sends and receives from now on."""
        file = self.folder / f"{where}-{device}.pcap"
        options = ["-n", "-U", "--immediate-mode", "-s", "200", "-w", str(file)]
        program = self.start(where, "tcpdump", "-i", device, *options, words)
        assert program.stderr
        line = program.stderr.readline()
        while line and "listening on" not in line:
            line = program.stderr.readline()
        assert line, "tcpdump did not begin"
        return Capture(self, program, file)

    def _until_heard(self, program: "subprocess.Popen[str]", port: int) -> None:
        began = time.monotonic()
        wanted = f":{port:04X} {'0' * 32}:0000 0A"
        while program.poll() is None and time.monotonic() - began < PATIENCE:
            if wanted in Path(f"/proc/{program.pid}/net/tcp6").read_text():
                return
            time.sleep(0.01)
        raise AssertionError(program.stderr and program.stderr.read())


class Capture:
    """What was seen at one device."""

    def __init__(self, programs: Programs, program: "subprocess.Popen[str]", file: Path) -> None:
        self._programs, self._program, self._file = programs, program, file

    def seen(self) -> set[tuple[str, str]]:
        """Addresses from and to, of all packets; "in" stands before those in the nodes' tunnel.

        What tcpdump has not read when it is stopped is lost, so it is given time until no more comes.
        """
        began, size = time.monotonic(), -1
        while time.monotonic() - began < PATIENCE and size != (size := self._file.stat().st_size):
            time.sleep(QUIET)
        self._programs.stop(self._program)
        return {_ends(each) for each in rdpcap(str(self._file))}


def _ends(frame: Packet) -> tuple[str, str]:
    before = ""
    packet = Ether(bytes(frame)).payload
    if UDP in packet and packet[UDP].dport == TUNNEL:
        before = "in "
        packet = VXLAN(bytes(packet[UDP].payload)).payload.payload
    inner = packet[IP if IP in packet else IPv6]
    return f"{before}{inner.src}", f"{before}{inner.dst}"


def _answer_datagrams(end: socket.socket, answer: str) -> None:
    while True:
        try:
            question, who = end.recvfrom(4096)
            if not question:  # no client asks any more
                return
            end.sendto(_reply(question, answer), who)
        except OSError:
            return


def _answer_streams(end: socket.socket, answer: str) -> None:
    while True:
        try:
            connection, _ = end.accept()
        except OSError:
            return
        with connection:
            connection.settimeout(PATIENCE)
            question = connection.recv(4096)[2:]
            reply = _reply(question, answer)
            connection.sendall(struct.pack("!H", len(reply)) + reply)


def _reply(question: bytes, answer: str) -> bytes:
    """RFC 1035: the header, the question as it was, one record that points to its name."""
    family, kind = (socket.AF_INET6, 28) if ":" in answer else (socket.AF_INET, 1)
    data = socket.inet_pton(family, answer)
    end = question.index(b"\0", 12) + 5
    header = question[:2] + struct.pack("!HHHHH", 0x8580, 1, 1, 0, 0)
    record = struct.pack("!HHHIH", 0xC00C, kind, 1, 60, len(data)) + data
    return header + question[12:end] + record


def _end(end: socket.socket) -> None:
    """A waiting thread is woken."""
    with suppress(OSError):  # of UDP that is not connected: woken all the same
        end.shutdown(socket.SHUT_RDWR)
    end.close()
