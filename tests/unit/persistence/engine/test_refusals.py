"""What HDFS and Alluxio say when they refuse, as errors of the platform: where the real server cannot be made to."""

from __future__ import annotations

import pytest
from alluxio import exceptions

from springline.persistence.backends.alluxio_proxy import AlluxioFileStatus, Block, Worker, translate_alluxio_error
from springline.persistence.backends.hdfs_filesystem import translate_hdfs_error
from springline.persistence.errors import StorageFullError, StorageUnavailableError

WHERE = "hdfs://host:8020/springline/a"
SAFE = "Cannot create file /a. Name node is in safe mode.\nThe reported blocks 0 needs additional 3 blocks"
NO_ROOM = "File /a could only be written to 0 of the 1 minReplication nodes. There are 2 datanode(s) running"


@pytest.mark.parametrize(
    ("exception", "message", "kind", "detail"),
    [
        ("FileNotFoundException", "Path does not exist", FileNotFoundError, "no such file"),
        ("java.io.FileNotFoundException", "File does not exist", FileNotFoundError, "no such file"),
        ("FileAlreadyExistsException", "/a for client 127.0.0.1 already exists", FileExistsError, "it already exists"),
        ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "The DiskSpace quota", StorageFullError, "quota"),
        ("NSQuotaExceededException", "The NameSpace quota", StorageFullError, "quota"),
        ("IOException", NO_ROOM, StorageFullError, "no DataNode has free space"),
        ("SafeModeException", SAFE, StorageUnavailableError, "dfsadmin -safemode leave"),
        (
            "RetriableException",
            f"org.apache.hadoop.hdfs.SafeModeException: {SAFE}",
            StorageUnavailableError,
            "safe mode",
        ),
        ("StandbyException", "not supported in state standby", StorageUnavailableError, "standby"),
        ("", "", StorageUnavailableError, "refused"),
    ],
)
def test_a_refusal_of_hdfs_names_the_place_and_what_is_wrong(
    exception: str, message: str, kind: type[Exception], detail: str
) -> None:
    """By the name of Hadoop's exception, with or without its package."""
    error = translate_hdfs_error(exception, message, WHERE)
    assert type(error) is kind and detail in str(error) and WHERE in str(error)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (exceptions.ResourceExhaustedError("no worker has 10 bytes"), StorageFullError),
        (exceptions.UnavailableError("Failed to allocate 10 bytes: out of space"), StorageFullError),
        (exceptions.UnavailableError("no master"), StorageUnavailableError),
        (exceptions.InternalError(""), StorageUnavailableError),
    ],
)
def test_a_refusal_of_alluxio_names_the_place(error: exceptions.AlluxioError, kind: type[Exception]) -> None:
    """No space has another error than no answer."""
    translated = translate_alluxio_error(error, "alluxio://host:19998/a")
    assert type(translated) is kind and "alluxio://host:19998/a" in str(translated)


@pytest.mark.parametrize(
    ("replicas", "persisted", "lost"),
    [((True, True), False, False), ((True, False), False, True), ((True, False), True, False), ((), False, True)],
)
def test_a_file_is_lost_when_a_block_is_nowhere(replicas: tuple[bool, ...], persisted: bool, lost: bool) -> None:
    """Neither on a worker nor in Alluxio's own under storage."""
    worker = Worker("host", 29999, 30000)
    blocks = tuple(Block(number, 5, (worker,) if there else ()) for number, there in enumerate(replicas))
    assert AlluxioFileStatus("f", False, 10, True, True, persisted, blocks).is_lost is lost
