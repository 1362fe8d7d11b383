# SPDX-License-Identifier: Apache-2.0
"""In CI a failed test that waits for the kernel or the wire runs once more, alone: `--rerun-waiting`.

Takes: the reports of a run. Gives: the same run, in which a test marked `waits` that passed the
second time counts as passed and is named under `flaky:`. Promises: no other test runs twice, and a
run with more than `LIMIT` such tests fails, as each of them is a bug.
"""

import subprocess
import sys
from dataclasses import dataclass, field

import pytest
from _pytest.terminal import TerminalReporter

OPTION = "--rerun-waiting"
MARK = "waits"
LIMIT = 3
SECONDS = 600


@dataclass
class RerunWaiting:
    """The plugin, in the process that reports; workers do not have it."""

    config: pytest.Config
    failed: dict[str, list[pytest.TestReport]] = field(default_factory=dict)
    flaky: dict[str, str] = field(default_factory=dict)
    """By test, what it said the first time."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and MARK in report.keywords:
            self.failed.setdefault(report.nodeid, []).append(report)

    @pytest.hookimpl(trylast=True)  # the workers have ended by then
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus != pytest.ExitCode.TESTS_FAILED or len(self.failed) > LIMIT:
            return
        for test, reports in self.failed.items():
            if _passes_alone(self.config, test):
                self.flaky[test] = "\n".join(each.longreprtext for each in reports)
                self._count_as_passed(reports)
        if not self._reporter.stats.get("failed") and not self._reporter.stats.get("error"):
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if len(self.failed) > LIMIT:
            terminalreporter.section(
                f"more than {LIMIT} tests that wait have failed: none runs again"
            )
        if not self.flaky:
            return
        terminalreporter.section("flaky")
        for said in self.flaky.values():
            terminalreporter.line(said)
        terminalreporter.line("flaky:")
        for test in self.flaky:
            terminalreporter.line(f"  {test}")

    @property
    def _reporter(self) -> TerminalReporter:
        found = self.config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(found, TerminalReporter)
        return found

    def _count_as_passed(self, reports: list[pytest.TestReport]) -> None:
        stats = self._reporter.stats
        for kind in ("failed", "error"):
            stats[kind] = [each for each in stats.get(kind, []) if each not in reports]
            if not stats[kind]:
                del stats[kind]
        if any(each.when != "teardown" for each in reports):  # else it has been counted
            stats.setdefault("passed", []).append(reports[0])


def _passes_alone(config: pytest.Config, test: str) -> bool:
    """Whether the test passes in a process of its own, with the seed of this run."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    if config.pluginmanager.hasplugin("xdist"):
        command += ["-n", "0"]
    seed = config.getoption("--hypothesis-seed", None)
    if seed is not None:
        command.append(f"--hypothesis-seed={seed}")
    try:
        return not subprocess.run(
            command, cwd=config.rootpath, timeout=SECONDS, capture_output=True, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        return False


def register(config: pytest.Config) -> None:
    """Add the plugin if the option is given."""
    if config.getoption(OPTION) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(RerunWaiting(config), "rerun-waiting")
