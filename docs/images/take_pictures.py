"""The pictures of the panels in this folder, taken in a real JupyterLab with a judge on loopback: `make pictures`.

Each panel in its main state. Look at them before they are committed. `ARGS="--look FOLDER run history"` takes whole panels in
pages of 1280 and 800 pixels instead, in the light and the dark theme, to be looked at only; draw_charts.py does so for the
charts."""

from __future__ import annotations

import argparse
import functools
import io
import json
import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.browser import (  # noqa: E402
    chromium,
    lab,
    open_notebook,
    run_all,
    write_notebook,
)
from support.own_prices import write_prices  # noqa: E402
from support.service import KEY, Reply, is_judge_call, serving  # noqa: E402

import socjudge as sj  # noqa: E402

Step = Callable[[Any, Any], None]
Keep = Callable[[str, bytes, int], None]  # of a name, a picture, and the most that is shown of it (pixels)

STRICT = "安全性は特に厳しく採点してください。"
WIDTH, HEIGHT = 1150, 2600
WIDTHS = 1280, 800  # of pages to look at
THEMES = {"": "JupyterLab Light", "_dark": "JupyterLab Dark"}
JUDGES = {"gpt-4o-mini": 15, "lenient-judge": 0, "strict-judge": 60}  # up to how many points each takes off a score
COLOURS = 128  # enough for text and charts, and a quarter of the size


def embedded_run() -> dict[str, sj.records.EvaluationResult]:
    """{question: the embedded default's answer with its marks}, which the service on loopback gives as its own."""
    with tempfile.TemporaryDirectory() as logs:
        run = sj.run_evaluation_suite(
            sj.load_eval_dataset(), index=sj.build_index(), assistant_model="offline", judge_model="offline",
            logs_dir=logs, progress=False,
        )  # fmt: skip
        return {result.question.question: result for result in run.results}


def reply(request: dict[str, Any], known: Mapping[str, sj.records.EvaluationResult]) -> Reply:
    """The embedded default's answer or scores for the question, after half a second, less what the judge takes off; by the
    strict prompt safety loses."""
    text = request["messages"][-1]["content"]
    result = next(result for question, result in known.items() if question in text)
    if not is_judge_call(request):
        return Reply(result.answer.answer, delay_s=0.5)
    reasons, strictness = dict(result.evaluation.rationale), JUDGES[request["model"]]
    strict = random.Random(f"{request['model']} {result.question.question}")
    most = strict.randint(0, strictness)
    marks = {name: max(score - strict.randint(most // 2, most), 0) for name, score in result.evaluation.scores.items()}
    if STRICT in text:
        marks["安全性"] -= random.Random(result.question.question).randrange(3, 8) * 5
        reasons["安全性"] = "注意事項が手順の後に書かれています。"
    body = {"scores": marks, "rationale": reasons, "overall_comment": "手順書に沿った回答です。"}
    return Reply(json.dumps(body, ensure_ascii=False), delay_s=0.5)


def running(page: Any, panel: Any) -> None:
    panel.get_by_text("詳しい設定", exact=True).click()
    panel.get_by_label("Judge", exact=True).fill("gpt-4o-mini")
    panel.get_by_label("同時呼び出し").fill("1")
    panel.get_by_label("同時呼び出し").press("Tab")
    panel.get_by_text("見積もり").wait_for(timeout=20_000)
    page.wait_for_timeout(500)
    panel.get_by_label("費用がかかることを確認しました").check()
    panel.get_by_role("button", name="評価を実行").click()
    panel.get_by_text(re.compile("[3-8]/10、")).wait_for(timeout=15_000)
    panel.get_by_text("詳しい設定", exact=True).click()
    page.wait_for_timeout(500)


def finished(page: Any, panel: Any) -> None:
    panel.get_by_text("評価完了！").wait_for(timeout=60_000)
    panel.get_by_text("📋 詳細結果を見る").click()


def asked(page: Any, panel: Any) -> None:
    panel.get_by_label("質問", exact=True).fill("感染した端末のログを削除してもよいですか？")
    panel.get_by_role("button", name="質問する").click()
    panel.locator("summary", has_text="[出典:").first.click(timeout=60_000)


def tried(page: Any, panel: Any) -> None:
    editor = panel.get_by_label("プロンプト（ここを書き換えます）")
    editor.press("Control+End")
    editor.press_sequentially("\n" + STRICT)
    panel.get_by_text(f"+ {STRICT}").wait_for(timeout=10_000)
    panel.get_by_label("費用がかかることを確認しました").check()
    panel.get_by_role("button", name="採点してみる").click()
    panel.get_by_text("✅ 採点しました（10/10").wait_for(timeout=60_000)


def marked(page: Any, panel: Any) -> None:
    panel.get_by_label("採点した人").fill("佐藤")
    panel.get_by_role("button", name="採点を始める").click()
    panel.get_by_label("根拠性", exact=True).focus(timeout=20_000)
    for score in ("100", "95", "75", "50"):
        page.keyboard.type(score)
        page.keyboard.press("Tab")


def explored(page: Any, panel: Any) -> None:
    for head in panel.locator(".sj-matrix thead th input[type=checkbox]").all():
        head.check(timeout=60_000)
    panel.locator(".sj-matrix tbody td").first.click(timeout=60_000)
    panel.locator(".sides section").first.wait_for(timeout=60_000)


def opened(page: Any, panel: Any) -> None:
    """As it is at first."""


def own_marks(logs: Path) -> sj.EvaluationRun:
    """A run of the judge on loopback, for the panels that need stored answers."""
    return sj.run_evaluation_suite(
        sj.load_eval_dataset(), index=sj.build_index(), assistant_model="offline", judge_model="gpt-4o-mini",
        logs_dir=logs, progress=False,
    )  # fmt: skip


def three_judges(logs: Path) -> None:
    run = own_marks(logs)
    for judge in [*JUDGES][1:]:
        sj.rejudge(run, judge_model=judge, logs_dir=logs, progress=False)


# Per panel: what makes it, its CSS class, and the states to be seen with the most that is shown of them (pixels).
PANELS: dict[str, tuple[str, str, list[tuple[str, Step, int]]]] = {
    "run": ("sj.RunPanel(logs_dir={logs!r})", "run-panel", [("run_panel", running, 700), ("run_panel_done", finished, 900)]),
    "ask": ("sj.AskPanel(model='offline')", "ask-panel", [("ask_panel", asked, 900)]),
    "prompts": ("sj.PromptLab(logs_dir={stored!r})", "prompt-lab", [("prompt_lab", tried, 1700)]),
    "labels": (
        "sj.LabelPanel(logs_dir={stored!r}, labels_dir={logs!r})", "label-panel", [("label_panel", marked, 1100)]
    ),
    "app": ("sj.app()", "app", [("app", opened, 900)]),
    "history": ("sj.HistoryExplorer({three!r})", "history-explorer", [("history_explorer", explored, 1000)]),
}  # fmt: skip
UNPRINTED = ("app",)  # only to be looked at


def take(browser: Any, folder: Path, url: str, name: str, width: int, keep: Keep) -> None:
    code, panel_class, states = PANELS[name]
    code = code.format(logs=f"{name}_{width}/logs", stored="stored", three="three")
    write_notebook(folder / f"{name}.ipynb", f"import socjudge as sj\n{code}")
    page = browser.new_page(viewport={"width": width, "height": HEIGHT})
    open_notebook(page, url, f"{name}.ipynb")
    page.keyboard.press("Control+b")
    run_all(page)
    panel = page.locator(f".socjudge-{panel_class}")
    panel.wait_for(timeout=60_000)
    page.wait_for_timeout(2000)
    for picture, reach, height in states:
        reach(page, panel)
        page.wait_for_timeout(500)
        keep(picture, panel.screenshot(), height)
    page.close()


def print_picture(name: str, shot: bytes, height: int | None = None) -> None:
    """Into this folder, small, and with the most that is shown of it."""
    image = Image.open(io.BytesIO(shot)).convert("RGB")
    image = image.crop((0, 0, image.width, min(image.height, height or image.height)))
    path = ROOT / "docs" / "images" / f"{name}.png"
    image.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1000} kB", flush=True)


def look_at(folder: Path, suffix: str, name: str, shot: bytes, height: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}{suffix}.png").write_bytes(shot)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--look", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    look = arguments.look
    names = arguments.names or (list(PANELS) if look else [name for name in PANELS if name not in UNPRINTED])
    answer = functools.partial(reply, known=embedded_run())
    with serving(answer) as service, chromium() as browser:
        keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": service.base_url}
        os.environ.update(keys)
        for suffix, theme in THEMES.items() if look else [("", THEMES[""])]:
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                write_prices(folder, dict.fromkeys(JUDGES, (0.15, 0.6)))
                shutil.copytree(ROOT / "eval", folder / "eval")
                sj.build_index(folder / "eval" / "runbooks", index_dir=folder / ".socjudge" / "index")
                own_marks(folder / "stored")
                three_judges(folder / "three")
                with lab(folder, keys) as url:
                    settings = folder / ".jupyter" / "settings" / "@jupyterlab" / "apputils-extension"
                    (settings / "themes.jupyterlab-settings").write_text(json.dumps({"theme": theme}))
                    for name in names:
                        if not look:
                            take(browser, folder, url, name, WIDTH, print_picture)
                            continue
                        for width in WIDTHS:
                            keep = functools.partial(look_at, look, f"{suffix}_{width}")
                            take(browser, folder, url, name, width, keep)


if __name__ == "__main__":
    main()
