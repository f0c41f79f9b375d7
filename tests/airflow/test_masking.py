"""Airflow's logs of tasks: what the settings keep secret is masked, as what Connections hold is."""

from __future__ import annotations

from airflow.sdk._shared.secrets_masker import redact

from springline.airflow import platform_context
from springline.airflow.secret_masking import mask_secrets, secrets_of
from springline.persistence.settings import Settings


def test_every_secret_of_the_settings_is_known_and_nothing_else(tmp_path):
    """As it is, and as it stands in an address."""
    settings = Settings(
        home=tmp_path, catalog_url="postgresql+psycopg://ann:hunter%402@db/catalog?sslpassword=hunter3",
        hdfs_token="hunter4", under_options={"key": "hunter7"},
    )  # type: ignore[arg-type]  # fmt: skip
    environment = {"OPENLINEAGE_API_KEY": "hunter5", "OPENLINEAGE_URL": "http://host"}
    secrets = secrets_of(settings, environment, "sc://host:15002/;token=hunter6;user_id=ann")
    assert secrets == {"hunter@2", "hunter%402", "hunter3", "hunter4", "hunter5", "hunter6", "hunter7"}
    assert secrets_of(Settings(home=tmp_path), {}, "sc://host:15002") == set()


def test_what_opens_the_platform_masks_its_secrets(tmp_path, monkeypatch):
    """Before anything can be logged of it; a word of three letters is no secret worth an unreadable log."""
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path))
    monkeypatch.setenv("SPRINGLINE_CACHE_URI", f"file://{tmp_path}/cache")
    monkeypatch.setenv("SPRINGLINE_HDFS_TOKEN", "a-token-of-webhdfs")
    monkeypatch.setattr(platform_context, "overrides", lambda lookup: {})
    with platform_context.catalog_session("test"):
        text = str(redact("GET /webhdfs/v1/a?delegation=a-token-of-webhdfs"))
    assert "a-token-of-webhdfs" not in text
    mask_secrets(Settings(home=tmp_path, hdfs_token="aro"))  # type: ignore[arg-type]
    assert redact("carousel") == "carousel"
