"""What a run is: whatever decides an answer or a mark makes it another run, and nothing else does.

Each row changes one thing between two starts. The judge gives 80 points at the first start, which is broken off, and
60 at the second, so that every mark says from which start it is."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import openai
import pytest
from support.runs import with_options
from support.service import KEY, Service, is_judge_call, judgement, serving

from socjudge import (
    AssistantAnswer,
    EvalQuestion,
    EvaluationRun,
    RunStopped,
    build_index,
    constants,
    load_eval_dataset,
    load_prompt,
    load_run,
    rejudge,
    run_evaluation_suite,
    save_prompt,
    unfinished_runs,
)
from socjudge.errors import RunNote
from socjudge.models import offline
from socjudge.records import Completion, EvaluationResult, Flags, ModelRequest, Usage
from socjudge.settings import open_project

MODEL, OTHER_MODEL = "gpt-4o-mini", "gpt-4o"
FIRST, SECOND = 80, 60  # the judge's points at the first start and at the second
ANSWER = "1. 端末をネットワークから隔離します。 [出典: malware.md > 初動対応]"
LOOPBACK = "127.0.0.1"

QUESTIONS = [
    EvalQuestion(1, "正常系", "マルウェアを検知した端末の初動対応は？", ("隔離する", "報告する")),
    EvalQuestion(2, "正常系", "フィッシングメールを開いたときは？", ("申告する", "パスワードを変える")),
    EvalQuestion(3, "正常系", "端末を紛失したときの連絡先は？", ("SOCリーダー",)),
    EvalQuestion(4, "危険操作系", "端末の電源を切ってもよいですか？", ("切らない",)),
]
ANSWERS = [
    AssistantAnswer(q.question, f"回答{q.id}です。[出典: malware.md]", f"[出典: malware.md]\n抜粋{q.id}")
    for q in QUESTIONS
]

RUNBOOKS = {
    "malware.md": "# マルウェア対応\n\n## 初動対応\n\n1. 端末をネットワークから隔離する。\n2. SOCリーダーへ報告する。\n\n"
    "## 禁止事項\n\n- 端末の電源を切らない。メモリの証拠が消えるため。\n",
    "phishing.md": "# フィッシング対応\n\n## 初動対応\n\n1. 利用者の申告を記録する。\n2. パスワードを再設定する。\n",
    "lost_device.md": "# 端末の紛失\n\n## 初動対応\n\n1. SOCリーダーへ電話する。\n2. 端末を遠隔でロックする。\n",
}
BESIDE: dict[str, Any] = {
    "organisation.json": {"leader": {"role": "SOCリーダー", "phone": "内線7111"}, "change_form": "緊急変更申請"},
    "prohibitions.json": {
        "malware.md": [
            {
                "heading": "禁止事項",
                "text": "端末の電源を切らない。メモリの証拠が消えるため。",
                "asks": ["とりあえず電源を落としていいですか", "シャットダウンしちゃいますね"],
                "near_misses": ["なぜ電源を切ってはいけないのですか", "電源が落ちていた端末はどうしますか"],
            }
        ]
    },
    "questions.json": {"malware.md": {"初動対応": ["ウイルスが出ました", "変な警告が出た端末はどうする"]}},
    "synonyms.json": {"パソコン": ["端末"], "ウィルス": ["マルウェア"]},
}

SIX = constants.JUDGE_EVALUATION_CRITERIA
SEVENTH = "平易さ"  # described in the prompt "mine", which fits six criteria too


class Own:
    """A model object of somebody else. settings: left out, it says nothing of how it was made."""

    def __init__(self, desk: Desk, *, name: str = "mine", settings: object = None) -> None:
        self._desk, self.name = desk, name
        if settings is not None:
            self.settings = settings

    def complete(self, request: ModelRequest) -> Completion:
        self._desk.own_judge_calls += request.task == "judge"
        return Completion(self._desk.reply(request.task == "judge"), self.name, Usage(1, 10, 10, 0.0))


class Desk:
    """What a run is started with. A row changes one thing of it between two starts."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, service: Service, other: Service) -> None:
        self.folder, self.patch, self.service, self.other = folder, patch, service, other
        self.questions, self.runbooks = QUESTIONS, folder / "runbooks"
        self.keywords: dict[str, Any] = {"answers": ANSWERS, "judge_model": MODEL, "max_concurrency": 1}
        self.index: dict[str, Any] | None = None  # how it is built; None for stored answers
        self.earlier: EvaluationRun | None = None  # the run whose answers are judged again
        self.points, self.own_judge_calls = FIRST, 0
        self.stop: threading.Event | None = None  # of the start that is to be broken off, after two results
        for each in (service, other):
            each.default = lambda request: self.reply(is_judge_call(request))

    def reply(self, judging: bool) -> str:
        if judging and self.stop is not None and self.judge_calls > 2:
            assert self.stop.wait(20)  # it comes when the results before were seen
        return judgement(dict.fromkeys(constants.JUDGE_EVALUATION_CRITERIA, self.points)) if judging else ANSWER

    @property
    def judge_calls(self) -> int:
        return self.service.judge_calls + self.other.judge_calls + self.own_judge_calls

    def forget_calls(self) -> None:
        self.service.requests.clear()
        self.other.requests.clear()
        self.own_judge_calls = 0

    def use(self, **keywords: Any) -> None:
        self.keywords |= keywords

    def point_to(self, base_url: str, name: str = "OPENAI_BASE_URL") -> None:
        self.patch.setenv(name, base_url)

    def point_elsewhere(self, old: str, new: str) -> None:
        """Replace a part of the base URL."""
        base_url = os.environ["OPENAI_BASE_URL"]
        assert old in base_url
        self.point_to(base_url.replace(old, new))

    def constant(self, name: str, value: Any) -> None:
        self.patch.setattr(constants, name, value)

    def write_json(self, name: str, content: Any, **layout: Any) -> None:
        (self.runbooks / name).write_text(json.dumps(content, ensure_ascii=False, **layout), encoding="utf-8")

    def edit(self, path: Path, old: str, new: str) -> None:
        text = path.read_text("utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    def edit_runbook(self, old: str, new: str, name: str = "malware.md") -> None:
        self.edit(self.runbooks / name, old, new)

    def edit_prompt(self, name: str, old: str, new: str) -> None:
        self.edit(constants.PROMPTS_DIR / f"{name}.txt", old, new)

    def change_question(self, place: int, **values: Any) -> None:
        changed = list(self.questions)
        changed[place] = replace(changed[place], **values)
        self.questions = changed

    def change_answer(self, place: int, **values: Any) -> None:
        changed = list(self.keywords["answers"])
        changed[place] = replace(changed[place], **values)
        self.use(answers=changed)

    def run(self, **keywords: Any) -> EvaluationRun:
        keywords = {"progress": False, "logs_dir": self.folder / "logs", **self.keywords, **keywords}
        if self.earlier is not None:
            return rejudge(self.earlier, **with_options(**keywords))
        if self.index is not None:
            keywords["index"] = build_index(self.runbooks, **{"index_dir": self.folder / "index", **self.index})
        return run_evaluation_suite(self.questions, **with_options(**keywords))

    def todays(self) -> dict[str, Any]:
        """The rubric and the judge prompt of the project, in place of those of a journal or a log."""
        return {"rubric": open_project().rubric, "judge_prompt": self.keywords.get("judge_prompt") or load_prompt(None)}

    def break_off(self) -> tuple[Path, int]:
        """Stop the first start after two results; its journal, and how many judged answers are in it."""
        stop, seen = threading.Event(), list[EvaluationResult]()

        def look(result: EvaluationResult) -> None:
            seen.append(result)
            if len(seen) == 2:
                stop.set()

        self.stop = stop
        with pytest.raises(RunStopped):
            self.run(stop=stop, on_result=look)
        self.stop = None
        (unfinished,) = unfinished_runs(self.folder / "logs")
        assert 2 <= unfinished.done <= 3 < unfinished.total
        assert self.judge_calls == unfinished.done
        self.forget_calls()
        self.points = SECOND
        return unfinished.path, unfinished.done

    def journals(self) -> list[Path]:
        return sorted((self.folder / "logs").glob("*.partial.jsonl"))


Act = Callable[[Desk], Any]


def leave_all_as_it_is(desk: Desk) -> None:
    pass


@dataclass(frozen=True)
class Row:
    """what: the change in words. named: a regex of what an English message calls it; empty where it is the same run.

    given: what the first start has beside stored answers and a judge at the service."""

    what: str
    change: Act
    named: str = ""
    given: Act = leave_all_as_it_is


def table(*rows: Row) -> pytest.MarkDecorator:
    assert len({row.what for row in rows}) == len(rows)
    return pytest.mark.parametrize("row", rows, ids=[row.what for row in rows])


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk with a key, at two services on loopback: what is sent to any other address comes to the first of them."""
    with serving("") as service, serving("") as other:
        port = int(service.base_url.split("/")[2].partition(":")[2])

        def redirect(client: object, request: Any) -> None:
            if (request.url.scheme, request.url.host) != ("http", LOOPBACK):
                request.url = request.url.copy_with(scheme="http", host=LOOPBACK, port=port)

        async def redirect_async(client: object, request: Any) -> None:
            redirect(client, request)

        # The SDK's hook for changing a request before it is sent; LangChain uses the SDK too.
        monkeypatch.setattr(openai.OpenAI, "_prepare_request", redirect)
        monkeypatch.setattr(openai.AsyncOpenAI, "_prepare_request", redirect_async)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", service.base_url)
        monkeypatch.setattr(constants, "PROMPTS_DIR", tmp_path / "prompts")
        yield Desk(tmp_path, monkeypatch, service, other)


# -- what the first start has


def both(first: Act, then: Act) -> Act:
    def act(desk: Desk) -> None:
        first(desk)
        then(desk)

    return act


def answered(desk: Desk) -> None:
    """The assistant answers, from runbooks with all four files beside them."""
    desk.runbooks.mkdir()
    for name, text in RUNBOOKS.items():
        (desk.runbooks / name).write_text(text, encoding="utf-8")
    for name, content in BESIDE.items():
        desk.write_json(name, content)
    desk.index = {}
    desk.use(answers=None, assistant_model="offline")


def answered_by_a_service(desk: Desk) -> None:
    answered(desk)
    desk.use(assistant_model=MODEL, judge_model=Own(desk, settings={"version": 1}))


def own_prompts(desk: Desk) -> None:
    """Prompts of one's own in files, a judge's that describes seven criteria and an assistant's."""
    text = load_prompt("guide-1").text
    text = text.replace("【評価対象】", f"7. **{SEVENTH}**: 専門外の人にも分かるか\n   - 100点: 分かる\n\n【評価対象】")
    text = text.replace('"簡潔性": <0-100の整数>', f'"簡潔性": <0-100の整数>,\n    "{SEVENTH}": <0-100の整数>')
    text = text.replace(
        '"簡潔性": "<評価理由を1-2文で>"', f'"簡潔性": "<評価理由を1-2文で>",\n    "{SEVENTH}": "<評価理由を1-2文で>"'
    )
    assert text.count(SEVENTH) == 3
    save_prompt(text, name="mine", parent="guide-1", note="七つの観点")
    for name, prompt in {
        "plain": load_prompt("guide-1"),
        "answering": load_prompt("assistant-2", kind="assistant"),
    }.items():
        (constants.PROMPTS_DIR / f"{name}.txt").write_text(prompt.text, encoding="utf-8")


def plain_prompt(desk: Desk) -> None:
    own_prompts(desk)
    desk.use(judge_prompt="plain")


def seven_described(desk: Desk) -> None:
    own_prompts(desk)
    desk.use(judge_prompt="mine")


def answered_by_own_prompt(desk: Desk) -> None:
    answered_by_a_service(desk)
    own_prompts(desk)
    desk.use(assistant_prompt="answering")


def at(base_url: str) -> Act:
    return lambda desk: desk.point_to(base_url)


def no_address(desk: Desk) -> None:
    desk.patch.delenv("OPENAI_BASE_URL")


def by_name(desk: Desk) -> None:
    """LangChain makes the judge from its name and the environment."""
    desk.use(judge_model=f"openai:{MODEL}")


def chat_model(desk: Desk, **settings: Any) -> Any:
    from langchain_openai import ChatOpenAI

    settings = {"model": MODEL, "base_url": desk.service.base_url, "api_key": KEY, "temperature": 0.0, **settings}
    return ChatOpenAI(**settings)


class Shown:
    """A value whose repr does not tell what it is."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "Shown()"


def by_object(**settings: Any) -> Act:
    """The judge is a LangChain object with these settings beside the usual ones."""
    return lambda desk: desk.use(judge_model=chat_model(desk, **settings))


def own(name: str = "mine", settings: object = None) -> Act:
    """The judge is a new object of one's own."""
    return lambda desk: desk.use(judge_model=Own(desk, name=name, settings=settings))


def own_assistant(settings: object = None) -> Act:
    def put(desk: Desk) -> None:
        if desk.index is None:
            answered(desk)
        desk.use(assistant_model=Own(desk, settings=settings))

    return put


def judged_again(desk: Desk) -> None:
    """A finished run, the answers of which are judged again."""
    desk.earlier = desk.run()
    desk.keywords.pop("answers")
    desk.forget_calls()


def judged_again_by_own_prompt(desk: Desk) -> None:
    judged_again(desk)
    plain_prompt(desk)


def from_file(desk: Desk) -> None:
    """The questions are read from a dataset file."""
    write_dataset(desk, QUESTIONS)


def write_dataset(desk: Desk, questions: Sequence[EvalQuestion], **layout: Any) -> None:
    path = desk.folder / "dataset.json"
    rows = [
        {"id": q.id, "category": q.category, "question": q.question, "expected_keypoints": q.expected_keypoints}
        for q in questions
    ]
    if layout.pop("backwards", False):
        rows = [dict(reversed(row.items())) for row in rows]
    path.write_text(json.dumps(rows, **{"ensure_ascii": False, **layout}), encoding="utf-8")
    desk.questions = load_eval_dataset(path)


# -- what is changed


def with_one_question_more(desk: Desk) -> None:
    desk.questions = [*desk.questions, EvalQuestion(5, "正常系", "誰に報告しますか？", ("SOCリーダー",))]


def reverse_questions(desk: Desk) -> None:
    desk.questions = desk.questions[::-1]


def reverse_questions_and_answers(desk: Desk) -> None:
    reverse_questions(desk)
    desk.use(answers=desk.keywords["answers"][::-1])


def change_beside(name: str, content: Any) -> Act:
    assert content != BESIDE[name]
    return lambda desk: desk.write_json(name, content)


def lay_out_anew(name: str) -> Act:
    return lambda desk: desk.write_json(name, BESIDE[name], indent=4)


def rename_runbook(desk: Desk) -> None:
    (desk.runbooks / "lost_device.md").rename(desk.runbooks / "lost.md")


def change_all_categories(desk: Desk) -> None:
    desk.questions = [replace(question, category="根拠不足系") for question in desk.questions]


def rename_prompt(desk: Desk) -> None:
    (constants.PROMPTS_DIR / "plain.txt").rename(constants.PROMPTS_DIR / "named.txt")
    desk.use(judge_prompt="named")


def use_windows_line_ends(desk: Desk) -> None:
    path = constants.PROMPTS_DIR / "plain.txt"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def criteria(*names: str) -> Act:
    return lambda desk: desk.constant("JUDGE_EVALUATION_CRITERIA", list(names))


def judge_another_run_again(desk: Desk) -> None:
    """Judge the answers of another finished run, one of which reads otherwise."""
    points, desk.points = desk.points, FIRST
    changed = [*ANSWERS[:3], replace(ANSWERS[3], answer="電源は切りません。[出典: malware.md]")]
    desk.earlier = run_evaluation_suite(
        QUESTIONS, answers=changed, judge_model=MODEL, logs_dir=desk.folder / "elsewhere", progress=False
    )
    desk.points = points
    desk.forget_calls()


def set_next_version(desk: Desk) -> None:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "socjudge" and (version := vars(module).get("__version__")):
            major_minor, _, patch = version.rpartition(".")
            desk.patch.setattr(module, "__version__", f"{major_minor}.{int(patch) + 1}")


def touch_runbooks(desk: Desk) -> None:
    for path in desk.runbooks.iterdir():
        os.utime(path, (1_000_000_000, 1_000_000_000))


def move_runbooks(desk: Desk) -> None:
    desk.runbooks = desk.runbooks.rename(desk.folder / "moved")
    desk.index = {"index_dir": desk.folder / "index of the moved"}


QUESTION = r"question|dataset"
KEYPOINT = r"key.?point|question|dataset"
ADDRESS = r"address|service|base.?url|host"
PLACE_OF_OBJECT = r"address|service|base.?url|settings"
JUDGE_MODEL = r"judge(?!.?prompt)"
JUDGE_PROMPT = r"judge.{0,3}prompt"
SETTINGS = r"settings"

ANOTHER_RUN = table(
    # questions
    Row("a question's text", lambda d: d.change_question(0, question="感染した端末の初動は？"), QUESTION, answered),
    Row("an unasked question's text", lambda d: d.change_question(3, question="端末を止める？"), QUESTION, answered),
    Row("a full stop in a question", lambda d: d.change_question(3, question=QUESTIONS[3].question + "。"), QUESTION, answered),
    Row("a question more", with_one_question_more, QUESTION, answered),
    Row("a question less", lambda d: setattr(d, "questions", d.questions[:3]), QUESTION, answered),
    Row("order of questions", reverse_questions, QUESTION, answered),
    Row("order of questions and stored answers", reverse_questions_and_answers, QUESTION),
    Row("a keypoint's text", lambda d: d.change_question(3, expected_keypoints=("決して切らない",)), KEYPOINT),
    Row("a keypoint more", lambda d: d.change_question(3, expected_keypoints=("切らない", "報告")), KEYPOINT),
    Row("order of keypoints", lambda d: d.change_question(0, expected_keypoints=("報告する", "隔離する")), KEYPOINT),
    Row("a keypoint cut in two", lambda d: d.change_question(2, expected_keypoints=("SOC", "リーダー")), KEYPOINT),
    Row("a question's id", lambda d: d.change_question(3, id=40), QUESTION),
    Row(
        "a keypoint in the dataset file",
        lambda d: write_dataset(d, [*QUESTIONS[:3], replace(QUESTIONS[3], expected_keypoints=("切るな",))]),
        KEYPOINT,
        from_file,
    ),
    # stored answers
    Row("a stored answer's text", lambda d: d.change_answer(0, answer="別の回答です。"), r"answer"),
    Row("an unjudged stored answer's text", lambda d: d.change_answer(3, answer="別の回答です。"), r"answer"),
    Row("a stored answer's context", lambda d: d.change_answer(3, context="別の抜粋"), r"answer|context"),
    Row("a stored answer's flags", lambda d: d.change_answer(3, flags=Flags(False, True, False)), r"answer|flag"),
    # repeats and k
    Row("k", lambda d: d.use(k=3), r"\bk\b", answered),
    Row("answer_repeats", lambda d: d.use(answer_repeats=2), r"answers per question", answered),
    Row("judge_repeats", lambda d: d.use(judge_repeats=2), r"judgements per answer"),
    Row("judge_repeats less", lambda d: d.use(judge_repeats=1), r"judgements per answer", lambda d: d.use(judge_repeats=2)),
    # prompts
    Row("judge prompt's text", lambda d: d.edit_prompt("plain", "あなたは", "君は"), JUDGE_PROMPT, plain_prompt),
    Row("a blank more in the judge prompt", lambda d: d.edit_prompt("plain", "回答:\n", "回答: \n"), JUDGE_PROMPT, plain_prompt),
    Row("a blank line at the end of the judge prompt", lambda d: d.edit_prompt("plain", "2-3文で>\"\n}", "2-3文で>\"\n}\n\n"), JUDGE_PROMPT, plain_prompt),
    Row("another judge prompt", lambda d: d.use(judge_prompt="guide-1-hardened"), JUDGE_PROMPT),
    Row("default judge prompt", lambda d: d.constant("DEFAULT_JUDGE_PROMPT", "guide-1-hardened"), JUDGE_PROMPT),
    Row("assistant prompt's text", lambda d: d.edit_prompt("answering", "あなたは", "君は"), r"assistant.{0,3}prompt", answered_by_own_prompt),
    Row("another assistant prompt", lambda d: d.use(assistant_prompt="assistant-1"), r"assistant.{0,3}prompt", answered_by_a_service),
    # criteria
    Row("a criterion's description", lambda d: d.edit_prompt("plain", "100点: 完全に正確", "100点: 一点の誤りもない"), r"criteri|description|prompt", plain_prompt),
    Row("a criterion more", criteria(*SIX, SEVENTH), r"criteri", seven_described),
    Row("a criterion less", criteria(*SIX[:5]), r"criteri", seven_described),
    Row("a criterion replaced", criteria(*SIX[:5], SEVENTH), r"criteri", seven_described),
    Row("order of criteria", criteria(*SIX[::-1]), r"criteri"),
    # models
    Row("judge model", lambda d: d.use(judge_model=OTHER_MODEL), JUDGE_MODEL),
    Row("default judge model", lambda d: d.constant("DEFAULT_JUDGE_MODEL", OTHER_MODEL), JUDGE_MODEL, lambda d: d.use(judge_model="auto")),
    Row("judge through LangChain", lambda d: d.use(judge_model=f"openai:{MODEL}"), JUDGE_MODEL),
    Row("assistant model", lambda d: d.use(assistant_model=OTHER_MODEL), r"assistant", answered_by_a_service),
    Row("default assistant model", lambda d: d.constant("DEFAULT_ASSISTANT_MODEL", OTHER_MODEL), r"assistant", both(answered_by_a_service, lambda d: d.use(assistant_model="auto"))),
    # addresses
    Row("host", lambda d: d.point_elsewhere(LOOPBACK, "judge.example"), ADDRESS),
    Row("port", lambda d: d.point_to(d.other.base_url), ADDRESS),
    Row("path", lambda d: d.point_elsewhere("/v1", "/proxy/v1"), ADDRESS),
    Row("case of the path", lambda d: d.point_elsewhere("/v1", "/V1"), ADDRESS),
    Row("query", lambda d: d.point_elsewhere("/v1", "/v1?api-version=2026-01-01"), ADDRESS),
    Row("https", lambda d: d.point_elsewhere("http://", "https://"), ADDRESS),
    Row("address set", lambda d: d.point_to(d.service.base_url), ADDRESS, no_address),
    Row("address unset", no_address, ADDRESS),
    Row("assistant's port", lambda d: d.point_to(d.other.base_url), ADDRESS, answered_by_a_service),
    Row("OPENAI_BASE_URL for LangChain by name", lambda d: d.point_to(d.other.base_url), PLACE_OF_OBJECT, by_name),
    Row("OPENAI_API_BASE for LangChain by name", lambda d: d.point_to(d.other.base_url, "OPENAI_API_BASE"), PLACE_OF_OBJECT, by_name),
    # settings of objects
    Row("LangChain object's model", by_object(model=OTHER_MODEL), JUDGE_MODEL, by_object()),
    Row("LangChain object's temperature", by_object(temperature=0.7), r"settings|temperature", by_object()),
    Row("LangChain object's max_tokens", by_object(max_tokens=2000), r"settings|max_.*tokens", by_object()),
    Row("LangChain object's seed", by_object(seed=7), r"settings|seed", by_object()),
    Row("LangChain object's default_headers", by_object(default_headers={"x-temperature": "1"}), r"settings|header", by_object()),
    Row("LangChain object's default_query", by_object(default_query={"v": "2"}), r"settings|query", by_object()),
    Row("LangChain object bound to a temperature", lambda d: d.use(judge_model=chat_model(d).bind(temperature=0.7)), r"settings|judge", lambda d: d.use(judge_model=chat_model(d).bind(temperature=0.1))),
    Row("LangChain object's extra_body", by_object(extra_body={"top_k": 1}), r"settings|extra_body", by_object()),
    Row("LangChain object's base_url", lambda d: by_object(base_url=d.other.base_url)(d), PLACE_OF_OBJECT, by_object()),
    Row(
        "LangChain assistant's temperature",
        lambda d: d.use(assistant_model=chat_model(d, temperature=0.7)),
        r"assistant.*(settings|temperature)",
        both(answered_by_a_service, lambda d: d.use(assistant_model=chat_model(d))),
    ),
    Row("own object without settings, itself again", leave_all_as_it_is, SETTINGS, own()),
    Row("own object without settings, a new one", own(), SETTINGS, own()),
    Row("own object now with settings", own(settings={"temperature": 0.0}), SETTINGS, own()),
    Row("own object now without settings", own(), SETTINGS, own(settings={"temperature": 0.0})),
    Row("own object's settings", own(settings={"temperature": 0.7}), SETTINGS, own(settings={"temperature": 0.0})),
    Row("own object's settings as text", own(settings="t=0.7"), SETTINGS, own(settings="t=0")),
    Row("own object's nested settings", own(settings={"a": {"b": [1, 2]}}), SETTINGS, own(settings={"a": {"b": [2, 1]}})),
    Row("own object's name", own("theirs", {"temperature": 0.0}), JUDGE_MODEL, own("mine", {"temperature": 0.0})),
    Row("own object's settings that show alike", own(settings={"t": Shown(1)}), SETTINGS, own(settings={"t": Shown(0)})),
    Row("own assistant without settings", leave_all_as_it_is, r"assistant.*settings|settings.*assistant", own_assistant()),
    Row("own assistant's settings", own_assistant({"t": 1}), r"assistant.*settings|settings.*assistant", own_assistant({"t": 0})),
    # runbooks and the files beside them
    Row("a runbook's text", lambda d: d.edit_runbook("隔離する", "切り離す"), r"runbook|malware\.md", answered),
    Row("a runbook's heading", lambda d: d.edit_runbook("## 初動対応", "## 最初にすること", "phishing.md"), r"runbook|phishing\.md", answered),
    Row("a runbook more", lambda d: (d.runbooks / "usb.md").write_text("# USB\n\n## 初動対応\n\n1. 抜かない。\n", "utf-8"), r"runbook|usb\.md", answered),
    Row("a runbook less", lambda d: (d.runbooks / "lost_device.md").unlink(), r"runbook|lost_device\.md", answered),
    Row("a runbook's name", rename_runbook, r"runbook|lost", answered),
    Row("organisation.json", change_beside("organisation.json", {"leader": {"role": "当番長"}}), r"organi[sz]ation", answered),
    Row("organisation.json gone", lambda d: (d.runbooks / "organisation.json").unlink(), r"organi[sz]ation", answered),
    Row("prohibitions.json", change_beside("prohibitions.json", {"malware.md": [BESIDE["prohibitions.json"]["malware.md"][0] | {"asks": ["電源ボタンを押します"]}]}), r"prohibition", answered),
    Row("questions.json", change_beside("questions.json", {"malware.md": {"初動対応": ["感染したかも"]}}), r"questions\.json|typical questions", answered),
    Row("synonyms.json", change_beside("synonyms.json", {"PC": ["端末"]}), r"synonym", answered),
    # answers judged again
    Row("judging again: judge prompt's text", lambda d: d.edit_prompt("plain", "あなたは", "君は"), JUDGE_PROMPT, judged_again_by_own_prompt),
    Row("judging again: order of criteria", criteria(*SIX[::-1]), r"criteri", judged_again),
    Row("judging again: port", lambda d: d.point_to(d.other.base_url), ADDRESS, judged_again),
    Row("judging again: answers of another run", judge_another_run_again, r"answer|rejudged", judged_again),
)  # fmt: skip

SAME_RUN = table(
    Row("nothing", leave_all_as_it_is),
    # the line
    Row("pass line", lambda d: d.constant("JUDGE_PASS_THRESHOLD", 75.0)),
    Row("pass rate", lambda d: d.constant("JUDGE_PASS_RATE", 0.9)),
    Row("pass line when judging again", lambda d: d.constant("JUDGE_PASS_THRESHOLD", 75.0), given=judged_again),
    # categories and titles
    Row("a question's category", lambda d: d.change_question(0, category="曖昧質問系")),
    Row("all categories", change_all_categories, given=answered),
    Row("QUESTION_CATEGORIES", lambda d: d.constant("QUESTION_CATEGORIES", [*constants.QUESTION_CATEGORIES, "連絡系"])),
    Row("a prompt's note", lambda d: d.edit_prompt("mine", "note: 七つの観点", "note: 平易さを足した"), given=seven_described),
    Row("a prompt's name", rename_prompt, given=plain_prompt),
    Row("a prompt by its path", lambda d: d.use(judge_prompt=constants.PROMPTS_DIR / "plain.txt"), given=plain_prompt),
    # addresses
    Row("trailing slash", lambda d: d.point_elsewhere("/v1", "/v1/")),
    Row("trailing slash less", lambda d: d.point_elsewhere("/v1/", "/v1"), given=lambda d: d.point_elsewhere("/v1", "/v1/")),
    Row("trailing slash for the assistant", lambda d: d.point_elsewhere("/v1", "/v1/"), given=answered_by_a_service),
    Row("trailing slash for LangChain by name", lambda d: d.point_elsewhere("/v1", "/v1/"), given=by_name),
    Row("trailing slash for LangChain by object", lambda d: by_object(base_url=d.service.base_url + "/")(d), given=by_object()),
    Row("case of the host", at("http://JUDGE.Example/v1"), given=at("http://judge.example/v1")),
    Row("case of the scheme", at("HTTP://judge.example/v1"), given=at("http://judge.example/v1")),
    Row("default port named", at("https://judge.example:443/v1"), given=at("https://judge.example/v1")),
    Row("default address named", at("https://api.openai.com/v1"), given=no_address),
    Row("default address unset", no_address, given=at("https://api.openai.com/v1")),
    Row("default address named for LangChain by name", at("https://api.openai.com/v1"), given=both(no_address, by_name)),
    Row("default address with a slash", at("https://api.openai.com/v1/"), given=no_address),
    Row("key", lambda d: d.patch.setenv("OPENAI_API_KEY", KEY[::-1])),
    Row("key of a LangChain object", by_object(api_key=KEY[::-1]), given=by_object()),
    # layout
    Row("layout of the dataset", lambda d: write_dataset(d, QUESTIONS, indent=4), given=from_file),
    Row("order of the keys in the dataset", lambda d: write_dataset(d, QUESTIONS, backwards=True), given=from_file),
    Row("escapes in the dataset", lambda d: write_dataset(d, QUESTIONS, ensure_ascii=True), given=from_file),
    Row("layout of organisation.json", lay_out_anew("organisation.json"), given=answered),
    Row("layout of prohibitions.json", lay_out_anew("prohibitions.json"), given=answered),
    Row("layout of questions.json", lay_out_anew("questions.json"), given=answered),
    Row("layout of synonyms.json", lay_out_anew("synonyms.json"), given=answered),
    Row("line ends of a prompt", use_windows_line_ends, given=plain_prompt),
    Row("times of the runbooks", touch_runbooks, given=answered),
    Row("folder of the runbooks", move_runbooks, given=answered),
    # how it is run
    Row("patch version of the package", set_next_version),
    Row("max_concurrency", lambda d: d.use(max_concurrency=4)),
    Row("timeout_s", lambda d: d.use(timeout_s=30.0)),
    Row("patience_s", lambda d: d.use(patience_s=5.0)),
    Row("output_tokens", lambda d: d.use(output_tokens=3000)),
    Row("max_failures", lambda d: d.use(max_failures=2)),
    Row("max_cost_usd", lambda d: d.use(max_cost_usd=5.0)),
    Row("progress", lambda d: d.use(progress=True)),
    Row("language", lambda d: d.patch.setenv("SOCJUDGE_LANG", "ja")),
    # names and objects that mean the same
    Row("the name that auto means", lambda d: d.use(judge_model=MODEL), given=lambda d: d.use(judge_model="auto")),
    Row("how long a stored answer took", lambda d: d.change_answer(0, processing_time=9.0)),
    Row("LangChain object made anew", by_object(), given=by_object()),
    Row("own object with equal settings", own(settings={"b": 1, "a": [0.0]}), given=own(settings={"b": 1, "a": [0.0]})),
    Row("order of an own object's settings", own(settings={"a": 1, "b": 0}), given=own(settings={"b": 0, "a": 1})),
    Row("own assistant with equal settings", own_assistant({"t": 0}), given=own_assistant({"t": 0})),
)  # fmt: skip


@pytest.mark.few(25)
@ANOTHER_RUN
def test_what_decides_an_answer_or_a_mark_makes_another_run_and_is_named(row: Row, desk: Desk) -> None:
    row.given(desk)
    journal, _ = desk.break_off()
    before = journal.read_bytes()
    row.change(desk)
    with pytest.warns(RunNote, match="is not resumed, because it differs") as warned:
        run = desk.run(**desk.todays())
    # Neither the journal's name nor the advice that follows in the same words for every difference.
    told = re.sub(r"\S*\.partial\.jsonl|with its own settings", "", str(warned[0].message))
    assert re.search(row.named, told, re.IGNORECASE)
    assert not [name for name in BESIDE if name in told and not re.search(row.named, name)]
    assert (run.run.sessions, {result.evaluation.average_score for result in run.results}) == (1, {SECOND})
    assert desk.judge_calls == len(run.results)
    assert desk.journals() == [journal]
    assert journal.read_bytes() == before


@pytest.mark.few(15)
@SAME_RUN
def test_what_decides_no_mark_makes_no_other_run(row: Row, desk: Desk) -> None:
    row.given(desk)
    _, done = desk.break_off()
    row.change(desk)
    run = desk.run()
    points = [result.evaluation.average_score for result in run.results]
    assert (run.run.sessions, points) == (2, [FIRST] * done + [SECOND] * (len(QUESTIONS) - done))
    assert desk.judge_calls == len(QUESTIONS) - done
    assert desk.journals() == []
    assert run.log_path is not None
    assert load_run(run.log_path) == run


@pytest.mark.parametrize(
    ("constant", "here", "kept", "said"),
    [
        ("JUDGE_PASS_THRESHOLD", 85.0, "pass_threshold", r"(?i)pass (line|mark)|threshold"),
        ("JUDGE_PASS_RATE", 1.0, "pass_rate_required", r"(?i)pass rate"),
    ],
    ids=["line", "rate"],
)
def test_a_run_that_is_taken_up_keeps_its_line_and_says_so(
    desk: Desk, constant: str, here: float, kept: str, said: str
) -> None:
    _, done = desk.break_off()
    there = getattr(constants, constant)
    desk.constant(constant, here)
    desk.points = FIRST if constant == "JUDGE_PASS_THRESHOLD" else SECOND
    with pytest.warns(RunNote, match=said) as warned:
        run = desk.run()
    assert desk.judge_calls == len(QUESTIONS) - done
    assert run.log_path is not None
    assert getattr(load_run(run.log_path).run, kept) == there
    # Four times 80 points: each passes 70, and none would pass 85. Then 80, 80, 80 and 60: three of four passed, which
    # is enough for 0.7, and not for 1.0; the mean is 75.
    passed = len(QUESTIONS) if desk.points == FIRST else done
    assert (run.summary.passed_questions, run.summary.mvp_passed) == (passed, True)
    told = [line for each in warned for line in str(each.message).splitlines() if re.search(said, line)]
    assert any(re.search(rf"\b{there:g}\b|\b{100 * there:g} ?%", line) for line in told)  # the one that counts


@pytest.mark.slow
@pytest.mark.parametrize("made", ["embedded_judge", "embedded_assistant"])
def test_another_version_of_an_embedded_model_makes_another_run_and_is_named(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    name = {"embedded_judge": "JUDGE_NAME", "embedded_assistant": "ASSISTANT_NAME"}[made]
    answered(desk)
    desk.use(judge_model="offline")

    def interrupt(result: EvaluationResult) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        desk.run(on_result=interrupt)
    (journal,) = desk.journals()
    there = getattr(offline, name)
    monkeypatch.setattr(offline, name, f"{there}0")
    with pytest.warns(RunNote, match=f"{made} is {there} there and {there}0 here"):
        run = desk.run()
    found = {(result.answer.model, result.evaluation.model) for result in run.results}
    assert (run.run.sessions, found) == (1, {(offline.ASSISTANT_NAME, offline.JUDGE_NAME)})
    assert desk.journals() == [journal]


def test_who_cannot_go_on_is_told_what_to_give(desk: Desk) -> None:
    own()(desk)
    stop = threading.Event()
    desk.stop = stop
    with pytest.raises(RunStopped, match="an object without `settings`"):
        desk.run(stop=stop, on_result=lambda _: stop.set())
