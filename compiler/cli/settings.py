# SPDX-License-Identifier: Apache-2.0
"""--config, and what .policyc.yaml sets where the command line is silent."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from policyc.compiler.cli.rendered_options import NO_FILES
from policyc.compiler.cli.stderr_notes import say
from policyc.compiler.driver.settings.find import CONFIG_FILE, WRONG_NAME, nearest_config
from policyc.compiler.frontend.read_options import ReadOptions

if TYPE_CHECKING:
    from policyc.compiler.driver.settings.settings import Settings

config_option = click.option(
    "--config",
    metavar="FILE",
    help="Read the configuration from FILE or git:REV:PATH. "
    f"[default: the nearest {CONFIG_FILE}, up to the root of the repository]",
)
_IN_USE = "policyc.settings"
_WITHOUT_PATHS = frozenset({"fuzz"})
"""Commands whose -f has another meaning than the policies of the repository."""
_PATHS = frozenset({"files", "intents", "cluster", "clusters"})


def settings_in_use() -> "Settings":
    """The settings of the running command."""
    from policyc.compiler.driver.settings.settings import NO_SETTINGS, Settings

    found = click.get_current_context().meta.get(_IN_USE, NO_SETTINGS)
    assert isinstance(found, Settings)
    return found


def show_other_configuration(*sides: str) -> None:
    """Print on standard error that a side's commit has another configuration than the one in use."""
    file = settings_in_use().file
    source = click.get_current_context().get_parameter_source("config")
    if not file or source is not ParameterSource.DEFAULT:
        return
    from policyc.compiler.driver.settings.committed import other_configuration

    for side in sides:
        other = other_configuration(file, side)
        if other is not None:
            say(f"warning: {file} differs from {other}, which --config {other} uses")


def with_settings(
    config: str | None, options: ReadOptions, given: dict[str, Any]
) -> tuple[ReadOptions, dict[str, Any]]:
    """The options and parameters of a command, completed by the configuration.

    Raises InputError with the mistakes of the configuration.
    """
    if config is None and nearest_config(Path()) is None:
        if Path(WRONG_NAME).exists():
            say(f"ignored: {WRONG_NAME}: the name is {CONFIG_FILE}")
        return options, given
    from policyc.compiler.driver.settings.settings import read_settings

    settings = read_settings(config)
    context = click.get_current_context()
    context.meta[_IN_USE] = settings
    say(f"configuration: {settings.file}")
    allowed = options.allow_unknown_kinds | settings.allow_unknown_kinds
    options = replace(options, allow_unknown_kinds=allowed, selection=settings.selection)
    return options, _completed(context, settings, given)


def _completed(
    context: click.Context, settings: "Settings", given: dict[str, Any]
) -> dict[str, Any]:
    """The parameters, with the values of the configuration for those that were not given."""
    command = context.command.name or ""
    values: dict[str, Any] = {"fail_on": settings.fail_on.get(command)}
    has_own_objects = given.get("scenarios") is not None
    if command not in _WITHOUT_PATHS and not has_own_objects:
        values |= {"files": settings.paths, "intents": settings.intents}
        if not given.get("cluster_old") and not given.get("cluster_new"):
            values |= {"cluster": settings.cluster, "clusters": settings.cluster}
    missing = {
        name: value
        for name, value in values.items()
        if value and name in given and not _is_given(context, name, given)
    }
    settings.need(path for name in _PATHS & missing.keys() for path in missing[name])
    return given | missing


def _is_given(context: click.Context, name: str, given: dict[str, Any]) -> bool:
    """Whether the command line sets a parameter. --kustomize and --helm add to the files of -f."""
    if name == "files" and given[name]:
        return True
    return context.get_parameter_source(name) is not ParameterSource.DEFAULT


def need(name: str, given: dict[str, Any]) -> None:
    """The usage error about a missing option, if neither command line nor configuration set it."""
    if name == "files" and not given.get(name, True):
        raise click.UsageError(NO_FILES)
    if name in given and not given[name]:
        context = click.get_current_context()
        option = next(each for each in context.command.params if each.name == name)
        raise click.MissingParameter(ctx=context, param=option)
