# SPDX-License-Identifier: Apache-2.0
"""The cases that are written down: features/*.yaml, each feature alone, and the examples.

A case has `bundle` (its name), `what` (a sentence) and `policies`, in the form of verdict cases
(tests/golden/verdict_cases.py). It is about the pods of features/cluster.yaml, or, with
`cluster: false`, about whatever cluster there may be.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.golden.verdict_cases import cluster_objects, policy_object
from tests.kernel_corpus.case import CorpusCase, Objects

FEATURES = Path(__file__).parent / "features"
CLUSTER = FEATURES / "cluster.yaml"
ROOT = Path(__file__).parents[2]
EXAMPLES = {
    "example-online-shop": (
        "examples/online-shop, policies and cluster",
        "examples/online-shop/policies",
        "examples/online-shop/cluster",
    ),
    "example-online-shop-unknown": (
        "examples/online-shop, without a cluster snapshot",
        "examples/online-shop/policies",
        "",
    ),
    "example-extended": (
        "examples/extended beside the NetworkPolicies of the shop",
        "examples/extended/policies examples/online-shop/policies",
        "examples/online-shop/cluster",
    ),
}


def feature_cases() -> tuple[CorpusCase, ...]:
    """Each feature alone, in the order of files and entries."""
    files = sorted(path for path in FEATURES.glob("*.yaml") if path != CLUSTER)
    return tuple(_case(entry) for path in files for entry in _parsed(path))


def example_cases() -> tuple[CorpusCase, ...]:
    """The cases of examples/."""
    return tuple(
        CorpusCase(name, what, _documents(policies), _documents(cluster))
        for name, (what, policies, cluster) in EXAMPLES.items()
    )


def small_cluster() -> Objects:
    """Fresh objects of features/cluster.yaml."""
    return tuple(cluster_objects(_parsed(CLUSTER)))


def _parsed(path: Path) -> Any:
    """A fresh copy of a file's content, which the caller may change."""
    return deepcopy(_read(path))


@cache
def _read(path: Path) -> Any:
    return yaml.load(path.read_text(), yaml.CSafeLoader)


def _case(entry: dict[str, Any]) -> CorpusCase:
    policies = tuple(policy_object(policy) for policy in entry["policies"])
    cluster = small_cluster() if entry.get("cluster", True) else ()
    return CorpusCase(entry["bundle"], entry["what"], policies, cluster)


def _documents(folders: str) -> Objects:
    files = (file for folder in folders.split() for file in sorted((ROOT / folder).rglob("*.yaml")))
    return tuple(
        document
        for file in files
        for document in yaml.load_all(file.read_text(), yaml.CSafeLoader)
        if document is not None
    )


def together_cases() -> tuple[CorpusCase, ...]:
    """All features together, in two bundles: some APIs do not say how they stand to each other."""
    without_cilium = ("cilium-", "admin-", "baseline")
    without_calico = ("calico-", "cluster-network-policies")
    return (
        CorpusCase(
            "all-together-calico",
            "NetworkPolicies, ClusterNetworkPolicies, Calico's and ExtendedPolicies, every feature",
            tuple(_renamed(without_cilium)),
            small_cluster(),
        ),
        CorpusCase(
            "all-together-cilium",
            "NetworkPolicies, AdminNetworkPolicies, Cilium's and ExtendedPolicies, every feature",
            tuple(_renamed(without_calico)),
            small_cluster(),
        ),
    )


def variant_cases() -> tuple[CorpusCase, ...]:
    """Many features in bundles that count otherwise, or are for one node alone."""
    whole = together_cases()[0]
    return (
        replace(whole, name="counters-none", what="no counters for rules", counters="none"),
        replace(
            whole,
            name="counters-packets",
            what="packet counters without byte counters",
            counters="packets",
        ),
        replace(whole, name="node-n1", what="for the pods of one node", node="n1"),
        *(
            replace(
                each,
                name=f"socket-programs-{at}",
                what=f"as {each.name}, with the programs at sockets",
                at_sockets=True,
            )
            for at, each in enumerate(together_cases(), 1)
        ),
    )


def _renamed(left_out: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The policies of the features that know the cluster, with names and priorities that differ."""
    cases = [c for c in feature_cases() if c.cluster and not c.name.startswith(left_out)]
    policies = ((case, policy) for case in cases for policy in case.policies)
    for at, (case, policy) in enumerate(policies):
        kind = policy["kind"], policy["apiVersion"].split("/")[0]
        if kind == ("NetworkPolicy", "networking.k8s.io"):
            metadata = policy["metadata"] | {"name": f"{case.name}-{policy['metadata']['name']}"}
            yield policy | {"metadata": metadata}
        elif kind[0] == "AdminNetworkPolicy":
            metadata = policy["metadata"] | {"name": f"{case.name}-{policy['metadata']['name']}"}
            yield policy | {"metadata": metadata, "spec": policy["spec"] | {"priority": at}}
        else:
            yield policy
