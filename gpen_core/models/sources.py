"""Who publishes a file, in the order they are asked. Opens no socket."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from gpen_core.models.registry import ModelSpec

MIRROR_VARIABLE = "GPEN_MIRROR"
OFFLINE_VARIABLE = "GPEN_OFFLINE"


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """One source of a file."""

    words: str
    """The source for people."""
    source: str
    """The source for the record."""
    arguments: tuple[str, str, str]
    """Kind, repository or address, and path of the file, for the transfer program."""
    sha256: str | None
    """What it must give; None where only its own list of files knows."""

    @property
    def kind(self) -> str:
        return self.arguments[0]

    @property
    def file(self) -> str:
        return self.arguments[2]


def is_offline() -> bool:
    """Whether the user forbids any download."""
    return os.environ.get(OFFLINE_VARIABLE, "") not in ("", "0")


def offers_of(spec: ModelSpec) -> list[Offer]:
    """The sources of a spec's file, in the order they are asked."""
    offers = [
        Offer(
            words=f"ModelScope ({file.repo})",
            source=f"modelscope:{file.repo}/{file.path}",
            arguments=("hub", file.repo, file.path),
            sha256=spec.sha256 if file.is_as_released else None,
        )
        for file in spec.hub_files
    ]
    bases = os.environ.get(MIRROR_VARIABLE, "").replace(",", " ").split()
    offers += [_web_offer("the mirror", f"{base.rstrip('/')}/{spec.file_name}", spec) for base in bases]
    if spec.sha256 is not None:
        offers += [_web_offer("the authors' release", url, spec) for url in spec.urls]
    return offers


def _web_offer(what: str, url: str, spec: ModelSpec) -> Offer:
    parts = urlsplit(url)
    # A mirror's address may hold a password, which belongs neither into a message nor into the record.
    host = parts.netloc.rpartition("@")[2]
    return Offer(
        words=f"{what} ({host})",
        source=urlunsplit(parts._replace(netloc=host)),
        arguments=("url", url, spec.file_name),
        sha256=spec.sha256,
    )
