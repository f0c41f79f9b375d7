"""Registers the secrets of the settings with Airflow, so that its task logs, tracebacks included, do not show them.

Airflow masks the secrets of its Connections by itself, but not those from the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import quote

from airflow.sdk.log import mask_secret

from springline.persistence.settings import Settings

_MIN_LENGTH = 4  # characters; a shorter secret would be masked in unrelated text
_LINEAGE_KEY = re.compile("OPENLINEAGE_.*KEY")  # OPENLINEAGE_API_KEY, OPENLINEAGE__TRANSPORT__AUTH__APIKEY
_TOKEN = re.compile(r";token=([^;]+)")


def mask_secrets(settings: Settings, remote: str = "") -> None:
    """Mask the secrets of the settings, and of the Spark address."""
    for secret in secrets_of(settings, os.environ, remote):
        if len(secret) >= _MIN_LENGTH:
            mask_secret(secret)


def secrets_of(settings: Settings, environment: Mapping[str, str], remote: str = "") -> set[str]:
    """Return every password, token and key of the settings and of OpenLineage, both plain and URL-quoted."""
    url = settings.catalog_address
    query_passwords = (url.query.get(name, "") for name in ("password", "sslpassword"))
    secrets = {url.password or "", *(each for each in query_passwords if isinstance(each, str))}
    secrets.add(settings.hdfs_token.get_secret_value())
    secrets |= {value for name, value in environment.items() if _LINEAGE_KEY.fullmatch(name)}
    secrets |= {
        each.get_secret_value()
        for options in (settings.cache_options, settings.under_options)
        for each in options.values()
    }
    secrets |= set(_TOKEN.findall(remote))
    return {form for secret in secrets if secret for form in (str(secret), quote(str(secret), safe=""))}
