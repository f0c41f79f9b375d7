"""The settings of what rows come from: each has a one-line description and is read from the environment."""

from __future__ import annotations

from pydantic import Field

from springline.persistence.profile import JsonObject, ProfiledSettings


class SchemaRegistrySettings(ProfiledSettings):
    """The schema registry of messages that begin with the id of their schema."""

    schema_registry: str = Field(
        default="",
        description="Address of the schema registry, such as http://127.0.0.1:8081, or several separated by commas",
    )
    schema_registry_options: JsonObject = Field(
        default_factory=dict,
        description="Further options of the schema registry's client (confluent-kafka's names, such as "
        "basic.auth.user.info), as a JSON object",
    )
