# SPDX-License-Identifier: Apache-2.0
"""Cases by size: rules of one sort from 1 to 10,000, deep diagrams, and where layouts change.

All numbers come from the position of a rule, so that a case is the same each time it is made.
"""

from collections.abc import Callable, Iterator
from typing import Any

from policyc.ir.plan import DiagramLayout
from tests.kernel_corpus.case import CorpusCase, Objects

Rule = dict[str, Any]
SIZES = (1, 10, 100, 1000, 10000)
PODS = 500
"""Pods of the cluster of selector and mixed rules, of as many classes."""


def size_cases() -> Iterator[CorpusCase]:
    """Every sort in every size, then the odd shapes."""
    for sort, (rule, is_for_cluster) in SORTS.items():
        for n in SIZES:
            cluster = classes(min(n, PODS)) if is_for_cluster else ()
            yield CorpusCase(
                f"{sort}-{n}",
                f"{n} {'rule' if n == 1 else 'rules'} {MEANINGS[sort]}",
                _policies(rule, n, sort == "mixed"),
                cluster,
            )
    yield from _shapes()


def classes(n: int) -> Objects:
    """A namespace and n pods on one node, each with a label value of its own."""
    return tuple(_pod(i) for i in range(n))


def _pod(i: int) -> dict[str, Any]:
    v4, v6 = f"10.1.{i // 250}.{i % 250 + 1}", f"fd00:1::{i + 1:x}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{i}", "namespace": "shop", "labels": {"app": f"a{i}"}},
        "spec": {
            "nodeName": "n1",
            "containers": [
                {"name": "c", "ports": [{"name": "http", "containerPort": 8000 + i % 3}]}
            ],
        },
        "status": {"podIPs": [{"ip": v4}, {"ip": v6}]},
    }


def _policy(
    rule: Callable[[int], Rule], n: int, name: str = "rules", **subject: str
) -> dict[str, Any]:
    """One NetworkPolicy of n ingress rules; `subject` are labels, none for every pod."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"namespace": "shop", "name": name},
        "spec": {
            "podSelector": {"matchLabels": dict(subject)},
            "policyTypes": ["Ingress"],
            "ingress": [rule(i) for i in range(n)],
        },
    }


def _policies(rule: Callable[[int], Rule], n: int, for_classes: bool) -> Objects:
    """Rules 0 to n-1: in one policy for every pod, or in policies of at most 1000 for one class each."""
    if not for_classes:
        return (_policy(rule, n),)
    return tuple(
        _policy(_from(at, rule), min(n, 1000), f"p{at}", app=f"a{at // 1000}")
        for at in range(0, n, 1000)
    )


def _from(at: int, rule: Callable[[int], Rule]) -> Callable[[int], Rule]:
    return lambda i: rule(at + i)


def _by_selector(i: int) -> Rule:
    """A class of pods each, on other ports the second time round."""
    peer = {"podSelector": {"matchLabels": {"app": f"a{i % PODS}"}}}
    return {"from": [peer], "ports": [{"port": 1000 + i // PODS}]}


def _by_cidr4(i: int) -> Rule:
    """Blocks of /24 with gaps between them."""
    return {
        "from": [_block(f"{20 + i // 8192}.{i // 128 % 64 * 4}.{i % 128 * 2}.0/24")],
        **_port(i),
    }


def _by_cidr6(i: int) -> Rule:
    return {"from": [_block(f"2001:db8:{i * 2:x}::/48")], **_port(i)}


def _by_port(i: int) -> Rule:
    """A port each, with gaps between them."""
    return {"ports": [{"port": 1000 + 2 * i}]}


def _mixed(i: int) -> Rule:
    if i % 50 == 0:
        return _by_port(i // 50)
    return (_by_selector, _by_cidr4, _by_cidr6, _by_range)[i % 4](i // 4)


def _by_range(i: int) -> Rule:
    peer = {"podSelector": {"matchLabels": {"app": f"a{i % PODS}"}}}
    low = 20000 + i * 4 % 40000
    return {"from": [peer], "ports": [{"protocol": "UDP", "port": low, "endPort": low + 2}]}


def _block(cidr: str) -> Rule:
    return {"ipBlock": {"cidr": cidr}}


def _port(i: int) -> Rule:
    return {"ports": [{"port": 1000 + i % 50}]}


SORTS: dict[str, tuple[Callable[[int], Rule], bool]] = {
    "selectors": (_by_selector, True),
    "cidrs": (_by_cidr4, False),
    "ports": (_by_port, False),
    "mixed": (_mixed, True),
}
"""Name -> rule by its position, and whether the cluster is known."""
MEANINGS = {
    "selectors": "with a selector and a port",
    "cidrs": "with an IPv4 block and a port",
    "ports": "with a port",
    "mixed": "with selectors, blocks of both families, ports or ranges",
}


def _shapes() -> Iterator[CorpusCase]:
    yield CorpusCase("cidrs6-3000", "3000 IPv6 blocks in one policy", (_policy(_by_cidr6, 3000),))
    yield CorpusCase(
        "cidrs-nested", "nested blocks of every prefix length in both families",
        (_policy(_nested, 32 + 128),),
    )  # fmt: skip
    yield CorpusCase(
        "close-blocks", "600 blocks of three sizes in three /16s, over a known cluster",
        (_policy(_close, 600),), classes(4),
    )  # fmt: skip
    yield CorpusCase("hosts-500", "500 single addresses", (_policy(_single, 500),))
    for runs in (31, 32, 33):
        yield CorpusCase(
            f"runs4-{2 * runs + 1}",
            f"{2 * runs + 1} runs of IPv4 addresses: near the limit for emitted code",
            (_policy(_by_cidr4, runs),),
        )  # fmt: skip
    for runs in (15, 16):
        yield CorpusCase(
            f"runs6-{2 * runs + 1}",
            f"{2 * runs + 1} runs of IPv6 addresses: near the limit for emitted code",
            (_policy(_by_cidr6, runs),),
        )  # fmt: skip
    for n in (127, 300):
        yield CorpusCase(
            f"deep-diagram-{n}",
            f"{n} port ranges between one pair of classes",
            _deep(n),
            classes(3),
        )
    yield CorpusCase(
        "alike-diagrams", "1500 ports for any peer, and one more port for each of 12 pods",
        _alike(1500, 12), classes(12), diagrams=DiagramLayout.CHANGES,
    )  # fmt: skip
    yield CorpusCase(
        "wide-diagrams", "64 diagrams of a few steps, one for each pair of classes",
        tuple(_policy(_by_range, 4, f"p{i}", app=f"a{i}") for i in range(64)), classes(64),
    )  # fmt: skip
    yield CorpusCase(
        "many-policies", "1000 policies of one rule over 1000 classes", _pairs(1000), classes(1000)
    )
    yield CorpusCase(
        "too-many-pairs", "2400 policies of one rule over 2400 classes, from every class",
        _pairs(2400), classes(2400),
    )  # fmt: skip
    yield CorpusCase(
        "admin-priorities", "40 priorities, evaluated in order", _admin(40), classes(8)
    )


def _nested(i: int) -> Rule:
    if i < 32:
        return {"from": [_block(f"{_prefix(i + 1)}/{i + 1}")], **_port(i)}
    length = i - 31
    return {"from": [_block(f"{_prefix6(length)}/{length}")], **_port(i)}


def _prefix(length: int) -> str:
    from ipaddress import IPv4Network

    return str(IPv4Network(("172.31.255.255", length), strict=False).network_address)


def _prefix6(length: int) -> str:
    from ipaddress import IPv6Network

    return str(IPv6Network(("2001:db8:ffff::ffff:ffff", length), strict=False).network_address)


def _close(i: int) -> Rule:
    """Around the addresses of test flows: every other /24, /28s and pairs of hosts."""
    half, at = ("203.0", "198.51", "172.16")[i % 3], i // 3
    if at < 128:
        block = f"{half}.{at * 2 + 1}.0/24"
    elif at < 136:
        block = f"{half}.100.{(at - 128) * 32}/28"
    else:
        block = f"{half}.9.{(at - 136) * 4 + 1}/32"
    return {"from": [_block(block)], "ports": [{"port": (22, 80, 443, 5432, 8080)[at % 5]}]}


def _single(i: int) -> Rule:
    return {"from": [_block(f"198.18.{i // 128}.{i % 128 * 2}/32")], **_port(i)}


def _deep(n: int) -> Objects:
    """One pair of classes and n ranges of ports that do not touch."""

    def one(i: int) -> Rule:
        low = 1000 + i * 20
        peer = {"podSelector": {"matchLabels": {"app": "a1"}}}
        return {"from": [peer], "ports": [{"port": low, "endPort": low + 9}]}

    return (_policy(one, n, app="a0"),)


def _alike(n_ports: int, n_classes: int) -> Objects:
    """Long diagrams that differ by a step: a class has the rules of any peer, and one port more."""
    own = (22, 80, 443, 5432, 8443, 9005, 60000)

    def one(i: int) -> Rule:
        if i < n_ports:
            return {"ports": [{"port": 6000 + 2 * i}]}
        peer = {"podSelector": {"matchLabels": {"app": f"a{i - n_ports}"}}}
        return {"from": [peer], "ports": [{"port": own[i % len(own)]}]}

    return (_policy(one, n_ports + n_classes, app="a0"),)


def _pairs(n: int) -> Objects:
    """Policies 0 to n-1, each for a class of its own and from another: no two rows or columns agree."""

    def from_other(i: int) -> Callable[[int], Rule]:
        peer = {"podSelector": {"matchLabels": {"app": f"a{(i * 7 + 1) % n}"}}}
        return lambda _: {"from": [peer], **_port(i)}

    return tuple(_policy(from_other(i), 1, f"p{i}", app=f"a{i}") for i in range(n))


def _admin(n: int) -> Objects:
    return tuple(
        {
            "apiVersion": "policy.networking.k8s.io/v1alpha1",
            "kind": "AdminNetworkPolicy",
            "metadata": {"name": f"p{i}"},
            "spec": {
                "priority": i,
                "subject": {"namespaces": {}},
                "ingress": [
                    {
                        "action": "Deny",
                        "from": [_app(i)],
                        "ports": [_range(1000 + i, 1100 + 7 * i)],
                    },
                    {
                        "action": "Pass",
                        "from": [_app(i + 1)],
                        "ports": [_range(1050 + 3 * i, 9000)],
                    },
                ],
            },
        }
        for i in range(n)
    )


def _app(i: int) -> Rule:
    labels = {"matchLabels": {"app": f"a{i % 8}"}}
    return {"pods": {"namespaceSelector": {}, "podSelector": labels}}


def _range(start: int, end: int) -> Rule:
    return {"portRange": {"protocol": "TCP", "start": start, "end": end}}
