"""What people upload cannot harm whoever looks at it."""

from __future__ import annotations

import html.parser
import io
import random
import struct
import time
import zlib

import pytest
from PIL import Image

from noracle.collect.content import clean_image, render_markdown
from noracle.collect.errors import Refused

ALLOWED = {"p", "br", "em", "strong", "code", "pre", "ul", "ol", "li"}

PAYLOADS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "[x](javascript:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    '[x](https://a.b/"onmouseover="alert(1))',
    "![x](x)<iframe src=//evil>",
    "`</code><script>alert(1)</script>`",
    "```\n</code></pre><script>alert(1)</script>\n```",
    "**<b onclick=alert(1)>**",
    "- <a href='javascript:alert(1)'>x</a>",
    "1. <style>*{}</style>",
    "# <script>alert(1)</script>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;",
    "<scr<script>ipt>",
    "\\<script\\>",
    "<!-- --><script>",
    "<?xml version='1.0'?>",
    "]]><script>",
    "<https://evil.example>",
    "*a`*b`*c*`<i>`",
    "__<b>__**<i>**_<u>_",
    "javascript:alert(1)",
    "<\x00script>alert(1)</script>",
    "\ufeff<script>",
    "<a\x0bhref=x>",
    "<p style='position:fixed'>",
    "<form action=//evil><button>",
    "<meta http-equiv=refresh content=0>",
]


class Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.open: list[str] = []
        self.text = ""
        self.odd: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attrs))
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.odd.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.odd.append(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


def parsed(markup: str) -> Tags:
    tags = Tags()
    tags.feed(str(markup))  # a Markup would escape what it is added to
    tags.close()
    return tags


def is_safe(markup: str) -> bool:
    tags = parsed(markup)
    return (
        all(tag in ALLOWED and not attrs for tag, attrs in tags.found)
        and not tags.odd
        and not tags.open
    )


def test_the_check_itself_finds_harm() -> None:
    assert not is_safe("<p><script>x</script></p>")
    assert not is_safe("<p onclick=x>y</p>")
    assert not is_safe("<p><em>y</p></em>")


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_payload_is_inert(payload: str) -> None:
    for text in (payload, f"a {payload} b\n\n{payload}\n- {payload}", payload * 3):
        assert is_safe(render_markdown(text)), text


def test_random_marks_never_make_other_tags_or_unbalanced_ones() -> None:
    rng = random.Random(7)
    marks = [
        "*",
        "**",
        "_",
        "__",
        "`",
        "```",
        "[",
        "]",
        "(",
        ")",
        "!",
        "#",
        "- ",
        "1. ",
        "\\",
        "<",
        ">",
        "&",
        '"',
        "'",
        "a",
        "b c",
        " ",
        "\n",
        "\n\n",
        "<b>",
    ]
    for _ in range(5_000):
        text = "".join(rng.choice(marks) for _ in range(rng.randint(1, 25)))
        assert is_safe(render_markdown(text)), repr(text)


def test_nothing_of_the_text_is_lost_but_its_marks() -> None:
    tags = parsed(render_markdown("A *b* **c** `d` [e](f://g) 1 < 2 & 3\nnext\n\n- x\n- y"))
    assert "".join(tags.text.split()) == "Abcde(f://g)1<2&3nextxy"
    assert [tag for tag, _ in tags.found] == ["p", "em", "strong", "code", "br", "ul", "li", "li"]


def test_blocks() -> None:
    assert render_markdown("# Title #\ntext") == "<p><strong>Title</strong></p>\n<p>text</p>"
    assert (
        render_markdown("1. a\n2) b\n* c") == "<ol><li>a</li><li>b</li></ol>\n<ul><li>c</li></ul>"
    )
    assert (
        render_markdown("```\n*a*\n\n<b>\n```\nz")
        == "<pre><code>*a*\n\n&lt;b&gt;</code></pre>\n<p>z</p>"
    )
    assert render_markdown("2 * 3 * 4 and a_b_c and 5*6") == "<p>2 * 3 * 4 and a_b_c and 5*6</p>"
    assert render_markdown(" \n\t") == ""


@pytest.mark.full
@pytest.mark.parametrize(
    "text",
    [
        "*" * 50_000,
        "_" * 50_000,
        "`" * 50_001,
        "[" * 50_000,
        "[a](" * 12_000,
        "**a" * 16_000,
        "- " * 25_000,
        "\\" * 50_000,
        "*a_b" * 12_000,
        "#" * 50_000 + " x",
    ],
)
def test_hostile_repetition_takes_no_long(text: str) -> None:
    started = time.process_time()
    render_markdown(text)
    assert time.process_time() - started < 2


# ------------------------------------------------------------------------------------------------------------------
# images


def encoded(
    kind: str, size: tuple[int, int] = (60, 40), mode: str = "RGB", **options: object
) -> bytes:
    target = io.BytesIO()
    noise = Image.effect_noise(size, 60).convert(mode)
    noise.save(target, format=kind, **options)
    return target.getvalue()


@pytest.mark.parametrize(
    ("kind", "media"),
    [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("WEBP", "image/webp"), ("GIF", "image/png")],
)
@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "I;16"])
def test_picture_is_drawn_anew(kind: str, media: str, mode: str) -> None:
    try:
        data = encoded(kind, mode=mode)
    except (OSError, ValueError):
        pytest.skip(f"{kind} has no {mode}")
    picture = clean_image(data)
    assert (picture.media, picture.width, picture.height) == (media, 60, 40)
    with Image.open(io.BytesIO(picture.data)) as again:
        again.load()
        assert again.size == (60, 40)
        assert again.mode in ("L", "RGB", "RGBA")
    assert clean_image(data) == picture


def test_pixels_of_a_png_stay_as_they_are() -> None:
    data = encoded("PNG")
    with (
        Image.open(io.BytesIO(data)) as before,
        Image.open(io.BytesIO(clean_image(data).data)) as after,
    ):
        assert before.tobytes() == after.tobytes()


def test_sixteen_bits_become_eight_without_clipping() -> None:
    deep = Image.new("I;16", (2, 1))
    deep.putpixel((0, 0), 65535)
    deep.putpixel((1, 0), 32768)
    target = io.BytesIO()
    deep.save(target, format="PNG")
    with Image.open(io.BytesIO(clean_image(target.getvalue()).data)) as after:
        assert [after.getpixel((0, 0)), after.getpixel((1, 0))] == [255, pytest.approx(127, abs=1)]


def test_metadata_do_not_survive() -> None:
    exif = Image.Exif()
    exif[0x010E] = "CANARY-description"
    exif[0x8825] = {1: "N", 2: (48.0, 8.0, 0.0)}
    from PIL.PngImagePlugin import PngInfo

    notes = PngInfo()
    notes.add_text("Comment", "CANARY-comment")
    for data in (
        encoded("JPEG", exif=exif, comment=b"CANARY-<script>"),
        encoded("PNG", exif=exif, pnginfo=notes),
        encoded("WEBP", exif=exif, xmp=b"<x>CANARY</x>"),
        encoded("GIF", mode="P", comment=b"CANARY"),
    ):
        assert b"CANARY" in data
        out = clean_image(data).data
        assert b"CANARY" not in out
        assert b"Exif" not in out
        assert b"eXIf" not in out
        with Image.open(io.BytesIO(out)) as again:
            assert not dict(again.getexif())
            assert not set(again.info) - {
                "jfif",
                "jfif_version",
                "jfif_unit",
                "jfif_density",
                "loop",
                "background",
                "timestamp",
                "duration",
            }


def test_camera_orientation_is_applied() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = clean_image(encoded("JPEG", size=(60, 40), exif=exif))
    assert (picture.width, picture.height) == (40, 60)


def bomb(width: int, height: int) -> bytes:
    """A small PNG that says it is huge."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(bytes(1000)))
        + chunk(b"IEND", b"")
    )


@pytest.mark.full
@pytest.mark.parametrize(
    "size", [(5_001, 5_001), (100_000, 100_000), (20_000, 10), (65_535, 3_000)]
)
def test_decompression_bomb_is_refused_before_it_is_decoded(size: tuple[int, int]) -> None:
    started = time.process_time()
    with pytest.raises(Refused):
        clean_image(bomb(*size))
    assert time.process_time() - started < 0.5


def test_text_chunk_bomb_is_refused() -> None:
    body = b"Comment\x00\x00" + zlib.compress(bytes(200_000_000), 9)
    chunk = (
        struct.pack(">I", len(body))
        + b"zTXt"
        + body
        + struct.pack(">I", zlib.crc32(b"zTXt" + body))
    )
    data = encoded("PNG")
    with pytest.raises(Refused):
        clean_image(data[:33] + chunk + data[33:])


NO_IMAGES = [
    b"",
    b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
    b"<?xml version='1.0'?><svg/>",
    b"<html><script>alert(1)</script>",
    b"%PDF-1.7",
    b"PK\x03\x04",
    b"GIF89a",
    b"GIF89a/*<script>*/=1;alert(1)//",
    b"\xff\xd8\xff",
    b"\xff\xd8\xff\xe0" + b"\xff" * 100,
    b"\x89PNG\r\n\x1a\n",
    b"\x89PNG\r\n\x1a\n" + b"\xff" * 100,
    b"RIFF\x00\x00\x00\x00WEBP",
    b"RIFF\xff\xff\xff\xffWEBPVP8 ",
    b"RIFF\x04\x00\x00\x00WAVE",
    b"BM" + bytes(100),
    b"II*\x00" + bytes(100),
    b"\x00\x00\x01\x00" + bytes(100),
]


@pytest.mark.parametrize("data", NO_IMAGES, ids=range(len(NO_IMAGES)))
def test_what_is_no_image_is_refused(data: bytes) -> None:
    with pytest.raises(Refused):
        clean_image(data)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
@pytest.mark.parametrize(
    "tail", [b"<script>alert(1)</script>", b"PK\x03\x04zip", b"%PDF-1.7", b"\x00\x00MZ"]
)
def test_polyglot_is_refused(kind: str, tail: bytes) -> None:
    data = encoded(kind)
    clean_image(data + b"\x00\x00\n")
    with pytest.raises(Refused, match="end"):
        clean_image(data + tail)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
def test_cut_or_flipped_files_are_refused_or_decoded_but_never_crash(kind: str) -> None:
    rng = random.Random(3)
    data = encoded(kind)
    for cut in (10, len(data) // 2, len(data) - 3):
        with pytest.raises(Refused):
            clean_image(data[:cut])
    for _ in range(200):
        broken = bytearray(data)
        for _ in range(3):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        try:
            clean_image(bytes(broken))
        except Refused:
            pass


def test_animation_shows_its_first_frame_and_jpeg_previews_are_dropped() -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    target = io.BytesIO()
    frames[0].save(target, format="GIF", save_all=True, append_images=frames[1:])
    with Image.open(io.BytesIO(clean_image(target.getvalue()).data)) as still:
        assert getattr(still, "n_frames", 1) == 1
        assert still.convert("RGB").getpixel((0, 0)) == (255, 0, 0)
    photograph = encoded("JPEG")
    assert clean_image(photograph + encoded("JPEG", size=(8, 8))) == clean_image(photograph)


def test_size_in_bytes_is_limited() -> None:
    data = encoded("PNG", size=(200, 200))
    with pytest.raises(Refused, match="bytes"):
        clean_image(data, most_bytes=1000)
    with pytest.raises(Refused, match="pixels"):
        clean_image(data, most_pixels=39_999)
