"""Files in and out: uploads of items and answers, exports."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fastapi import Response

from noracle.collect import formats
from noracle.collect.content import Picture
from noracle.collect.errors import NotFound
from noracle.collect.model import Item, ProjectSpec
from noracle.collect.service import exports
from noracle.collect.service.access import READERS, Member
from noracle.collect.service.exports import FORMATS
from noracle.collect.store.base import Work
from noracle.collect.web.core import Web
from noracle.collect.web.page import Sent

__all__ = ["FORMATS", "answers_from", "export_response", "items_from"]


async def items_from(file: Sent, spec: ProjectSpec) -> tuple[Sequence[Item], Sequence[Picture]]:
    """Items and pictures of an uploaded file; decoded in a thread."""
    upload = await asyncio.to_thread(
        lambda: formats.read_items(file.data, spec=spec, name=file.name)
    )
    return upload.items, tuple(upload.pictures.values())


async def answers_from(file: Sent, spec: ProjectSpec) -> dict[str, int | None]:
    """The answers of one system in an uploaded file."""
    found = await asyncio.to_thread(
        lambda: formats.read_answers(file.data, spec=spec, name=file.name, system="system")
    )
    return found.get("system", {})


async def export_response(web: Web, session: str, slug: str, kind: str) -> Response:
    """A project as a file to download; that it was taken is logged first."""
    if kind not in FORMATS:
        raise NotFound("There is no such format.")

    def log(work: Work, member: Member, now: float) -> Member:
        exports.log_export(work, member, kind, now=now)
        return member

    member = await web.change(session, slug, READERS, log)
    name, media, data = await web.store.read_chained(
        member.project, lambda work: exports.export_one(work, member.project, kind)
    )
    web.metrics.event("export")
    return Response(
        data, media_type=media, headers={"content-disposition": f'attachment; filename="{name}"'}
    )
