# SPDX-License-Identifier: Apache-2.0
"""Commands, and work in a pod: in its network namespace and its cgroup."""

import errno
import json
import os
import subprocess
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from policyc.runtime.kernel.namespaces import run_in

CGROUPS = Path("/run/cgroups")
PODS = "ab"
"""The pods that have a cgroup."""
ADDRESSES = {
    "net": {4: "10.9.0.1", 6: "fd09::1"},
    "node": {4: "10.9.0.2", 6: "fd09::2"},
    "node2": {4: "10.9.0.3", 6: "fd09::3"},
    "a": {4: "10.9.0.11", 6: "fd09::11"},
    "b": {4: "10.9.0.12", 6: "fd09::12"},
}
FAMILIES = (4, 6)


def _bash(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True)


def run(command: str) -> str:
    """Its output; `RuntimeError` where it fails."""
    done = _bash(command)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr.strip()}")
    return done.stdout


def succeeds(command: str) -> bool:
    return not _bash(command).returncode


def said(command: str) -> str:
    """It says yes, or no and the last line of what it says."""
    done = _bash(command)
    lines = (done.stdout + done.stderr).split("\n")
    return "no: " + next(filter(None, reversed(lines)), "?")[:70] if done.returncode else "yes"


def ip(pod: str, *commands: str, force: bool = False) -> None:
    """What `ip` does in the pod's namespace; with `force` all of it, whatever fails."""
    where = f"ip {in_namespace(pod)} {'-force' if force else ''} -batch -"
    text = "\n".join(commands)
    done = subprocess.run(where.split(), input=text, capture_output=True, text=True)
    if done.returncode and not force:
        raise RuntimeError(f"{where}: {text}: {done.stderr.strip()}")


def in_namespace(pod: str) -> str:
    """The option of ip(8)."""
    return "" if pod.startswith("node") else f"-n {pod}"


def entered(pod: str) -> str:
    """What a command begins with that runs in the pod's namespace."""
    return "" if pod.startswith("node") else f"nsenter --net=/run/netns/{pod}"


def index(pod: str, device: str) -> int:
    return int(_link(pod, device)["ifindex"])


def mac(pod: str, device: str) -> str:
    return str(_link(pod, device)["address"])


def netns_of_parent(pod: str, device: str) -> int:
    """The id that the pod's namespace has for that of the device's parent."""
    return int(_link(pod, device)["link_netnsid"])


def _link(pod: str, device: str) -> dict[str, str]:
    found: list[dict[str, str]] = json.loads(run(f"ip {in_namespace(pod)} -j link show {device}"))
    return found[0]


def unshared(*options: str) -> subprocess.Popen[bytes]:
    """A process in a network namespace and a user namespace of its own; or one that has ended."""
    child = subprocess.Popen(["unshare", "-U", "-n", *options, "sleep", "1000"])
    own = Path("/proc/self/ns/net").readlink()
    while child.poll() is None and Path(f"/proc/{child.pid}/ns/net").readlink() == own:
        time.sleep(0.1)
    return child


def start(pod: str, work: Callable[[], str]) -> Callable[[], str]:
    """Start the work in a process of the pod; what is returned waits for its answer.

    The answer of work that fails is the name of its errno, or the trace.
    """
    reads, writes = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(writes, _answer(pod, work).encode())
        os._exit(0)
    os.close(writes)

    def answer() -> str:
        with os.fdopen(reads) as said:
            text = said.read()
        os.waitpid(pid, 0)
        return text

    return answer


def _answer(pod: str, work: Callable[[], str]) -> str:
    try:
        if pod in PODS:
            (CGROUPS / pod / "cgroup.procs").write_text(str(os.getpid()))
        if pod.startswith("node"):
            return work()
        with Path(f"/run/netns/{pod}").open() as namespace:
            return run_in(namespace.fileno(), work)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    except BaseException:  # the process ends here
        return traceback.format_exc()
