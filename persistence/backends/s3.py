"""S3, and what speaks its protocol, as an under-store: every request counted, retried within a budget, and verified."""

from __future__ import annotations

import asyncio
import math
import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, HTTPClientError
from fsspec.asyn import sync_wrapper
from s3fs import S3FileSystem

from springline.persistence.backends.fsspec_store import FsspecStore
from springline.persistence.backends.registry import StoreRequest
from springline.persistence.errors import StorageUnavailableError
from springline.persistence.model.manifest import File, is_reserved

_OPTIONS = ("endpoint_url", "key", "secret", "token", "region", "anon", "retry_seconds")
_RETRY_SECONDS = 10.0
_MAX_RETRY_SECONDS = 3600.0
_TRANSIENT_STATUSES = {429, 500, 502, 503, 504}
_MAX_PAUSE_SECONDS = 3.0
_KEYS_PER_DELETE = 1000
# What a request is charged as, by the first word of its name; those of uploads in parts are charged as `put`.
_KINDS = {word: word for word in ("get", "head", "list", "retry", "put")} | {"delete": "delete", "abort": "delete"}
_ANY_REGION = "us-east-1"  # for servers that have none


def open_s3(request: StoreRequest) -> S3Store:
    """Open the prefix at an `s3://bucket/prefix` URI, as an under-store.

    Its options: `endpoint_url` of another server than Amazon's, `key`, `secret` and `token`, `region`, `anon` ("true":
    without credentials), and `retry_seconds`, for which one request is retried. What is not given is found as by every
    client of S3: variables `AWS_…`, profiles, the role of the machine.
    """
    parts, options = request.uri, request.options
    request.require(parts.netloc and request.role == "under", "s3://bucket/prefix, as under-store")
    request.require_options(*_OPTIONS)
    retry_seconds = _number_of(options.get("retry_seconds", str(_RETRY_SECONDS)))
    request.require(0 <= retry_seconds <= _MAX_RETRY_SECONDS, f"retry_seconds from 0 to {_MAX_RETRY_SECONDS:g}")
    bucket_and_prefix = f"{parts.netloc}{request.path}".rstrip("/")
    return S3Store(
        f"s3://{bucket_and_prefix}", lambda: (open_filesystem(options, request.settings.ca_bundle), bucket_and_prefix),
        hadoop_conf=hadoop_conf(options, os.environ), link=request.link, capacity=request.capacity,
        in_use=request.in_use,
    )  # fmt: skip


def open_filesystem(options: Mapping[str, str], ca_bundle: str = "") -> CountingS3FileSystem:
    """Open S3 with the options of an under-store, and a file of certificates for https."""
    client: dict[str, Any] = {"region_name": options["region"]} if "region" in options else {}
    if ca_bundle:
        client["verify"] = ca_bundle
    credentials = {name: options[name] for name in ("endpoint_url", "key", "secret", "token") if name in options}
    return CountingS3FileSystem(
        anon=options.get("anon", "").lower() == "true", client_kwargs=client, fixed_upload_size=True,
        max_concurrency=1,  # else it asks for the size of what it reads first
        config_kwargs={"retries": {"total_max_attempts": 1}, "connect_timeout": 5, "read_timeout": 30},
        use_listings_cache=False, skip_instance_cache=True,
        retry_seconds=_number_of(options.get("retry_seconds", str(_RETRY_SECONDS))), **credentials,
    )  # fmt: skip


class CountingS3FileSystem(S3FileSystem):  # type: ignore[misc]
    """S3 by s3fs; each request is retried for `retry_seconds` at most, and counted.

    A server that refuses for now (429, 500, 503) or breaks off is asked again, after a pause that doubles; one that
    cannot be reached is not. No other retry is hidden below: s3fs and botocore make one attempt each.
    """

    retries = 1

    def __init__(self, *args: Any, retry_seconds: float = _RETRY_SECONDS, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.retry_seconds = retry_seconds
        self.requests: Counter[str] = Counter()  # by the name of the request, and "retry"

    async def _call_s3(self, method: str, *args: Any, **kwargs: Any) -> Any:
        pause, deadline = 0.1, time.monotonic() + self.retry_seconds
        while True:
            self.requests[method] += 1
            try:
                return await super()._call_s3(method, *args, **kwargs)
            except Exception as error:
                wait = pause * random.uniform(0.5, 1.5)
                if not is_transient(error) or time.monotonic() + wait > deadline:
                    raise
            self.requests["retry"] += 1
            await asyncio.sleep(wait)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)

    call_s3 = sync_wrapper(_call_s3)  # which files that are being written call


class S3Store(FsspecStore):
    """The keys below a prefix of a bucket; there are no folders, and a file is put whole or not at all."""

    has_folders = False

    def __init__(self, *args: Any, hadoop_conf: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._hadoop_conf = hadoop_conf

    @property
    def hadoop_conf(self) -> Mapping[str, str]:
        return self._hadoop_conf

    def uri(self, location: str) -> str:
        return super().uri(location).replace("s3://", "s3a://", 1)  # the name of Hadoop's client

    def files(self, location: str) -> tuple[File, ...]:
        path = self._path(location)
        with self.asking(path):
            infos = self._list(path)
            if not infos:
                raise FileNotFoundError(path)
            return tuple(sorted(File(name, int(info["size"])) for name, info in _without_manifest(infos).items()))

    def copies(self) -> Iterator[str]:
        self._mark.require()
        with self.asking(""):
            keys = self._list("")
        copies = {copy: None for name in keys if (copy := _copy_of(name))}
        return iter(copies)

    def sweep_uploads(self, older_than: float) -> int:
        """Abort the uploads in parts that started so many seconds ago and never completed; returns their number."""
        bucket, _, prefix = self._full("").partition("/")
        aborted = 0
        with self.translating(""):
            for upload in self.filesystem.list_multipart_uploads(bucket):
                age = (datetime.now(UTC) - upload["Initiated"]).total_seconds()
                if upload["Key"].startswith(f"{prefix}/" if prefix else "") and age >= older_than:
                    self.filesystem.abort_mpu(bucket, upload["Key"], upload["UploadId"])
                    aborted += 1
        return aborted

    def names(self, location: str) -> tuple[str, ...]:
        path = self._path(location)
        names: set[str] = set()
        with self.asking(path):
            for page in self._pages(path, Delimiter="/"):
                start = len(page["Prefix"])
                names.update(key["Key"][start:] for key in page.get("Contents", ()))
                names.update(folder["Prefix"][start:-1] for folder in page.get("CommonPrefixes", ()))
        if not names:
            self._mark.require()
        return tuple(sorted(names - {""}))

    @property
    def requests(self) -> Mapping[str, int]:
        requests: Counter[str] = Counter()
        for method, count in self.filesystem.requests.items():
            requests[_KINDS.get(method.partition("_")[0], "put")] += count
        return requests

    def _find(self, path: str) -> Mapping[str, Mapping[str, Any]]:
        return _without_manifest(self._list(path))

    def _head(self, path: str) -> None:
        bucket, _, key = self._full(path).partition("/")
        self.filesystem.call_s3("head_object", Bucket=bucket, Key=key)  # `info` would also look for a folder

    def _list(self, path: str) -> dict[str, Mapping[str, Any]]:
        """Return what S3 reports of every key below a path, by the name below it: one request for a thousand."""
        return {
            name: {"size": key["Size"], "ETag": key.get("ETag", "")}
            for page in self._pages(path)
            for key in page.get("Contents", ())
            if (name := key["Key"][len(page["Prefix"]) :]) and not name.endswith("/")  # a folder's, by another client
        }

    def _pages(self, path: str, **how: str) -> Iterator[Mapping[str, Any]]:
        """Yield the answers to the requests for the keys below a path."""
        bucket, _, key = self._full(path).partition("/")
        request = {"Bucket": bucket, "Prefix": f"{key}/" if key else "", **how}
        while True:
            page = self.filesystem.call_s3("list_objects_v2", **request)
            yield {**page, "Prefix": request["Prefix"]}
            if not page.get("IsTruncated"):
                return
            request["ContinuationToken"] = page["NextContinuationToken"]

    def _remove(self, path: str) -> None:
        top = self._full(path)
        bucket, _, key = top.partition("/")
        keys = [key, *(f"{key}/{name}" for name in self._list(path))]
        keys.append(f"{key}/")  # the marker of a folder
        for start in range(0, len(keys), _KEYS_PER_DELETE):
            objects = [{"Key": each} for each in keys[start : start + _KEYS_PER_DELETE]]
            answer = self.filesystem.call_s3(
                "delete_objects", Bucket=bucket, Delete={"Objects": objects, "Quiet": True}
            )
            if errors := answer.get("Errors"):
                raise StorageUnavailableError(f"{self._uri}/{path} is not deleted: {errors[0].get('Message')}")

    def _put(self, path: str, content: bytes) -> None:
        with self.translating(path):
            self.filesystem.pipe_file(self._full(path), content)

    def _require_container(self) -> None:
        bucket = self._full("").partition("/")[0]
        try:
            with self.translating(""):
                self.filesystem.info(bucket)
        except FileNotFoundError:
            raise StorageUnavailableError(f"{self._uri}: there is no bucket {bucket}; create it") from None


def _number_of(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def hadoop_conf(options: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of Hadoop's client S3A that are the same as `options`; a pure function.

    `environment` may name another server, as for every client of S3. Without credentials S3A finds its own, by the
    same variables and roles.
    """
    endpoint = options.get("endpoint_url") or next(
        (environment[name] for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") if environment.get(name)), ""
    )
    conf = {"fs.s3a.endpoint.region": options.get("region") or (_ANY_REGION if endpoint else "")}
    if endpoint:
        conf |= {"fs.s3a.endpoint": endpoint, "fs.s3a.path.style.access": "true"}
        conf["fs.s3a.connection.ssl.enabled"] = str(not endpoint.startswith("http://")).lower()
    names = {"key": "fs.s3a.access.key", "secret": "fs.s3a.secret.key", "token": "fs.s3a.session.token"}
    conf |= {name: options[option] for option, name in names.items() if options.get(option)}
    if options.get("anon", "").lower() == "true":
        conf["fs.s3a.aws.credentials.provider"] = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
    elif options.get("token"):
        conf["fs.s3a.aws.credentials.provider"] = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
    return {name: value for name, value in conf.items() if value}


def conf_of_bucket(conf: Mapping[str, str], bucket: str) -> dict[str, str]:
    """Return settings of S3A for one bucket alone.

    Example:
        >>> conf_of_bucket({"fs.s3a.endpoint": "http://127.0.0.1:9090"}, "landing")
        {'fs.s3a.bucket.landing.endpoint': 'http://127.0.0.1:9090'}
    """
    return {name.replace("fs.s3a.", f"fs.s3a.bucket.{bucket}.", 1): value for name, value in conf.items()}


def is_transient(error: BaseException) -> bool:
    """Whether a request that failed may succeed soon: the server was busy, or the connection broke."""
    causes = [error, error.__cause__]
    if any(isinstance(cause, EndpointConnectionError | ConnectTimeoutError) for cause in causes):
        return False  # nobody is there
    statuses = {
        (getattr(cause, "response", None) or {}).get("ResponseMetadata", {}).get("HTTPStatusCode") for cause in causes
    }
    return bool(statuses & _TRANSIENT_STATUSES) or any(
        isinstance(cause, HTTPClientError | TimeoutError | ConnectionError) for cause in causes
    )


def _without_manifest(infos: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {name: info for name, info in infos.items() if "/" in name or not is_reserved(name)}


def _copy_of(name: str) -> str:
    """Return the location of the copy that a key belongs to; empty if there is none."""
    parts = name.split("/")
    for number, part in enumerate(parts[:-1], start=1):
        if part.startswith("@"):
            return "/".join(parts[:number])
    return ""
