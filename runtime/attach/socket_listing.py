# SPDX-License-Identifier: Apache-2.0
"""Programs that list sockets with what the kernel keeps with each of them, for the loader.

Each program exists twice. One goes through the map of socket storage. The other goes through the open
files of all processes, for kernels that do not let a program go through a map
(`features.MAP_ITERATORS`). That one misses sockets without an open file, as those of the kernel, and
needs the node's PID namespace.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from policyc.runtime.kernel import bpf_syscall, features


@dataclass(frozen=True, slots=True)
class Listing:
    """The two programs."""

    by_map: str
    by_file: str

    @property
    def name(self) -> str:
        """The one that this kernel runs."""
        return self.by_map if features.MAP_ITERATORS.is_there() else self.by_file

    @property
    def both(self) -> Collection[str]:
        """Their names."""
        return self.by_map, self.by_file

    def pin(self, folder: Path) -> Path:
        """Where a load pins it."""
        return folder / self.name

    def read(self, folder: Path, map_fd: int) -> bytes:
        """All that it writes. A socket with several open files may be in it several times."""
        with bpf_syscall.obj_get(self.pin(folder)) as fd:
            return bpf_syscall.iterate(fd, map_fd if self.name == self.by_map else None)


REMOVED = Listing("pc_gone_sockets", "pc_gone_files")
"""The connections of sockets to a Service whose endpoint was removed; of the sockets' object."""
BYPASSED = Listing("pc_bypass_list", "pc_bypass_files")
"""The sockets that the bypass added; of its object."""
NAMES = frozenset((*REMOVED.both, *BYPASSED.both))
