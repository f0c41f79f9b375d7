"""The pins: every package at one version, none below the one that mended a flaw known when this was written."""

from __future__ import annotations

import re

import pytest
from packaging.version import Version

from springline.persistence.profile import project_folder

REQUIREMENTS = (project_folder() / "requirements.txt").read_text()
PINS = re.findall(r"^([a-z0-9][\w.-]*)(?:\[[\w,-]+\])?==([^\s;]+)", REQUIREMENTS, re.M)
# What mended it, by package: https://osv.dev has the stories.
MENDED = {
    "aiohttp": "3.12.14", "certifi": "2024.7.4", "cryptography": "44.0.1", "dnspython": "2.6.1", "fonttools": "4.60.2",
    "gitpython": "3.1.41", "grpcio": "1.53.2", "h11": "0.16.0", "h2": "4.3.0", "idna": "3.7", "jinja2": "3.1.6",
    "mako": "1.2.2", "msgpack": "1.0.0", "numpy": "1.22.0", "paramiko": "3.4.0", "pillow": "11.3.0",
    "protobuf": "6.31.1", "psutil": "5.6.7", "py": "1.11.1", "pyarrow": "14.0.1", "pygments": "2.15.0",
    "pyjwt": "2.10.1", "pyspark": "3.3.2", "python-multipart": "0.0.18", "pyyaml": "5.4", "requests": "2.32.4",
    "rich": "1.0", "setuptools": "78.1.1", "sqlalchemy": "1.4.0", "sqlparse": "0.5.0", "starlette": "0.49.1",
    "tornado": "6.5", "tqdm": "4.66.3", "urllib3": "2.6.0", "uvicorn": "0.11.7", "virtualenv": "20.26.6",
    "werkzeug": "3.1.4", "zipp": "3.19.1", "apache-airflow": "3.0.4",
}  # fmt: skip


def test_every_line_of_the_requirements_is_one_version() -> None:
    """None is a range, an address or a folder: what is installed is what was tested."""
    lines = [line for line in REQUIREMENTS.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert len(lines) == len(PINS) > 100


@pytest.mark.parametrize("name", sorted({name for name, _ in PINS} & MENDED.keys()))
def test_a_package_is_not_below_the_version_that_fixed_a_known_flaw(name: str) -> None:
    """Wherever it is pinned; `pip-audit` reports those that became known since."""
    assert all(Version(version) >= Version(MENDED[name]) for pinned, version in PINS if pinned == name)
