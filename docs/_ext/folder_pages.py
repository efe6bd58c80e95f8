"""The directive ``folder-pages``: a table of contents of the other pages in the same folder, by
file name; nothing if there are none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.directives.other import TocTree


class FolderPages(TocTree):
    """A toctree that finds its entries."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # pages come and go without this one changing
        here = Path(self.env.doc2path(self.env.docname))
        names = sorted(p.stem for p in here.parent.glob("*.md") if p != here)
        if not names:
            return []
        self.content = StringList(names, source=str(here))
        self.options.setdefault("maxdepth", 1)
        return super().run()


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("folder-pages", FolderPages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
