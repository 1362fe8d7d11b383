# SPDX-License-Identifier: Apache-2.0
"""The build cache gives back what was put, or nothing; and stays within its size."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from policyc.backends.ebpf_c.bare import bare_text
from policyc.compiler.driver.cache import (
    build_cache,
    proof_ledger,
)
from policyc.compiler.driver.cache.build_cache import (
    BuildCache,
    key_of,
    open_cache,
)
from policyc.compiler.driver.compile import objects
from policyc.ir.errors import InputError

KEY = key_of("some", "entry")


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / build_cache.FORMAT).glob("*/*"))


def test_a_stored_entry_is_read_back(tmp_path: Path) -> None:
    open_cache(tmp_path / "new" / "cache").put(KEY, b"content")
    assert open_cache(tmp_path / "new" / "cache").get(KEY) == b"content"
    assert open_cache(tmp_path / "new" / "cache").get(key_of("other")) is None


@pytest.mark.parametrize("damage", [b"", b"x", b"\0" * 40, None])
def test_a_damaged_entry_is_ignored_and_replaced(tmp_path: Path, damage: bytes | None) -> None:
    cache = open_cache(tmp_path)
    cache.put(KEY, b"content")
    (path,) = entries(tmp_path)
    path.write_bytes(path.read_bytes()[:-1] + b"!" if damage is None else damage)
    assert cache.get(KEY) is None
    cache.put(KEY, b"content")
    assert cache.get(KEY) == b"content"


def test_no_two_lists_of_parts_have_one_key() -> None:
    lists = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), (b"ab", "c", "")]
    assert len({key_of(*parts) for parts in lists}) == len(lists)


def test_the_least_recently_used_entries_go(tmp_path: Path) -> None:
    cache = BuildCache(open_cache(tmp_path).folder, limit=3 * 1100)
    keys = [key_of(str(i)) for i in range(5)]
    for age, key in enumerate(keys):
        cache.put(key, b"x" * 1000)
        path = tmp_path / build_cache.FORMAT / key[:2] / key
        os.utime(path, ns=(age * 10**9, age * 10**9))
    assert cache.get(keys[0])  # used now, so the youngest
    cache.trim()
    assert [key for key in keys if cache.get(key)] == [keys[0], keys[3], keys[4]]


def test_runs_at_the_same_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    def work(number: int) -> list[bytes | None]:
        cache = open_cache(tmp_path)
        found = []
        for i in range(50):
            cache.put(key_of(str(i)), b"%d" % i * 1000)
            found.append(cache.get(key_of(str((i * number) % (i + 1)))))
        return found

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(work, range(1, 5)):
            assert all(found)
    assert len(entries(tmp_path)) == 50


def test_a_directory_that_cannot_be_made_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be used"):
        open_cache(tmp_path / "file" / "cache")


def test_a_failed_put_is_reported_once_and_ends_nothing(tmp_path: Path) -> None:
    cache = open_cache(tmp_path)
    (tmp_path / build_cache.FORMAT / KEY[:2]).write_text("in the way")
    cache.put(KEY, b"content")
    cache.put(KEY, b"content")
    assert cache.get(KEY) is None
    assert [finding.code for finding in cache.findings] == ["PC0914"]


def test_the_ledger_has_proved_questions(tmp_path: Path) -> None:
    cache = open_cache(tmp_path)
    one, two = b"1" * 32, b"2" * 32
    ledger = proof_ledger.open_ledger(cache, "context")
    assert not ledger.has(one)
    ledger.add(one)
    ledger.close()
    again = proof_ledger.open_ledger(cache, "context")
    assert again.has(one) and not again.has(two)
    assert not proof_ledger.open_ledger(cache, "another context").has(one)


def test_another_z3_or_compiler_invalidates_proofs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = open_cache(tmp_path)
    ledger = proof_ledger.open_ledger(cache, "")
    ledger.add(b"1" * 32)
    ledger.close()
    with monkeypatch.context() as patched:
        patched.setattr(proof_ledger, "z3_release", lambda: "0.0")
        assert not proof_ledger.open_ledger(cache, "").has(b"1" * 32)
    monkeypatch.setattr(proof_ledger, "source_digest", lambda *_: "another")
    assert not proof_ledger.open_ledger(cache, "").has(b"1" * 32)


def test_the_ledger_drops_unused_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof_ledger, "_LEAST", 10)
    cache = open_cache(tmp_path)
    for run in range(8):
        ledger = proof_ledger.open_ledger(cache, "")
        for question in range(5):
            ledger.add(bytes([run, question]) * 16)
        ledger.close()
    kept = cache.get(ledger.key)
    assert kept is not None and len(kept) == 20 * 32
    assert proof_ledger.open_ledger(cache, "").has(bytes([7, 4]) * 16)


def test_comments_and_blank_lines_are_removed_and_strings_kept() -> None:
    text = 'int a; /* one\n two */ int b; // three\n\n\tchar *c = "/* no */ // no";  \nint/**/d;\n'
    assert bare_text(text) == 'int a;   int b;\n\tchar *c = "/* no */ // no";\nint d;\n'


def test_an_object_is_compiled_again_when_a_header_of_the_system_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = tmp_path / "header.h"
    header.write_text("one")
    made: list[str] = []

    def compiled(source: str, text: str) -> tuple[bytes, tuple[Path, ...]]:
        made.append(header.read_text())
        return header.read_bytes(), (header,)

    monkeypatch.setattr(objects, "_compiled", compiled)
    cache = open_cache(tmp_path / "cache")
    objects._digest.cache_clear()
    assert objects.policy_object("int a; /* x */\n", cache) == b"one"
    assert objects.policy_object("\nint a; // y\n", cache) == b"one"
    assert objects.policy_object("int b;\n", cache) == b"one"
    header.write_text("two")
    objects._digest.cache_clear()
    assert objects.policy_object("int a;\n", cache) == b"two"
    assert made == ["one", "one", "two"]
    objects._digest.cache_clear()


def test_the_digest_of_code_covers_packages_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "someones"
    below = package / "below"
    below.mkdir(parents=True)
    for folder in (package, below):
        (folder / "__init__.py").touch()
    monkeypatch.setattr(build_cache, "folder_of", lambda _: package)
    seen = set()
    for text in ("", "changed = 1\n"):
        (below / "code.py").write_text(text)
        for cached in (build_cache.source_digest, build_cache._folder_digest):
            cached.cache_clear()
        seen.add(build_cache.source_digest("someones"))
    build_cache.source_digest.cache_clear()
    assert len(seen) == 2
