# SPDX-License-Identifier: Apache-2.0
"""What a short run does itself, because `shutil` takes long to load, is what `shutil` does."""

import shutil
from pathlib import Path

import pytest

from policyc.backends.ebpf_c import clang
from policyc.compiler.driver.compile.bundle import placed

UNREADABLE = "/" + "n" * 5000
"""A folder about which the kernel answers with an error, also to root."""


@pytest.mark.parametrize(
    "path", ["{0}", "{0}:/usr/bin", "/nowhere:{0}/other:", "", UNREADABLE + ":{0}"]
)
@pytest.mark.parametrize("name", ["tool", "data", "folder", "sh", "./tool", "{0}/tool", "no-such"])
def test_tools_are_found_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, name: str
) -> None:
    for file in ("tool", "data", "other/tool"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch(0o644 if file == "data" else 0o755)
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", path.format(tmp_path))
    monkeypatch.setenv("POLICYC_SOME_TOOL", name.format(tmp_path))
    clang.find_tool.cache_clear()
    expected = shutil.which(name.format(tmp_path))
    try:
        if expected is None:
            with pytest.raises(clang.HostError, match="some-tool is not installed"):
                clang.find_tool("some-tool")
        else:
            assert clang.find_tool("some-tool") == str(Path(expected).absolute())
    finally:
        clang.find_tool.cache_clear()


def test_a_placed_directory_replaces_the_old_one_and_keeps_link_targets(tmp_path: Path) -> None:
    others, out = tmp_path / "others", tmp_path / "out"
    for folder in (others, out / "a" / "b"):
        folder.mkdir(parents=True)
        (folder / "file").write_text("text")
    (out / "a" / "link").symlink_to(others)
    (out / "nowhere").symlink_to("no-such")
    with placed(out) as work:
        (work / "new").touch()
    assert list(out.iterdir()) == [out / "new"]
    assert sorted(tmp_path.iterdir()) == [others, out]
    assert (others / "file").exists()


def test_a_failed_placement_removes_partial_output(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(ValueError, match="no"), placed(out) as work:
        (work / "sub").mkdir()
        (work / "sub" / "file").touch()
        raise ValueError("no")
    assert list(tmp_path.rglob("*")) == [out]
