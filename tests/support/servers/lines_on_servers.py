"""Lines of text in stores that are no folders of this machine: read and written through their backends."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from springline.persistence.backends.spec import Backend
from springline.persistence.platform import Platform
from springline.testing.lines import LinesRunner


def put_on_servers(platform: Platform, runner: LinesRunner) -> None:
    """Let `runner` read and write where the platform's cache and under-store are."""
    stores = {store.uri("x").removesuffix("/x"): store for store in (platform.cache, platform.under)}

    def store_and_location(uri: str) -> tuple[Backend, str]:
        (prefix,) = (prefix for prefix in stores if uri.startswith(f"{prefix}/"))
        return stores[prefix], uri.removeprefix(f"{prefix}/")

    def read(uri: str) -> list[str]:
        store, location = store_and_location(uri)
        contents = (b"".join(store.chunks(location, file.name)) for file in store.files(location))
        return [line for content in contents for line in content.decode().splitlines()]

    def write(uri: str, lines: Sequence[str]) -> None:
        store, location = store_and_location(uri)
        content = "".join(f"{line}\n" for line in lines).encode()
        with store.create(location, f"part-{uuid.uuid4().hex[:6]}.txt", len(content)) as out:
            out.write(content)

    runner.read, runner.write = read, write
