# SPDX-License-Identifier: Apache-2.0
"""`policyc compile` starts without what a run may not need.

Listed here is what it takes to read, decide and check one NetworkPolicy, with nothing else loaded.
"""

import json
import re
import subprocess
import sys

import pytest

START = (
    *("compiler.cli.main", "compiler.cli.compile", "compiler.driver.z3_release"),
    *("compiler.driver.cache.build_cache", "compiler.driver.cache.proof_ledger"),
)
READING = tuple(
    f"compiler.frontend.{name}"
    for name in (
        *("yaml.documents", "yaml.tree", "yaml.scalars"),
        *(
            f"kubernetes.{name}"
            for name in ("decode", "metadata", "selectors", "addresses", "objects")
        ),
        *(f"network_policy.{name}" for name in ("policy", "reader", "lowering", "validation")),
        *("network_policy.warnings", "lowered", "read_options", "policy_kinds"),
    )
)
DECIDING = (
    *("ir.policy", "ir.vocabulary", "ir.atoms", "ir.tables", "ir.decide", "ir.decision"),
    *("ir.views", "ir.plan", "ir.trees"),
)
CHECKING = tuple(
    f"verifier.decision.{name}" for name in ("cells", "unseen", "entries", "form", "outcome")
)

NOT_NEEDED = re.compile(
    r"policyc\.(grammar|runtime)\b.*"
    r"|policyc\.backends\.(llvm|ebpf_c)\b.*|policyc\.backends\.report\.(dump|layout|formats)\b.*"
    r"|policyc\.compiler\.driver\.compile\.(compile|pipeline|bundle|node_tables|objects)"
    r"|policyc\.compiler\.driver\.node_bundles\b.*"
    r"|policyc\.compiler\.frontend\.(calico|cilium|admin|extended|cluster)\..*"
    r"|policyc\.compiler\.frontend\.(read|read_intents|tiers|yaml\.git_commits)"
    r"|(antlr4|bitwuzla|dask|distributed|llvmlite|numpy|rich|z3)(\..*)?"
    r"|importlib\.(metadata|resources)(\..*)?"
    r"|asyncio|concurrent|difflib|email|multiprocessing|shutil|socket|subprocess|tempfile|urllib\.request"
)


OF_THE_WHOLE_WAY = re.compile(
    r"policyc\.ir\.(partition|semantics)"
    r"|policyc\.compiler\.driver\.(compile\.(bundle_policies|compile|pipeline)|rebuild\.recording)"
    r"|policyc\.compiler\.driver\.node_bundles\b.*"
)
OF_BUNDLES = re.compile(
    r"policyc\.backends\.ebpf_c\b.*"
    r"|policyc\.compiler\.driver\.compile\.(bundle|node_tables|objects)"
)


def imported_by(code: str) -> set[str]:
    """The modules that a new interpreter has loaded after some code."""
    shown = "import json, sys; print(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", f"{code}\n{shown}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def not_needed(loaded: set[str]) -> list[str]:
    return sorted(name for name in loaded if NOT_NEEDED.fullmatch(name))


@pytest.mark.parametrize(
    "modules",
    [START, READING, (*START, *READING, *DECIDING, *CHECKING)],
    ids=["the command", "the reading", "all that a small change needs"],
)
def test_modules_import_nothing_that_they_do_not_need(modules: tuple[str, ...]) -> None:
    names = [f"policyc.{name}" for name in modules]
    loaded = imported_by(f"import {', '.join(names)}")
    assert loaded.issuperset(names)
    assert not_needed(loaded) == []


def test_an_incremental_build_imports_nothing_of_a_full_build() -> None:
    """Start-up is most of the time of a run after a small change."""
    loaded = imported_by("import policyc.compiler.driver.rebuild.incremental")
    assert [name for name in sorted(loaded) if OF_THE_WHOLE_WAY.fullmatch(name)] == []
    assert [name for name in not_needed(loaded) if not OF_BUNDLES.fullmatch(name)] == []


def test_options_are_read_without_the_compiler() -> None:
    """An error in the options is reported before the pipeline is imported."""
    loaded = imported_by(
        "from policyc.compiler.cli.main import run\n"
        "assert run(['compile', '--help']) == 0\n"
        "assert run(['compile', '-f', 'p.yaml', '--cache-size', '3', '-o', 'b']) == 2\n"
        "assert run(['compile', '-f', 'p.yaml', '--node', 'a', '-o', 'b']) == 2"
    )
    assert not_needed(loaded - {"difflib", "shutil"}) == []  # click has a use for them


def test_a_network_policy_is_read_without_the_readers_of_others() -> None:
    loaded = imported_by(
        "from policyc.compiler.frontend.lowered import Reading\n"
        "from policyc.compiler.frontend.kubernetes.objects import ObjectReader\n"
        "from policyc.compiler.frontend.policy_kinds import READERS\n"
        "from policyc.compiler.frontend.yaml.sources import ObjectsSource\n"
        "from policyc.ir.diagnostics import Report\n"
        "report = Report()\n"
        "policy = {'apiVersion': 'networking.k8s.io/v1', 'kind': 'NetworkPolicy',\n"
        "          'metadata': {'name': 'a'}, 'spec': {'podSelector': {}}}\n"
        "(raw,) = ObjectReader(report).read([ObjectsSource('<test>', (policy,))])\n"
        "assert READERS[raw.api_version, raw.kind](raw, Reading(report)) is not None\n"
        "assert not report.findings"
    )
    assert not_needed(loaded) == []


def test_the_pattern_matches_imports_of_a_full_build() -> None:
    """The other tests would hold of a pattern that is out of date, too."""
    loaded = imported_by(
        "import policyc.compiler.driver.compile.compile, policyc.compiler.frontend.read"
    )
    found = not_needed(loaded)
    assert {
        "policyc.compiler.driver.compile.pipeline",
        "policyc.compiler.frontend.cluster.pods",
    } < set(found)
    whole = {name for name in loaded if OF_THE_WHOLE_WAY.fullmatch(name)}
    assert {"policyc.ir.partition", "policyc.compiler.driver.compile.compile"} < whole
