"""Messages in the reader's language: gettext catalogues of this folder; English is the source and
the fallback.

``locale/<language>/LC_MESSAGES/noracle.po`` is edited, ``noracle.mo`` is made from it with
``pybabel compile`` and kept beside it. Only the standard library reads them.
"""

from __future__ import annotations

import functools
import gettext
from collections.abc import Mapping
from pathlib import Path

LANGUAGES: Mapping[str, str] = {"en": "English", "de": "Deutsch"}
FOLDER = Path(__file__).parent / "locale"


class Words:
    """One language.

    Examples
    --------
    >>> Words("de").say("Sign in")
    'Anmelden'
    >>> Words("en").count("%(n)s answer", "%(n)s answers", 2)
    '2 answers'
    """

    def __init__(self, language: str) -> None:
        self.language = language if language in LANGUAGES else "en"
        self._catalogue = gettext.translation(
            "noracle", FOLDER, languages=[self.language], fallback=True
        )

    def say(self, message: str, **values: object) -> str:
        """The message with ``%(name)s`` filled in."""
        text = self._catalogue.gettext(message)
        return text % values if values else text

    def count(self, one: str, many: str, n: int, **values: object) -> str:
        """The message for one or for n, with ``%(n)s`` filled in."""
        return self._catalogue.ngettext(one, many, n) % {"n": n, **values}


@functools.cache
def words(language: str) -> Words:
    """The messages of a language that we have."""
    return Words(language)


def choose(*wishes: str | None, accept: str = "") -> str:
    """The first wish that we have; else the best of an Accept-Language header; else English.

    Examples
    --------
    >>> choose(None, "fr", accept="fr-CH, de;q=0.8, en;q=0.9")
    'en'
    >>> choose("de", accept="en")
    'de'
    """
    for wish in wishes:
        if wish is not None and wish in LANGUAGES:
            return wish
    best, most = "en", 0.0
    for part in accept[:200].split(","):
        tag, _, weight = part.strip().partition(";q=")
        try:
            quality = float(weight) if weight else 1.0
        except ValueError:
            continue
        language = tag.split("-")[0].lower()
        if language in LANGUAGES and quality > most:
            best, most = language, quality
    return best
