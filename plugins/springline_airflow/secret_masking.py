"""Tells Airflow which secrets the settings hold, so that its logs of tasks show none of them, in no traceback either.

Airflow knows by itself what its Connections hold; what comes from the environment it does not.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from airflow.sdk.log import mask_secret
from sqlalchemy.engine import make_url

from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.settings import Settings

_LEAST = 4  # letters; a shorter word would be masked all over the place
_TOKEN = re.compile(r";token=([^;]+)")


def mask(settings: Settings, remote: str = "") -> None:
    """Mask the secrets of the settings, and of the address of Spark."""
    for secret in secrets_of(settings, MonitoringSettings(home=settings.home), remote):
        if len(secret) >= _LEAST:
            mask_secret(secret)


def secrets_of(settings: Settings, monitoring: MonitoringSettings, remote: str = "") -> set[str]:
    """Every password, token and key, as it is and as it stands in an address."""
    url = make_url(settings.catalog_address)
    asked = (url.query.get(name, "") for name in ("password", "sslpassword"))
    found = {url.password or "", *(each for each in asked if isinstance(each, str))}
    found |= {settings.hdfs_token.get_secret_value(), monitoring.openlineage_key.get_secret_value()}
    found |= {
        each.get_secret_value()
        for options in (settings.cache_options, settings.under_options)
        for each in options.values()
    }
    found |= set(_TOKEN.findall(remote))
    return {form for secret in found if secret for form in (str(secret), quote(str(secret), safe=""))}
