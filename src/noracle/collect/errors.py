"""The exceptions of the collection service; ``status`` is the HTTP status that a page or the JSON
interface answers with.

CollectError       400   everything that the service refuses on purpose
├── SignedOut      401   no session, or one that has ended
├── Forbidden      403   a role that may not do this
├── NotFound       404   no such thing, or one of another project
├── Conflict       409   the wrong state, a lease that is not yours, a name that is taken
├── Refused        422   a value that breaks a rule
├── Damaged        503   the database is not whole
└── Later                what may be asked again; ``wait`` says in how many seconds
    ├── Throttled    429   too many attempts
    └── Unavailable  503   the database does not answer now
"""

from __future__ import annotations

from typing import ClassVar, TypeVar

from noracle.errors import NoracleError, fault

Value = TypeVar("Value")


class CollectError(NoracleError):
    """Everything that the service refuses on purpose."""

    status: ClassVar[int] = 400

    def __init_subclass__(cls, *, status: int | None = None) -> None:
        cls.status = status or cls.status

    @classmethod
    def unless(cls, ok: object, message: str) -> None:
        """Raise this error with the message unless ``ok``."""
        if not ok:
            raise cls(message)

    @classmethod
    def given(cls, value: Value | None, message: str = "") -> Value:
        """The value; this error with the message where there is none."""
        if value is None:
            raise cls(message)
        return value


class SignedOut(CollectError, status=401):
    """There is no session, or it has ended."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or "Sign in first: there is no session, or it has ended.")


class Forbidden(CollectError, status=403):
    """A member whose role may not do that."""


class NotFound(CollectError, status=404):
    """There is no such thing, or it belongs to a project of which the person is no member."""


class Conflict(CollectError, status=409):
    """The project is in another state, the lease is another person's, or the name is taken."""


class Refused(CollectError, ValueError, status=422):
    """A value breaks a rule."""


def refused(
    argument: str, rule: str, came: object, *where: object, total: int = 0, remedy: str = ""
) -> Refused:
    """A refusal in the house shape (:func:`noracle.errors.fault`); ``where`` names items."""
    return Refused(fault(argument, rule, came, where=where, total=total, remedy=remedy))


class Later(CollectError):
    """What may be asked again after ``wait`` seconds."""

    usual: ClassVar[tuple[str, float]]

    def __init__(self, message: str = "", *, wait: float | None = None) -> None:
        words, seconds = self.usual
        self.wait = seconds if wait is None else wait
        super().__init__(message or words)


class Throttled(Later, status=429):
    """Too many attempts."""

    usual = ("Too many attempts; wait a little.", 60.0)


class Damaged(CollectError, status=503):
    """The database is not whole."""


class Unavailable(Later, status=503):
    """The database does not answer now; whether the last change was kept is not known."""

    usual = ("The database does not answer now; try again in a moment.", 1.0)
