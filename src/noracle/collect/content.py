"""What people upload, made safe to show: limited Markdown as HTML, and images that are drawn anew.

Markdown goes through an allow-list: everything is escaped first, then paragraphs, line breaks,
emphasis, code and lists are put in. The only tags that can come out are ``p br em strong code pre
ul ol li``, none with an attribute. Links are shown as text.

Images are decoded and encoded again, so that nothing of the file survives but the pixels: no place
where a photograph was taken, no script behind the last pixel. SVG is a program and is refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
import html
import io
import re
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from markupsafe import Markup

from noracle.collect.errors import Refused

if TYPE_CHECKING:
    from PIL.Image import Image as Pixels

MOST_BYTES, MOST_PIXELS, MOST_SIDE = 10_000_000, 25_000_000, 10_000
"""Limits of an uploaded image."""

_SIGNATURES = (
    ("PNG", b"\x89PNG\r\n\x1a\n"),
    ("JPEG", b"\xff\xd8\xff"),
    ("GIF", b"GIF87a"),
    ("GIF", b"GIF89a"),
    ("WEBP", b"RIFF"),
)
_WRITTEN = {
    "PNG": ("PNG", "image/png"),
    "GIF": ("PNG", "image/png"),
    "JPEG": ("JPEG", "image/jpeg"),
    "WEBP": ("WEBP", "image/webp"),
}


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff]")
_FENCE = re.compile(r"\s{0,3}(?:```|~~~)")
_LIST = re.compile(r"\s{0,8}(?:([-*+])|\d{1,9}[.)])\s+(\S.*)$")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(\S.*?)[\s#]*$")
_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"!?\[([^\[\]]{1,500})\]\(([^()\s]{1,2000})\)")
_STRONG = re.compile(r"\*\*(?=\S)([^*]+)(?<=\S)\*\*|(?<!\w)__(?=\S)([^_]+)(?<=\S)__(?!\w)")
_EM = re.compile(r"\*(?=\S)([^*]+)(?<=\S)\*|(?<!\w)_(?=\S)([^_]+)(?<=\S)_(?!\w)")
_BACKSLASH = re.compile(r"\\([\\`*_\[\]()#+.!-])")


def render_markdown(text: str) -> Markup:
    r"""Limited Markdown as HTML that is safe whatever the text.

    Examples
    --------
    >>> print(render_markdown("A *small* `<b>` test\n\n- one\n- [two](https://example.org)"))
    <p>A <em>small</em> <code>&lt;b&gt;</code> test</p>
    <ul><li>one</li><li>two (https://example.org)</li></ul>
    """
    lines = html.escape(
        _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n")), quote=True
    ).split("\n")
    return Markup("\n".join(_blocks(lines)))  # noqa: S704 (escaped above, and only the tags of the docstring are put in)


def render_text(text: str) -> Markup:
    r"""Plain text as paragraphs and line breaks.

    Examples
    --------
    >>> print(render_text("1 < 2\nyes\n\nnext"))
    <p>1 &lt; 2<br>yes</p>
    <p>next</p>
    """
    clean = html.escape(
        _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n")), quote=True
    )
    parts = [part.strip("\n") for part in re.split(r"\n[ \t]*\n", clean)]
    return Markup(  # noqa: S704 (escaped above)
        "\n".join("<p>" + part.replace("\n", "<br>") + "</p>" for part in parts if part.strip())
    )


def _blocks(lines: list[str]) -> Iterator[str]:
    i = 0
    while i < len(lines):
        line = lines[i]
        if not line.strip():
            i += 1
        elif _FENCE.match(line):
            end = next((j for j in range(i + 1, len(lines)) if _FENCE.match(lines[j])), len(lines))
            yield "<pre><code>" + "\n".join(lines[i + 1 : end]) + "</code></pre>"
            i = end + 1
        elif _LIST.match(line):
            end = i
            while (
                end < len(lines)
                and _LIST.match(lines[end])
                and _marker(lines[end]) == _marker(line)
            ):
                end += 1
            tag = _marker(line)
            points = "".join(
                "<li>" + _inline(_LIST.sub(r"\2", each)) + "</li>" for each in lines[i:end]
            )
            yield f"<{tag}>{points}</{tag}>"
            i = end
        elif heading := _HEADING.match(line):
            yield f"<p><strong>{_inline(heading[1])}</strong></p>"
            i += 1
        else:
            end = i
            while (
                end < len(lines)
                and lines[end].strip()
                and not (_FENCE.match(lines[end]) or _LIST.match(lines[end]))
            ):
                end += 1
            yield "<p>" + "<br>".join(_inline(each.strip()) for each in lines[i:end]) + "</p>"
            i = end


def _marker(line: str) -> str:
    found = _LIST.match(line)
    return "ul" if found and found[1] else "ol"


def _inline(text: str) -> str:
    text = _BACKSLASH.sub(lambda found: f"&#{ord(found[1])};", text)
    parts = _CODE.split(text)
    return "".join(
        f"<code>{part}</code>" if i % 2 else _emphasis(part) for i, part in enumerate(parts)
    )


def _emphasis(text: str) -> str:
    parts = _STRONG.split(_LINK.sub(r"\1 (\2)", text))
    made = [_weak(parts[0])]
    for star, line, after in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        made += ["<strong>", _weak(star or line), "</strong>", _weak(after)]
    return "".join(made)


def _weak(text: str) -> str:
    return _EM.sub(lambda found: f"<em>{found[1] or found[2]}</em>", text)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """An image that was drawn anew; ``sha256`` is of ``data``."""

    sha256: str
    media: str
    data: bytes = dataclasses.field(repr=False)
    width: int
    height: int


def clean_image(
    data: bytes, *, most_bytes: int = MOST_BYTES, most_pixels: int = MOST_PIXELS
) -> Picture:
    """Decode a PNG, JPEG, WebP or GIF (its first frame) and encode it again without metadata; slow,
    so never inside a write.

    JPEG and WebP stay what they are, the others become PNG. The picture is turned as its camera
    said.

    Raises
    ------
    Refused
        If it is no such image, is too large, is broken, or holds something behind its end.
    """
    if len(data) > most_bytes:
        raise Refused(f"image must have at most {most_bytes} bytes; got {len(data)}.")
    kind = next((name for name, mark in _SIGNATURES if data.startswith(mark)), "")
    if not kind or (kind == "WEBP" and data[8:12] != b"WEBP"):
        raise Refused("image must be a PNG, JPEG, WebP or GIF file; got something else.")
    _refuse_tail(kind, data)
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(data), formats=[kind]) as opened:
            if opened.width * opened.height > most_pixels or max(opened.size) > MOST_SIDE:
                raise Refused(
                    f"image must have at most {most_pixels} pixels and {MOST_SIDE} a side; got {opened.width} × {opened.height}."
                )
            opened.load()
            pixels = _plain(ImageOps.exif_transpose(opened))
        written, media = _WRITTEN[kind]
        target = io.BytesIO()
        (pixels.convert("RGB") if written == "JPEG" else pixels).save(
            target, format=written, quality=92
        )
    except Refused:
        raise
    except Exception as error:  # noqa: BLE001 (decoders raise what they like on hostile bytes)
        raise Refused(
            f"image must be a complete {kind} file; it could not be decoded ({type(error).__name__})."
        ) from None
    out = target.getvalue()
    return Picture(
        sha256=hashlib.sha256(out).hexdigest(),
        media=media,
        data=out,
        width=pixels.width,
        height=pixels.height,
    )


def _plain(pixels: Pixels) -> Pixels:
    """Eight bits a channel, grey or colour, with transparency where there is some; nothing else of
    the file.
    """
    if pixels.mode in ("I", "F") or pixels.mode.startswith("I;16"):
        _, high = pixels.convert("F").getextrema()
        scale = 255.0 / 65535.0 if float(high) > 255.0 else 1.0  # type: ignore[arg-type]
        pixels = pixels.convert("F").point(lambda value: value * scale + 0.0).convert("L")
    clear = pixels.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in pixels.info
    mode = "RGBA" if clear else "L" if pixels.mode in ("1", "L") else "RGB"
    plain = pixels.convert(mode)
    if plain is pixels:
        plain = pixels.copy()
    plain.info = {}
    return plain


def _refuse_tail(kind: str, data: bytes) -> None:
    """Refuse bytes behind the end of the image: a file may be an image from the front and a program
    from the back.
    """
    try:
        tail = data[_ENDS[kind](data) :]
    except (IndexError, struct.error):
        raise Refused(f"image must be a complete {kind} file; its end is missing.") from None
    padding = not tail.strip(b"\x00\r\n\t ")
    second_picture = kind == "JPEG" and tail.startswith(
        b"\xff\xd8\xff"
    )  # some cameras append a preview
    if not (padding or second_picture):
        raise Refused(
            f"image must end where the {kind} ends; got {len(tail)} more bytes. Save it again with a picture program."
        )


def _end_of_png(data: bytes) -> int:
    at = 8
    while True:
        length: int
        (length,) = struct.unpack_from(">I", data, at)
        kind = data[at + 4 : at + 8]
        at += 12 + length
        if at > len(data):
            raise IndexError
        if kind == b"IEND":
            return at


def _end_of_webp(data: bytes) -> int:
    (length,) = struct.unpack_from("<I", data, 4)
    if 8 + length > len(data):
        raise IndexError
    return int(8 + length + length % 2)


def _end_of_gif(data: bytes) -> int:
    def colours(flags: int) -> int:
        return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0

    def blocks(at: int) -> int:
        while data[at]:
            at += 1 + data[at]
        return at + 1

    at = 13 + colours(data[10])
    while data[at] != 0x3B:
        if data[at] == 0x21:
            at = blocks(at + 2)
        elif data[at] == 0x2C:
            at = blocks(at + 10 + colours(data[at + 9]) + 1)
        else:
            raise IndexError
    return at + 1


def _end_of_jpeg(data: bytes) -> int:
    at = 2
    while True:
        while data[at] == 0xFF and data[at + 1] == 0xFF:
            at += 1
        marker = data[at + 1]
        if data[at] != 0xFF:
            raise IndexError
        if marker == 0xD9:
            return at + 2
        if marker == 0x01 or 0xD0 <= marker <= 0xD7:
            at += 2
            continue
        (length,) = struct.unpack_from(">H", data, at + 2)
        at += 2 + length
        if (
            marker == 0xDA
        ):  # what follows is coded pixels, until a marker that is no restart and no stuffed byte
            at = data.find(b"\xff", at)
            while (
                at >= 0
                and at + 1 < len(data)
                and (data[at + 1] == 0 or 0xD0 <= data[at + 1] <= 0xD7)
            ):
                at = data.find(b"\xff", at + 2)
            if at < 0:
                raise IndexError


_ENDS = {"PNG": _end_of_png, "WEBP": _end_of_webp, "GIF": _end_of_gif, "JPEG": _end_of_jpeg}
