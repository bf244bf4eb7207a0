"""Draw socjudge/base/symbols.woff: the few symbols that panels and reports use, so that they need no emoji font.

    python docs/make_symbols.py

Outlines on a square of 1,000 units; a shape drawn the other way round is a hole. Written again byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

Points = list[tuple[int, int]]
COLOURS = {"green": "2e7d32", "red": "c62828", "amber": "f0a000", "blue": "1f6fb2", "grey": "7a8594", "white": "ffffff"}


def box(left: int, low: int, right: int, high: int) -> Points:
    return [(left, low), (left, high), (right, high), (right, low)]


TICK = [(170, 390), (260, 480), (420, 320), (750, 660), (840, 570), (420, 140)]
LINES = [box(300, 160, 700, 220), box(300, 300, 700, 360), box(300, 440, 700, 500)]
SHEET = box(190, -60, 810, 780)
# By character: layers from the bottom to the top, each a colour and its shapes.
SYMBOLS: dict[str, list[tuple[str, list[Points]]]] = {
    "✅": [("green", [box(60, -60, 940, 820)]), ("white", [TICK])],
    "❌": [
        (
            "red",
            [
                [
                    (80, 60), (400, 380), (80, 700), (200, 820), (520, 500), (840, 820), (960, 700), (640, 380),
                    (960, 60), (840, -60), (520, 260), (200, -60),
                ]
            ],
        )
    ],
    "⚠": [
        ("amber", [[(20, -60), (500, 820), (980, -60)]]),
        ("white", [[(455, 220), (440, 540), (560, 540), (545, 220)], box(445, 60, 555, 160)]),
    ],
    "⏳": [
        ("grey", [box(180, 760, 820, 840), box(180, -80, 820, 0)]),
        ("amber", [[(260, 740), (740, 740), (540, 380), (740, 20), (260, 20), (460, 380)]]),
    ],
    "📋": [
        ("grey", [SHEET]),
        ("white", [box(250, 0, 750, 700)]),
        ("grey", [box(380, 680, 620, 840), *LINES]),
    ],
    "📄": [("grey", [SHEET]), ("white", [box(250, 0, 750, 720), ]), ("grey", [*LINES, box(300, 580, 560, 640)])],
    "📝": [
        ("grey", [SHEET]),
        ("white", [box(250, 0, 750, 720)]),
        ("grey", LINES),
        ("amber", [[(500, 100), (530, 230), (870, 570), (970, 470), (630, 130)]]),
    ],
    "📈": [
        ("grey", [box(80, -60, 920, 780)]),
        ("white", [box(140, 0, 860, 720)]),
        ("red", [[(180, 160), (400, 440), (540, 320), (800, 640), (850, 590), (550, 210), (410, 330), (240, 110)]]),
    ],
    "📜": [
        ("grey", [SHEET]),
        ("white", [box(250, 0, 750, 720)]),
        ("grey", LINES[1:]),
        ("red", [[(560, 60), (560, 180), (630, 250), (730, 250), (800, 180), (800, 60), (730, -20), (630, -20)]]),
    ],
    "🧪": [
        ("grey", [box(330, 760, 670, 840), [(380, 40), (380, 760), (620, 760), (620, 40), (560, -40), (440, -40)]]),
        ("white", [box(430, 420, 570, 740)]),
        ("green", [[(430, 60), (430, 420), (570, 420), (570, 60), (540, 20), (460, 20)]]),
    ],
    "🔍": [
        (
            "blue",
            [
                [
                    (260, 260), (120, 400), (120, 640), (260, 780), (500, 780), (640, 640), (640, 430), (900, 170),
                    (790, 60), (530, 320), (500, 260),
                ]
            ],
        ),
        ("white", [[(300, 360), (220, 440), (220, 600), (300, 680), (460, 680), (540, 600), (540, 440), (460, 360)]]),
    ],
    "🔁": [
        (
            "blue",
            [
                [(120, 420), (120, 660), (680, 660), (680, 800), (920, 590), (680, 380), (680, 540), (240, 540), (240, 420)],
                [(880, 340), (880, 100), (320, 100), (320, -40), (80, 170), (320, 380), (320, 220), (760, 220), (760, 340)],
            ],
        )
    ],
    "💬": [
        (
            "blue",
            [[(80, 160), (80, 780), (920, 780), (920, 160), (480, 160), (260, -60), (260, 160)]],
        ),
        ("white", [box(240, 440, 340, 540), box(450, 440, 550, 540), box(660, 440, 760, 540)]),
    ],
}  # fmt: skip


def glyph(shapes: list[Points]) -> Any:
    pen = TTGlyphPen(None)
    for shape in shapes:
        pen.moveTo(shape[0])
        for point in shape[1:]:
            pen.lineTo(point)
        pen.closePath()
    return pen.glyph()


def main() -> None:
    palette = list(COLOURS)
    glyphs = {".notdef": glyph([])}
    layers: dict[str, list[tuple[str, int]]] = {}
    for number, (_, drawn) in enumerate(SYMBOLS.items()):
        # Where colour fonts are not known: the layers' shapes without the white ones, as one.
        glyphs[f"s{number}"] = glyph([shape for colour, shapes in drawn if colour != "white" for shape in shapes])
        layers[f"s{number}"] = []
        for depth, (colour, shapes) in enumerate(drawn):
            glyphs[name := f"s{number}.{depth}"] = glyph(shapes)
            layers[f"s{number}"].append((name, palette.index(colour)))
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder(list(glyphs))
    font.setupCharacterMap({ord(symbol): f"s{number}" for number, symbol in enumerate(SYMBOLS)})
    font.setupGlyf(glyphs)
    # The bearing has to be the shape's own left edge, or each layer is moved to the left until it begins at 0.
    font.setupHorizontalMetrics({name: (1040, getattr(shape, "xMin", 0)) for name, shape in glyphs.items()})
    font.setupHorizontalHeader(ascent=880, descent=-120)
    font.setupNameTable({"familyName": "socjudge symbols", "styleName": "Regular"})
    font.setupOS2(sTypoAscender=880, sTypoDescender=-120, usWinAscent=880, usWinDescent=120)
    font.setupPost(keepGlyphNames=False)
    font.setupCOLR(layers)
    font.setupCPAL([[(*(int(rgb[at : at + 2], 16) / 255 for at in (0, 2, 4)), 1.0) for rgb in COLOURS.values()]])
    font.font["head"].created = font.font["head"].modified = 0
    font.font.recalcTimestamp = False
    font.font.flavor = "woff"
    path = Path(__file__).parents[1] / "socjudge" / "base" / "symbols.woff"
    font.font.save(path)
    print(f"{path.name}: {len(SYMBOLS)} symbols, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
