"""The oversight report: everything that the evidence of a folder allows to say.

find.py, sniff.py      which files there are, and what is in each
load.py, settings.py   the evidence opened and counted once; ``noracle.toml``
questions.py           the table of what can be asked, and how each question is put
findings.py            do the parts fit together, one promise for all, what to do next
oversight.py           the report
words.py, page.py      plain words, the text card and the HTML page
watch/                 a folder that is watched while evidence comes in
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noracle._lazy import lazy

if TYPE_CHECKING:
    from noracle.oversight.find import find_evidence as find_evidence
    from noracle.oversight.model import Finding as Finding
    from noracle.oversight.model import FolderSettings as FolderSettings
    from noracle.oversight.model import Inventory as Inventory
    from noracle.oversight.model import NextStep as NextStep
    from noracle.oversight.model import Source as Source
    from noracle.oversight.model import Step as Step
    from noracle.oversight.model import SystemLine as SystemLine
    from noracle.oversight.oversight import Oversight as Oversight
    from noracle.oversight.oversight import oversee as oversee
    from noracle.oversight.page import write_oversight as write_oversight
    from noracle.oversight.settings import read_settings as read_settings

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        ".find": "find_evidence",
        ".model": "Finding FolderSettings Inventory NextStep Source Step SystemLine",
        ".oversight": "Oversight oversee",
        ".page": "write_oversight",
        ".settings": "read_settings",
    },
    renamed={"Settings": "FolderSettings"},
)
