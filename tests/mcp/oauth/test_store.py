"""Where tokens are kept."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from yiemagent.errors import ConfigurationError
from yiemagent.mcp.oauth import FileTokenStore, KeyringTokenStore, MemoryTokenStore, StoreKey, TokenStore
from yiemagent.testing import WAIT

KEY = StoreKey("https://as.example", "https://mcp.example/mcp", "ann")
OTHERS = [
    StoreKey("https://other.example", KEY.resource, KEY.account),
    StoreKey(KEY.issuer, "https://mcp.example/b", KEY.account),
    StoreKey(KEY.issuer, KEY.resource, "bob"),
    StoreKey(KEY.issuer),
]


class FakeKeyring:
    """The three functions of a keyring."""

    def __init__(self) -> None:
        self.passwords: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, name: str) -> str | None:
        return self.passwords.get((service, name))

    def set_password(self, service: str, name: str, password: str) -> None:
        self.passwords[service, name] = password

    def delete_password(self, service: str, name: str) -> None:
        del self.passwords[service, name]


@pytest.fixture(params=["memory", "file", "keyring"])
def store(request: Any, tmp_path: Path) -> TokenStore:
    if request.param == "file":
        return FileTokenStore(tmp_path / "tokens")
    return MemoryTokenStore() if request.param == "memory" else KeyringTokenStore(backend=FakeKeyring())


def test_what_is_saved_is_found_under_its_key_alone(store: TokenStore) -> None:
    """Specification 2026-07-28, Authorization Server Binding: keyed by issuer."""
    store.save(KEY, {"access_token": "a"})

    assert store.load(KEY) == {"access_token": "a"}
    assert [store.load(other) for other in OTHERS] == [None] * 4


def test_the_last_record_counts_and_can_be_forgotten(store: TokenStore) -> None:
    """Deleting what is not there is no error."""
    store.delete(KEY)
    store.save(KEY, {"n": 1})
    store.save(KEY, {"n": 2})

    assert store.load(KEY) == {"n": 2}
    store.delete(KEY)
    assert store.load(KEY) is None


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    """Issue 5 part 3: mode 0600, whatever the umask says."""
    before = os.umask(0)
    try:
        FileTokenStore(tmp_path / "tokens").save(KEY, {"access_token": "s3cret"})
    finally:
        os.umask(before)

    (file,) = (tmp_path / "tokens").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert "s3cret" not in file.name


def test_nothing_is_made_before_something_is_saved(tmp_path: Path) -> None:
    """A store that is only configured leaves no trace."""
    store = FileTokenStore(tmp_path / "tokens")

    assert store.load(KEY) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"key": {}, "record": {"access_token": "x"}}', "\x00\xff"]
)
def test_a_damaged_file_counts_as_none(tmp_path: Path, content: str) -> None:
    """A broken store costs a new login, not the program."""
    store = FileTokenStore(tmp_path)
    store.save(KEY, {"access_token": "a"})
    (file,) = tmp_path.iterdir()
    file.write_text(content)

    assert store.load(KEY) is None


def test_a_file_of_another_key_is_not_taken_for_ours(tmp_path: Path) -> None:
    """Names are digests: the key inside decides."""
    store = FileTokenStore(tmp_path)
    store.save(KEY, {"access_token": "a"})
    (file,) = tmp_path.iterdir()
    content = json.loads(file.read_text())
    content["key"]["issuer"] = "https://evil.example"
    file.write_text(json.dumps(content))

    assert store.load(KEY) is None


def test_readers_never_see_half_a_file(tmp_path: Path) -> None:
    """Several processes share the directory: a file is replaced as a whole."""
    store = FileTokenStore(tmp_path)
    long, short = {"access_token": "x" * 100_000}, {"access_token": "y"}
    store.save(KEY, long)
    done = threading.Event()

    def write() -> None:
        for _ in range(50):
            store.save(KEY, short)
            store.save(KEY, long)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    while not done.is_set():
        seen.append(store.load(KEY))
    writer.join(WAIT)

    assert all(record in (long, short) for record in seen)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The way out is in the message."""
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigurationError, match=r"file.*MemoryTokenStore"):
        FileTokenStore(tmp_path / "file").save(KEY, {})
