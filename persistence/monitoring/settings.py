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
        "empty: metrics of code that runs in Airflow go to Airflow's backend, others are not sent",
    )
    metrics_interval: float = Field(10, gt=0, description="Interval of metric exports to that collector (s)")
    alert_rules: Path | None = Field(None, description="File with the alert rules; empty: alerts.toml in the project")
    log_format: str = Field(
        "text",
        pattern="^(text|json)$",
        description="Log format of persisters and streams: text, or json (one object per line)",
    )
    log_level: str = Field(
        "info",
        pattern="^(debug|info|warning|error)$",
        description="Minimum log level: debug (includes each round of each unit), info, warning or error",
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
