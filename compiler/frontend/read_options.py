# SPDX-License-Identifier: Apache-2.0
"""Options of reading, and the other objects that input may name; without the readers themselves."""

import re
from collections.abc import Mapping
from dataclasses import field

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.found import NOTHING, Found
from policyc.compiler.frontend.kubernetes.metadata import quoted
from policyc.compiler.frontend.kubernetes.names import dns_label_problems
from policyc.compiler.frontend.lowered import Channel, Profile, Unsupported
from policyc.compiler.frontend.yaml.selection import ALL_FILES, Selection
from policyc.ir.errors import InputError
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.spans import Span

DEFAULT_KUBE_VERSION = "1.36"
STRICT_SINCE = (1, 36)
"""The version whose API server rejects what older ones only warned about (A14)."""
_KUBE_VERSION = re.compile(r"v?(\d{1,3})\.(\d{1,3})(?:[.+-].*)?")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of reading: the namespace of objects without one, the server version for strictness.

    Without `allow_empty`, input that has no policy at all is an error. `profile` None: the one that the
    kinds present require. `selection` chooses among the files of directories. `helm_values` are files of
    values for charts that are rendered.
    """

    default_namespace: str = "default"
    kube_version: str = DEFAULT_KUBE_VERSION
    allow_unknown_kinds: frozenset[str] = frozenset()
    allow_empty: bool = True
    channel: Channel = Channel.EXPERIMENTAL
    profile: Profile | None = None
    unsupported: Unsupported = Unsupported.ERROR
    selection: Selection = ALL_FILES
    helm_values: tuple[str, ...] = ()

    @property
    def server(self) -> tuple[int, int]:
        """Major and minor version of the server. Raises InputError for an invalid version."""
        match = _KUBE_VERSION.fullmatch(self.kube_version)
        if match is None:
            finding = codes.BAD_KUBE_VERSION.at(
                Span("--kube-version", 0, 0), text=self.kube_version
            )
            raise InputError([finding.help("write it as 1.36")])
        return int(match[1]), int(match[2])

    @property
    def is_strict(self) -> bool:
        """Whether CIDRs must be as strict as in 1.36."""
        return self.server >= STRICT_SINCE

    def check(self) -> None:
        """Raises InputError if an option has a value that the API server could not have."""
        _ = self.server
        where, name = "--namespace", self.default_namespace
        found = [
            codes.NAME_INVALID.at(Span(where, 0, 0), where=where, value=quoted(name), problem=p)
            for p in dns_label_problems(name)
        ]
        if found:
            raise InputError(found)


DEFAULT_OPTIONS = ReadOptions()


@dataclass(frozen=True, slots=True)
class Known:
    """The objects of a cluster that policies may name, beside its services.

    `namespaces` are their labels by name; `found` are the objects that readers of policy kinds found
    there.
    """

    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict, hash=False)
    found: Found = NOTHING


NOTHING_KNOWN = Known()
"""No cluster, or one without such objects."""
