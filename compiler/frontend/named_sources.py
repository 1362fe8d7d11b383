# SPDX-License-Identifier: Apache-2.0
"""Sources by the names that the command line gives them: paths, `-`, `kustomize:DIR`, `helm:CHART`.

A kustomization or chart of a commit is `kustomize:git:REV:DIR` or `helm:git:REV:CHART`. The modules of
git are loaded on first use.
"""

from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import BinaryIO

from policyc.compiler.frontend.read_options import ReadOptions
from policyc.compiler.frontend.yaml.codes_rendered import BAD_RENDERED_SOURCE
from policyc.compiler.frontend.yaml.sources import (
    GIT_SCHEME,
    MAX_BYTES,
    STDIN,
    ChartOptions,
    RenderedSource,
    Source,
    Tool,
    path_name,
    sources_of,
)
from policyc.ir.errors import InputError
from policyc.ir.spans import Span

_EXPECTED = {
    Tool.KUSTOMIZE: "kustomize:DIR, or kustomize:git:REV:DIR",
    Tool.HELM: "helm:CHART, or helm:git:REV:CHART",
}


def named_sources(
    arguments: Iterable[str], stdin: BinaryIO, options: ReadOptions
) -> tuple[Source, ...]:
    """The sources that arguments of `-f` name."""
    found: list[Source] = []
    for argument in arguments:
        rendered = rendered_source(argument, options)
        found += sources_of([argument], stdin) if rendered is None else [rendered]
    return tuple(found)


def shared_sources(
    policies: Sequence[str], cluster: Sequence[str], stdin: BinaryIO, options: ReadOptions
) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
    """The sources of -f and of --cluster; `-` in both is one reading of standard input for both."""
    first, second = stdin, stdin
    if STDIN in policies and STDIN in cluster:
        data = stdin.read(MAX_BYTES + 1)
        first, second = BytesIO(data), BytesIO(data)
    return named_sources(policies, first, options), named_sources(cluster, second, options)


def tool_and_place(argument: str) -> tuple[Tool | None, str]:
    """The tool that an argument names, and the rest; no tool: another source."""
    scheme, colon, place = argument.partition(":")
    for tool in Tool:
        if colon and scheme == tool.value:
            return tool, place
    return None, argument


def is_rendered(argument: str) -> bool:
    """Whether an argument names a kustomization or chart."""
    return tool_and_place(argument)[0] is not None


def rendered_source(
    argument: str, options: ReadOptions, other: str | None = None
) -> RenderedSource | None:
    """The kustomization or chart that an argument names; None if it names another source.

    `other` is the path for a commit without one. Raises InputError for a name that cannot be.
    """
    tool, place = tool_and_place(argument)
    if tool is None:
        return None
    chart = ChartOptions(options.default_namespace, options.helm_values)
    if not place or place == "-":
        raise _bad(argument, f"expected {_EXPECTED[tool]}", _EXPECTED[tool])
    if not place.startswith(GIT_SCHEME):
        source = RenderedSource(tool, place, chart)
    else:
        from policyc.compiler.frontend.yaml.git_commits import git_source

        source = RenderedSource(tool, "", chart, git_source(place, other))
    if tool is Tool.HELM:
        from policyc.compiler.frontend.yaml.rendering import release_of

        if not release_of(source).strip("/") or release_of(source).startswith("-"):
            problem = "the name of the directory cannot be the name of a release"
            raise _bad(argument, problem, "begin the name of the directory with a letter or digit")
    return source


def _bad(argument: str, problem: str, hint: str) -> InputError:
    text = path_name(argument)
    finding = BAD_RENDERED_SOURCE.at(Span(text, 0, 0), text=text, problem=problem)
    return InputError([finding.help(hint)])
