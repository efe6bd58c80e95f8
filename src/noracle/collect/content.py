"""What people upload, made safe to show: limited Markdown as HTML, and images that are drawn again.

Of Markdown only paragraphs, line breaks, emphasis, code and lists are known; every text is escaped.
The only tags that can come out are ``p br em strong code pre ul ol li``, none with an attribute.
Links are shown as text.

Images are decoded and encoded again, so that nothing of the file survives but the pixels: no place
where a photograph was taken, no script behind the last pixel. SVG is a program and is refused.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import html
import io
import re
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from markupsafe import Markup

from noracle.collect.errors import Refused

if TYPE_CHECKING:
    from markdown_it.token import Token
    from PIL.Image import Image as Pixels

MOST_BYTES, MOST_PIXELS, MOST_SIDE = 10_000_000, 25_000_000, 10_000
"""Limits of an uploaded image."""

_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "PNG", b"\xff\xd8\xff": "JPEG", b"RIFF": "WEBP"}
_SIGNATURES |= {b"GIF87a": "GIF", b"GIF89a": "GIF"}

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff]")
_NAMES = {"paragraph": "p", "bullet_list": "ul", "ordered_list": "ol", "list_item": "li"}
_TAGS = {name: (f"<{tag}>", f"</{tag}>") for name, tag in _NAMES.items()}
_TAGS |= {name: (f"<{name}>", f"</{name}>") for name in ("em", "strong")}
_TAGS["heading"] = ("<p><strong>", "</strong></p>")
_RULES = "heading list fence emphasis backticks escape link image newline"
_PARSER = MarkdownIt("zero", {"maxNesting": 20}).enable(_RULES.split(" "))
_MARK, _MOST_MARKS = re.compile(r"[#*_`\\\[\]!\n]"), 3_000  # each costs up to ten microseconds


@functools.lru_cache(maxsize=64)
def render_markdown(text: str) -> Markup:
    r"""Limited Markdown as HTML that is safe whatever the text.

    >>> print(render_markdown("A *small* `<b>` test\n\n- one\n- [two](https://example.org)"))
    <p>A <em>small</em> <code>&lt;b&gt;</code> test</p>
    <ul><li>one</li><li>two (https://example.org)</li></ul>

    A text with thousands of marks is shown as it is: laying it out would take too long.
    """
    text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    if sum(1 for _ in _MARK.finditer(text)) > _MOST_MARKS:
        return Markup("<p>{}</p>").format(text.strip("\n"))
    tokens = _PARSER.parse(text)
    ends = ("\n" if token.level == 0 and token.nesting < 1 else "" for token in tokens)
    made = "".join(part for pair in zip(_html(tokens), ends, strict=True) for part in pair)
    return Markup(made.replace("</ol>\n<ol>", "").rstrip("\n"))  # noqa: S704 (escaped by _html)


def _html(tokens: Sequence[Token]) -> Iterator[str]:
    """The HTML of each token: every text is escaped, and only our own tags are put in."""
    links: list[str] = []
    for token in tokens:
        name, _, end = token.type.rpartition("_")
        inner = "".join(_html(token.children or ()))
        content = html.escape(token.content)
        if token.type == "inline":
            yield inner
        elif token.type in ("softbreak", "hardbreak"):
            yield "<br>"
        elif token.type == "fence":
            yield f"<pre><code>{content.removesuffix(chr(10))}</code></pre>"
        elif token.type == "code_inline":
            yield f"<code>{content}</code>"
        elif token.type == "image":
            yield f"{inner} ({html.escape(str(token.attrs['src']))})"
        elif token.type == "link_open":
            links.append(html.escape(str(token.attrs["href"])))
            yield ""
        elif token.type == "link_close":
            yield f" ({links.pop()})"
        elif name in _TAGS:
            yield "" if token.hidden else _TAGS[name][end == "close"]
        else:
            yield content


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """An image that was drawn again; ``sha256`` is of ``data``."""

    sha256: str
    media: str
    data: bytes = dataclasses.field(repr=False)
    width: int
    height: int


def clean_image(
    data: bytes, *, most_bytes: int = MOST_BYTES, most_pixels: int = MOST_PIXELS
) -> Picture:
    """Decode a PNG, JPEG, WebP or GIF (its first frame) and encode it again without metadata, turned as
    its camera said; slow, so never inside a write. JPEG and WebP stay what they are, others become PNG.
    """
    rule = f"image must have at most {most_bytes} bytes; got {len(data)}."
    Refused.unless(len(data) <= most_bytes, rule)
    kind = next((name for mark, name in _SIGNATURES.items() if data.startswith(mark)), "")
    known = kind and (kind != "WEBP" or data[8:12] == b"WEBP")
    Refused.unless(known, "image must be a PNG, JPEG, WebP or GIF file; got something else.")
    _refuse_tail(kind, data)
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(data), formats=[kind]) as opened:
            rule = f"image must have at most {most_pixels} pixels and {MOST_SIDE} a side"
            small = opened.width * opened.height <= most_pixels and max(opened.size) <= MOST_SIDE
            Refused.unless(small, f"{rule}; got {opened.width} × {opened.height}.")
            opened.load()
            pixels = _plain(ImageOps.exif_transpose(opened))
        written, target = "PNG" if kind == "GIF" else kind, io.BytesIO()
        drawn = pixels.convert("RGB") if written == "JPEG" else pixels
        drawn.save(target, format=written, quality=92)
    except Refused:
        raise
    except Exception as error:  # noqa: BLE001 (decoders raise what they like on hostile bytes)
        why = f"it could not be decoded ({type(error).__name__})"
        raise Refused(f"image must be a complete {kind} file; {why}.") from None
    out, size = target.getvalue(), {"width": pixels.width, "height": pixels.height}
    sha256, media = hashlib.sha256(out).hexdigest(), f"image/{written.lower()}"
    return Picture(sha256=sha256, media=media, data=out, **size)


def _plain(pixels: Pixels) -> Pixels:
    """Eight bits a channel, grey or colour, with transparency where there is some; nothing else."""
    if pixels.mode in ("I", "F") or pixels.mode.startswith("I;16"):
        _, high = pixels.convert("F").getextrema()
        scale = 255.0 / 65535.0 if float(high) > 255.0 else 1.0  # type: ignore[arg-type]
        pixels = pixels.convert("F").point(lambda value: value * scale + 0.0).convert("L")
    clear = pixels.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in pixels.info
    mode = "RGBA" if clear else "L" if pixels.mode in ("1", "L") else "RGB"
    plain = pixels.convert(mode) if mode != pixels.mode else pixels.copy()
    plain.info = {}
    return plain


def _refuse_tail(kind: str, data: bytes) -> None:
    """Refuse bytes behind the end: a file may be a picture from the front, a program from the back."""
    try:
        tail = data[_ENDS[kind](data) :]
    except (IndexError, struct.error):
        raise Refused(f"image must be a complete {kind} file; its end is missing.") from None
    padding = not tail.strip(b"\x00\r\n\t ")
    preview = kind == "JPEG" and tail.startswith(b"\xff\xd8\xff")  # some cameras append one
    rule = f"image must end where the {kind} ends; got {len(tail)} more bytes"
    Refused.unless(padding or preview, f"{rule}. Save it again with a picture program.")


def _end_of_png(data: bytes) -> int:
    at = 8
    while True:
        length, kind = struct.unpack_from(">I4s", data, at)
        at += 12 + int(length)
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
        if marker == 0xDA:  # coded pixels, until a marker that is no restart and no stuffed byte
            end = re.compile(rb"\xff[^\x00\xd0-\xd7]", re.DOTALL).search(data, at)
            if end is None:
                raise IndexError
            at = end.start()


_ENDS = {"PNG": _end_of_png, "WEBP": _end_of_webp, "GIF": _end_of_gif, "JPEG": _end_of_jpeg}
