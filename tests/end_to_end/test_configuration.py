# SPDX-License-Identifier: Apache-2.0
"""`.policyc.yaml` completes every command, and `policyc init` writes one that works."""

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import yaml

from policyc.compiler.cli.main import run
from tests.commits import commit, first_commit, git

SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "config.schema.json"
POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: %s, namespace: shop}
spec: {podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress]}
"""
RULE = "{ports: [{port: 80}]}"
KEPT = (POLICY % "kept").replace("}, pol", f"}}, ingress: [{RULE}, {RULE}], pol")
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
spec: {containers: [{name: db, image: db}]}
status: {podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}]}
"""
WIDGET = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n"
CONFIG = """\
paths: [policies]
exclude: ["*.old.yaml", "!keep.old.yaml", /copies/]
cluster: [cluster]
allowUnknownKinds: ["*.example.com"]
"""
FILES = {
    ".policyc.yaml": CONFIG,
    "policies/db.yaml": POLICY % "db",
    "policies/db.old.yaml": POLICY % "db",
    "policies/keep.old.yaml": POLICY.replace("}, pol", "}, ingress: [%s, %s], pol")
    % ("kept", RULE, RULE),
    "policies/widget.yaml": WIDGET,
    "copies/db.yaml": POLICY % "db",
    "cluster/shop.yaml": f"{NAMESPACE}---\n{POD}",
}
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit on `main`; it is the working directory."""
    repository = tmp_path / "repository"
    repository.mkdir()
    monkeypatch.chdir(repository)
    write(repository, FILES)
    first_commit()
    return repository


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def policyc(here: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    def runs(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run(list(arguments))
        shown = capfd.readouterr()
        return code, shown.out, shown.err

    return runs


def read_by(policyc: Run, *arguments: str) -> tuple[str, str]:
    """The names in `compile --emit policy-ir`, and standard error."""
    code, out, err = policyc("compile", "--emit", "policy-ir", *arguments)
    assert code == 0, err
    names = {name for name in ("shop/db", "shop/kept", "shop/other") if name in out}
    return ",".join(sorted(names)), err


def test_paths_are_the_default_of_files_and_cluster_of_the_cluster(policyc: Run) -> None:
    names, err = read_by(policyc)
    assert names == "shop/db,shop/kept"
    assert "configuration: .policyc.yaml" in err
    assert "skipped: 1 file by `exclude`" in err
    assert "1 Widget" in err
    code, out, _ = policyc("check", "--format", "json")
    assert code == 1, "one of two equal rules changes nothing"
    assert json.loads(out)["universe"]["kind"] == "cluster"


@pytest.mark.parametrize("folder", [".", "./", "../repository", "policies/.."])
def test_excluded_files_of_a_directory_are_not_read(policyc: Run, folder: str) -> None:
    names, err = read_by(policyc, "-f", folder)
    assert names == "shop/db,shop/kept"
    assert "skipped: 2 files by `exclude`" in err


@pytest.mark.parametrize("given", ["copies/db.yaml", "policies/db.old.yaml"])
def test_a_named_file_is_read(policyc: Run, given: str) -> None:
    names, err = read_by(policyc, "-f", given)
    assert names == "shop/db"
    assert "PC0137" not in err


def test_files_elsewhere_are_read(policyc: Run, here: Path) -> None:
    """The patterns are about the directory of the configuration, whatever the names are elsewhere."""
    write(here.parent, {"copies/x.old.yaml": POLICY % "other"})
    names, err = read_by(policyc, "-f", "../copies")
    assert names == "shop/other" and "PC0137" not in err
    write(here.parent / "copy", FILES)
    code, _, err = policyc("diff", str(here.parent / "copy" / "policies"), "policies")
    assert code == 2 and "PC0308" in err, "the copy has db twice"


def test_commits_of_other_repositories_are_read(
    policyc: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = here.parent / "other"
    write(other, {"copies/x.old.yaml": POLICY % "other"})
    monkeypatch.chdir(other)
    first_commit()
    monkeypatch.chdir(here)
    code, _, err = policyc("diff", "git:main", "../other/copies", "--universe", "symbolic")
    assert code == 0 and "PC0137" not in err, "both sides are those of the other repository"


def test_exclude_is_about_both_sides_of_a_comparison(policyc: Run, here: Path) -> None:
    code, out, err = policyc("diff", "git:main", ".")
    assert (code, out.partition(":")[0]) == (0, "equal")
    assert "PC0308" not in err
    (here / "policies/db.yaml").unlink()
    (here / "policies/keep.old.yaml").unlink()
    assert policyc("diff", "git:main", ".")[0] == 1


def test_the_search_works_from_a_directory_of_the_repository(
    policyc: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here / "copies")
    assert read_by(policyc)[0] == "shop/db,shop/kept"
    assert read_by(policyc, "-f", "..")[0] == "shop/db,shop/kept"
    assert read_by(policyc, "-f", "../policies")[0] == "shop/db,shop/kept"
    assert policyc("diff", "git:main", "..")[0] == 0


def test_a_configuration_below_the_root_counts_from_its_directory(policyc: Run, here: Path) -> None:
    write(here, {f"deploy/{name}": text for name, text in FILES.items()})
    (here / ".policyc.yaml").unlink()
    commit()
    assert read_by(policyc, "--config", "deploy/.policyc.yaml")[0] == "shop/db,shop/kept"
    code, out, err = policyc(
        "diff", "git:main:deploy", "deploy", "--config", "deploy/.policyc.yaml"
    )
    assert (code, out.partition(":")[0]) == (0, "equal"), err


def test_a_configuration_below_the_root_is_not_about_what_is_beside_it(
    policyc: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / ".policyc.yaml").unlink()
    write(here, {"team/.policyc.yaml": "exclude: ['*']\n", "beside/x.yaml": POLICY % "other"})
    commit()
    monkeypatch.chdir(here / "team")
    names, err = read_by(policyc, "-f", "../beside")
    assert names == "shop/other" and "PC0137" not in err
    (here / "beside/x.yaml").unlink()
    assert policyc("diff", "git:main:beside", "../beside", "--universe", "symbolic")[0] == 1


def test_a_configuration_outside_of_the_repository_excludes_nothing_in_it(
    policyc: Run, here: Path
) -> None:
    write(here.parent, {"conf/c.yaml": "exclude: ['*']\n"})
    given = ("--config", "../conf/c.yaml", "--universe", "symbolic")
    assert read_by(policyc, "-f", "copies", "--config", "../conf/c.yaml")[0] == "shop/db"
    (here / "copies/db.yaml").write_text((POLICY % "db").replace("app: db", "app: web"))
    assert policyc("diff", "git:main:copies", "copies", *given)[0] == 1


def test_the_configuration_of_a_commit_may_be_used(policyc: Run, here: Path) -> None:
    (here / ".policyc.yaml").write_text("exclude: ['*']\n")
    assert policyc("check", "-f", "policies", "--config", "git:main")[0] == 2, "a directory"
    assert read_by(policyc, "-f", "policies", "--config", "git:main:.policyc.yaml")[0]
    code, _, err = policyc("check", "-f", "policies")
    assert code == 2 and "PC0117" in err


def test_a_change_of_the_configuration_itself_is_noticed(policyc: Run, here: Path) -> None:
    assert "differs" not in policyc("diff", "git:main", ".")[2]
    (here / ".policyc.yaml").write_text(CONFIG.replace("/copies/", "/copies/, db.yaml"))
    given = "--config git:main:.policyc.yaml"
    words = f"warning: .policyc.yaml differs from git:main:.policyc.yaml, which {given} uses"
    assert words in policyc("diff", "git:main", ".")[2]
    assert words in policyc("diff", "git:main:policies", "policies")[2]
    assert "differs" not in policyc("diff", "git:main", ".", *given.split())[2]
    assert "differs" not in policyc("diff", "policies/keep.old.yaml", "policies")[2]


def test_no_configuration_is_used_on_request(policyc: Run) -> None:
    code, _, err = policyc("check", "-f", ".", "--config", "/dev/null")
    assert code == 2 and "PC0308" in err and "PC0306" in err


def test_without_paths_a_command_asks_for_files(policyc: Run, here: Path) -> None:
    (here / ".policyc.yaml").write_text("exclude: []\n")
    code, _, err = policyc("check")
    assert code == 2 and "give policies with -f" in err


def test_fail_on_is_set_by_command(policyc: Run, here: Path) -> None:
    assert policyc("check")[0] == 1
    (here / ".policyc.yaml").write_text(CONFIG + "check: {failOn: none}\ndiff: {failOn: none}\n")
    assert policyc("check")[0] == 0
    assert policyc("check", "--fail-on", "warning")[0] == 1
    (here / "policies/db.yaml").write_text((POLICY % "db").replace("app: db", "app: web"))
    assert policyc("diff", "git:main", ".", "--universe", "symbolic")[0] == 0
    assert policyc("diff", "git:main", ".", "--universe", "symbolic", "--fail-on", "any")[0] == 1


def test_intents_are_the_default_of_verify(policyc: Run, here: Path) -> None:
    code, _, err = policyc("verify")
    assert code == 2 and "Missing option '--intents'" in err
    (here / ".policyc.yaml").write_text(CONFIG + "intents: [shop.intent]\n")
    write(here, {"shop.intent": 'never tcp/1 from any to pod.app == "db"\n'})
    code, out, err = policyc("verify")
    assert (code, err.count("error")) == (0, 0), out + err
    assert "1 intent: 1 holds" in out


WRONG = {
    "paths: policies\n": "1:8: error[PC2093]: paths: expected a list, found the string",
    "paths: [/etc]\n": "1:9: error[PC2093]: paths: paths are inside the directory of the file",
    "paths: [../other]\n": "1:9: error[PC2093]: paths: paths are inside",
    "cluster: [/etc/passwd]\n": "1:11: error[PC2093]: cluster: paths are inside the directory",
    "intents: [a, ../b]\n": "1:14: error[PC2093]: intents: paths are inside the directory",
    "paths: [passwords]\n": "1:9: error[PC2093]: paths: `passwords` is a link that leads out",
    "paths: [outside/passwd]\n": "1:9: error[PC2093]: paths: `outside/passwd` is a link that leads",
    'paths: ["a\\0b"]\n': "1:9: error[PC2093]: paths: expected a path",
    "paths: ['-']\n": "1:9: error[PC2093]: paths: expected a path of a file or directory",
    "paths: ['git:main:a']\n": "1:9: error[PC2093]: paths: expected a path",
    "paths: ['kustomize:a']\n": "1:9: error[PC2093]: paths: expected a path",
    "exclude: ['!']\n": "1:11: error[PC2093]: exclude: `!` is no pattern as in .gitignore",
    "exclude: [1]\n": "1:11: error[PC2093]: exclude: expected a string, found",
    "exlude: []\n": "1:1: error[PC2093]: the file: there is no field `exlude`",
    "diff: {failOn: wide}\n": "1:16: error[PC2093]: diff.failOn: expected any, widened, narrowed",
    "check: {failOn: any}\n": "1:17: error[PC2093]: check.failOn: expected error, warning, note",
    "diff: []\n": "1:7: error[PC2093]: diff: expected a mapping, found an empty list",
    "check: {severities: {PC0001: off}}\n": "1:22: error[PC2090]",
    "- paths\n": "1:1: error[PC2093]: the file: expected a mapping, found a list",
    "paths: []\n---\npaths: []\n": "error[PC2093]: the file: it has more than one document",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_configuration_is_an_error(policyc: Run, here: Path, text: str) -> None:
    (here / "passwords").symlink_to("/etc/passwd")
    (here / "outside").symlink_to("/etc")
    (here / ".policyc.yaml").write_text(text)
    code, _, err = policyc("list", "-f", "policies")
    assert code == 2 and f".policyc.yaml:{WRONG[text]}" in err.replace(
        ".policyc.yaml:3:1: error", ".policyc.yaml:error"
    )


@pytest.mark.parametrize("text", [t for t in WRONG if "PC0001" in t or "fail" in t or "[1]" in t])
def test_the_schema_refuses_what_the_reader_refuses(text: str) -> None:
    schema = json.loads(SCHEMA.read_text())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(yaml.safe_load(text))


def test_init_writes_a_configuration_that_reads_the_policies(policyc: Run, here: Path) -> None:
    code, _, err = policyc("init")
    assert code == 2 and ".policyc.yaml exists" in err
    assert (here / ".policyc.yaml").read_text() == CONFIG
    (here / "copies/db.yaml").unlink()
    (here / "policies/db.old.yaml").unlink()
    write(here, {"policies/rules.yaml": WIDGET.replace("Widget", "TrafficRule")})
    code, out, _ = policyc("init", "--force")
    assert code == 0
    assert "policies: 2 policies in 2 files, in policies\n" in out
    assert "unknown kinds: TrafficRule.example.com, Widget.example.com. Allow those that" in out
    text = (here / ".policyc.yaml").read_text()
    found = yaml.safe_load(text)
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(found)
    assert found["paths"] == ["policies"] and found["allowUnknownKinds"] == []
    assert "# cluster:\n#   - cluster\n" in text
    code, _, err = policyc("check", "--fail-on", "none")
    assert code == 2 and "TrafficRule" in err and "Widget" in err
    allowed = text.replace("allowUnknownKinds: []\n# ", "allowUnknownKinds:\n").replace(
        "\n#   - ", "\n  - "
    )
    (here / ".policyc.yaml").write_text(allowed.replace("  - cluster\n", ""))
    assert policyc("check", "--fail-on", "none")[0] == 0


def test_init_names_policies_that_two_files_define_and_files_with_errors(
    policyc: Run, here: Path
) -> None:
    write(here, {"policies/broken.yaml": "kind: NetworkPolicy\nmetadata: {\n"})
    code, out, err = policyc("init", "--force")
    assert code == 0
    files = "copies/db.yaml, policies/db.old.yaml, policies/db.yaml"
    assert f"given twice: NetworkPolicy shop/db in {files}: exclude all but one\n" in out
    assert "1 file with errors" in out and "policies/broken.yaml:" in err


def test_init_prints_without_writing(policyc: Run, here: Path) -> None:
    code, out, _ = policyc("init", "--print")
    assert code == 0 and yaml.safe_load(out)["paths"] == ["copies", "policies"]
    assert (here / ".policyc.yaml").read_text() == CONFIG


@pytest.mark.parametrize("name", ["a b", "ü: #", "on", "1.5", "- x"])
def test_init_quotes_odd_names(policyc: Run, here: Path, name: str) -> None:
    (here / "policies").rename(here / name)
    assert policyc("init", "--force")[0] == 0
    found = yaml.safe_load((here / ".policyc.yaml").read_text())
    assert set(found["paths"]) == {"copies", name}
    assert policyc("check")[2].count("PC0308") == 2, "all three copies are read"


def test_a_likely_wrong_name_is_noticed(policyc: Run, here: Path) -> None:
    (here / ".policyc.yaml").rename(here / ".policyc.yml")
    _, _, err = policyc("list", "-f", "copies")
    assert "ignored: .policyc.yml: the name is .policyc.yaml" in err


def test_exclude_is_about_both_sides_where_the_configuration_is_below_them(
    policyc: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / ".policyc.yaml").unlink()
    (here / "copies/db.yaml").unlink()
    (here / "policies/db.old.yaml").unlink()
    write(here, {"app/.policyc.yaml": "exclude: [gen/]\n", "app/gen/x.yaml": POLICY % "other"})
    commit()
    given = ("--config", "app/.policyc.yaml", "--allow-unknown-kinds", "Widget")
    code, out, _ = policyc("diff", "git:HEAD", ".", *given)
    assert (code, out.partition(":")[0]) == (0, "equal") and "1 policy" not in out
    monkeypatch.chdir(here / "app")
    code, out, _ = policyc("diff", "git:HEAD:", "..", "--allow-unknown-kinds", "Widget")
    assert (code, out.partition(":")[0]) == (0, "equal") and "1 policy" not in out


def test_files_of_git_itself_are_no_input(policyc: Run, here: Path) -> None:
    (here / ".policyc.yaml").write_text("paths: [.git/config]\n")
    code, _, err = policyc("check")
    assert code == 2 and "PC2093" in err and "repositoryformat" not in err


@pytest.mark.parametrize("field", ["paths", "cluster", "intents"])
def test_a_path_that_does_not_exist_is_an_error_with_its_line(
    policyc: Run, here: Path, field: str
) -> None:
    fields = {"paths": "policies", "intents": "policies"} | {field: "gone"}
    (here / ".policyc.yaml").write_text("".join(f"{k}: [{v}]\n" for k, v in fields.items()))
    code, _, err = policyc("verify")
    assert code == 2
    line = 1 + list(fields).index(field)
    assert f".policyc.yaml:{line}:{len(field) + 4}: error[PC2093]" in err
    assert "gone: no such file or directory" in err


def test_a_path_that_the_command_line_replaces_need_not_exist(policyc: Run, here: Path) -> None:
    (here / ".policyc.yaml").write_text("paths: [gone]\n")
    assert read_by(policyc, "-f", "policies/db.yaml")[0] == "shop/db"


def regions(policyc: Run, *arguments: str) -> tuple[str, str]:
    """The changed policies of a diff, and standard error."""
    code, out, err = policyc("diff", *arguments, "--format", "json")
    assert code in (0, 1), err
    objects = json.loads(out).get("objects", {})
    names = [f"{what} {each['name']}" for what in ("added", "removed") for each in objects[what]]
    return ",".join(sorted(names)), err


def test_without_new_a_diff_compares_the_configured_paths(policyc: Run, here: Path) -> None:
    (here / "policies" / "new.yaml").write_text(POLICY % "new")
    (here / "elsewhere.yaml").write_text(POLICY % "elsewhere")
    names, _ = regions(policyc, "git:main")
    assert names == "added new"


def test_a_configured_path_may_be_in_one_of_the_sides(policyc: Run, here: Path) -> None:
    (here / ".policyc.yaml").write_text("paths: [policies/db.yaml, more, cluster]\n")
    (here / "more").mkdir()
    (here / "more" / "new.yaml").write_text(POLICY % "new")
    (here / "cluster" / "shop.yaml").unlink()
    (here / "cluster").rmdir()
    names, err = regions(policyc, "git:main")
    assert names == "added new"
    assert "warning[PC0124]: the commit main has no more" in err


def test_without_new_and_paths_a_diff_compares_the_working_directory(
    policyc: Run, here: Path
) -> None:
    (here / ".policyc.yaml").write_text(
        "allowUnknownKinds: [Widget]\nexclude: [copies, '*.old.yaml']\n"
    )
    (here / "new.yaml").write_text(POLICY % "new")
    assert regions(policyc, "git:main")[0] == "added new"


@pytest.mark.parametrize("old", ["policies", "git:main:policies", "-"])
def test_only_after_a_commit_new_may_be_left_out(policyc: Run, old: str) -> None:
    code, _, err = policyc("diff", old)
    assert code == 2
    assert "only after git:REV it may be left out" in err


@pytest.mark.parametrize("target", ["copies", ".", "nowhere"])
def test_a_link_of_the_change_does_not_choose_the_files_of_the_commit(
    policyc: Run, here: Path, target: str
) -> None:
    """The path of the commit is the path as written, whatever it is now."""
    (here / "cluster" / "shop.yaml").rename(here / "shop.yaml")
    (here / "cluster").rmdir()
    (here / ".policyc.yaml").write_text("paths: [more]\n")
    (here / "more").mkdir()
    (here / "more" / "other.yaml").write_text((POLICY % "other").replace("app: db", "app: other"))
    commit()
    git("branch", "base")
    (here / "more" / "other.yaml").unlink()
    (here / "more").rmdir()
    (here / "more").symlink_to(target)
    shown = ("--format", "json", "--config", "git:base:.policyc.yaml")
    for arguments in (("git:base",), ("git:base", "more")):
        code, out, err = policyc("diff", *arguments, *shown)
        if target == "nowhere":
            assert code == 2, err
        elif code != 2:  # else the link shows objects that cannot be read together
            assert "other" in [each["name"] for each in json.loads(out)["objects"]["removed"]]
