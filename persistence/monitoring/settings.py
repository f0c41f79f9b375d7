"""The settings of monitoring: one line of help each, read from the environment as SPRINGLINE_<NAME>."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator

from springline.persistence.profile import ProfiledSettings, project_folder


class MonitoringSettings(ProfiledSettings):
    """Destinations of metrics and logs, and the rules of alerts."""

    otlp_endpoint: str = Field(
        "",
        pattern="^(https?://.+)?$",
        description="Address of an OpenTelemetry collector that takes OTLP over HTTP, such as http://127.0.0.1:4318; "
        "empty: metrics go where Airflow's go, from what runs in Airflow, and nowhere else",
    )
    metrics_interval: float = Field(10, gt=0, description="Seconds between two sendings of metrics to that collector")
    alert_rules: Path | None = Field(None, description="File of the rules of alerts; empty: alerts.toml here")
    log_format: str = Field(
        "text", pattern="^(text|json)$", description="How persisters and streams log: text, or json (an object a line)"
    )
    log_level: str = Field(
        "info",
        pattern="^(debug|info|warning|error)$",
        description="What is logged at least: debug (each round of each unit too), info, warning or error",
    )

    @field_validator("alert_rules", mode="before")
    @classmethod
    def _empty_to_none(cls, value: object) -> object:
        return value or None

    @property
    def rules(self) -> Path:
        """The file with the alert rules."""
        return (self.alert_rules or project_folder() / "alerts.toml").expanduser().resolve()

    @property
    def alerts_folder(self) -> Path:
        """The folder with the states of alerts."""
        return self.home / "alerts"
