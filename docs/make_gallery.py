"""Run the notebooks offline in a project of their own and keep what they show in build/gallery (`make gallery`).

A page per notebook, which a browser opens without Python or network, and an index with the first chart of each. The cells whose
output nbval compares get it stored in the notebook itself."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from PIL import Image
from pygments.formatters import HtmlFormatter

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from support.notebook_rules import PASSING  # noqa: E402

GALLERY = ROOT / "build" / "gallery"
NOTEBOOKS = sorted(
    (ROOT / "notebooks").glob("[0-9]*.ipynb")
)  # app.ipynb is one panel, and shows nothing without a kernel
INDEX = """# ノートブックの出力

実行しなくても中身が分かるように、`make gallery` が各ノートブックをキーなしで実行した結果です。ページ（HTML）はダウンロードして
ブラウザーで開いてください。ネットワークからは何も読み込みません。ボタンのパネルは、実行中のノートブックでだけ動くため、ここには
ありません（画面の例は [README](../../README.ja.md) に）。点は内蔵の簡易Judgeによるもので、**LLMの採点ではありません**（03を除く）。
"""


STYLE = """body { font: 16px/1.6 sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222 }
.prompt, .anchor-link { display: none }
.input_area { background: #f6f6f4; padding: .1em 1em; overflow-x: auto }
.output_subarea { overflow-x: auto }
.output_text { border-left: 3px solid #ccc; padding-left: 1em } .output_text pre { white-space: pre-wrap }
table { border-collapse: collapse; margin: 1em 0 } th, td { padding: .2em .6em; border: 0; border-bottom: 1px solid #ddd; text-align: right }
.dataframe { width: max-content; border: 0; font-size: 12px } .dataframe td { max-width: 26em }
.text_cell :is(th, td) { text-align: left }
img { max-width: 100% }"""


def page_of(notebook: Any, title: str) -> str:
    """The notebook as one HTML page with a small style of its own (Jupyter's is 280 kB), which fetches nothing."""
    exporter = HTMLExporter(template_name="basic")
    exporter.config.NbConvertBase.display_data_priority = ["text/html", "image/png", "text/markdown", "text/plain"]
    body, _resources = exporter.from_notebook_node(notebook)
    style = f"{STYLE}\n{HtmlFormatter(style='default').get_style_defs('.highlight')}"
    head = f"<meta charset='utf-8'><meta name='viewport' content='width=device-width'><title>{escape(title)}</title>"
    return f"<!DOCTYPE html>\n<html lang='ja'><head>{head}\n<style>{style}</style></head>\n<body>{body}</body></html>\n"


def execute(path: Path) -> Any:
    """The notebook with its outputs, run in a new project, so that logs/ is empty and nobody's own is read."""
    with tempfile.TemporaryDirectory() as place:
        project = Path(place) / "project"
        subprocess.run([sys.executable, "-m", "socjudge", "init", str(project)], check=True, capture_output=True)
        notebook = nbformat.read(path, as_version=4)
        folder = {"metadata": {"path": str(project / "notebooks")}}
        NotebookClient(notebook, timeout=600, resources=folder, store_widget_state=False).execute()
        shutil.rmtree(project / ".socjudge", ignore_errors=True)
        text = nbformat.writes(notebook)
    for machine in (f"{project}/", f"{ROOT}/"):
        text = text.replace(machine, "")
    text = re.sub(rf"{tempfile.gettempdir()}/tmp\w+/", "", text)  # where 05 and 06 write when they show the example
    return nbformat.reads(text, as_version=4)


def store_checked(path: Path, executed: Any) -> None:
    """Put what the cells tagged for nbval showed into the notebook, and nothing that differs from run to run."""
    notebook = nbformat.read(path, as_version=4)
    for cell, ran in zip(notebook.cells, executed.cells, strict=True):
        if "nbval-check-output" in cell.metadata.get("tags", []):
            shown = re.sub(r"\bT_[0-9a-f]{5}(?=[_ \\\\])", f"T_{cell.id}", json.dumps(ran.outputs))
            for pattern, instead in PASSING.items():
                shown = re.sub(pattern, instead, shown)
            cell.execution_count, cell.outputs = ran.execution_count, nbformat.from_dict(json.loads(shown))
    path.write_text(nbformat.writes(notebook, ensure_ascii=False) + "\n", encoding="utf-8")


def without_panels(notebook: Any) -> Any:
    """A panel is a placeholder in a page without a kernel: its output goes, and so do progress bars."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [
                output
                for output in cell.outputs
                if "application/vnd.jupyter.widget-view+json" not in output.get("data", {})
                and output.get("name") != "stderr"
            ]
            for output in cell.outputs:
                if chart := output.get("data", {}).get("image/png"):
                    output["data"]["image/png"] = base64.b64encode(smaller(base64.b64decode(chart))).decode()
    return notebook


def smaller(chart: bytes) -> bytes:
    """The same picture in 64 colours, a quarter of the size."""
    picture = io.BytesIO()
    image = Image.open(io.BytesIO(chart)).convert("RGB")
    image.quantize(64, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(picture, "PNG", optimize=True)
    return picture.getvalue()


def first_chart(notebook: Any) -> bytes | None:
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                return base64.b64decode(output["data"]["image/png"])
    return None


def main() -> None:
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        del os.environ[name]
    os.environ |= {"SOCJUDGE_LANG": "ja", "PYTHONPATH": str(ROOT)}
    shutil.rmtree(GALLERY, ignore_errors=True)
    GALLERY.mkdir(parents=True)
    index = INDEX
    for path in NOTEBOOKS:
        executed = execute(path)
        store_checked(path, executed)
        notebook = without_panels(executed)
        title = notebook.cells[0].source.splitlines()[0].lstrip("# ")
        page = page_of(notebook, title)
        (GALLERY / f"{path.stem}.html").write_text(page, encoding="utf-8")
        index += f"\n## {title}\n\n[{path.stem}.html]({path.stem}.html)、[ノートブック](../../notebooks/{path.name})\n"
        if chart := first_chart(notebook):
            (GALLERY / f"{path.stem}.png").write_bytes(chart)
            index += f"\n![{title}]({path.stem}.png)\n"
        print(f"{path.stem}: {len(page) // 1000} kB", flush=True)
    (GALLERY / "README.md").write_text(index, encoding="utf-8")


if __name__ == "__main__":
    main()
