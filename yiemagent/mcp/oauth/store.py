"""Where tokens and registrations are kept between calls and between processes.

A record is kept for each authorization server: nothing that one server gave is ever found
under the name of another (specification 2026-07-28, "Authorization Server Binding").
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from yiemagent.errors import ConfigurationError
from yiemagent.forking import forget_parent_on_fork
from yiemagent.value_checks import check_type

__all__ = ["FileTokenStore", "KeyringTokenStore", "MemoryTokenStore", "StoreKey", "TokenStore"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoreKey:
    """What a record belongs to."""

    issuer: str
    """The authorization server that gave it."""
    resource: str = ""
    """The MCP server it is for; empty for our registration at the authorization server."""
    account: str = ""
    """Whose it is, when one store serves several people or programs."""

    def digest(self) -> str:
        """A short name for files and keyrings."""
        text = "\n".join((self.issuer, self.resource, self.account))
        return hashlib.sha256(text.encode()).hexdigest()[:32]


class TokenStore(Protocol):
    """Keeps small JSON records. Any thread may call it; it may read and write files, but not hang."""

    def load(self, key: StoreKey) -> Mapping[str, Any] | None:
        """The record of *key*, or None when there is none that can be read."""

    def save(self, key: StoreKey, record: Mapping[str, Any]) -> None:
        """Keep *record*, in the place of an older one."""

    def delete(self, key: StoreKey) -> None:
        """Forget the record of *key*, if there is one."""


class MemoryTokenStore:
    """Forgets everything with the process."""

    def __init__(self) -> None:
        # Guards _records.
        self._lock = threading.Lock()
        self._records: dict[StoreKey, dict[str, Any]] = {}
        forget_parent_on_fork(self)

    def load(self, key: StoreKey) -> Mapping[str, Any] | None:
        """The record of *key*, or None."""
        with self._lock:
            return self._records.get(key)

    def save(self, key: StoreKey, record: Mapping[str, Any]) -> None:
        """Keep *record*."""
        with self._lock:
            self._records[key] = dict(record)

    def delete(self, key: StoreKey) -> None:
        """Forget the record of *key*."""
        with self._lock:
            self._records.pop(key, None)

    def _after_fork_in_child(self) -> None:
        self._lock = threading.Lock()


class FileTokenStore:
    """One file a record in a directory that only its owner may read (files 0600, directory 0700).

    Files are replaced as a whole, so several threads and processes (gunicorn workers) can share
    a directory; the last one to save wins.

    Args:
        directory: Made when the first record is saved. ``~`` is the home directory.
    """

    def __init__(self, directory: str | os.PathLike[str] = "~/.config/yiemagent/tokens") -> None:
        check_type("directory", directory, str, os.PathLike, none=False)
        self._directory = Path(directory).expanduser()

    def load(self, key: StoreKey) -> Mapping[str, Any] | None:
        """The record of *key*; a file that cannot be read counts as none, with a warning."""
        path = self._path(key)
        try:
            content = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as exc:
            logger.warning("file=%s error=%s | a token file cannot be read and is ignored", path, exc)
            return None
        return _record_of(content, key)

    def save(self, key: StoreKey, record: Mapping[str, Any]) -> None:
        """Replace the file of *key*.

        Raises:
            ConfigurationError: The directory or the file cannot be written.
        """
        content = _content_of(key, record).encode()
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            # mkstemp makes the file with mode 0600, so no other user can ever open it.
            handle, temporary = tempfile.mkstemp(dir=self._directory, prefix=".new-")
        except OSError as exc:
            raise self._cannot_write(exc) from exc
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self._path(key))
        except OSError as exc:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise self._cannot_write(exc) from exc

    def delete(self, key: StoreKey) -> None:
        """Remove the file of *key*."""
        with contextlib.suppress(FileNotFoundError):
            self._path(key).unlink()

    def _path(self, key: StoreKey) -> Path:
        return self._directory / f"{key.digest()}.json"

    def _cannot_write(self, exc: OSError) -> ConfigurationError:
        return ConfigurationError(
            f"tokens cannot be saved in {str(self._directory)!r} ({exc.strerror}); "
            "give FileTokenStore another directory, or use MemoryTokenStore"
        )


class KeyringTokenStore:
    """The keyring of the desktop or operating system (the extra ``yiemagent[keyring]``).

    Args:
        service: The name under which the records appear there.
        backend: A keyring with ``get_password``, ``set_password`` and ``delete_password``; by
            default the package ``keyring``, which takes the one of the system.

    Raises:
        ConfigurationError: The package ``keyring`` is not installed.
    """

    def __init__(self, service: str = "yiemagent", *, backend: Any = None) -> None:
        if backend is None:
            try:
                import keyring

                backend = keyring
            except ImportError as exc:
                raise ConfigurationError(
                    "KeyringTokenStore needs the package keyring: pip install 'yiemagent[keyring]'"
                ) from exc
        self._keyring = backend
        self._service = service

    def load(self, key: StoreKey) -> Mapping[str, Any] | None:
        """The record of *key*, or None."""
        text = self._keyring.get_password(self._service, key.digest())
        try:
            content = json.loads(text) if text else None
        except ValueError:
            return None
        return _record_of(content, key)

    def save(self, key: StoreKey, record: Mapping[str, Any]) -> None:
        """Keep *record*; raises what the keyring raises."""
        self._keyring.set_password(self._service, key.digest(), _content_of(key, record))

    def delete(self, key: StoreKey) -> None:
        """Forget the record of *key*."""
        # Keyrings raise for an entry that is not there, each in its own way.
        if self._keyring.get_password(self._service, key.digest()) is not None:
            self._keyring.delete_password(self._service, key.digest())


def _content_of(key: StoreKey, record: Mapping[str, Any]) -> str:
    # Digests are short: the whole key stands beside the record, to be compared when it is read.
    return json.dumps({"key": asdict(key), "record": dict(record)})


def _record_of(content: Any, key: StoreKey) -> Mapping[str, Any] | None:
    if not isinstance(content, dict) or content.get("key") != asdict(key):
        return None
    record = content.get("record")
    return record if isinstance(record, dict) else None
