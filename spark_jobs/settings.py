"""The settings of the Spark jobs, read from the environment as SPRINGLINE_<NAME>; each has one line of help."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator

from springline.persistence.profile import JsonObject, Names, ProfiledSettings


class JobSettings(ProfiledSettings):
    """Settings of Spark, of the modules of operations, of landing files and of the quality gate."""

    spark_remote: str = Field(
        default="",
        description="Address of a Spark Connect server, as sc://host:port; empty: SPRINGLINE_SPARK_MASTER is used",
    )
    spark_master: str = Field(
        default="local[2]", description="Spark master of a session in this process: local[N], spark://…, yarn"
    )
    spark_memory: str = Field(default="1g", description="Java heap of a session in this process")
    spark_conf: JsonObject = Field(default_factory=dict, description="Additional Spark configuration, as a JSON object")
    spark_timeout: float = Field(
        default=120, ge=0, description="Seconds to wait for an unavailable Spark Connect server"
    )
    landing_dir: Path | None = Field(
        default=None, description="Folder of landing files; empty: landing/ in the home folder"
    )
    operations: Names = Field(
        default=(),
        description="Modules that declare operations, in addition to installed packages; separated by commas",
    )
    quality_mode: str = Field(
        default="quarantine",
        pattern="^(pass|quarantine|stop)$",
        description="What the quality gate does with rows that break a rule: pass, quarantine or stop",
    )

    @field_validator("landing_dir", mode="before")
    @classmethod
    def _empty_to_none(cls, value: object) -> object:
        return value or None

    @property
    def landing_folder(self) -> Path:
        """Absolute path of the folder of landing files."""
        return (self.landing_dir or self.home / "landing").expanduser().resolve()

    def options(self) -> dict[str, str]:
        """Return the operations' options that are set for all of them."""
        return {"quality": self.quality_mode}
