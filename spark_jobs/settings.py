"""The settings of the Spark jobs: one line of help each, read from the environment as SPRINGLINE_<NAME>."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator

from springline.persistence.profile import JsonObject, Names, ProfiledSettings


class JobSettings(ProfiledSettings):
    """Which Spark runs the operations, which operations there are, and what they read from outside."""

    spark_remote: str = Field(
        default="", description="Address of a Spark Connect server, sc://host:port; empty: spark_master is used"
    )
    spark_master: str = Field(
        default="local[2]", description="Spark master that a session of this process uses: local[N], spark://…, yarn"
    )
    spark_memory: str = Field(default="1g", description="Java heap of a session of this process")
    spark_conf: JsonObject = Field(
        default_factory=dict, description="Further settings of the Spark session, as a JSON object"
    )
    spark_patience: float = Field(
        default=120, ge=0, description="Seconds to wait for a Spark Connect server that went away"
    )
    landing: Path | None = Field(
        default=None, description="Folder of landing files; empty: landing/ in the home folder"
    )
    operations: Names = Field(
        default=(), description="Modules that declare operations, beside those of installed packages; commas between"
    )
    quality: str = Field(
        default="quarantine",
        pattern="^(pass|quarantine|stop)$",
        description="What the quality gate does with rows that break a rule: pass, quarantine or stop",
    )

    @field_validator("landing", mode="before")
    @classmethod
    def _no_folder(cls, value: object) -> object:
        return value or None

    @property
    def landing_folder(self) -> Path:
        """Where landing files are, as an absolute path."""
        return (self.landing or self.home / "landing").expanduser().resolve()

    def options(self) -> dict[str, str]:
        """The options of operations that are set for all of them."""
        return {"quality": self.quality}
