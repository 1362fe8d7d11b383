# SPDX-License-Identifier: Apache-2.0
"""The configuration of another commit: a change under review may have changed its own."""

import os
from pathlib import Path

from policyc.compiler.driver.settings.find import repository_of
from policyc.compiler.frontend.yaml.git_commits import git_source
from policyc.compiler.frontend.yaml.sources import GIT_SCHEME, PathSource, contents, read_whole
from policyc.ir.diagnostics import Report


def other_configuration(file: str, side: str) -> str | None:
    """The name of the configuration of a side's commit if its content is another one; else None.

    `file` is the one in use. A side that is no commit, or whose commit has no configuration, has none.
    """
    if not side.startswith(GIT_SCHEME) or file.startswith(GIT_SCHEME):
        return None
    repository = repository_of(Path())
    real = os.path.realpath(file)
    if repository is None or not Path(real).is_relative_to(os.path.realpath(repository)):
        return None
    revision = side.removeprefix(GIT_SCHEME).partition(":")[0]
    path = Path(real).relative_to(os.path.realpath(repository)).as_posix()
    name = f"{GIT_SCHEME}{revision}:{path}"
    found = [each.data for each in contents([git_source(name)], Report())]
    return name if found and found != [read_whole(PathSource(file), Report())] else None
