# SPDX-License-Identifier: Apache-2.0
"""What the README says can be run can be run, and what it links to is there."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from policyc.compiler.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
CLAIMS = re.findall(r"\| `(pytest [^`]+)` \|", README)
PAGES = sorted(p for p in ROOT.rglob("*.md") if not set(p.parts) & {".venv", "build"})


def test_the_readme_backs_its_claims() -> None:
    assert len(CLAIMS) >= 6


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_s_tests_exist(claim: str) -> None:
    arguments = shlex.split(claim)[1:]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_is_in_the_readme() -> None:
    for command in COMMANDS:
        assert f"policyc {command}" in README


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
