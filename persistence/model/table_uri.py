"""The names of tables of Delta Lake and Iceberg: `delta:s3://lake/orders`, and `…@17` for one version of it."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from springline.persistence.errors import UsageError
from springline.persistence.extensions import TABLE_FORMATS
from springline.persistence.model.dataset import Dataset

_URI = re.compile(r"(?P<format>[a-z][a-z0-9_-]*):(?P<location>\S.*)")


def split_uri(uri: str) -> tuple[str, str]:
    """Return the format and the location of a table; raises `UsageError`.

    Example:
        >>> split_uri("iceberg:lake.shop.clean")
        ('iceberg', 'lake.shop.clean')
    """
    match = _URI.fullmatch(uri)
    if match is None:
        raise UsageError(f"table {uri!r}: write its format and its place, such as delta:s3://lake/clean")
    return match["format"], match["location"]


def at_version(uri: str, version: str) -> str:
    """Return the name of one version of a table, as lineage has it.

    Example:
        >>> at_version("delta:s3://lake/orders", "17")
        'delta:s3://lake/orders@17'
    """
    return f"{uri}@{version}"


def split_version(name: str) -> tuple[str, str]:
    """Return the URI and the version in the name of a version; the version is empty if there is none.

    Example:
        >>> split_version("delta:s3://lake/orders@17"), split_version("delta:s3://lake/orders")
        (('delta:s3://lake/orders', '17'), ('delta:s3://lake/orders', ''))
    """
    uri, separator, version = name.rpartition("@")
    return (uri, version) if separator and version.isdecimal() else (name, "")


def tables_read(dataset: Dataset) -> tuple[str, ...]:
    """Return the versions of tables from which a generation was made, by their names: parameters of its call."""
    values = dataset.call.params.values() if dataset.call else ()
    formats = TABLE_FORMATS.names
    return tuple(value for value in values if split_version(value)[1] and value.partition(":")[0] in formats)


def place_of(uri: str) -> tuple[str, str]:
    """Return the namespace and the name by which OpenLineage knows the table: as its naming of datasets has them.

    Example:
        >>> place_of("delta:s3://lake/shop/orders"), place_of("iceberg:lake.shop.orders"), place_of("delta:/srv/orders")
        (('s3://lake', 'shop/orders'), ('iceberg://lake', 'shop.orders'), ('file', '/srv/orders'))
    """
    table_format, location = split_uri(uri)
    parts = urlsplit(location)
    if parts.scheme and parts.netloc:
        return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")
    if location.startswith("/"):
        return "file", location
    catalog, _, name = location.partition(".")
    return f"{table_format}://{catalog}", name
