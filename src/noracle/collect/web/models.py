"""What the JSON interface takes: strict, bounded, without NUL or broken characters."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat

_DEEPEST = 20


def _clean(text: str) -> str:
    if "\x00" in text:
        raise ValueError("must not contain NUL")
    return text


def _clean_json(value: Any, depth: int = 0) -> Any:
    """Any JSON, but not too deep and with clean texts."""
    if depth > _DEEPEST:
        raise ValueError("is nested too deeply")
    if isinstance(value, str):
        value.encode()  # halves of surrogate pairs are a ValueError
        return _clean(value)
    if isinstance(value, dict):
        return {_clean_json(k, depth + 1): _clean_json(v, depth + 1) for k, v in value.items()}
    return [_clean_json(v, depth + 1) for v in value] if isinstance(value, list) else value


Whole = Annotated[int, Field(ge=0, le=2**53)]
Line = Annotated[str, Field(max_length=200), AfterValidator(_clean)]
Text = Annotated[str, Field(max_length=1000), AfterValidator(_clean)]
AnyJson = Annotated[dict[str, Any], AfterValidator(_clean_json)]


class Strict(BaseModel):
    """No other names, no guessing of types."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class SignIn(Strict):
    """``bearer`` asks for the token in the reply instead of a cookie, for programs."""

    email: Annotated[str, Field(max_length=254), AfterValidator(_clean)]
    password: Text
    bearer: bool = False


class Join(Strict):
    """All empty for somebody who is signed in."""

    email: Annotated[str, Field(max_length=254), AfterValidator(_clean)] = ""
    name: Line = ""
    password: Text = ""


class NewProject(Strict):
    """``spec`` as in ProjectSpec."""

    slug: Line
    name: Line
    spec: AnyJson


class NewItem(Strict):
    """One item."""

    name: Line
    content: AnyJson
    truth: Whole | None = None


class NewItems(Strict):
    """Items as JSON; other formats are sent as the body, with their own Content-Type."""

    items: Annotated[list[NewItem], Field(max_length=200_000)]


class Invite(Strict):
    """``pool`` is the class (partitioned) or the place (ordinary) of an annotator."""

    role: Literal["owner", "manager", "annotator", "auditor"]
    pool: Whole | None = None
    days: Annotated[FiniteFloat, Field(gt=0, le=365)] = 7.0


class Answer(Strict):
    """An answer to the question that the person holds."""

    question: Whole
    key: Line
    value: Text
    shown_at: FiniteFloat
    client_ms: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    want_next: bool = False


class Amend(Strict):
    """Another value for the person's last answer."""

    key: Line
    value: Text


class NewSystem(Strict):
    """Answers of a system by item name: the class, or null."""

    name: Line
    answers: Annotated[dict[Line, Whole | None], Field(max_length=1_000_000)]
