# SPDX-License-Identifier: Apache-2.0
"""Whether this kernel has hooks in netfilter that no test made."""

from pathlib import Path


def has_hooks_of_a_security_module() -> bool:
    """AppArmor and SELinux have hooks in netfilter: on their hosts first packets take the stack path."""
    apparmor = Path("/sys/module/apparmor/parameters/enabled")
    is_apparmor = apparmor.exists() and apparmor.read_text().strip() == "Y"
    return is_apparmor or Path("/sys/fs/selinux").exists()


FEWEST = int(has_hooks_of_a_security_module())
"""The packets of a connection, in each direction, that the stack of this host always sees."""
