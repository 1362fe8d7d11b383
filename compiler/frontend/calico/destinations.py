# SPDX-License-Identifier: Apache-2.0
"""The destination of a Calico rule, and the endpoints that resolve its named ports (semantics D43).

Felix resolves a name among the endpoints that the selectors match by labels
(felix/calc/rule_scanner.go). An address of a network set has no named ports, even if a pod has the
address.
"""

from collections.abc import Iterator
from dataclasses import replace

from policyc.compiler.frontend.calico.peers import (
    all_of,
    entity_peer,
    labelled_peer,
)
from policyc.compiler.frontend.calico.rule import Rule
from policyc.compiler.frontend.calico.values import Port
from policyc.compiler.frontend.lowered import Surroundings
from policyc.ir.policy import Not, Peer

Ports = tuple[Port, ...]


def destinations(
    rule: Rule, namespace: str, surroundings: Surroundings
) -> Iterator[tuple[Rule, Peer]]:
    """The rule, and its destination as a peer. If there are several, no flow matches two of them."""
    entity = rule.destination
    whole, labelled = entity_peer(entity, namespace, surroundings), labelled_peer(entity, namespace)
    has_names = any(port.name for port in (*entity.ports, *entity.not_ports))
    if labelled in (None, whole) or not has_names:
        yield rule, whole
        return
    assert labelled is not None
    numbers, names = _parted(entity.ports)
    excepted, excepted_names = _parted(entity.not_ports)
    if numbers or not names:
        if excepted_names:
            yield _with(rule, numbers, entity.not_ports), labelled
            yield _with(rule, numbers, excepted), all_of([whole, Not(labelled)])
        else:
            yield _with(rule, numbers, excepted), whole
    if names:
        yield _with(rule, names, (*entity.not_ports, *numbers)), labelled


def _parted(ports: Ports) -> tuple[Ports, Ports]:
    """The ports given by number, and those given by name."""
    numbers = tuple(port for port in ports if not port.name)
    return numbers, tuple(port for port in ports if port.name)


def _with(rule: Rule, ports: Ports, not_ports: Ports) -> Rule:
    entity = replace(rule.destination, ports=ports, not_ports=not_ports)
    return replace(rule, destination=entity)
