"""Checks that every framework can decode an image, and repairs two kinds that some cannot.

Only the markers of a JPEG are read, which takes 0.1 ms; nothing is decoded. ImageNet has a PNG
among its .JPEG files and 22 JPEGs in CMYK, which some decoders refuse and others show in other
colours. These are encoded again as RGB, as TensorFlow's script does (build_imagenet_data.py).
Truncated images are left out. The manifest counts and names both kinds.
"""

import io
import struct

from PIL import Image

from dlperf.loaders import DataError

PNG_START, JPEG_START = b"\x89PNG\r\n\x1a\n", b"\xff\xd8"
END, SCAN = 0xD9, 0xDA
# Markers that start a frame: all of 0xC0 to 0xCF but those of tables and arithmetic coding.
FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
ALONE = {0x01, *range(0xD0, 0xD8)}  # markers without a length
MOST_PIXELS = (
    2**27
)  # a hostile header could make a decoder ask for more memory than this takes, 400 MB
QUALITY = 95


class NoImage(DataError):
    """Why an image is left out."""


def checked(content: bytes) -> tuple[bytes, int, int, str]:
    """(content, width, height, how it was repaired or ''). Raises NoImage if it is left out."""
    if not content:
        raise NoImage("empty file")
    repaired = ""
    if content.startswith(PNG_START):
        content, repaired = encoded(content, "PNG"), "PNG encoded as JPEG"
    elif not content.startswith(JPEG_START):
        raise NoImage("no JPEG image")
    width, height, components = frame(content)
    if components == 4:
        content, repaired = encoded(content, "JPEG"), "CMYK encoded as RGB"
    if components not in (1, 3, 4):
        raise NoImage("JPEG of neither 1, 3 nor 4 components")
    return content, width, height, repaired


def frame(content: bytes) -> tuple[int, int, int]:
    """(width, height, components) of a JPEG that is whole from its first marker to its last.

    ITU-T T.81, annex B.
    """
    size = None
    place = 2
    while place + 4 <= len(content):
        if content[place] != 0xFF:
            raise NoImage("broken JPEG")
        marker = content[place + 1]
        if marker == 0xFF:  # padding
            place += 1
        elif marker in ALONE:
            place += 2
        elif marker == SCAN:
            # within a scan 0xFF is followed by 0, so this can only be the end
            if content.rfind(bytes([0xFF, END]), place) < 0:
                raise NoImage("truncated JPEG")
            if size is None or 0 in size:
                raise NoImage("broken JPEG")
            if size[0] * size[1] > MOST_PIXELS:
                raise NoImage(f"more than {MOST_PIXELS} pixels")
            return size
        else:
            length = struct.unpack_from(">H", content, place + 2)[0]
            if marker in FRAMES and place + 10 <= len(content):
                height, width, components = struct.unpack_from(">HHB", content, place + 5)
                size = width, height, components
            place += 2 + length
    raise NoImage("truncated JPEG")


def encoded(content: bytes, format: str) -> bytes:
    """The image as an RGB JPEG."""
    try:
        with Image.open(io.BytesIO(content), formats=[format]) as image:
            if image.width * image.height > MOST_PIXELS:
                raise NoImage(f"more than {MOST_PIXELS} pixels")
            stream = io.BytesIO()
            image.convert("RGB").save(stream, "JPEG", quality=QUALITY, subsampling="4:4:4")
    except NoImage:
        raise
    except (OSError, SyntaxError, ValueError) as error:  # what Pillow raises for broken files
        raise NoImage(f"broken {format}") from error
    return stream.getvalue()
