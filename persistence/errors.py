"""What can go wrong in this package: each error names the dataset and what to do next."""


class PersistenceError(Exception):
    """The root of this package's errors."""

    exit_status = 1  # of a command that ends so: 1 something failed, 2 it was misused


class Misuse(PersistenceError):
    """A command, a setting or a name that cannot be meant so; nothing was done."""

    exit_status = 2


class InvalidPath(Misuse):
    """A dataset path that is empty, absolute, or leaves its root."""


class BadExtension(Misuse):
    """A store, policy, kind of job or the like that no installed package adds, or several do, or that does not work."""


class UnknownDataset(Misuse):
    """No such path or generation in the catalog."""


class NeverWritten(UnknownDataset):
    """Nothing was ever written to this path."""

    def __init__(self, path: str, hint: str = "") -> None:
        super().__init__(f"{path}: nothing was ever written to this path{hint}")
        self.path = path


class RefusedTransition(PersistenceError):
    """A change of state that the table of transitions does not hold, or that somebody else made first."""


class CyclicLineage(PersistenceError):
    """Sources that lead back to themselves."""


class StorageFull(PersistenceError):
    """The under-store has no room left."""


class StorageUnavailable(PersistenceError):
    """A store did not answer, or refused; trying again later may help."""


class UnderStoreAway(StorageUnavailable):
    """The under-store does not answer, so that nothing leaves the cache on the word of the catalog."""


class CatalogUnavailable(PersistenceError):
    """The catalog's database does not answer; what was under way is done or not, and shows when it is back."""


class CatalogTooNew(PersistenceError):
    """The catalog's tables were made by newer code; names both revisions."""


class UnreadableValue(PersistenceError):
    """A file, a message or a row that does not hold what it should; names the place, and the field in it."""


class UnknownForm(UnreadableValue):
    """A file, a message or a row in a format that this version does not know; names the place and the remedy."""


class Gone(PersistenceError):
    """Bytes are not where the catalog says; it has been told, and what to do has to be decided anew."""


class DamagedCopy(PersistenceError):
    """The bytes that arrived are not those that were sent."""


class Irrecoverable(PersistenceError):
    """Datasets that are lost and that nothing can bring back; names every one."""


class OperationFailed(PersistenceError):
    """A registered operation did not end well when it was run again."""


class RunnerAway(OperationFailed):
    """What runs operations is away: no other one would be run either."""


class BadRules(Misuse):
    """A file of rules of alerts that cannot be used; names the file, the rule, and what is wrong."""
