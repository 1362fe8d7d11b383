# SPDX-License-Identifier: Apache-2.0
"""HTTP through a bed of datapath_beds.py: ab sends requests to nginx, one after the other."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from datapath_beds import Bed

WAYS = {"http": (), "keepalive": ("-k",)}
"""To ab's words: a connection for each request, or one for all."""
WARM_UP = 50
PATIENCE = 5.0
CONFIGURATION = """
daemon off;
master_process off;
error_log {folder}/error.log;
pid {folder}/nginx.pid;
events {{ worker_connections 64; }}
http {{
  access_log off;
  keepalive_requests 100000000;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{
    listen {port}; listen [::]:{port};
    location / {{ return 200 "{body}"; }}
    location = /count {{ stub_status; }}
  }}
}}
"""


def request_ns(
    folder: Path, bed: Bed, family: int, way: str, n: int, cpu: int, softirq: int
) -> float:
    """Nanoseconds of CPU for a request: of ab, of nginx, and of the kernel's thread for packets."""
    address = bed.asked[family]
    url = f"http://{f'[{address}]' if family == 6 else address}:{bed.port}/"
    words = ["ab", "-q", "-s", "5", "-c", "1", *WAYS[way]]
    with _nginx(folder, bed, cpu) as server:
        _asked([*words, "-n", str(WARM_UP), url], bed, cpu, WARM_UP)
        before = _spent(server) + _spent(softirq)
        own = _asked([*words, "-n", str(n), url], bed, cpu, n)
        return (own + _spent(server) + _spent(softirq) - before) / n


def _within(namespace: Path, words: list[str], cpu: int) -> list[str]:
    return ["nsenter", f"--net={namespace}", "taskset", "-c", str(cpu), *words]


@contextmanager
def _nginx(folder: Path, bed: Bed, cpu: int) -> Iterator[int]:
    configuration = folder / "nginx.conf"
    configuration.write_text(CONFIGURATION.format(folder=folder, port=bed.port, body=64 * "x"))
    words = _within(bed.server, ["nginx", "-c", str(configuration), "-p", str(folder)], cpu)
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
        try:
            _wait_until_heard(bed, server)
            yield server.pid
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(PATIENCE)


def _wait_until_heard(bed: Bed, server: "subprocess.Popen[str]") -> None:
    """Until its port is taken; nsenter and taskset become nginx, so that the pid is its own."""
    began = time.monotonic()
    while server.poll() is None and time.monotonic() - began < PATIENCE:
        listening = Path(f"/proc/{server.pid}/net/tcp6").read_text()
        if f":{bed.port:04X} {'0' * 32}:0000 0A" in listening:
            return
        time.sleep(0.01)
    raise SystemExit(f"{bed.name}: nginx does not start: {server.stderr and server.stderr.read()}")


def _asked(words: list[str], bed: Bed, cpu: int, n: int) -> int:
    """The nanoseconds that ab took, if every request was answered."""
    with subprocess.Popen(
        _within(bed.client, words, cpu),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as client:
        assert client.stdout is not None
        said = client.stdout.read()
        _, status, usage = os.wait4(client.pid, 0)
        client.returncode = os.waitstatus_to_exitcode(status)
    if client.returncode or f"Complete requests:      {n}\n" not in said or "Non-2xx" in said:
        raise SystemExit(f"{bed.name}: not every request was answered: {said.strip()}")
    return round((usage.ru_utime + usage.ru_stime) * 1e9)


def _spent(pid: int) -> int:
    """The first number of the scheduler's account: nanoseconds on a CPU."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
