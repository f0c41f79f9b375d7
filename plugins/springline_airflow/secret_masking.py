"""Tells Airflow which secrets the settings hold, so that its logs of tasks show none of them, in no traceback either.

Airflow knows by itself what its Connections hold; what comes from the environment it does not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import quote

from airflow.sdk.log import mask_secret
from sqlalchemy.engine import make_url

from springline.persistence.settings import Settings

_LEAST = 4  # letters; a shorter word would be masked all over the place
_LINEAGE_KEY = re.compile("OPENLINEAGE_.*KEY")  # OPENLINEAGE_API_KEY, OPENLINEAGE__TRANSPORT__AUTH__APIKEY
_TOKEN = re.compile(r";token=([^;]+)")


def mask(settings: Settings, remote: str = "") -> None:
    """Mask the secrets of the settings, and of the address of Spark."""
    for secret in secrets_of(settings, os.environ, remote):
        if len(secret) >= _LEAST:
            mask_secret(secret)


def secrets_of(settings: Settings, environment: Mapping[str, str], remote: str = "") -> set[str]:
    """Every password, token and key, of the settings and of OpenLineage; as it is and as it stands in an address."""
    url = make_url(settings.catalog_address)
    asked = (url.query.get(name, "") for name in ("password", "sslpassword"))
    found = {url.password or "", *(each for each in asked if isinstance(each, str))}
    found.add(settings.hdfs_token.get_secret_value())
    found |= {value for name, value in environment.items() if _LINEAGE_KEY.fullmatch(name)}
    found |= {
        each.get_secret_value()
        for options in (settings.cache_options, settings.under_options)
        for each in options.values()
    }
    found |= set(_TOKEN.findall(remote))
    return {form for secret in found if secret for form in (str(secret), quote(str(secret), safe=""))}
