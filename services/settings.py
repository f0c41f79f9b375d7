"""The settings of the servers, read from the environment as SPRINGLINE_<NAME>; each has one line of help."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from springline.persistence.profile import Bytes, Names, ProfiledSettings, project_folder


def _port(default: int, what: str) -> Any:
    return Field(default=default, gt=0, lt=65536, description=f"Port of {what}, on 127.0.0.1")


class ServiceSettings(ProfiledSettings):
    """Settings of the servers: ports, memory, folders, timeouts."""

    demo_servers: Names = Field(
        default=("kafka", "spark-connect", "airflow"), description="Servers of the demo, separated by commas"
    )
    jars_dir: str = Field(
        default="", description="Folder for the servers' jars, shared by all homes; empty: var/jars in the project"
    )
    maven_repository: str = Field(
        default="",
        description="URL of a Maven repository for the jars; empty: from Maven's settings, else Maven Central",
    )

    airflow_url: str = Field(
        default="",
        pattern="^(https?://.+)?$",
        description="URL of the Airflow that `springline dag` uses, such as https://airflow.example; empty: the "
        "local Airflow",
    )
    airflow_user: str = Field(default="admin", description="User of that Airflow")
    airflow_password: SecretStr = Field(
        default=SecretStr(""), description="Password of that user; empty: the password of the local Airflow"
    )
    airflow_token: SecretStr = Field(
        default=SecretStr(""), description="Token for that Airflow, instead of user and password"
    )
    airflow_port: int = _port(8080, "Airflow's pages and REST API")
    airflow_parallelism: int = Field(
        default=4,
        gt=0,
        description="Maximum number of concurrent Airflow tasks, in addition to persister and maintenance",
    )
    airflow_database: str = Field(
        default="postgres",
        description="Airflow's metadata database: `postgres` (a local server), `sqlite` (a file, for a single user), "
        "or an SQLAlchemy URL, with {home} for the home folder",
    )

    spark_connect_port: int = _port(15002, "the Spark Connect server")
    spark_connect_master: str = Field(default="local[*]", description="Spark master of the Spark Connect server")
    spark_connect_memory: str = Field(default="1g", description="Java heap of the Spark Connect server")
    spark_connect_stores: Names = Field(
        default=(),
        description="Stores whose clients Spark Connect includes besides HDFS's, separated by commas: alluxio, s3",
    )

    spark_port: int = _port(7077, "Spark's standalone master")
    spark_web_port: int = _port(8090, "the pages of Spark's master")
    spark_workers: int = Field(default=1, gt=0, description="Number of workers of the standalone Spark")
    spark_worker_port: int = _port(
        7080, "Spark's first worker; the next port is for its pages, then the next worker follows"
    )
    spark_worker_cores: int = Field(default=2, gt=0, description="Executor cores of each Spark worker")
    spark_worker_memory: str = Field(default="1g", description="Executor memory of each Spark worker")
    spark_heap: str = Field(default="256m", description="Java heap of Spark's master and of each worker daemon")

    postgres_port: int = _port(15432, "PostgreSQL")
    postgres_memory: str = Field(default="64MB", description="Shared buffers of PostgreSQL")

    kafka_port: int = _port(9092, "Kafka's broker")
    kafka_controller_port: int = _port(9093, "Kafka's controller")
    kafka_heap: str = Field(default="256m", description="Java heap of Kafka")

    schema_registry_port: int = _port(8081, "the schema registry")
    schema_registry_heap: str = Field(default="256m", description="Java heap of the schema registry")

    zookeeper_port: int = _port(2181, "ZooKeeper")
    zookeeper_heap: str = Field(default="96m", description="Java heap of ZooKeeper")

    hdfs_port: int = _port(8020, "the NameNode, for hdfs:// addresses")
    hdfs_http_port: int = _port(9870, "the NameNode's pages and WebHDFS")
    hdfs_datanodes: int = Field(default=2, gt=0, description="Number of HDFS DataNodes")
    hdfs_replication: int = Field(
        default=2, gt=0, description="HDFS replication factor; at most the number of DataNodes"
    )
    hdfs_datanode_port: int = _port(9880, "the first of three ports of the first DataNode; the others follow")
    hdfs_namenode_heap: str = Field(default="256m", description="Java heap of the NameNode")
    hdfs_datanode_heap: str = Field(default="192m", description="Java heap of each DataNode")

    s3_port: int = _port(9090, "the server of S3's protocol")
    s3_heap: str = Field(default="256m", description="Java heap of that server")

    alluxio_port: int = _port(19998, "Alluxio's master, for alluxio:// addresses")
    alluxio_web_port: int = _port(19999, "the pages of Alluxio's master")
    alluxio_job_port: int = _port(20001, "Alluxio's job master; the next is for its pages")
    alluxio_proxy_port: int = _port(39999, "Alluxio's proxy (REST)")
    alluxio_workers: int = Field(
        default=1, gt=0, description="Number of Alluxio workers, each with a job worker and a ramdisk"
    )
    alluxio_worker_port: int = _port(29990, "the first of five ports of Alluxio's first worker; the others follow")
    alluxio_memory: Bytes = Field(default=2 << 30, gt=0, description="Memory capacity of each Alluxio worker in bytes")
    alluxio_ramdisk: str = Field(
        default="", description="Folder for the workers' ramdisks; empty: a separate folder for each home in /dev/shm"
    )
    alluxio_under_uri: str = Field(
        default="", description="Alluxio's own under-store; empty: a folder in the home, or hdfs://…"
    )
    alluxio_heap: str = Field(default="256m", description="Java heap of Alluxio's master and of each worker")

    start_timeout: float = Field(
        default=600,
        gt=0,
        description="Seconds to wait for a server to become ready",
    )
    stop_timeout: float = Field(
        default=20, ge=0, description="Seconds to wait for a server to stop before it is killed"
    )

    @field_validator("spark_connect_stores")
    @classmethod
    def _are_stores(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := sorted(set(value) - {"alluxio", "s3"}):
            raise ValueError(f"no client of {', '.join(unknown)}: use alluxio or s3, or both, separated by a comma")
        return value

    @field_validator("airflow_database")
    @classmethod
    def _is_database(cls, value: str) -> str:
        if value not in ("postgres", "sqlite") and "://" not in value:
            raise ValueError("use postgres, sqlite, or an SQLAlchemy URL such as postgresql+psycopg://USER@HOST/NAME")
        return value

    @model_validator(mode="after")
    def _replicas_fit(self) -> Self:
        if self.hdfs_replication > self.hdfs_datanodes:
            raise ValueError(
                f"SPRINGLINE_HDFS_REPLICATION={self.hdfs_replication} is greater than "
                f"SPRINGLINE_HDFS_DATANODES={self.hdfs_datanodes}"
            )
        return self

    @property
    def jars_folder(self) -> Path:
        """Folder of the servers' jars."""
        return Path(self.jars_dir).expanduser().resolve() if self.jars_dir else project_folder() / "var" / "jars"


def conf_path(server: str) -> Path:
    """Return the folder with the configuration files of a server, in the server's format."""
    return Path(__file__).parent / "conf" / server
