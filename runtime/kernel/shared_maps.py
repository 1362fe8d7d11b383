# SPDX-License-Identifier: Apache-2.0
"""Maps that another release made: libbpf shares them by name if their sizes are equal.

Equal sizes do not tell that fields mean the same, so their BTF is compared before.
"""

from pathlib import Path

from policyc.runtime.errors import HostError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.btf import Btf


def other_layout(name: str, map_name: str, log: str = "") -> HostError:
    """The error about an object's map that is in use and has other keys or values."""
    return HostError(
        f"{name}: the map {map_name} that is in use has another layout",
        "this release has other map layouts: run `policyc node unload`, then load again",
        log,
    )


def check(path: Path, pins: Path) -> None:
    """`HostError` if a pinned map has other fields than the object at `path` declares."""
    types = Btf.of_object(path)
    if not types.has_maps():
        return
    of_maps = types.map_types()
    for name in sorted(types.pinned_map_names()):
        ours, pin = of_maps[name], pins / name
        if not pin.exists():
            continue
        with bpf_syscall.obj_get(pin) as fd:
            info = bpf_syscall.map_info(fd)
            if not info.btf_id:
                continue
            theirs = Btf.of_map(fd)
        for own, other in zip(ours, (info.key_type, info.value_type), strict=True):
            if own and other and types.shape(own) != theirs.shape(other):
                raise other_layout(path.name, name)
