"""What can go wrong in this package: each error names the dataset and what to do next."""


class PersistenceError(Exception):
    """The root of this package's errors."""


class InvalidPath(PersistenceError):
    """A dataset path that is empty, absolute, or leaves its root."""


class UnknownDataset(PersistenceError):
    """No such path or generation in the catalog."""


class RefusedTransition(PersistenceError):
    """A change of state that the table of transitions does not hold, or that somebody else made first."""


class CyclicLineage(PersistenceError):
    """Sources that lead back to themselves."""


class StorageFull(PersistenceError):
    """The under-store has no room left."""


class StorageUnavailable(PersistenceError):
    """A store did not answer, or refused; trying again later may help."""


class CatalogUnavailable(PersistenceError):
    """The catalog's database does not answer; what was under way is done or not, and shows when it is back."""


class CatalogTooNew(PersistenceError):
    """The catalog's tables were made by newer code; names both revisions."""


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


class BadRules(PersistenceError):
    """A file of rules of alerts that cannot be used; names the file, the rule, and what is wrong."""
