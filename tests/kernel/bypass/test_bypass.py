# SPDX-License-Identifier: Apache-2.0
"""TCP data between two pods of the node goes from socket to socket, where the policy allows it."""

import errno
import json
import socket
from collections.abc import Iterator

import pytest

from policyc.runtime import switch
from policyc.runtime.attach.bypass import SLOT
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.maps.bypass import BypassPods
from tests.eventually import eventually
from tests.kernel.support.bundles import compiled
from tests.kernel.support.bypass_lab import (
    connection,
    counted,
    deliver,
    exchanged,
    exchanged_for,
)
from tests.kernel.support.socket_lab import PODS, Socketed, socket_lab, ways
from tests.slices import one_in

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("loads_of_children")]

OPEN = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: guarded, namespace: shop}
spec:
  podSelector: {matchLabels: {app: guarded}}
  policyTypes: [Egress]
  egress: [{to: [{podSelector: {matchLabels: {app: web}}}]}]
"""
SHUT = OPEN.replace("web", "cart")
NOTED = """\
apiVersion: policyc.dev/v1alpha1
kind: ExtendedPolicy
metadata: {{name: noted, namespace: shop}}
spec:
  tier: 1
  appliesTo: pod.app == "guarded"
  rules: |
    egress:
      {}
      pass
"""
LONGER = 5.0
"""Seconds by which a connection that may be bypassed is."""


@pytest.fixture(scope="module", params=["c", pytest.param("llvm", marks=pytest.mark.slow)])
def lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Socketed]:
    folder, pods = tmp_path_factory.mktemp("bypass"), tuple(PODS.values())
    how = ("--backend", request.param, "--socket-programs")
    with socket_lab(folder, OPEN, request.param, pods, "pods", ("--socket-programs",)) as found:
        compiled(folder, SHUT, *how, name="shut")
        found.bypass = "tcp"
        yield found


@pytest.fixture
def node(lab: Socketed) -> Iterator[Socketed]:
    yield lab
    lab.bundle, lab.bypass = "bundle", "tcp"
    lab.unload()


def load(node: Socketed, bundle: str = "bundle") -> None:
    node.bundle = bundle
    node.load_at(None)


@ways
def test_requests_and_answers_bypass_the_stack(node: Socketed, way: str) -> None:
    load(node)
    with connection(node, way=way) as talking:
        exchanged(node, talking)
        for size in (1, 1000, 64000, 300000):
            before = counted(node)
            talking.exchange(b"q" * size, b"a" * size)
            assert counted(node).bytes == before.bytes + 2 * size
        assert counted(node).connections == 1 and not counted(node).left
        talking.client.shutdown(socket.SHUT_WR)
        deliver(talking.server, talking.client, b"the rest")
        assert talking.server.recv(10) == b""
        talking.server.close()
        assert talking.client.recv(10) == b""


def test_a_policy_that_allows_a_connection_lets_it_return_to_the_bypass(node: Socketed) -> None:
    load(node)
    with connection(node, ("guarded", "web")) as talking:
        exchanged(node, talking)
        load(node)
        exchanged(node, talking)
        assert set(counted(node).left) == {"policy"}


@pytest.mark.usefixtures("listing")
def test_a_connection_that_a_policy_denies_ends_though_both_ends_only_read(node: Socketed) -> None:
    load(node)
    with connection(node, ("guarded", "web")) as denied, connection(node, port=9001) as allowed:
        exchanged(node, denied)
        exchanged(node, allowed)
        load(node, "shut")
        for each in (denied.client, denied.server):
            with pytest.raises(OSError) as found:
                each.recv(10)
            assert found.value.errno in (errno.ECONNABORTED, errno.ECONNRESET)
        exchanged(node, allowed)


def test_data_from_before_a_denial_may_be_read_and_none_from_after_it_arrives(
    node: Socketed,
) -> None:
    load(node)
    with connection(node, ("guarded", "web")) as talking:
        exchanged(node, talking)
        talking.client.sendall(b"before")
        load(node, "shut")
        with pytest.raises(OSError):
            talking.client.sendall(b"after")
        found = b""
        try:
            while data := talking.server.recv(100):
                found += data
        except OSError:
            pass
        assert found in (b"", b"before")


def test_without_the_option_nothing_is_bypassed_any_more(node: Socketed) -> None:
    load(node)
    with connection(node) as talking:
        exchanged(node, talking)
        node.bypass = None
        load(node)
        before = counted(node).messages
        exchanged_for(talking, 0.5)
        assert counted(node).messages == before


def test_after_an_unload_nothing_is_bypassed_any_more(node: Socketed) -> None:
    load(node)
    with connection(node) as talking:
        exchanged(node, talking)
        node.unload()
        exchanged_for(talking, 0.5)
        load(node)
        exchanged_for(talking, LONGER)
        assert counted(node).messages == 0


def test_a_pod_may_opt_out(node: Socketed) -> None:
    file = node.folder / "endpoints.json"
    kept = file.read_text()
    document = json.loads(kept)
    for each in document["endpoints"]:
        if each["name"] == "web":
            each["bypass"] = False
    try:
        file.write_text(json.dumps(document))
        load(node)
        with connection(node) as talking, connection(node, ("client", "cart"), port=9001) as other:
            exchanged(node, other)
            before = counted(node).messages
            exchanged_for(talking, LONGER)
            assert counted(node).messages == before and counted(node).connections == 1
    finally:
        file.write_text(kept)


def test_a_slow_receiver_gets_the_rest_by_the_stack_in_order(node: Socketed) -> None:
    load(node)
    data = bytes(range(256)) * 16384  # 4 MiB
    with connection(node) as talking:
        exchanged(node, talking)
        talking.client.setblocking(False)
        sent = 0
        while True:
            try:
                sent += talking.client.send(data[sent : sent + 65536])
            except BlockingIOError:
                break
        assert sent > 1 << 20 and counted(node).left == {"unread": 1}
        talking.client.settimeout(10)
        found = b""
        while len(found) < sent:
            found += talking.server.recv(100000)
        assert found == data[:sent]
        deliver(talking.server, talking.client, b"read")
        exchanged(node, talking)


def test_the_status_tells_what_is_bypassed_and_by_which_rules(node: Socketed) -> None:
    load(node)
    with connection(node, ("guarded", "web")) as talking:
        exchanged(node, talking)
        found = node.status().bypass
        assert found is not None
        assert (found.open, found.sending, found.connections) == (1, 2, 1)
        assert found.messages >= 2 and found.bytes >= len(b"request" + b"answer")
        assert any("shop/guarded" in each.where and each.messages for each in found.rules)

    def has_none() -> bool:
        now = node.status().bypass
        return now is not None and now.open == 0

    eventually(has_none, "the sockets are closed")
    node.bypass = None
    load(node)
    assert node.status().bypass is None


def test_a_load_that_fails_leaves_the_bypass_of_the_load_before(
    node: Socketed, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.bypass = None
    load(node)
    before = {path.name for path in node.pins.maps.iterdir()}

    def fails(*_: object) -> None:
        raise HostError("the switch fails")

    node.bypass = "tcp"
    with monkeypatch.context() as patched:
        patched.setattr(switch, "store", fails)
        with pytest.raises(HostError, match="the switch fails"):
            load(node)
    assert (
        not SLOT.program(node.pins) and {path.name for path in node.pins.maps.iterdir()} == before
    )
    load(node)
    called, epoch = SLOT.program(node.pins), node.status().epoch
    with monkeypatch.context() as patched:
        patched.setattr(switch, "store", fails)
        with pytest.raises(HostError, match="the switch fails"):
            load(node)
    assert SLOT.program(node.pins) == called
    with BypassPods(node.pins) as pods:
        assert pods.numbers(epoch) and not pods.numbers(epoch + 1)
    with connection(node) as talking:
        exchanged(node, talking)


def test_the_load_needs_the_programs(node: Socketed) -> None:
    compiled(node.folder, OPEN, "--backend", "c", name="plain")
    with pytest.raises(InputError, match="lacks the programs of --bypass"):
        load(node, "plain")
    assert not node.pins.is_there()


@pytest.mark.slow
@pytest.mark.parametrize(
    "noted",
    one_in(3, ["allow tcp to any log", "allow tcp to any limit 1000/s", "audit tcp to any"]),
)
def test_a_rule_that_notes_or_limits_keeps_its_connections_with_the_stack(
    node: Socketed, noted: str
) -> None:
    compiled(node.folder, NOTED.format(noted), "--backend", "c", "--socket-programs", name="noted")
    load(node, "noted")
    with connection(node, ("guarded", "web")) as talking, connection(node, port=9001) as other:
        exchanged(node, other)
        before = counted(node).messages
        exchanged_for(talking, LONGER)
        assert counted(node).messages == before and counted(node).connections == 1
