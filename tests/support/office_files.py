"""Word files, part by part, as Word and other programs write them."""

from __future__ import annotations

import io
import zipfile

OFFICE = "http://schemas.openxmlformats.org"
NAMES = " ".join(
    f'xmlns:{short}="{name}"'
    for short, name in {
        "w": f"{OFFICE}/wordprocessingml/2006/main",
        "r": f"{OFFICE}/officeDocument/2006/relationships",
        "wp": f"{OFFICE}/drawingml/2006/wordprocessingDrawing",
        "a": f"{OFFICE}/drawingml/2006/main",
        "pic": f"{OFFICE}/drawingml/2006/picture",
        "mc": f"{OFFICE}/markup-compatibility/2006",
        "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
        "v": "urn:schemas-microsoft-com:vml",
    }.items()
)


def run(text: str, look: str = "") -> str:
    return f'<w:r><w:rPr>{look}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def paragraph(text: str, style: str = "", look: str = "") -> str:
    """`text` is a text, or runs."""
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}{text if text.startswith('<') else run(text, look)}</w:p>"


def docx(body: str, **parts: str) -> bytes:
    """A Word file with a body, and parts such as styles="<w:style…>", header1=…; each has the relation of its name."""
    roots = {"numbering": "numbering", "styles": "styles", "footnotes": "footnotes", "comments": "comments"}
    relation = f"{OFFICE}/officeDocument/2006/relationships"
    package = f"{OFFICE}/package/2006/relationships"
    related, files = "", {}
    for number, (name, content) in enumerate(parts.items()):
        kind = name.rstrip("0123456789")
        root = roots.get(kind, "hdr")
        related += f'<Relationship Id="{name}" Type="{relation}/{kind}" Target="{name}.xml"/>'
        files[f"word/{name}.xml"] = f"<w:{root} {NAMES}>{content}</w:{root}>"
        assert number < 9
    related += (
        f'<Relationship Id="link" Type="{relation}/hyperlink" Target="https://a.example/f" TargetMode="External"/>'
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}"><Relationship Id="r1" Type="{relation}/officeDocument" '
            'Target="/word/document.xml"/></Relationships>',
        )
        archive.writestr("word/_rels/document.xml.rels", f'<Relationships xmlns="{package}">{related}</Relationships>')
        archive.writestr("word/document.xml", f"<w:document {NAMES}><w:body>{body}</w:body></w:document>")
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()
