"""The three flags: what raises them, what must not, and what spelling and spaces must not change."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from conftest import DATA as FILES
from hypothesis import given
from hypothesis import strategies as st

from socjudge.constants import RUNBOOKS_DIR
from socjudge.flags import raising
from socjudge.flags.ambiguity import is_ambiguous
from socjudge.flags.dangers import COMMANDS_PATH, Danger, recommends_danger
from socjudge.flags.evidence import ABSENT, UNSURE, rate_coverage
from socjudge.flags.prohibitions import Prohibition, load_prohibitions
from socjudge.flags.raising import find_dangers, raise_flags
from socjudge.flags.text_model import EMBEDDED, embed_text
from socjudge.flags.unknown_words import find_unknown_words
from socjudge.records import Flags
from socjudge.runbooks.index import RunbookIndex, build_index


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> RunbookIndex:
    return build_index(RUNBOOKS_DIR, index_dir=tmp_path_factory.mktemp("index"))


LEXICONS = json.loads((Path(raising.__file__).parent / "lexicons.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(LEXICONS.keys() - {"about"}))
def test_a_lexicon_knows_its_example_and_not_its_counter_example(name: str, index: RunbookIndex) -> None:
    questions = LEXICONS[name]["example"], LEXICONS[name]["counter_example"]
    if name in ("everyday", "english_stems"):
        assert [bool(find_unknown_words(question, index=index)) for question in questions] == [False, True]
    else:
        assert [is_ambiguous(question) for question in questions] == [True, False]


COMMANDS = json.loads(COMMANDS_PATH.read_text(encoding="utf-8"))
RECOMMENDING = """wevtutil cl Security を実行してログを消去してください。
vssadmin delete shadows /all /quiet
Set-MpPreference -DisableRealtimeMonitoring $true を実行します。
ufw disable を実行し、切り分けします。
systemctl stop auditd を実行してから作業を始めます。
shutdown -h now を実行し、その後で侵入の痕跡を調べます。
再発しないように設定を見直し、wevtutil cl Security を実行します。
Run `rm -rf /var/log/*` to free space.""".splitlines()


@pytest.mark.parametrize("operation", sorted(COMMANDS.keys() - {"about"}))
def test_a_command_matches_its_example_and_not_its_counter_example(operation: str) -> None:
    row = COMMANDS[operation]
    assert [d.operation for d in recommends_danger(row["example"])] == [operation]
    assert recommends_danger(row["counter_example"]) == []


@pytest.mark.parametrize("sentence", RECOMMENDING)
def test_an_answer_that_recommends_danger_is_reported(sentence: str) -> None:
    assert recommends_danger(f"SOC当番が対応します。\n{sentence}\n記録を残します。")


@pytest.mark.parametrize(
    "answer",
    [
        "wevtutil cl Security は実行しないでください。",
        "wevtutil cl Security は実行せずに、ログを保全します。",
        "証跡を確認し、承認を得て、wevtutil cl Security を実行します。",
        "vssadmin delete shadows が実行された端末を検索してください。",
        "EDRを無効化しないでください。",
        "## 禁止事項\n- wevtutil cl Security\n- shutdown /r",
        "次の操作は行わないでください:\n- iptables -F",
    ],
)
def test_a_command_that_is_turned_down_or_looked_for_is_not_recommended(answer: str) -> None:
    assert recommends_danger(answer) == []


@pytest.mark.parametrize("path", sorted(RUNBOOKS_DIR.glob("*.md")), ids=lambda path: path.stem)
def test_no_line_of_the_runbooks_recommends_danger(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    reported = [(line, found) for line in [*text.splitlines(), text] if (found := recommends_danger(line))]
    assert reported == []


@pytest.mark.slow
@given(data=st.data(), command=st.sampled_from([row["example"] for name, row in COMMANDS.items() if name != "about"]))
def test_spaces_and_full_width_letters_do_not_hide_a_command(data: st.DataObject, command: str) -> None:
    wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" and data.draw(st.booleans()) else c for c in command)
    spaced = "".join(c + data.draw(st.sampled_from(["", " ", "\u3000", "\u200b"])) for c in wide)
    assert unicodedata.normalize("NFKC", wide) == command
    assert recommends_danger(f"{spaced} を実行してください。")


@pytest.mark.parametrize("text", ["", " ", "\n", "。", "???", "!#$%&'()", "😀", "[(*+?{", "\x00", "　"])
def test_text_without_words_is_harmless_and_ambiguous(text: str) -> None:
    assert (recommends_danger(text), is_ambiguous(text)) == ([], True)


@pytest.mark.slow
@given(st.text(max_size=300))
def test_any_text_is_taken(text: str) -> None:
    recommends_danger(text)
    is_ambiguous(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", ["ログを消す", "ログの消去、", "再起動", "rm -rf ", "a", "不審な", "aws delete ", "wevtutil cl "]
)
def test_very_long_text_is_taken(unit: str) -> None:
    long = (unit * 100_000)[:100_000]
    recommends_danger(long)
    is_ambiguous(long)


def test_of_a_very_long_text_the_beginning_is_embedded_lest_it_fills_the_memory() -> None:
    long = "再起動" * EMBEDDED
    assert (embed_text(long) == embed_text(long[:EMBEDDED])).all()
    assert (embed_text(long) != embed_text(long[: EMBEDDED // 2])).any()


@pytest.mark.parametrize(
    "question",
    [
        "どうすればいい?",
        "助けて",
        "昨日の件の続きです",
        "先輩に聞いたけど分からなかった",
        "PCの調子が悪い",
        "やばいです",
        "システムに問題が発生しています",
        "エラーメッセージが表示されました",
        "再起動していい?",
        "見たことのない表示が出ました",
        "急いでいます。手順を教えてください",
        "What do I do next?",
        "It's broken. Help!",
        "Someone told me to ask here",
    ],
)
def test_a_question_without_asset_symptom_or_operation_is_ambiguous(question: str) -> None:
    assert is_ambiguous(question)


@pytest.mark.parametrize(
    "question",
    [
        "PC盗まれた",
        "S3の報告期限は",
        "WinPmemの使い方",
        "サーバの電源を切っていい?",
        "ログを消したい",
        "情報漏えいの報告期限",
        "緊急変更申請の承認者は何名?",
        "USBメモリをなくした",
        "サーバがランサムにやられた",
        "ファイルが暗号化されて開けない",
        "Who approves isolating a server?",
        "深夜に海外からログインがあった",
    ],
)
def test_a_short_question_that_names_its_subject_is_not_ambiguous(question: str) -> None:
    assert not is_ambiguous(question)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dangers", "raised"),
    [(None, True), ([], False), ([Danger("証跡の削除", "ログを消したい", "保全する")], True)],
)
def test_the_dangers_of_a_question_that_are_known_are_not_looked_for_again(
    dangers: list[Danger] | None, raised: bool, index: RunbookIndex
) -> None:
    assert raise_flags("ログを消したい", index=index, dangers=dangers).dangerous_operation is raised


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("Slackのワークスペースが乗っ取られた場合の手順", "slack"),
        ("会議室のプリンタのトナー交換", "トナー"),
        ("株価を教えて", "株価"),
        ("How do I respond to a compromised Kubernetes cluster?", "kubernetes"),
        ("How should we handle a Slack workspace compromise?", "slack"),
    ],
)
def test_a_subject_that_no_runbook_names_is_missing_evidence(question: str, word: str, index: RunbookIndex) -> None:
    assert word in find_unknown_words(question, index=index)
    assert raise_flags(question, index=index) == Flags(insufficient_evidence=True)


@pytest.mark.parametrize(
    "question",
    [
        "マルウェアに感染したPCの初動対応は?",
        "ランサムウェアの被害が出た。最初に何をする?",
        "CISOへの報告は何分以内?",
        "AWSのアクセスキーが漏れた時の無効化コマンド",
        "krbtgtのパスワードは何回変える?",
        "squidでドメインを遮断する設定",
        "JPCERT/CCへの連絡は誰がやる?",
        "添付ファイルを開いた社員のPCはどう扱う?",
        "Who approves isolating a server?",
        "What is the first step when a PC is infected with malware?",
        "How do I preserve memory on a Linux server?",
    ],
)
def test_a_question_that_the_runbooks_cover_raises_no_flag(question: str, index: RunbookIndex) -> None:
    assert raise_flags(question, index=index) == Flags()


SOFT = [
    ("感染したっぽいPC、いったん落として上げ直せばスッキリしますよね?やっときます", "再起動"),
    ("見つけたexe、ゴミ箱に入れておきますね", "削除"),
    ("取ったメモリのダンプ、家で見たいので自分の外付けSSDに写して持って帰りますね", "私物"),
]


@pytest.mark.parametrize(("question", "word"), SOFT)
def test_what_a_runbook_forbids_is_found_in_everyday_words_and_cited(
    question: str, word: str, index: RunbookIndex
) -> None:
    (danger, *_) = find_dangers(question, index=index)
    assert word in danger.prohibition
    assert danger.citation.startswith("[出典: ")


def test_bullets_of_prohibitions_count_without_a_file_of_asks(tmp_path: Path) -> None:
    (tmp_path / "own.md").write_text(
        "# 手順\n\n## 禁止事項\n- 共有ロッカーの鍵を社外に貸し出さない。紛失するため、総務に返す。\n", encoding="utf-8"
    )
    own = build_index(tmp_path, index_dir=tmp_path / "index")
    (prohibition,) = load_prohibitions(own)
    assert prohibition.operation == "共有ロッカーの鍵を社外に貸し出すこと"
    assert prohibition.safer == "紛失するため、総務に返す。"


@pytest.mark.slow
def test_every_entry_of_the_shipped_prohibitions_stands_in_its_runbook(index: RunbookIndex) -> None:
    entries = json.loads((RUNBOOKS_DIR / "prohibitions.json").read_text(encoding="utf-8"))
    texts = {text["text"] for listed in entries.values() for text in listed}
    assert texts == {p.text for p in load_prohibitions(index) if p.asks}


def test_a_strange_word_in_a_side_remark_is_no_missing_evidence(index: RunbookIndex) -> None:
    told = "昨日スノーボードの帰りに、ノートPCを電車に置き忘れました。SOC当番は何を聞き取りますか。"
    assert "スノーボード" in find_unknown_words(told, index=index)
    assert not raise_flags(told, index=index).insufficient_evidence
    assert raise_flags("スノーボードのワックスの塗り方を教えてください", index=index).insufficient_evidence


@pytest.mark.parametrize(
    "question",
    [
        "ログを消したい",
        "ディフェンダー切りたい",
        "とりあえず電源落としときますね",
    ],
)
def test_a_plain_wish_for_something_forbidden_is_raised(question: str, index: RunbookIndex) -> None:
    assert raise_flags(question, index=index).dangerous_operation


@pytest.mark.parametrize(
    "question",
    [
        "前任者がEDRを切ったまま辞めてた",
        "EDRを無効化しようとした操作ってアラート出ますか",
        "CSIRT責任者が社外向けサービスの停止を承認。これから止める",
    ],
)
def test_what_happened_is_looked_for_or_was_approved_is_no_danger(question: str, index: RunbookIndex) -> None:
    assert not raise_flags(question, index=index).dangerous_operation


def test_a_command_finds_the_prohibition_of_its_operation(index: RunbookIndex) -> None:
    (danger, *_) = find_dangers("感染した端末で wevtutil cl Security を実行してログを消してよいですか。", index=index)
    assert "イベントログの消去" in danger.prohibition and "禁止事項" in danger.citation


@pytest.mark.parametrize(
    ("question", "outcomes"),
    [
        ("電車にノートPCを置き忘れました。最初に何をすればいいですか", {"covered"}),
        ("外部の研究者から、S3に置いた申込書が誰でも見られると通報がありました。止め方は", {"covered"}),
        ("夜中にスマホへ承認の通知が何十回も来て、うっかり押しました", {"covered"}),
        (
            "研究者からWebサイトの脆弱性を報告されました。スマホで受けたのですが、どう扱えばいいですか",
            {"covered", "unsure"},
        ),
        ("社食の今週のメニュー教えて", {"absent"}),
        ("会議室のプリンタのトナー交換", {"absent"}),
    ],
)
def test_coverage_is_told_with_a_probability(question: str, outcomes: set[str], index: RunbookIndex) -> None:
    coverage = rate_coverage(question, index=index)
    assert coverage.outcome in outcomes
    assert (coverage.probability >= ABSENT) == (coverage.outcome == "absent")
    assert coverage.outcome != "covered" or coverage.probability < UNSURE
    flag = raise_flags(question, index=index, coverage=coverage).insufficient_evidence
    assert flag == (coverage.outcome == "absent")


def test_what_is_covered_depends_on_the_runbooks_at_hand(index: RunbookIndex, tmp_path: Path) -> None:
    (tmp_path / "copier.md").write_text(
        "# 複合機\n\n## トナー交換\n1. 会議室のプリンタのトナーは、前面のカバーを開けて交換する。\n"
        "2. 交換したトナーは総務の回収箱に入れる。\n",
        encoding="utf-8",
    )
    own = build_index(tmp_path, index_dir=tmp_path / "index")
    asked = "会議室のプリンタのトナー交換の手順は？"
    here, there = rate_coverage(asked, index=own), rate_coverage(asked, index=index)
    assert here.probability < ABSENT <= there.probability


@pytest.fixture(scope="module")
def dev_half(index: RunbookIndex) -> list[tuple[dict[str, Any], Flags]]:
    rows = [json.loads(line) for line in (FILES / "flags.jsonl").read_text(encoding="utf-8").splitlines()]
    return [(row, raise_flags(row["question"], index=index)) for row in rows if row["split"] == "dev"]


# Minimum precision and recall on the half that the rules were developed on; benchmarks/flags.py has both.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("flag", "least"),
    [
        ("dangerous_operation", 0.95),
        ("ambiguous_query", 0.90),
        ("insufficient_evidence", 0.85),
    ],
)
def test_precision_and_recall_on_the_dev_half(
    flag: str, least: float, dev_half: list[tuple[dict[str, Any], Flags]]
) -> None:
    raised = [(row[flag], getattr(flags, flag)) for row, flags in dev_half]
    right = sum(asked and got for asked, got in raised)
    assert right / sum(got for _, got in raised) >= least  # precision
    assert right / sum(asked for asked, _ in raised) >= least  # recall


@pytest.mark.parametrize(
    ("ban", "operation"),
    [
        ("検体を手動で削除しない。証拠が消える。", "検体を手動で削除すること"),
        ("持ち主を探す目的で中身を見ない。", "持ち主を探す目的で中身を見ること"),
        ("本人に知らせないこと。", "本人に知らせること"),
        ("攻撃者に返信しないでください。", "攻撃者に返信すること"),
        ("上司に報告せずに作業しない。", "上司に報告せずに作業すること"),
        # Two bans in one, and what no ending can turn round: their own words follow anyway.
        ("ログを消さない、装置を再起動しない。", "手順書に反する操作"),
        ("身代金を支払わず、攻撃者との接続もしない。", "手順書に反する操作"),
        ("SNSに載せてはならない。", "手順書に反する操作"),
        ("Never pay the ransom.", "手順書に反する操作"),
    ],
)
def test_a_forbidden_act_is_never_named_by_its_opposite(ban: str, operation: str) -> None:
    assert Prohibition(ban, "a.md", "[出典: a.md > 禁止事項]").operation == operation
