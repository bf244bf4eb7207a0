"""Unpack the archives of Office (.docx, .xlsx) that somebody else wrote, within limits."""

from __future__ import annotations

import io
import zipfile
from xml.parsers import expat

from .messages import say

MAX_UNPACKED = 512 * 2**20  # bytes of all parts together, as for a packed log
MAX_XML = 100 * 2**20  # bytes of the parts that are XML, which take many times their size when they are read
_PIECE = 2**20


def unpack_office(raw: bytes) -> dict[str, bytes]:
    """Return {name: content} of the XML parts of a .docx or .xlsx file; what passes, other readers may unpack too.
    Raises BadZipFile, or ValueError if it unpacks to more than such a file has, or if a part declares entities."""
    parts: dict[str, bytes] = {}
    n_total = n_xml = 0
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        for member in archive.infolist():
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(
                    say("the part {part} is packed in a way that Office does not use", part=member.filename)
                )
            content = bytearray()
            with archive.open(member) as packed:
                while piece := packed.read(_PIECE):  # the size that a part states may be wrong
                    content += piece
                    _check_size(n_total + len(content), MAX_UNPACKED)
            n_total += len(content)
            if _is_xml(bytes(content), member.filename):
                n_xml += len(content)
                _check_size(n_xml, MAX_XML)
                parts[member.filename] = bytes(content)
    return parts


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise ValueError(
            say(
                "it unpacks to more than {most} MB; split it into several files, or take out what is not needed",
                most=most // 2**20,
            )
        )


class _RootFound(Exception):
    pass


def _is_xml(content: bytes, part: str) -> bool:
    """A document type may only stand above the first element, so nothing is read beyond that."""

    def refuse(*_: object) -> None:
        raise ValueError(say("the part {part} declares a document type, which Office never writes", part=part))

    def stop(*_: object) -> None:
        raise _RootFound

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = stop
    try:
        parser.Parse(content, True)
    except _RootFound:
        return True
    except (expat.ExpatError, LookupError):  # a picture, for example, or an encoding that does not exist
        pass
    return False
