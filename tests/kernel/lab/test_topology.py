# SPDX-License-Identifier: Apache-2.0
"""A lab exists while its context is open, and leaves nothing behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest
from tests.kernel.lab.left import nothing_is_left_since

from policyc.runtime.lab import namespaces
from policyc.runtime.lab.children import LabError, call
from policyc.runtime.lab.topology import Lab, LabEndpoint

pytestmark = pytest.mark.kernel

ENDPOINTS = [
    LabEndpoint("shop", "web", IPv4Address("10.244.1.11"), IPv6Address("fd00:10:244:1::11")),
    LabEndpoint("shop", "db", IPv4Address("10.244.1.12"), None),
]


def traces(namespace: Path) -> list[str]:
    """What a lab that owns this namespace has on the machine."""
    suffix = namespace.name.removeprefix(namespaces.PREFIX).split("-")[0]
    names = [name for name in namespaces.lab_namespaces() if suffix in name]
    state = [path.name for path in namespaces.STATE.glob(f"{suffix}*")]
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if suffix in line]
    return names + state + mounts


def test_nothing_is_left_after_the_context() -> None:
    with Lab(ENDPOINTS) as lab:
        assert len(traces(lab.node.namespace)) >= 4
    assert traces(lab.node.namespace) == []


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_nothing_is_left_when_the_body_raises(kind: type[BaseException]) -> None:
    lab = Lab(ENDPOINTS)
    with pytest.raises(kind), lab:
        raise kind
    assert traces(lab.node.namespace) == []


def test_nothing_is_left_when_the_wiring_fails() -> None:
    before = namespaces.stale_labs()
    twice = [ENDPOINTS[0], LabEndpoint("shop", "twin", ENDPOINTS[0].ipv4)]
    with pytest.raises(Exception, match="exists"), Lab(twice):
        pass
    assert nothing_is_left_since(before)


def test_two_labs_live_at_once() -> None:
    with Lab(ENDPOINTS) as one, Lab(ENDPOINTS) as other:
        assert one.node.namespace != other.node.namespace
        namespaces.remove_stale_labs()
        assert traces(one.node.namespace) and traces(other.node.namespace)
    assert traces(one.node.namespace) == traces(other.node.namespace) == []


def where_no_namespace_has_a_name(program: str) -> None:
    """Runs it with mounts of its own, where /run is empty."""
    command = f'mount -t tmpfs tmpfs /run && exec {sys.executable} -c "$PROGRAM"'
    given = os.environ | {"PROGRAM": textwrap.dedent(program)}
    subprocess.run(["unshare", "--mount", "sh", "-c", command], env=given, check=True, timeout=60)


def test_nothing_is_left_where_ip_netns_is_first_used_beside_a_lab() -> None:
    """The first `ip netns add` of a machine makes /run/netns a mount."""
    where_no_namespace_has_a_name("""
        import subprocess
        from policyc.runtime.lab.namespaces import lab_namespaces
        from policyc.runtime.lab.topology import Lab
        with Lab([]) as lab:
            assert lab.node.namespace.name in lab_namespaces()
            subprocess.run(["ip", "netns", "add", "other"], check=True)
        assert lab_namespaces() == (), lab_namespaces()
        subprocess.run(["ip", "netns", "delete", "other"], check=True)
    """)


def test_a_lab_that_cannot_be_removed_is_an_error_and_prevents_no_other() -> None:
    where_no_namespace_has_a_name("""
        import subprocess
        from policyc.runtime.lab.children import LabError
        from policyc.runtime.lab.namespaces import NAMESPACES, lab_namespaces
        from policyc.runtime.lab.topology import Lab
        try:
            with Lab([]) as lab:
                subprocess.run(["mount", "--rbind", NAMESPACES, NAMESPACES], check=True)
                subprocess.run(["mount", "--make-rprivate", NAMESPACES], check=True)
        except LabError as error:
            assert "another mount over /run/netns" in str(error), error
        else:
            raise AssertionError("no error")
        left = lab_namespaces()
        with Lab([]) as other:
            assert other.node.namespace.name in lab_namespaces()
        assert lab_namespaces() == left != ()
    """)


def test_the_remains_of_a_killed_process_are_removed() -> None:
    program = textwrap.dedent("""
        import sys, time
        from policyc.runtime.lab.topology import Lab
        with Lab([]) as lab:
            print(lab.node.namespace, flush=True)
            time.sleep(60)
    """)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().decode().strip())
        process.send_signal(signal.SIGKILL)
    assert traces(left) != []
    with Lab([]):
        assert traces(left) == []


def test_nothing_is_left_after_an_interrupt_from_the_terminal() -> None:
    """The interrupt goes to the whole process group, and finds a child at work in the node."""
    program = textwrap.dedent("""
        import signal
        from policyc.runtime.lab.topology import Lab
        # A shell that runs the tests in the background has them ignore the interrupt.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with Lab([]) as lab:
            print(lab.node.namespace, flush=True)
            lab.node.run_in(signal.pause)
    """)
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        left = Path(process.stdout.readline().decode().strip())
        os.killpg(process.pid, signal.SIGINT)
        assert b"KeyboardInterrupt" in process.communicate(timeout=60)[1]
    assert traces(left) == []


def test_an_interrupt_right_after_the_fork_leaves_no_child() -> None:
    program = textwrap.dedent("""
        import os, signal
        from policyc.runtime.lab.children import call
        signal.signal(signal.SIGINT, signal.default_int_handler)
        fork = os.fork
        def interrupted():
            pid = fork()
            if pid:
                os.kill(os.getpid(), signal.SIGINT)
            return pid
        os.fork = interrupted
        try:
            call(signal.pause)
        except KeyboardInterrupt:
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                print("no child")
    """)
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=60, check=False
    )
    assert ended.stdout == b"no child\n", ended.stderr


def test_an_interrupt_that_comes_just_before_the_wait_is_seen() -> None:
    """Taken by a second thread, it does not end the first one's system call: the same state."""
    program = textwrap.dedent("""
        import signal, subprocess, sys, threading, time
        from policyc.runtime.lab.children import call
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        print("ready", flush=True)
        call(signal.pause)
    """)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in process.communicate(timeout=60)[1]


def test_work_runs_inside_the_node() -> None:
    with Lab(ENDPOINTS) as lab:
        names = lab.node.run_in(lambda: sorted(name for _, name in socket.if_nameindex()))
        assert {"lo", "pod1", "pod2", "uplink0"} <= set(names)
        assert lab.node.run_in(os.getpid) != os.getpid()
        assert [pod.interface for pod in lab.node.pods] == ["pod1", "pod2"]


def test_the_bpffs_is_visible_inside_the_node() -> None:
    with Lab(ENDPOINTS) as lab:
        lab.node.run_in((lab.node.bpffs / "pins").mkdir)
        assert (lab.node.bpffs / "pins").is_dir()
    assert not lab.node.bpffs.exists()


def test_an_exception_in_the_node_is_raised_outside() -> None:
    def fail() -> None:
        raise FileNotFoundError(2, "no such bundle")

    with Lab([]) as lab, pytest.raises(FileNotFoundError, match="no such bundle"):
        lab.node.run_in(fail)


def test_a_child_that_dies_or_stalls_is_an_error() -> None:
    with pytest.raises(LabError, match="status"):
        call(lambda: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(LabError, match="timed out"):
        call(signal.pause, timeout=0.1)


def test_pods_have_the_mac_and_addresses_that_the_endpoints_file_says(tmp_path: Path) -> None:
    metadata: dict[str, dict[str, object]] = {
        "shop/web": {"labels": {"app": "web"}, "namespaceLabels": {"team": "shop"}},
        "shop/db": {"labels": {}, "serviceAccount": "db"},
        "shop/far": {"labels": {}, "addresses": ["10.244.2.9"], "node": "node-2"},
    }
    with Lab(ENDPOINTS) as lab:
        lab.node.write_endpoints(tmp_path / "endpoints.json", metadata)
        pod = lab.node.pods[0]
        mac = call(
            lambda: (
                subprocess.run(
                    ["ip", "link", "show", "eth0"], capture_output=True, text=True, check=True
                ).stdout
            ),
            namespace=pod.namespace,
        )
    document = json.loads((tmp_path / "endpoints.json").read_text())
    assert (document["schema"], document["node"]) == ("policyc.dev/endpoints/v1", "node-1")
    db, far, web = document["endpoints"]
    assert far == {"namespace": "shop", "name": "far", **metadata["shop/far"]}
    assert db["addresses"] == ["10.244.1.12"]
    assert web["addresses"] == ["10.244.1.11", "fd00:10:244:1::11"]
    assert (web["interface"], web["node"], web["labels"]) == ("pod1", "node-1", {"app": "web"})
    assert web["mac"] in mac


def test_metadata_must_name_every_pod() -> None:
    with Lab(ENDPOINTS) as lab, pytest.raises(LabError, match="shop/db, shop/web"):
        lab.node.endpoints_document({})


def test_names_of_ends_are_unique() -> None:
    with pytest.raises(LabError, match="shop/web"):
        Lab([ENDPOINTS[0], ENDPOINTS[0]])
