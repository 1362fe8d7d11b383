# SPDX-License-Identifier: Apache-2.0
"""Git in the working directory of a test: commands with an identity, and commits."""

import subprocess


def git(*arguments: str) -> None:
    """A git command by a made-up author, without a signature."""
    identity = ("user.name=a", "user.email=a@example.org", "commit.gpgsign=false")
    options = [part for each in identity for part in ("-c", each)]
    subprocess.run(["git", *options, *arguments], check=True, capture_output=True)


def commit() -> None:
    """Commit every file."""
    git("add", "-A")
    git("commit", "-q", "-m", "change")


def first_commit() -> None:
    """A new repository with every file in a commit on `main`."""
    git("init", "-q", "-b", "main")
    commit()
