"""The settings of the Spark jobs, read from the environment as SPRINGLINE_<NAME>; each has one line of help."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from springline.persistence.profile import FolderOrUri, JsonObject, Names, ProfiledSettings, SecretObject


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
    landing_uri: FolderOrUri = Field(
        default="", description="Folder or URI of landing files; empty: landing/ in the home folder"
    )
    landing_options: SecretObject = Field(
        default={}, description="Store-specific options of the landing files, as a JSON object"
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

    @property
    def landing_address(self) -> str:
        """URI of the landing files, or the absolute path of their folder."""
        if "://" in self.landing_uri:
            return self.landing_uri.rstrip("/")
        return str(Path(self.landing_uri or self.home / "landing").expanduser().resolve())

    def options(self) -> dict[str, str]:
        """Return the operations' options that are set for all of them."""
        return {"quality": self.quality_mode}
