"""The calls of Alluxio's REST APIs that the readiness check needs."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
import uuid
from typing import Any

_CALL_TIMEOUT_SECONDS = 5  # seconds for one call
_PROBE = b"is anybody there?"


def readiness_problem(web_port: int, proxy_port: int, workers: int) -> str:
    """Return what is not ready (the master, a worker, or a write and read through the proxy), or an empty text."""
    try:
        live = live_workers(web_port)
    except (OSError, ValueError) as error:
        return f"the master does not answer ({error})"
    if live < workers:
        return f"{live} of {workers} workers have registered"
    try:
        content = round_trip(proxy_port)
    except (OSError, ValueError) as error:
        return f"a file cannot be written and read through the proxy ({_error_text(error)})"
    return "" if content == _PROBE else f"the proxy returns other bytes than were written ({len(content)})"


def live_workers(web_port: int) -> int:
    """Return the number of workers that are registered with the master."""
    response = _call(f"http://127.0.0.1:{web_port}/api/v1/master/info")
    return len(json.loads(response)["workers"])


def round_trip(proxy_port: int) -> bytes:
    """Write a small file through the proxy, read it and delete it; returns the bytes read."""
    base = f"http://127.0.0.1:{proxy_port}/api/v1"
    path = f"{base}/paths//.ready-{uuid.uuid4().hex}"
    small = {"writeType": "MUST_CACHE", "blockSizeBytes": 4096}
    stream = json.loads(_call(f"{path}/create-file", small))
    try:
        _call(f"{base}/streams/{stream}/write", _PROBE)
        _call(f"{base}/streams/{stream}/close", {})
        reading = json.loads(_call(f"{path}/open-file", {}))
        try:
            return _call(f"{base}/streams/{reading}/read", {})
        finally:
            _call(f"{base}/streams/{reading}/close", {})
    finally:
        _call(f"{path}/delete", {})


def _call(address: str, body: Any = None) -> bytes:
    if body is None:
        request = urllib.request.Request(address)
    elif isinstance(body, bytes):
        request = urllib.request.Request(address, body, {"Content-Type": "application/octet-stream"})
    else:
        request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=_CALL_TIMEOUT_SECONDS) as response:
        return bytes(response.read())


def _error_text(error: Exception) -> str:
    body = error.read().decode(errors="replace")[:200] if isinstance(error, urllib.error.HTTPError) else ""
    return f"{error}{f': {body}' if body else ''}"
