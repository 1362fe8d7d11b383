# SPDX-License-Identifier: Apache-2.0
"""Forms of names in the Kubernetes API, with the API server's messages (apimachinery `validation`).

Each function returns the mistakes of a text; an empty result means that it is valid.
"""

import re
from functools import lru_cache

_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PORT_CHARACTERS = re.compile(r"[-a-z0-9]+")
_LETTER = re.compile(r"[a-z]")

_LABEL_VALUE_FORM = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
    "'12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_QUALIFIED_FORM = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_SUBDOMAIN_FORM = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'example.com', regex used for "
    "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_DNS_LABEL_FORM = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must "
    "start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for "
    "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


@lru_cache(maxsize=65536)
def label_value_problems(value: str) -> tuple[str, ...]:
    """IsValidLabelValue."""
    return _problems(value, 63, _LABEL_VALUE, _LABEL_VALUE_FORM)


@lru_cache(maxsize=65536)
def label_key_problems(key: str) -> tuple[str, ...]:
    """IsQualifiedName: an optional DNS subdomain and a slash, then a name."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return (
            f"a qualified name {_QUALIFIED_FORM} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')",
        )
    found = []
    if slash and not prefix:
        found.append("prefix part must be non-empty")
    elif slash:
        found += [f"prefix part {problem}" for problem in subdomain_problems(prefix)]
    if not name:
        return (*found, "name part must be non-empty", f"name part {_QUALIFIED_FORM}")
    return (*found, *(f"name part {p}" for p in _problems(name, 63, _QUALIFIED, _QUALIFIED_FORM)))


def subdomain_problems(text: str) -> tuple[str, ...]:
    """IsDNS1123Subdomain, the form of most objects' names."""
    return _problems(text, 253, _SUBDOMAIN, _SUBDOMAIN_FORM)


@lru_cache(maxsize=4096)
def dns_label_problems(text: str) -> tuple[str, ...]:
    """IsDNS1123Label, the form of a namespace's name."""
    return _problems(text, 63, _DNS_LABEL, _DNS_LABEL_FORM)


def port_name_problems(name: str) -> tuple[str, ...]:
    """IsValidPortName: an IANA service name (semantics A18)."""
    found = []
    if len(name) > 15:
        found.append("must be no more than 15 characters")
    if not _PORT_CHARACTERS.fullmatch(name):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _LETTER.search(name):
        found.append("must contain at least one letter (a-z)")
    if "--" in name:
        found.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return tuple(found)


def _problems(text: str, longest: int, form: re.Pattern[str], message: str) -> tuple[str, ...]:
    found = [] if len(text) <= longest else [f"must be no more than {longest} characters"]
    if not form.fullmatch(text):
        found.append(message)
    return tuple(found)
