# SPDX-License-Identifier: Apache-2.0
"""The symbolic links of a chart in the work tree: helm follows them, whoever wrote the chart.

kustomize itself refuses files outside its directories.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from policyc.compiler.frontend.yaml import codes_links
from policyc.compiler.frontend.yaml.git_commits import work_tree_of
from policyc.compiler.frontend.yaml.sources import path_name
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.spans import Span


def links_that_lead_out(chart: str) -> list[Diagnostic]:
    """A finding for each link of a chart that leads out of its repository, or out of the chart."""
    links = list(_links(chart, set()))
    if not links:
        return []
    root = work_tree_of(chart) or os.path.realpath(chart)
    found = []
    for link in sorted(links):
        if not f"{os.path.realpath(link)}/".startswith(f"{root.rstrip('/')}/"):
            name = path_name(link)
            finding = codes_links.LINK_LEADS_OUT.at(Span(name, 0, 0), name=name, folder=root)
            found.append(finding.help("replace the link with the file"))
    return found


def _links(folder: str, seen: set[str]) -> Iterator[str]:
    """The links below a directory, and below the directories that they lead to."""
    real = os.path.realpath(folder)
    if real in seen or not Path(folder).is_dir():
        return
    seen.add(real)
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                yield entry.path
            if entry.is_dir():
                yield from _links(entry.path, seen)
