# SPDX-License-Identifier: Apache-2.0
"""The options for kustomizations and charts, which policyc renders with the user's own tools."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import wraps
from typing import Any

import click

from policyc.compiler.driver.settings.find import CONFIG_FILE
from policyc.compiler.frontend.read_options import ReadOptions

Command = Callable[..., Any]
NO_FILES = f"give policies with -f, --kustomize or --helm, or `paths` of {CONFIG_FILE}"
_HELM = "helm:"
_KUSTOMIZE = "kustomize:"


def rendered_options(command: Command) -> Command:
    """Add --kustomize and --helm to a command that has -f; what they name is appended to `files`."""

    @wraps(command)
    def with_sources(
        files: tuple[str, ...], kustomize: tuple[str, ...], helm: tuple[str, ...], **others: Any
    ) -> Any:
        built = (f"{_KUSTOMIZE}{each}" for each in kustomize)
        charts = (f"{_HELM}{each}" for each in helm)
        return command(files=(*files, *built, *charts), **others)

    decorated: Command = with_sources
    for name, metavar, what in (
        ("--helm", "CHART", "Render a chart with helm template. Short for -f helm:CHART."),
        ("--kustomize", "DIR", "Build a kustomization. Short for -f kustomize:DIR."),
    ):
        option = click.option(name, multiple=True, metavar=metavar, help=f"{what} Repeatable.")
        decorated = option(decorated)
    return decorated


def helm_values_option(command: Command) -> Command:
    """Add --helm-values to a command that gets the options of reading as `options`."""

    @wraps(command)
    def with_values(helm_values: tuple[str, ...], options: ReadOptions, **others: Any) -> Any:
        if helm_values and not _names_chart(others.values()):
            raise click.UsageError("--helm-values needs a chart: --helm CHART, or helm:CHART")
        if "-" in helm_values:
            raise click.UsageError("--helm-values needs a file, not standard input (-)")
        return command(options=replace(options, helm_values=helm_values), **others)

    option = click.option(
        "--helm-values",
        multiple=True,
        metavar="FILE",
        help="Render charts with these values, as helm template --values does. Repeatable.",
    )
    return option(with_values)


def _names_chart(values: Iterable[Any]) -> bool:
    """Whether an argument or option names a chart."""
    given = [each for value in values for each in (value if isinstance(value, tuple) else (value,))]
    return any(isinstance(each, str) and each.startswith(_HELM) for each in given)
