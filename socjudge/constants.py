"""Define the numbers, words and paths that the specification lets its users change."""

import os
from pathlib import Path

# The six criteria, in the order of every table and chart.
JUDGE_EVALUATION_CRITERIA = ["根拠性", "正確性", "網羅性", "安全性", "引用明示", "簡潔性"]

JUDGE_PASS_THRESHOLD = 70.0  # 合格ライン（平均70点以上）
JUDGE_PASS_RATE = 0.7  # MVP合格率（10問中7問以上）

# The models that "auto" means if a key or a base URL is configured. Judge and assistant have one each, so that a change
# of judge does not change what is judged. The vendor has announced that gpt-4o-mini shuts down on 2027-01-14
# (models/endings.py). docs/reference.md, "Recipes", shows what another judge changes. Then change these lines.
DEFAULT_JUDGE_MODEL = "gpt-4o-mini"
DEFAULT_ASSISTANT_MODEL = "gpt-4o-mini"
OTHER_MODELS = ("gpt-4o",)  # panels offer these too; any other name can be typed

# The prompts that are used if none is named: built in, or your own in eval/prompts/ by name.
DEFAULT_JUDGE_PROMPT = "guide-1"
DEFAULT_ASSISTANT_PROMPT = "assistant-3"

JPY_PER_USD = 150  # a round figure, only to show yen beside dollars

QUESTION_CATEGORIES = ["正常系", "危険操作系", "根拠不足系", "曖昧質問系"]

# Sections of a runbook that say why, when or where, but seldom what to do. They are found and quoted last.
BACKGROUND_SECTIONS = ("目的", "発動条件", "事後対応", "関連手順書", "チェックリスト")

# In a checkout (or an editable install), the example project is the checkout itself. A wheel has a copy (setup.py).
_CHECKOUT = Path(__file__).resolve().parents[1]
_IN_CHECKOUT = (_CHECKOUT / "eval" / "eval_dataset.json").is_file()
CARRIED_DIR = _CHECKOUT if _IN_CHECKOUT else Path(__file__).resolve().parent / "example"
EXAMPLES_DIR = CARRIED_DIR / "eval" / "examples"  # logs to look at until the project has its own

PROJECT_MARK = "socjudge.toml"  # `socjudge init` writes it; a folder with eval/eval_dataset.json is a project too

PROJECT_DIR: Path
EVAL_DIR: Path
EVAL_DATASET_PATH: Path
RUNBOOKS_DIR: Path
PROMPTS_DIR: Path
LABELS_DIR: Path
INDEX_DIR: Path
LOGS_DIR: Path
CERTIFICATES_DIR: Path  # certificates of judges


def find_project() -> Path:
    """Return the project's folder: SOCJUDGE_HOME, or the nearest folder from the working directory upwards with a
    socjudge.toml or an eval/eval_dataset.json, or the checkout of this code, or the working directory."""
    if home := os.environ.get("SOCJUDGE_HOME"):
        return Path(home).expanduser().absolute()
    try:
        here = Path.cwd()
    except FileNotFoundError:  # the working directory was deleted
        return _CHECKOUT if _IN_CHECKOUT else Path()
    for folder in (here, *here.parents):
        if (folder / PROJECT_MARK).is_file() or (folder / "eval" / "eval_dataset.json").is_file():
            return folder
    return _CHECKOUT if _IN_CHECKOUT else here


def use_project(folder: Path) -> None:
    """From now on, use the questions, runbooks, prompts, labels, index, logs, certificates and prices of this folder."""
    project, evaluation = folder.absolute(), folder.absolute() / "eval"
    globals().update(
        PROJECT_DIR=project,
        EVAL_DIR=evaluation,
        EVAL_DATASET_PATH=evaluation / "eval_dataset.json",
        RUNBOOKS_DIR=evaluation / "runbooks",
        PROMPTS_DIR=evaluation / "prompts",
        LABELS_DIR=evaluation / "human_labels",
        INDEX_DIR=project / ".socjudge" / "index",
        LOGS_DIR=project / "logs",
        CERTIFICATES_DIR=project / "certificates",
    )


use_project(find_project())
