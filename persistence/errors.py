"""The errors of this package: each names the dataset and what to do next."""


class PersistenceError(Exception):
    """The root of this package's errors."""

    exit_status = 1  # of a command that fails with it: 1 for a failure, 2 for wrong usage


def describe_error(error: Exception) -> str:
    """Return the text of an error, with its type if it is not one of this package."""
    return str(error) if isinstance(error, PersistenceError) else f"{type(error).__name__}: {error}"


class UsageError(PersistenceError):
    """A command, a setting or a name is invalid; nothing was done."""

    exit_status = 2


class InvalidPathError(UsageError):
    """A dataset path is empty, absolute, or outside of its root."""


class ExtensionError(UsageError):
    """A store, policy, kind of job or the like is added by no installed package or by several, or does not work."""


class UnknownDatasetError(UsageError):
    """The path or the generation is not in the catalog."""


class NeverWrittenError(UnknownDatasetError):
    """Nothing was ever written to this path."""

    def __init__(self, path: str, hint: str = "") -> None:
        super().__init__(f"{path}: no dataset was ever written to this path{hint}")
        self.path = path


class TransitionError(PersistenceError):
    """A change of state is not in the transition table, or another process changed the state first."""


class CyclicLineageError(PersistenceError):
    """The sources of a generation form a cycle."""


class StorageFullError(PersistenceError):
    """A store has no space left."""


class StorageUnavailableError(PersistenceError):
    """A store did not respond, or refused the request; a retry may help."""


class UnderStoreUnavailableError(StorageUnavailableError):
    """The under-store does not respond, so nothing that relies on its copies is evicted or retired."""


class CatalogUnavailableError(PersistenceError):
    """The catalog's database does not respond; whether pending changes took effect is unknown until it is back."""


class CatalogVersionError(PersistenceError):
    """The catalog's tables were created by newer code; names both revisions."""


class DecodeError(PersistenceError):
    """A file, a message or a row has unexpected content; names the place, and the field in it."""


class FormatVersionError(DecodeError):
    """A file, a message or a row has a format unknown to this version; names the place and the remedy."""


class MissingDataError(PersistenceError):
    """Bytes are not where the catalog says; the loss is recorded, and the caller has to plan again."""


class CorruptCopyError(PersistenceError):
    """The bytes that arrived differ from those that were sent."""


class IrrecoverableError(PersistenceError):
    """Datasets are lost and cannot be restored; names every one."""


class OperationError(PersistenceError):
    """A registered operation failed when it was re-run."""


class RunnerUnavailableError(OperationError):
    """The runner is unavailable, so no operation can be run."""


class AlertRulesError(UsageError):
    """A file of alert rules is invalid; names the file, the rule, and the fault."""
