"""Images out of files and out of bytes, through Pillow (which comes with matplotlib)."""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noracle.errors import EvidenceError, fault
from noracle.learn._items import Raw

Pixels = NDArray[np.uint8]

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
MAX_PIXELS = 64_000_000
_CHUNK = 256


def decode(sources: Sequence[Any], names: Sequence[int | str]) -> Pixels:
    """Images (n, height, width, channels), decoded by several threads; one channel where all are
    grey.

    ``sources`` are paths or bytes; ``names`` say which image is wrong.
    """

    def some(start: int) -> list[Pixels]:
        return [
            _image(source, name)
            for source, name in zip(
                sources[start : start + _CHUNK], names[start : start + _CHUNK], strict=True
            )
        ]

    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
        images = [
            image for part in pool.map(some, range(0, len(sources), _CHUNK)) for image in part
        ]
    return stack(images, names)


def stack(images: Sequence[Pixels], names: Sequence[int | str]) -> Pixels:
    """Images of one size as one array; grey ones get three channels where others have colours."""
    if not images:
        raise EvidenceError(fault("images", "must be at least one", "none"))
    sizes = [image.shape[:2] for image in images]
    other = [i for i, size in enumerate(sizes) if size != sizes[0]]
    if other:
        came = f"{sizes[0][0]}×{sizes[0][1]} and {sizes[other[0]][0]}×{sizes[other[0]][1]}"
        where = [names[i] for i in other[:5]]
        raise EvidenceError(
            fault(
                "images",
                "must be of one size",
                came,
                where=where,
                total=len(other),
                remedy="Resize or crop them first.",
            )
        )
    channels = 3 if any(image.ndim == 3 for image in images) else 1
    made = np.empty((len(images), *sizes[0], channels), dtype=np.uint8)
    for place, image in zip(made, images, strict=True):
        place[...] = image if image.ndim == 3 else image[:, :, None]
    return made


def _image(source: Any, name: int | str) -> Pixels:
    from PIL import Image

    try:
        with Image.open(
            io.BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS
        ) as image:
            if image.width * image.height > MAX_PIXELS:
                raise EvidenceError(
                    fault(
                        "images",
                        f"must have at most {MAX_PIXELS:,} pixels",
                        f"{image.width}×{image.height}",
                        where=[name],
                    )
                )
            if image.mode.startswith(("I", "F")):
                raise EvidenceError(
                    fault(
                        "images", "must have 8 bits a channel", f"mode {image.mode}", where=[name]
                    )
                )
            return np.asarray(image.convert("L" if image.mode in ("1", "L", "LA") else "RGB"))
    except EvidenceError:
        raise
    except Exception as error:  # noqa: BLE001 (a broken image can fail anywhere in its decoder)
        raise EvidenceError(
            fault(
                "images",
                f"must be complete {', '.join(FORMATS)} files",
                f"a {type(error).__name__}",
                where=[name],
                remedy="Replace it.",
            )
        ) from None


def split_bytes(data: NDArray[Any], offset: NDArray[Any]) -> list[bytes]:
    """The pieces of one long array of bytes: piece i is ``data[offset[i]:offset[i + 1]]``."""
    ends = np.asarray(offset)
    if (
        data.ndim != 1
        or data.dtype != np.uint8
        or ends.ndim != 1
        or len(ends) < 2
        or not np.issubdtype(ends.dtype, np.integer)
    ):
        raise EvidenceError(
            fault(
                "jpeg and offset",
                "must be bytes and the places where images begin and end",
                f"{data.dtype}, {ends.dtype}",
            )
        )
    if ends[0] < 0 or ends[-1] > len(data) or (np.diff(ends) <= 0).any():
        raise EvidenceError(
            fault(
                "offset",
                f"must rise from 0 to {len(data)}, the number of bytes",
                f"{ends[0]} to {ends[-1]}",
            )
        )
    whole = data.tobytes()
    places = ends.tolist()
    return [whole[start:stop] for start, stop in itertools.pairwise(places)]


def read_files(folder: Path, names: Iterable[str]) -> Pixels:
    """The images with these names inside a folder; names that lead out of it are refused."""
    names = list(names)
    strange = [
        n
        for n in names
        if PurePosixPath(n).is_absolute()
        or ".." in PurePosixPath(n).parts
        or not (folder / n).is_file()
    ]
    if strange:
        raise EvidenceError(
            fault(
                "file",
                f"must name images inside the folder {str(folder)!r}",
                repr(strange[0])[:80],
                where=strange[:5],
                total=len(strange),
            )
        )
    return decode([folder / name for name in names], names)


def read_class_folders(folder: Path, choose: Callable[[list[str]], list[str]] = sorted) -> Raw:
    """One folder a class, with images inside; the name of the folder is the *true* class of its
    images.
    """
    classes = choose(
        [
            place.name
            for place in folder.iterdir()
            if place.is_dir() and not place.name.startswith(".")
        ]
    )
    found = [
        (f"{name}/{place.relative_to(folder / name).as_posix()}", name)
        for name in classes
        for place in sorted((folder / name).rglob("*"))
        if place.suffix.lower() in SUFFIXES and place.is_file()
    ]
    if not found:
        raise EvidenceError(
            fault(
                "folder",
                "must hold npy files, idx files, a table with a column file, or class folders with images",
                repr(str(folder)),
                remedy=f"Images end in {', '.join(SUFFIXES)}.",
            )
        )
    names = [name for name, _ in found]
    used = sorted({label for _, label in found})
    return Raw(
        items=read_files(folder, names),
        label=[[label] for _, label in found],
        ids=names,
        classes=used if len(used) > 1 else None,
    )
