# SPDX-License-Identifier: Apache-2.0
"""The command line: a table of commands, each imported when it is chosen.

The distribution policyc-node has this module and `policyc node`, and none of the other commands.
"""

import errno
import gc
import importlib
import os
import sys
from importlib.util import find_spec
from typing import Any

import click

COMMANDS = {
    "check": (
        "policyc.compiler.cli.check",
        "check_",
        "find rules that do nothing, or not what they seem to do",
    ),
    "compile": ("policyc.compiler.cli.compile", "compile_", "compile policies into a bundle"),
    "convert": (
        "policyc.compiler.cli.convert",
        "convert",
        "rewrite policies in another API, with a proof",
    ),
    "diff": (
        "policyc.compiler.cli.diff",
        "diff",
        "show the traffic that a change opens and closes",
    ),
    "equiv": (
        "policyc.compiler.cli.equiv",
        "equiv",
        "prove two policy sets equal, with a certificate",
    ),
    "eval": ("policyc.compiler.cli.eval", "eval_", "evaluate flows with the reference semantics"),
    "explain": (
        "policyc.compiler.cli.explain",
        "explain",
        "explain a verdict rule by rule",
    ),
    "fmt": ("policyc.compiler.cli.fmt", "fmt", "format rule blocks, expressions and intents"),
    "fuzz": (
        "policyc.compiler.cli.fuzz",
        "fuzz",
        "compare all stages on random policies",
    ),
    "init": (
        "policyc.compiler.cli.init",
        "init",
        "write .policyc.yaml after a look at the repository",
    ),
    "lab": (
        "policyc.compiler.cli.lab",
        "lab",
        "test policies with real traffic in network namespaces",
    ),
    "list": ("policyc.compiler.cli.listing", "list_", "list the connections that policies allow"),
    "lsp": ("policyc.compiler.cli.lsp", "lsp", "serve editors over standard input and output"),
    "node": ("policyc.compiler.cli.node", "node", "load, unload and monitor a bundle on this node"),
    "prove": (
        "policyc.compiler.cli.prove",
        "prove_",
        "prove that a bundle implements its policies",
    ),
    "replay": ("policyc.compiler.cli.replay", "replay_", "ask a change of observed flows"),
    "report": (
        "policyc.compiler.cli.report",
        "report",
        "write one HTML page about a change or a policy set",
    ),
    "schema": ("policyc.compiler.cli.schema", "schema", "print a JSON schema"),
    "snapshot": (
        "policyc.compiler.cli.snapshot",
        "snapshot",
        "write what policyc reads of a live cluster",
    ),
    "verify": (
        "policyc.compiler.cli.verify",
        "verify_",
        "prove intents, or show a flow that breaks them",
    ),
}
"""Command -> (module, attribute, one line of help)."""

_SHORT = frozenset({"compile"})
"""Commands that turn the cycle collector on themselves, once they know that there is much to do."""

_FAILED_WRITES = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Write errors that are not a bug: the reader left, or there is no room."""

WHOLE, NODE_PART = "policyc", "policyc-node"
"""The distributions: policyc requires policyc-node."""

EXTRA_OF_MODULE = {
    WHOLE: {
        "distributed": "shards",
        "hypothesis": "fuzz",
        "lsprotocol": "editor",
        "pygls": "editor",
    },
    NODE_PART: {"cryptography": "signed", "yaml": "yaml"},
}
"""Modules that an extra installs. Every other one is a requirement of the distribution itself."""


class LazyGroup(click.Group):
    """A group whose commands are looked up in `COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command that is installed, without importing any."""
        return [name for name, (module, _, _) in COMMANDS.items() if find_spec(module)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command that was chosen."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        if cmd_name not in _SHORT:
            gc.enable()
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of commands, from the one-line help kept here."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in self.list_commands(ctx)])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, asked: _show_version(context) if asked else None,
    help="Show the version and exit.",
)
def cli() -> None:
    """Compile Kubernetes network policy to eBPF, and prove that the result implements it.

    Exit codes: 0: holds; 1: findings; 2: wrong input or usage; 3: undecided, or policyc, a tool or the
    kernel failed.
    """


def main(argv: list[str] | None = None) -> None:
    """Run a command and exit with its exit code."""
    gc.disable()  # loaded modules are not garbage
    code = run(argv)
    # The process ends: the collector need not walk all objects, which it would do several times (0.3 of
    # 5 s for a thousand policies, and 6 % of a start that does nothing else).
    gc.freeze()
    sys.exit(code)


def run(argv: list[str] | None = None, program: click.Command = cli, name: str = WHOLE) -> int:
    """Run a command of a program; the exit code of DESIGN's table, whatever happens."""
    try:
        code = _run(argv, program, name)
        _flush()
    except BrokenPipeError:  # `policyc ... | head`: the reader left, which is not a failure
        _drop_stdout()
        return 0
    except OSError as failure:
        print(f"policyc: error: cannot write the output: {failure.strerror}", file=sys.stderr)
        _drop_stdout()
        return 3
    return code


def _flush() -> None:
    """Flush the buffer while a failure can still be reported."""
    if sys.stdout is not None:  # it is None if the shell closed it
        sys.stdout.flush()


def _drop_stdout() -> None:
    """The buffer cannot be written anywhere; Python would try again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(argv: list[str] | None, program: click.Command, name: str) -> int:
    """Run a command; errors in writing standard output propagate to the caller."""
    try:
        result: Any = program.main(args=argv, prog_name=name, standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        print("policyc: interrupted", file=sys.stderr)
        return 130
    except click.ClickException as usage:
        _show_usage(usage)
        return 2
    except ModuleNotFoundError as missing:
        return _missing_module(missing)
    except Exception as failure:
        if isinstance(failure, OSError) and failure.errno in _FAILED_WRITES:
            raise
        return _failed(failure)
    return result if isinstance(result, int) else 0


def _show_usage(usage: click.ClickException) -> None:
    """As click shows it; the message quotes the arguments, so it is made printable."""
    from policyc.ir.printable import printable

    no_arguments: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())  # click 8.2
    if isinstance(usage, (click.MissingParameter, no_arguments)):
        usage.show()  # of several lines, and entirely our own text
    elif isinstance(usage, click.UsageError):
        click.UsageError(printable(usage.format_message()), usage.ctx).show()
    else:
        click.ClickException(printable(usage.format_message())).show()


def _failed(failure: Exception) -> int:
    """Errors of ours carry `exit_code`; any other exception is a bug and shows its trace."""
    from policyc.ir.printable import printable, printable_lines

    code = getattr(failure, "exit_code", None)
    if not isinstance(code, int):
        import traceback

        print(printable_lines("".join(traceback.format_exception(failure))), file=sys.stderr)
        print("policyc: this is a bug in policyc, please report it", file=sys.stderr)
        return 3
    findings = getattr(failure, "findings", None)
    if findings is not None:
        from policyc.backends.report.text import print_findings

        print_findings(findings)
    else:
        print(f"policyc: error: {printable(str(failure))}", file=sys.stderr)
        hint = getattr(failure, "hint", "")
        if hint:
            print(f"help: {printable(hint)}", file=sys.stderr)
    return code


def _show_version(context: click.Context) -> None:
    """Print the release of what is installed: policyc, or only its part for nodes."""
    from importlib import metadata

    installed = next(name for name in (WHOLE, NODE_PART) if _is_installed(name))
    click.echo(f"{installed}, version {metadata.version(installed)}")
    context.exit()


def _missing_module(missing: ModuleNotFoundError) -> int:
    """Say what to install, with all that this command may need."""
    installed = next((name for name in (WHOLE, NODE_PART) if _is_installed(name)), "")
    module = (missing.name or "").partition(".")[0]
    if module == WHOLE and installed == NODE_PART:
        return _ask_to_install(f"{NODE_PART} has no such command", WHOLE)
    extra = EXTRA_OF_MODULE.get(installed, {}).get(module, "")
    absent = _absent_requirements(installed, extra) if installed else []
    absent = absent or ([module] if extra else [])
    if not absent:
        return _failed(missing)
    wanted = f"'{installed}[{extra}]'" if extra else installed
    return _ask_to_install(f"not installed: {', '.join(absent)}", wanted)


def _ask_to_install(problem: str, wanted: str) -> int:
    print(f"policyc: error: {problem}", file=sys.stderr)
    print(f"help: pip install {wanted}", file=sys.stderr)
    return 3


def _absent_requirements(distribution: str, extra: str) -> list[str]:
    """The requirements of a distribution, and of one of its extras, that are not installed."""
    import re
    from importlib import metadata

    needed = []
    for each in metadata.requires(distribution) or ():
        requirement, _, condition = each.partition(";")
        if not condition or (extra and re.search(rf"extra == .{extra}\W", condition)):
            needed.append(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])
    return [name for name in needed if not _is_installed(name)]


def _is_installed(distribution: str) -> bool:
    from importlib import metadata

    try:
        return bool(metadata.version(distribution))
    except metadata.PackageNotFoundError:
        return False
