# SPDX-License-Identifier: Apache-2.0
"""Real programs over bypassed connections: their own benchmark or client passes."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.kernel.bypass.test_bypass import OPEN, load
from tests.kernel.support.bypass_lab import counted
from tests.kernel.support.socket_lab import PODS, Socketed, host_of, socket_lab
from tests.property.length import examples

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("loads_of_children")]

PROGRAMS = Path(__file__).parent / "programs"
SYSTEM_PYTHON = "/usr/bin/python3"
PORT = 9080
SECONDS = 6
"""Of a client: a connection is bypassed after about three."""
EACH_FILE = examples(240, 3)
"""So often curl asks for it."""
WEB = host_of("web").ip4
NGINX = """\
user root; worker_processes 1; daemon off; error_log {folder}/error.log; pid {folder}/pid;
events {{}}
http {{
  access_log off; keepalive_requests 1000000; sendfile on; tcp_nopush on;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen 9080; listen 9081 http2; root {folder}/files; }}
}}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Socketed]:
    folder = tmp_path_factory.mktemp("programs")
    pods = PODS["web"], PODS["client"]
    with socket_lab(folder, OPEN, "c", pods, options=("--socket-programs",)) as found:
        found.bypass = "tcp"
        yield found


@pytest.fixture
def node(lab: Socketed) -> Iterator[Socketed]:
    load(lab)
    yield lab
    lab.unload()


def within(node: Socketed, pod: str, words: Sequence[object]) -> list[str]:
    """A command line that runs in the pod's network namespace."""
    return ["nsenter", f"--net={node.lab.ends[f'shop/{pod}'].namespace}", *map(str, words)]


@contextlib.contextmanager
def serving(node: Socketed, words: Sequence[object], port: int = PORT) -> Iterator[None]:
    """A server in the pod `web`, until its port is taken and the block has ended."""
    process = subprocess.Popen(
        within(node, "web", words),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        listens = within(node, "web", ["ss", "-Hltn", f"sport = :{port}"])

        def is_ready() -> bool:
            assert process.poll() is None, process.stderr and process.stderr.read().decode()
            return bool(subprocess.run(listens, capture_output=True, check=True).stdout)

        eventually(is_ready, f"{words[0]} listens")
        yield
    finally:
        process.terminate()
        process.wait()
        assert process.stderr
        process.stderr.close()


def client(node: Socketed, *words: object) -> str:
    """What a client in the pod `client` prints; it has to succeed, and to be bypassed."""
    before = counted(node).messages
    done = subprocess.run(
        within(node, "client", words), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert counted(node).messages > before + 10, f"nothing was bypassed: {counted(node)}"
    return done.stdout


@pytest.fixture
def nginx(node: Socketed, tmp_path: Path) -> Iterator[Path]:
    """The folder of the files that it serves."""
    files = tmp_path / "files"
    files.mkdir()
    for n in range(5):
        (files / f"{n}").write_bytes(os.urandom(1 + 40000 * n))
    (tmp_path / "nginx.conf").write_text(NGINX.format(folder=tmp_path))
    tmp_path.chmod(0o755)
    with serving(node, ["nginx", "-c", tmp_path / "nginx.conf", "-p", tmp_path]):
        yield files


@pytest.mark.slow
def test_nginx_and_ab_with_kept_connections(node: Socketed, nginx: Path) -> None:
    words = ("ab", "-q", "-k", "-c", 4, "-t", SECONDS, "-n", 10**7, f"http://{WEB}:{PORT}/1")
    said = client(node, *words)
    assert "Failed requests:        0" in said and "Non-2xx" not in said


@pytest.mark.slow
def test_curl_over_one_connection(node: Socketed, nginx: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    urls = f"http://{WEB}:{PORT}/[0-4]?[1-{EACH_FILE}]"
    rate = f"{5 * EACH_FILE // SECONDS}/s"
    client(node, "curl", "-sSf", "--rate", rate, urls, "-o", out / "#1-#2")
    due = {n: hashlib.sha256((nginx / f"{n}").read_bytes()).digest() for n in range(5)}
    found = list(out.iterdir())
    assert len(found) == 5 * EACH_FILE
    for each in found:
        assert hashlib.sha256(each.read_bytes()).digest() == due[int(each.name[0])], each.name


@pytest.mark.slow
def test_http2(node: Socketed, nginx: Path) -> None:
    words = ("h2load", "-D", SECONDS, "-c", 2, "-m", 4, f"http://{WEB}:{PORT + 1}/1")
    said = client(node, *words)
    assert re.search(r"status codes: \d+ 2xx, 0 3xx, 0 4xx, 0 5xx", said)
    assert re.search(r" 0 failed, 0 errored, 0 timeout", said)


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        pytest.param((), id="up"),
        pytest.param(("-R",), id="down"),
        pytest.param(("--bidir",), id="both"),
    ],
)
def test_iperf3(node: Socketed, how: Sequence[str]) -> None:
    """Its streams stay with the stack, and arrive."""
    with serving(node, ["iperf3", "-s", "-p", PORT]):
        words = ("iperf3", "-c", WEB, "-p", PORT, "-t", 4, "-J", *how)
        done = subprocess.run(
            within(node, "client", words), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout
        assert json.loads(done.stdout)["end"]["sum_received"]["bytes"] > 1 << 20


@pytest.mark.slow
def test_asyncio(node: Socketed) -> None:
    words = [sys.executable, PROGRAMS / "asyncio_echo.py"]
    with serving(node, [*words, "serve", PORT]):
        assert int(client(node, *words, "ask", WEB, PORT, SECONDS)) > 100


@pytest.mark.slow
def test_grpc(node: Socketed) -> None:
    words = [SYSTEM_PYTHON, PROGRAMS / "grpc_echo.py"]
    with serving(node, [*words, "serve", PORT]):
        assert int(client(node, *words, "ask", WEB, PORT, SECONDS)) > 100


@pytest.mark.slow
def test_go_net_http(node: Socketed, tmp_path: Path) -> None:
    binary = tmp_path / "go_http"
    environment = os.environ | {"GOCACHE": str(tmp_path / "cache"), "GO111MODULE": "off"}
    subprocess.run(
        ["go", "build", "-o", binary, PROGRAMS / "go_http.go"], check=True, env=environment
    )
    with serving(node, [binary, "serve", f":{PORT}"]):
        client(node, binary, "ask", f"http://{WEB}:{PORT}/", SECONDS)


@pytest.mark.slow
def test_node_js(node: Socketed) -> None:
    words = ["node", PROGRAMS / "node_http.js"]
    with serving(node, [*words, "serve", PORT]):
        client(node, *words, "ask", WEB, PORT, SECONDS)


@pytest.mark.slow
def test_wrk(node: Socketed, nginx: Path) -> None:
    said = client(node, "wrk", "-t", 2, "-c", 8, "-d", f"{SECONDS}s", f"http://{WEB}:{PORT}/1")
    assert "Socket errors" not in said and "Non-2xx" not in said


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", [1, 32])
def test_redis(node: Socketed, tmp_path: Path, pipeline: int) -> None:
    server = ["redis-server", "--port", PORT, "--bind", "*", "--protected-mode", "no"]
    server += ["--save", "", "--dir", tmp_path]
    with serving(node, server):
        requests = 600_000 * (12 if pipeline > 1 else 1)
        said = client(
            *(node, "redis-benchmark", "-h", WEB, "-p", PORT, "-t", "set,get", "-q"),
            *("-c", 4, "-P", pipeline, "-n", requests, "-d", 200, "--csv"),
        )
        assert "SET" in said and "GET" in said
        key = ["redis-cli", "-h", WEB, "-p", PORT]
        value = "v" * 100_000
        subprocess.run(within(node, "client", [*key, "set", "k", value]), check=True)
        got = subprocess.run(
            within(node, "client", [*key, "get", "k"]), capture_output=True, text=True, check=True
        )
        assert got.stdout.strip() == value


@pytest.fixture
def postgresql(node: Socketed, tmp_path: Path) -> Iterator[Path]:
    """Its folder of programs; a database `bench` is there."""
    (programs,) = Path("/usr/lib/postgresql").glob("*/bin")
    data = tmp_path / "data"
    data.mkdir()
    for each in (tmp_path, *tmp_path.parents):
        if each == Path("/tmp"):
            break
        each.chmod(each.stat().st_mode | 0o011)
    shutil.chown(data, "postgres")
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    subprocess.run(
        [*as_user, programs / "initdb", "-A", "trust", "-D", data], check=True, capture_output=True
    )
    with (data / "pg_hba.conf").open("a") as file:
        file.write("host all all 0.0.0.0/0 trust\n")
    server = [*as_user, programs / "postgres", "-D", data, "-p", PORT, "-k", data]
    with serving(node, [*server, "-c", "listen_addresses=*"]):
        yield programs


def asked(node: Socketed, to: Sequence[object], question: str) -> str:
    """What psql answers."""
    words = ["psql", *to, "-At", "-c", question, "bench"]
    done = subprocess.run(within(node, "client", words), capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.slow
def test_postgresql(node: Socketed, postgresql: Path) -> None:
    to = ["-h", WEB, "-p", PORT, "-U", "postgres"]
    bench = postgresql / "pgbench"
    for words in (["createdb", *to, "bench"], [bench, "-i", "-q", *to, "bench"]):
        subprocess.run(within(node, "client", words), check=True, capture_output=True)
    for mode in ("simple", "prepared"):
        said = client(node, bench, *to, "-n", "-M", mode, "-c", 4, "-T", SECONDS, "bench")
        assert "number of failed transactions: 0" in said
    one = "select sum(abalance) from pgbench_accounts"
    assert asked(node, to, one) == asked(node, to, "select sum(delta) from pgbench_history")
    rows = "select string_agg(md5(n::text), '') from generate_series(1, 100000) n"
    whole = asked(node, to, rows)
    assert whole == "".join(hashlib.md5(str(n).encode()).hexdigest() for n in range(1, 100001))
