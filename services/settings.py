"""The settings of the servers: one line of help each, read from the environment as SPRINGLINE_<NAME>."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


def checkout() -> Path:
    """The folder that holds `services`, `dags` and `plugins`."""
    return Path(__file__).resolve().parent.parent


class ServiceSettings(BaseSettings):
    """Where the servers listen and what they may use."""

    model_config = SettingsConfigDict(env_prefix="SPRINGLINE_", extra="ignore")

    home: Path = Field(
        default_factory=lambda: checkout() / "var", description="Folder for everything that the platform makes"
    )
    airflow_port: int = Field(
        default=8080, gt=0, lt=65536, description="Port of Airflow's pages and REST API, on 127.0.0.1"
    )
    airflow_parallelism: int = Field(default=4, gt=0, description="Airflow tasks that may run at once")
    connect_port: int = Field(
        default=15002, gt=0, lt=65536, description="Port of the Spark Connect server, on 127.0.0.1"
    )
    connect_master: str = Field(default="local[*]", description="Spark master that the Spark Connect server runs on")
    connect_memory: str = Field(default="1g", description="Java heap of the Spark Connect server")
    start_patience: float = Field(default=240, gt=0, description="Seconds that a server may take to become ready")
    stop_patience: float = Field(
        default=20, ge=0, description="Seconds that a server may take to end before it is killed"
    )

    @field_validator("home")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().resolve()
