# SPDX-License-Identifier: Apache-2.0
"""Selectors: sets of endpoints by labels and other attributes. Data; `ir/semantics.py` evaluates them.

Most selectors are metav1.LabelSelectors: conjunctions. Requirements that these cannot express (or, not,
prefixes, service accounts, nodes) are a `Condition`: a boolean expression over attributes, conjoined
with the label selector.
"""

from enum import Enum
from typing import Generic, TypeAlias, TypeVar

from policyc.ir.fast_dataclass import dataclass

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class AllOf(Generic[Part]):
    """Every part holds; without parts it always holds."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class OneOf(Generic[Part]):
    """At least one part holds; without parts it never holds."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Not(Generic[Part]):
    """The part does not hold."""

    part: Part


class Operator(Enum):
    """The operator of a requirement: metav1.LabelSelectorOperator, and three of Calico's selectors.

    NOT_IN and DOES_NOT_EXIST hold if the key is absent, the others do not (A13, D43).
    """

    __hash__ = object.__hash__  # members are single objects; Enum would hash their names

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    STARTS_WITH = "StartsWith"
    ENDS_WITH = "EndsWith"
    CONTAINS = "Contains"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one key; `values` is sorted, empty for the Exists operators.

    STARTS_WITH, ENDS_WITH and CONTAINS have one value, the text that is searched for.
    """

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A conjunction of requirements, sorted; the empty one selects everything."""

    requirements: tuple[Requirement, ...] = ()


EVERYTHING = LabelSelector()


class Attribute(Enum):
    """The attribute that a test reads: a set of labels, or a name (the key is then empty).

    LABEL are the endpoint's own labels: a pod's, or those of a host interface. A name that is not known,
    or does not exist, is an absent key.
    """

    __hash__ = object.__hash__  # members are single objects; Enum would hash their names

    LABEL = "label"
    NAMESPACE_LABEL = "namespace label"
    SERVICE_ACCOUNT_LABEL = "service account label"
    NODE_LABEL = "node label"
    NAMESPACE = "namespace"
    SERVICE_ACCOUNT = "service account"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class AttributeTest:
    """A requirement on one attribute."""

    attribute: Attribute
    requirement: Requirement


Condition: TypeAlias = AttributeTest | AllOf["Condition"] | OneOf["Condition"] | Not["Condition"]
ALWAYS: Condition = AllOf(())
NEVER: Condition = OneOf(())


@dataclass(frozen=True, slots=True)
class EndpointSelector:
    """Selects endpoints: by the name of their namespace (None: any), its labels, and their own.

    All parts are conjoined; `condition` holds requirements that label selectors cannot express.
    """

    namespace: str | None = None
    namespace_labels: LabelSelector = EVERYTHING
    labels: LabelSelector = EVERYTHING
    condition: Condition = ALWAYS


EVERY_ENDPOINT = EndpointSelector()
NO_ENDPOINT = EndpointSelector(condition=NEVER)


def as_condition(selector: EndpointSelector) -> Condition:
    """A whole selector as one condition."""
    parts: list[Condition] = []
    if selector.namespace is not None:
        only = Requirement("", Operator.IN, (selector.namespace,))
        parts.append(AttributeTest(Attribute.NAMESPACE, only))
    for attribute, labels in (
        (Attribute.NAMESPACE_LABEL, selector.namespace_labels),
        (Attribute.LABEL, selector.labels),
    ):
        parts += [AttributeTest(attribute, requirement) for requirement in labels.requirements]
    parts.append(selector.condition)
    return AllOf(tuple(parts))
