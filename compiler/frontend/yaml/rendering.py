# SPDX-License-Identifier: Apache-2.0
"""Rendered sources: the output of `kustomize build`, `kubectl kustomize` or `helm template`.

The tools are the user's own. They run without a shell, and get no option that enables plugins or the
network. A commit is written into a temporary directory, and findings do not name that directory.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.yaml import codes_git, codes_rendered
from policyc.compiler.frontend.yaml.chart_links import links_that_lead_out
from policyc.compiler.frontend.yaml.commit_trees import commit_tree, without_tree
from policyc.compiler.frontend.yaml.git_commits import work_tree_of
from policyc.compiler.frontend.yaml.sources import (
    GitSource,
    RenderedSource,
    Tool,
    path_name,
)
from policyc.ir.diagnostics import Report
from policyc.ir.errors import CodedHostError
from policyc.ir.printable import printable
from policyc.ir.spans import Span

SECONDS = 300
"""The time limit of one rendering."""
MOST_CHARACTERS = 1000
"""The limit of a tool's error text; its beginning and its end are shown."""
_PIPES = {
    Tool.KUSTOMIZE: "kustomize build DIR | policyc ... -f -",
    Tool.HELM: "helm template NAME CHART | policyc ... -f -",
}
_TOOLS = {Tool.KUSTOMIZE: "kustomize or kubectl", Tool.HELM: "helm"}


def rendered(source: RenderedSource, report: Report, max_bytes: int) -> bytes | None:
    """The output of the tool; None after a failure because of the input, which is reported.

    Raises CodedHostError if the tool is missing, or does not end.
    """
    binary = _binary(source)
    if source.commit is None:
        if not os.path.lexists(source.place):
            name = path_name(source.place)
            report.add(codes.NO_SUCH_FILE.at(Span(source.name, 0, 0), name=name))
            return None
        if source.tool is Tool.HELM and (links := links_that_lead_out(source.place)):
            report.findings += links
            return None
        shown = _command(binary, source, source.place, source.chart.values)
        return _output(shown, shown, source, report, max_bytes)
    with commit_tree(source.commit, report, max_bytes) as tree:
        if tree is None:
            return None
        values = _values_in(tree, source, source.commit, report)
        if values is None:
            return None
        place = str(Path(tree, source.commit.path))
        command = _command(binary, source, place, values)
        shown = [without_tree(word, tree, source.commit) for word in command]
        return _output(command, shown, source, report, max_bytes, tree)


def _binary(source: RenderedSource) -> list[str]:
    """The tool's absolute path, with its subcommand. Raises CodedHostError if it is not installed."""
    for name, subcommand in _commands(source.tool):
        found = shutil.which(name)
        if found is not None:
            return [str(Path(found).absolute()), subcommand]
    raise _unusable(source, "not found on PATH")


def _commands(tool: Tool) -> Sequence[tuple[str, str]]:
    match tool:
        case Tool.KUSTOMIZE:
            return (("kustomize", "build"), ("kubectl", "kustomize"))
        case Tool.HELM:
            return (("helm", "template"),)


def _unusable(source: RenderedSource, reason: str) -> CodedHostError:
    tools = _TOOLS[source.tool]
    finding = codes_rendered.NO_TOOL.at(
        Span(source.name, 0, 0), source=source.name, tools=tools, reason=reason
    )
    return CodedHostError(
        finding.help(f"install {tools}, or render elsewhere: {_PIPES[source.tool]}")
    )


def _command(
    binary: list[str], source: RenderedSource, place: str, values: Sequence[str]
) -> list[str]:
    """The words of the command. A path that begins with `-` is no option."""
    path = f"./{place}" if place.startswith("-") else place
    if source.tool is Tool.KUSTOMIZE:
        return [*binary, path]
    of_values = [word for value in values for word in ("--values", value)]
    return [*binary, release_of(source), path, "--namespace", source.chart.namespace, *of_values]


def release_of(source: RenderedSource) -> str:
    """The name of a chart's release: the name of its directory."""
    if source.commit is None:
        return Path(source.place).absolute().resolve().name
    root = source.commit.path or work_tree_of(source.commit.repository) or "chart"
    return Path(root).name


def _values_in(
    tree: str, source: RenderedSource, commit: GitSource, report: Report
) -> list[str] | None:
    """The files of values for a commit: those inside the repository are read from the commit."""
    found = []
    root = work_tree_of(commit.repository) if source.chart.values else None
    for value in source.chart.values:
        inside = None if root is None or "://" in value else _inside(value, root)
        if inside is None:
            found.append(value)
            continue
        place = Path(tree, inside)
        if not place.is_file():
            name = path_name(inside)
            where = Span(f"{commit.commit_name}{name}", 0, 0)
            finding = codes_git.NOT_IN_COMMIT.at(where, revision=commit.revision, name=name)
            report.add(finding.help("a values file outside the repository is used for any commit"))
            return None
        found.append(str(place))
    return found


def _inside(path: str, root: str) -> str | None:
    """A path from the root of the repository; None if it leads elsewhere."""
    relative = os.path.relpath(os.path.realpath(path), root)
    return None if relative == ".." or relative.startswith("../") else relative


def _output(
    command: list[str],
    shown: list[str],
    source: RenderedSource,
    report: Report,
    max_bytes: int,
    tree: str = "",
) -> bytes | None:
    where = Span(source.name, 0, 0)
    words = " ".join([Path(shown[0]).name, *map(path_name, shown[1:])])
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        code = _ended(command, out, err, source)
        if code is None:
            raise CodedHostError(codes_rendered.TIMED_OUT.at(where, command=words, seconds=SECONDS))
        if code:
            text = _start_and_end(err)
            if source.commit is not None:
                text = without_tree(text, tree, source.commit)
            reason = _short(text) or f"it ended with {code}"
            report.add(codes_rendered.RENDERING_FAILED.at(where, command=words, reason=reason))
            return None
        out.seek(0)
        data = out.read(max_bytes + 1)
    if len(data) > max_bytes:
        report.add(codes.TOO_LARGE.at(where, name=source.name, limit=max_bytes >> 20))
        return None
    return data


def _ended(
    command: list[str], out: IO[bytes], err: IO[bytes], source: RenderedSource
) -> int | None:
    """Run a command and all that it starts; its exit code, or None after the time limit."""
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
    except OSError as failure:
        reason = failure.strerror or str(failure)
        raise _unusable(source, f"{Path(command[0]).name} does not start: {reason}") from failure
    with process:
        try:
            return process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)


def _start_and_end(stream: IO[bytes]) -> str:
    """The text of a stream, without its middle if it is very long."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    if size <= 1 << 20:
        return stream.read().decode("utf-8", "backslashreplace")
    start = stream.read(1 << 19)
    stream.seek(-(1 << 19), os.SEEK_END)
    return (start + b" ... " + stream.read()).decode("utf-8", "backslashreplace")


def _short(text: str) -> str:
    """Lines of a tool on one printable line, without the middle of a long text."""
    line = "; ".join(printable(each.strip()) for each in text.split("\n") if each.strip())
    if len(line) <= MOST_CHARACTERS:
        return line
    half = MOST_CHARACTERS // 2
    return f"{line[:half]} ... {line[-half:]}"
