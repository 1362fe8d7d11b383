# SPDX-License-Identifier: Apache-2.0
"""A lock, so that one command at a time changes a node: an flock on a file that names the command.

The kernel releases the lock if its holder dies, so a killed command blocks no other one.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from policyc.runtime.errors import BusyError, HostError

AT_WORK: Mapping[str, str] = {
    "load": "a load is in progress",
    "unload": "an unload is in progress",
    "services": "a change of Services is in progress",
    "attest": "an attestation is in progress",
    "follow": "devices that appeared are being denied",
}
_OTHER = "another command is running"
_POLL = 0.02
_MOMENT = 0.2
"""Seconds that a command without patience waits.

`at_work` of another command may hold the lock shared for an instant.
"""


@dataclass(frozen=True, slots=True)
class Patience:
    """How many seconds a command waits for another one, and the function that is told about the wait."""

    seconds: float = 0
    note: Callable[[str], object] = lambda _: None


NONE = Patience()


class CommandLock:
    """The lock in a folder. The folder is made for the lock, and removed with it if it is empty."""

    def __init__(self, folder: Path, no_place: Callable[[OSError], HostError]) -> None:
        self.file = folder / "lock"
        self._folder, self._no_place = folder, no_place

    @contextmanager
    def held(self, command: str, patience: Patience) -> Iterator[None]:
        """Hold the lock for this command.

        Raises `BusyError` if another command holds it for too long.
        """
        with self._taken(patience) as file:
            file.truncate(0)
            file.write(command)
            file.flush()
            try:
                yield
            finally:
                self._leave_if_empty()

    def at_work(self) -> str | None:
        """The command that holds the lock: a key of AT_WORK, or "" for another; None: no command."""
        try:
            with self.file.open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None
        except FileNotFoundError:
            return None
        except BlockingIOError:
            return self._named()

    def _named(self) -> str:
        with suppress(OSError):
            named = self.file.read_text()
            return named if named in AT_WORK else ""
        return ""

    def _taken(self, patience: Patience) -> IO[str]:
        deadline = time.monotonic() + max(patience.seconds, _MOMENT)
        is_said = patience.seconds == 0
        while (file := self._tried()) is None:
            doing = AT_WORK.get(self._named(), _OTHER)
            if time.monotonic() >= deadline:
                raise BusyError(doing)
            if not is_said:
                patience.note(f"{doing}; waiting up to {patience.seconds:g} s for it")
                is_said = True
            time.sleep(_POLL)
        return file

    def _tried(self) -> IO[str] | None:
        """The file, locked; None if another command holds it.

        If the holder removed the file meanwhile, its lock does not count.
        """
        while True:
            try:
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o755)
                file = self.file.open("a")
            except FileNotFoundError:  # another command removed the folder meanwhile
                continue
            except OSError as error:
                raise self._no_place(error) from error
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                return None
            if self._is_lock(file):
                return file
            file.close()

    def _is_lock(self, file: IO[str]) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), self.file.stat())
        except FileNotFoundError:
            return False

    def _leave_if_empty(self) -> None:
        """Remove the lock of a command that loaded nothing."""
        if not self._folder.is_dir() or list(self._folder.iterdir()) != [self.file]:
            return
        self.file.unlink()
        # The next command has its lock there; other nodes of a lab have folders.
        with suppress(OSError):
            self._folder.rmdir()
            self._folder.parent.rmdir()
