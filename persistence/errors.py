"""What can go wrong in this package: each error names the dataset and what to do next."""


class PersistenceError(Exception):
    """The root of this package's errors."""

    exit_status = 1  # of a command that ends so: 1 something failed, 2 it was misused


class UsageError(PersistenceError):
    """A command, a setting or a name that cannot be meant so; nothing was done."""

    exit_status = 2


class InvalidPathError(UsageError):
    """A dataset path that is empty, absolute, or leaves its root."""


class ExtensionError(UsageError):
    """A store, policy, kind of job or the like that no installed package adds, or several do, or that does not work."""


class UnknownDatasetError(UsageError):
    """No such path or generation in the catalog."""


class NeverWrittenError(UnknownDatasetError):
    """Nothing was ever written to this path."""

    def __init__(self, path: str, hint: str = "") -> None:
        super().__init__(f"{path}: nothing was ever written to this path{hint}")
        self.path = path


class TransitionError(PersistenceError):
    """A change of state that the table of transitions does not hold, or that somebody else made first."""


class CyclicLineageError(PersistenceError):
    """Sources that lead back to themselves."""


class StorageFullError(PersistenceError):
    """The under-store has no room left."""


class StorageUnavailableError(PersistenceError):
    """A store did not answer, or refused; trying again later may help."""


class UnderStoreUnavailableError(StorageUnavailableError):
    """The under-store does not answer, so that nothing leaves the cache on the word of the catalog."""


class CatalogUnavailableError(PersistenceError):
    """The catalog's database does not answer; what was under way is done or not, and shows when it is back."""


class CatalogVersionError(PersistenceError):
    """The catalog's tables were made by newer code; names both revisions."""


class DecodeError(PersistenceError):
    """A file, a message or a row that does not hold what it should; names the place, and the field in it."""


class FormatVersionError(DecodeError):
    """A file, a message or a row in a format that this version does not know; names the place and the remedy."""


class MissingDataError(PersistenceError):
    """Bytes are not where the catalog says; it has been told, and what to do has to be decided anew."""


class CorruptCopyError(PersistenceError):
    """The bytes that arrived are not those that were sent."""


class IrrecoverableError(PersistenceError):
    """Datasets that are lost and that nothing can bring back; names every one."""


class OperationError(PersistenceError):
    """A registered operation did not end well when it was run again."""


class RunnerUnavailableError(OperationError):
    """What runs operations is away: no other one would be run either."""


class AlertRulesError(UsageError):
    """A file of rules of alerts that cannot be used; names the file, the rule, and what is wrong."""
