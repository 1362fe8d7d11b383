# SPDX-License-Identifier: Apache-2.0
"""The paths under which kernel objects outlive the command: our own folder in a bpffs.

    ROOT/maps/NAME              the maps that all generations share
    ROOT/hooks/NAME             the hook programs
    ROOT/links/IFINDEX-NAME     tcx links, one a device and hook
    ROOT/xdp/IFINDEX            links of XDP, one an uplink
    ROOT/netkit/IFINDEX-SIDE    links of netkit, two a device of a pod
    ROOT/slaves/DEVICE-WAY      tcx links at ipvlan slaves and their parents
    ROOT/prerouting/FAMILY-N    links of netfilter, one for each IP family
    ROOT/sockets/EPOCH/NAME     links of a cgroup, one for each hook of the node's own sockets
    ROOT/generations/EPOCH/NAME the program and the maps of one generation

A bpffs holds no files, and no dots in names; state.py keeps other records.
"""

import ctypes
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from policyc.runtime.errors import HostError

DEFAULT_ROOT = Path("/sys/fs/bpf/policyc")
_FOLDERS = (
    *("prerouting", "sockets", "xdp", "netkit", "slaves"),
    *("links", "hooks", "generations", "maps"),
)
_BPF_FS_MAGIC = 0xCAFE4A11

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Pins:
    """Paths below one root."""

    root: Path

    @property
    def maps(self) -> Path:
        """The folder of the shared maps."""
        return self.root / "maps"

    @property
    def links(self) -> Path:
        """The folder of the tcx links."""
        return self.root / "links"

    @property
    def xdp(self) -> Path:
        """The folder of the links of XDP."""
        return self.root / "xdp"

    @property
    def netkit(self) -> Path:
        """The folder of the links of netkit."""
        return self.root / "netkit"

    @property
    def slaves(self) -> Path:
        """The folder of the links at ipvlan slaves and their parents."""
        return self.root / "slaves"

    @property
    def prerouting(self) -> Path:
        """The folder of the links of netfilter."""
        return self.root / "prerouting"

    def map(self, name: str) -> Path:
        """A shared map."""
        return self.maps / name

    def hook(self, name: str) -> Path:
        """A hook program."""
        return self.root / "hooks" / name

    def link(self, ifindex: int, hook: str) -> Path:
        """The link of a hook at a device."""
        return self.links / f"{ifindex}-{hook}"

    def generation(self, epoch: int) -> Path:
        """The folder of one generation."""
        return self.root / "generations" / str(epoch)

    def generations(self) -> dict[int, Path]:
        """Every generation that has pins."""
        folder = self.root / "generations"
        found = folder.iterdir() if folder.is_dir() else ()
        return {int(path.name): path for path in found}

    def sockets(self, epoch: int) -> Path:
        """The folder of the cgroup links that the load of an epoch made."""
        return self.root / "sockets" / str(epoch)

    def all_sockets(self) -> list[Path]:
        """Every such folder."""
        folder = self.root / "sockets"
        return list(folder.iterdir()) if folder.is_dir() else []

    def is_there(self) -> bool:
        """Whether something was loaded below this root."""
        return self.map("pc_state").exists()

    def is_any(self) -> bool:
        """Whether there are any pins; without `is_there` they are those of a command that died."""
        return any((self.root / name).is_dir() for name in _FOLDERS)

    def make(self) -> None:
        """Make the folders; the root's bpffs must be mounted."""
        for folder in (self.maps, self.links, self.root / "hooks", self.root / "generations"):
            folder.mkdir(parents=True, exist_ok=True)

    def remove(self) -> None:
        """Remove every pin; the kernel frees objects that are not attached."""
        remove_folder(self.root)


def remove_folder(folder: Path) -> None:
    """Remove the pins in a folder, and the folder. A mount point stays, without its contents.

    Hooks go before maps. If a command dies in between, the next load must not find usable hooks whose
    maps have lost their pins.
    """
    if not folder.is_dir():
        return
    for name in _FOLDERS:
        if (folder / name).is_dir() and not (folder / name).is_symlink():  # tc makes links
            shutil.rmtree(folder / name)
    if not folder.is_mount():
        shutil.rmtree(folder)


def require_bpffs(root: Path) -> None:
    """Raise `HostError` unless the root is, or can be made, in a mounted bpffs."""
    there = root
    while not there.exists():
        there = there.parent
    if filesystem_magic(there) != _BPF_FS_MAGIC:
        raise HostError(
            f"{root} is not in a bpf file system",
            f"mount one (mount -t bpf bpf {root.parent}), or name another with --bpffs",
        )


def filesystem_magic(path: Path) -> int:
    """The kernel's number for the type of the file system at a path."""
    buffer = ctypes.create_string_buffer(256)  # struct statfs: f_type comes first
    if _libc.statfs(os.fsencode(path), buffer):
        errno = ctypes.get_errno()
        raise HostError(f"{path}: {os.strerror(errno)}")
    return int.from_bytes(buffer.raw[:4], "little")
