"""The index: built once, kept in plain checked files, and searched by words and by meaning."""

from __future__ import annotations

import hashlib
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DATA, OTHERS
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.runnables import RunnableLambda

from socjudge import constants
from socjudge.base.texts import normalise_text
from socjudge.constants import RUNBOOKS_DIR
from socjudge.errors import ConfigError
from socjudge.records import Passage
from socjudge.runbooks.asking import asks_leave, find_asking, is_of_stage, split_clauses
from socjudge.runbooks.bm25 import Bm25, content_words, tokenise
from socjudge.runbooks.companions import add_questions
from socjudge.runbooks.embeddings import Vectors, embed_new
from socjudge.runbooks.guide import choose_runbook
from socjudge.runbooks.index import build_index, load_index, open_index
from socjudge.runbooks.reading import load_runbooks, split_sentences
from socjudge.runbooks.search import RunbookIndex, blend_sentences, get_bm25_weight, mix_scores, rerank

QUESTION_PATHS = sorted((DATA).glob("retrieval_questions*.jsonl"))

ISOLATION = """# 端末隔離手順書
## 初動対応
感染した端末は、LANケーブルを抜いてネットワークから隔離する。電源は切らずに証拠を残す。
## 解除
全体スキャンの結果が陰性であることを確認し、隔離を解除する。
"""
PHISHING = """# フィッシング対応手順書
## 初動対応
認証情報を入力した利用者のパスワードを再設定し、セッションを失効させる。
"""


@pytest.fixture
def runbooks(tmp_path: Path) -> Path:
    folder = tmp_path / "runbooks"
    folder.mkdir()
    (folder / "isolation.md").write_text(ISOLATION, encoding="utf-8")
    (folder / "phishing.md").write_text(PHISHING, encoding="utf-8")
    return folder


@pytest.fixture
def index_dir(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture(scope="module")
def project_index(tmp_path_factory: pytest.TempPathFactory) -> RunbookIndex:
    return build_index(index_dir=tmp_path_factory.mktemp("index"))


# --- building


def test_second_build_embeds_nothing_and_gives_the_same_index(runbooks: Path, index_dir: Path) -> None:
    first = build_index(runbooks, index_dir=index_dir)
    second = build_index(runbooks, index_dir=index_dir)
    assert first.n_embedded > 0 and second.n_embedded == 0
    assert second.fingerprint == first.fingerprint
    assert second.search("隔離を解除") == first.search("隔離を解除")


def test_passages_are_embedded_in_batches_that_are_told(tmp_path: Path, index_dir: Path) -> None:
    books = tmp_path / "books"
    books.mkdir()
    for n in range(70):
        (books / f"{n}.md").write_text(f"# 手順{n}\n端末 {'abc' * n} を隔離する。\n", encoding="utf-8")
    told: list[tuple[int, int]] = []
    whole = build_index(books, index_dir=index_dir, on_progress=lambda *counts: told.append(counts))
    assert told == [(32, 140), (64, 140), (96, 140), (128, 140), (140, 140)]  # passages and their headings
    assert whole.n_embedded == 140
    build_index(books, index_dir=index_dir, on_progress=lambda *_: pytest.fail("all known"))


def test_changed_file_embeds_only_what_changed(runbooks: Path, index_dir: Path) -> None:
    first = build_index(runbooks, index_dir=index_dir)
    (runbooks / "isolation.md").write_text(ISOLATION + "## 禁止事項\n初期化しない。\n", encoding="utf-8")
    second = build_index(runbooks, index_dir=index_dir)
    assert second.n_embedded == 1  # the new passage; its one sentence has fewer than 8 characters
    assert second.fingerprint != first.fingerprint and len(second) == len(first) + 1


def test_opening_an_index_builds_it_once_and_again_when_a_runbook_changed(runbooks: Path, index_dir: Path) -> None:
    first = open_index(runbooks, index_dir=index_dir)
    written = {path: path.stat().st_mtime_ns for path in index_dir.iterdir()}
    assert open_index(runbooks, index_dir=index_dir) is first
    assert open_index(index_dir=index_dir) is first
    assert {path: path.stat().st_mtime_ns for path in index_dir.iterdir()} == written
    (runbooks / "isolation.md").write_text(ISOLATION + "## 禁止事項\n初期化しない。\n", encoding="utf-8")
    second = open_index(index_dir=index_dir)
    assert len(second) == len(first) + 1 and second.stale_files() == []


def test_an_index_that_another_process_wrote_is_opened_anew(runbooks: Path, index_dir: Path) -> None:
    first = open_index(runbooks, index_dir=index_dir)
    built = build_index(runbooks, index_dir=index_dir)  # as another process would: with the same content
    second = open_index(runbooks, index_dir=index_dir)
    assert second is not first and second.fingerprint == built.fingerprint


def test_an_index_of_other_runbooks_is_not_opened_for_these(runbooks: Path, index_dir: Path, tmp_path: Path) -> None:
    first = open_index(runbooks, index_dir=index_dir)
    shutil.copytree(runbooks, tmp_path / "others")
    others = open_index(tmp_path / "others", index_dir=index_dir)
    assert (others.runbooks, others.fingerprint) == (tmp_path / "others", first.fingerprint)


def test_an_index_whose_runbooks_are_gone_is_not_opened_but_loaded(runbooks: Path, index_dir: Path) -> None:
    first = open_index(runbooks, index_dir=index_dir)
    shutil.rmtree(runbooks)
    with pytest.raises(ConfigError, match="no such runbooks folder"):
        open_index(index_dir=index_dir)
    assert load_index(index_dir).passages == first.passages


def test_a_damaged_index_is_replaced_by_a_build(runbooks: Path, index_dir: Path) -> None:
    build_index(runbooks, index_dir=index_dir)
    (index_dir / "manifest.json").write_text("{", encoding="utf-8")
    assert build_index(runbooks, index_dir=index_dir).n_embedded > 0
    load_index(index_dir)


def test_fingerprint_does_not_depend_on_place_or_time(runbooks: Path, tmp_path: Path) -> None:
    shutil.copytree(runbooks, tmp_path / "copy")
    one = build_index(runbooks, index_dir=tmp_path / "i1")
    other = build_index(tmp_path / "copy", index_dir=tmp_path / "i2")
    assert one.fingerprint == other.fingerprint


def test_unwritable_place_is_a_config_error(runbooks: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot be written"):
        build_index(runbooks, index_dir=tmp_path / "file")


def test_same_texts_share_a_vector_and_empty_lists_work() -> None:
    known: dict[str, Vectors] = {}
    vectors = embed_new(["abc", "abc", "xyz"], known)
    assert len(known) == 2 and (vectors[0] == vectors[1]).all()
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-3)
    assert embed_new([], known).shape[0] == 0


# --- the files


def test_load_gives_what_was_built(runbooks: Path, index_dir: Path) -> None:
    built = build_index(runbooks, index_dir=index_dir)
    loaded = load_index(index_dir)
    assert loaded.passages == built.passages and loaded.fingerprint == built.fingerprint
    assert loaded.search("端末の隔離") == built.search("端末の隔離")
    assert loaded.n_embedded == 0
    assert {path.name for path in index_dir.iterdir()} == {"manifest.json", "passages.jsonl", "vectors.npy"}


@pytest.mark.parametrize("name", ["manifest.json", "passages.jsonl", "vectors.npy"])
@pytest.mark.parametrize("damage", ["truncated", "edited", "emptied", "removed"])
def test_damaged_index_names_the_file_and_the_fix(runbooks: Path, index_dir: Path, name: str, damage: str) -> None:
    build_index(runbooks, index_dir=index_dir)
    path = index_dir / name
    data = path.read_bytes()
    middle = len(data) // 2
    if damage == "removed":
        path.unlink()
    else:
        edited = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        path.write_bytes({"truncated": data[:middle], "edited": edited, "emptied": b""}[damage])
    with pytest.raises(ConfigError, match=rf"{name}: .*socjudge index"):
        load_index(index_dir)


def forge(index_dir: Path, name: str, data: bytes) -> None:
    """Replace a file and put its new checksum into the manifest, as someone with bad intent would."""
    (index_dir / name).write_bytes(data)
    known = json.loads((index_dir / "manifest.json").read_text(encoding="utf-8"))["sha256"]
    sign(index_dir, {"sha256": known | {name: hashlib.sha256(data).hexdigest()}})


def sign(index_dir: Path, part: dict[str, Any]) -> None:
    """Change a part of the manifest, and its checksum with it."""
    manifest = json.loads((index_dir / "manifest.json").read_text(encoding="utf-8")) | part
    del manifest["sha256_of_this"]
    text = json.dumps(manifest, ensure_ascii=False, sort_keys=True)
    manifest["sha256_of_this"] = hashlib.sha256(text.encode("utf-8")).hexdigest()
    (index_dir / "manifest.json").write_text(json.dumps(manifest, ensure_ascii=False), encoding="utf-8")


@pytest.mark.parametrize(
    "line",
    [
        '{"text": 3}', '{"heading": null}', '{"title": ["a"]}', '{"questions": [{}]}', '{"source": "a\\ud800.md"}', "[]",
        '"a"', "[" * 100_000,
    ],
    ids=lambda line: line[:30],
)  # fmt: skip
def test_a_passage_that_is_no_text_is_a_damaged_index(runbooks: Path, index_dir: Path, line: str) -> None:
    build_index(runbooks, index_dir=index_dir)
    first, *rest = (index_dir / "passages.jsonl").read_text("utf-8").split("\n")
    if line.startswith("{"):
        line = json.dumps(json.loads(first) | json.loads(line))
    forge(index_dir, "passages.jsonl", "\n".join([line, *rest]).encode())
    with pytest.raises(ConfigError, match=r"passages.jsonl: .*socjudge index"):
        load_index(index_dir)


@pytest.mark.parametrize(
    "part",
    [
        {"embedder": None},
        {"embedder": "LetterEmbeddings"},
        {"files": []},
        {"runbooks": 3},
        {"synonyms": {"a": 3}},
        {"sha256": {"vectors.npy": None}},
    ],
    ids=str,
)
def test_a_manifest_of_another_form_is_a_damaged_index(runbooks: Path, index_dir: Path, part: dict[str, Any]) -> None:
    build_index(runbooks, index_dir=index_dir)
    sign(index_dir, part)
    with pytest.raises(ConfigError, match=r"manifest.json: .*socjudge index"):
        load_index(index_dir)


def test_pickled_vectors_are_refused_even_with_right_checksums(runbooks: Path, index_dir: Path, tmp_path: Path) -> None:
    build_index(runbooks, index_dir=index_dir)
    np.save(tmp_path / "evil.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    forge(index_dir, "vectors.npy", (tmp_path / "evil.npy").read_bytes())
    with pytest.raises(ConfigError, match=r"vectors\.npy.*allow_pickle"):
        load_index(index_dir)


def test_vectors_that_do_not_fit_the_passages_are_refused(runbooks: Path, index_dir: Path, tmp_path: Path) -> None:
    build_index(runbooks, index_dir=index_dir)
    for bad in (
        np.zeros((2, 512), np.float16),
        np.full((9, 512), np.nan, np.float16),
        np.zeros(4, np.float16),
    ):
        np.save(tmp_path / "bad.npy", bad)
        forge(index_dir, "vectors.npy", (tmp_path / "bad.npy").read_bytes())
        with pytest.raises(ConfigError, match=r"vectors\.npy"):
            load_index(index_dir)


def test_no_index_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no index there .*socjudge index"):
        load_index(tmp_path / "absent")


def test_index_older_than_its_runbooks_says_so(runbooks: Path, index_dir: Path) -> None:
    build_index(runbooks, index_dir=index_dir)
    assert load_index(index_dir).stale_files() == []
    (runbooks / "new.md").write_text("## 節\n本文の文章。", encoding="utf-8")
    (runbooks / "phishing.md").unlink()
    (runbooks / "isolation.md").write_text(ISOLATION + "追記。\n", encoding="utf-8")
    with pytest.warns(UserWarning, match=r"older than its runbooks \(isolation\.md, new\.md, phishing\.md\)"):
        index = load_index(index_dir)
    assert index.stale_files() == ["isolation.md", "new.md", "phishing.md"]


def test_a_moved_clone_still_finds_its_runbooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "books").mkdir(parents=True)
    (tmp_path / "a" / "books" / "x.md").write_text(ISOLATION, encoding="utf-8")
    build_index(tmp_path / "a" / "books", index_dir=tmp_path / "a" / "index")
    (tmp_path / "a").rename(tmp_path / "b")
    monkeypatch.setattr(constants, "PROJECT_DIR", tmp_path / "b")
    index = load_index(tmp_path / "b" / "index")
    assert index.runbooks == tmp_path / "b" / "books" and index.stale_files() == []


# --- searching


def test_search_finds_by_words_and_by_meaning(project_index: RunbookIndex) -> None:
    assert project_index.search("PAN-OSのIR-BLOCKに宛先を追加してコミットする")[0].source == "network_blocking.md"
    assert "ransomware_response.md" in {p.source for p in project_index.search("ランサムウェア感染時の初動は？")}
    # No word of this is in the runbook.
    assert project_index.search("誰かになりすまされている")[0].score > 0


def test_results_are_sorted_bounded_and_repeatable(project_index: RunbookIndex) -> None:
    found = project_index.search("フィッシングメールを開いた", k=9)
    scores = [passage.score for passage in found]
    assert len(found) == 9 and scores == sorted(scores, reverse=True) and 0 <= scores[-1] <= scores[0] <= 1
    assert found == project_index.search("フィッシングメールを開いた", k=9)
    assert found[:3] == project_index.search("フィッシングメールを開いた", k=3)


def test_ties_follow_file_order(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    for name in ("b.md", "a.md", "c.md"):
        (tmp_path / "r" / name).write_text("---\ntitle: 同じ\n---\n同じ文章が並ぶ。", encoding="utf-8")
    index = build_index(tmp_path / "r", index_dir=tmp_path / "i")
    assert [p.source for p in index.search("同じ文章")] == ["a.md", "b.md", "c.md"]


@pytest.mark.parametrize("query", ["", "  \n　"])
def test_empty_query_finds_nothing(project_index: RunbookIndex, query: str) -> None:
    assert project_index.search(query) == []
    assert project_index.evidence(query).bm25_ratio == 0


@pytest.mark.parametrize("query", ["😀", "!?…", "；　。", "\ud800", "🛡" * 3000])
def test_symbols_are_searched_by_meaning(project_index: RunbookIndex, query: str) -> None:
    assert len(project_index.search(query, k=3)) == 3
    assert project_index.evidence(query).bm25_ratio == 0


@pytest.mark.parametrize("query", ["Google_検索", "請求書_2026.xlsm", "_", "__検__"])
def test_an_underscore_in_a_query_is_no_word(query: str) -> None:
    match = Bm25(["検索の手順を示す", "隔離の手順"]).match(query)
    assert "_" not in "".join(token for token in match.unknown if len(token) < 3)
    assert match.scores.shape == (2,)


@given(texts=st.lists(st.text(max_size=30), min_size=1, max_size=4), query=st.text(max_size=30))
def test_any_text_can_be_indexed_and_matched(texts: list[str], query: str) -> None:
    assert all(tokenise(query)) and all(tokenise(text) for text in texts if content_words(text))
    match = Bm25(texts).match(query)
    assert match.scores.shape == (len(texts),) and np.isfinite(match.scores).all() and 0 <= match.ratio < 1


def test_k_beyond_the_passages_gives_all_and_below_one_is_refused(runbooks: Path, index_dir: Path) -> None:
    index = build_index(runbooks, index_dir=index_dir)
    assert len(index.search("隔離", k=99)) == len(index) == 3
    with pytest.raises(ValueError, match="at least 1"):
        index.search("隔離", k=0)


def test_evidence_is_higher_for_what_the_runbooks_cover(project_index: RunbookIndex) -> None:
    covered = project_index.evidence("漏えいしたアクセスキーの無効化の期限は")
    absent = project_index.evidence("量子コンピュータの暗号移行計画とタクシー代の精算方法は")
    assert covered.bm25_ratio > 2 * absent.bm25_ratio and covered.top_cosine > absent.top_cosine
    assert "コンピュータ" in absent.unknown_tokens and "コンピュータ" not in covered.unknown_tokens


def test_passages_show_the_body_without_title_or_heading(runbooks: Path, index_dir: Path) -> None:
    index = build_index(runbooks, index_dir=index_dir)
    assert index.passages[1].text == "全体スキャンの結果が陰性であることを確認し、隔離を解除する。"
    assert (index.passages[1].heading, index.passages[1].source) == ("解除", "isolation.md")


def test_a_search_is_a_step_of_a_langchain_chain(project_index: RunbookIndex) -> None:
    assert RunnableLambda(project_index.search).invoke("端末の隔離") == project_index.search("端末の隔離")


@pytest.mark.slow
def test_threads_find_what_one_thread_finds(project_index: RunbookIndex) -> None:
    queries = [f"{passage.text[:30]} {i}" for i, passage in enumerate(project_index.passages[:60])]
    fresh = without_cache(project_index)
    with ThreadPoolExecutor(8) as pool:
        threaded = list(pool.map(fresh.search, queries))
    assert threaded == [project_index.search(query) for query in queries]


def without_cache(index: RunbookIndex) -> RunbookIndex:
    """The same index with nothing cached."""
    return RunbookIndex(index._stored, {}, index.index_dir)


def test_bm25_share_grows_with_what_the_runbooks_know() -> None:
    assert [get_bm25_weight(ratio) for ratio in (0, 0.03, 0.09, 0.15, 1)] == pytest.approx([0, 0, 0.4, 0.8, 0.8])


def test_mixed_scores_by_hand() -> None:
    bm25, similar = np.array([0, 2, 4], np.float32), np.array([0.5, 0.5, 0.1], np.float32)
    # spread: 0, .5, 1 and 1, 1, 0; times .25 and .75
    assert mix_scores(bm25, similar, 0.25).tolist() == pytest.approx([0.75, 0.875, 0.25])
    assert mix_scores(np.zeros(3, np.float32), similar, 0.5).tolist() == pytest.approx([0.5, 0.5, 0])


def test_best_sentence_counts_two_thirds() -> None:
    blended = blend_sentences(np.array([0.3, 0.6], np.float32), np.array([0.1, 0.9], np.float32), np.array([0, 0]))
    assert blended.tolist() == pytest.approx([0.7, 0.6])  # (2 * .9 + .3) / 3; no sentence: itself


# --- the labelled questions and playbooks we did not write


def load_questions() -> list[dict[str, str]]:
    lines = [line for path in QUESTION_PATHS for line in path.read_text(encoding="utf-8").splitlines()]
    return [json.loads(line) for line in lines]


def test_paraphrases_share_no_content_word_with_their_passage() -> None:
    chunks = [chunk for book in load_runbooks(RUNBOOKS_DIR) for chunk in book.chunks]
    questions = load_questions()
    assert len({q["id"] for q in questions}) == len(questions) >= 70
    for q in questions:
        right = [c for c in chunks if c.source == q["source"] and c.heading.startswith(q["heading"])]
        assert right, f"{q['id']}: no passage {q['source']} > {q['heading']}"
        if q["kind"] == "paraphrase":
            shared = content_words(q["question"]) & content_words("\n".join(c.search_text for c in right))
            assert not shared, f"{q['id']}: shares {shared}"


@pytest.mark.slow
def test_lexical_questions_find_their_passage(project_index: RunbookIndex) -> None:
    questions = [q for q in load_questions() if q["kind"] == "lexical"]
    hits = [
        any(p.source == q["source"] and p.heading.startswith(q["heading"]) for p in project_index.search(q["question"]))
        for q in questions
    ]
    assert sum(hits) / len(hits) >= 0.95  # 0.964 when written (benchmarks/assistant.md)


@pytest.mark.slow
def test_paraphrases_find_their_passage(project_index: RunbookIndex) -> None:
    fresh = [q for q in load_questions() if q["split"] == "fresh"]

    def hits(order: list[list[Passage]]) -> int:
        return sum(
            any(p.source == q["source"] and p.heading.startswith(q["heading"]) for p in passages[:5])
            for q, passages in zip(fresh, order, strict=True)
        )

    assert (
        hits([project_index.search(q["question"]) for q in fresh]) >= 38
    )  # 42 of 50 when written (benchmarks/assistant.md)


def test_an_example_project_embeds_nothing(project_index: RunbookIndex) -> None:
    assert project_index.n_embedded == 0  # if this fails: make vectors


# --- questions


def write_questions(folder: Path, questions: object) -> None:
    (folder / "questions.json").write_text(json.dumps(questions, ensure_ascii=False), encoding="utf-8")


def test_a_question_in_peoples_words_finds_the_passage_that_a_person_gave_it_to(
    runbooks: Path, index_dir: Path
) -> None:
    asked = "変なサイトに暗証番号をうっかり入れた"
    without = build_index(runbooks, index_dir=index_dir)
    assert without.evidence(asked).question_cosine is None
    write_questions(runbooks, {"phishing.md": {"初動対応": ["あやしいページで暗証番号を打っちゃいました"]}})
    built = build_index(runbooks, index_dir=index_dir)
    assert built.n_embedded == 1 and built.fingerprint != without.fingerprint
    assert built.search(asked, k=1)[0].source == "phishing.md"
    evidence = built.evidence(asked)
    assert evidence.question_cosine is not None and evidence.question_cosine > evidence.top_cosine
    assert built.passages == without.passages  # what is quoted stays the runbook's text
    loaded = load_index(index_dir)
    assert loaded.fingerprint == built.fingerprint and loaded.search(asked) == built.search(asked)


def test_changed_questions_make_the_index_stale(runbooks: Path, index_dir: Path) -> None:
    build_index(runbooks, index_dir=index_dir)
    write_questions(runbooks, {"phishing.md": {"初動対応": ["騙された？"]}})
    with pytest.warns(UserWarning, match=r"questions\.json.*socjudge index"):
        load_index(index_dir)
    assert build_index(runbooks, index_dir=index_dir).stale_files() == []


def test_questions_for_headings_and_runbooks_that_are_gone_are_left_out_with_one_warning(
    runbooks: Path, index_dir: Path
) -> None:
    old = {f"old{n}.md": {"初動対応": ["どうする？"]} for n in range(6)}
    write_questions(runbooks, {"phishing.md": {"初動": ["騙された？"], "初動対応": ["入れちゃった"]}, **old})
    with pytest.warns(UserWarning) as caught:
        index = build_index(runbooks, index_dir=index_dir)
    (told,) = [str(warning.message) for warning in caught]
    assert "questions.json: 7 runbooks or headings" in told
    assert told.endswith("old0.md, old1.md, old2.md, old3.md, old4.md …")
    assert [chunk.questions for chunk in index._stored.chunks] == [(), (), ("入れちゃった",)]


def test_a_heading_that_is_gone_is_named_with_its_runbook(runbooks: Path, index_dir: Path) -> None:
    write_questions(runbooks, {"phishing.md": {"初動": ["騙された？"]}})
    with pytest.warns(UserWarning, match="phishing.md > 初動$"):
        build_index(runbooks, index_dir=index_dir)


@pytest.mark.parametrize("text", ["{", "[]", '{"a.md": []}', '{"a.md": {"h": "q"}}', '{"a.md": {"h": [""]}}'])
def test_bad_questions_name_the_file(runbooks: Path, index_dir: Path, text: str) -> None:
    (runbooks / "questions.json").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"questions\.json"):
        build_index(runbooks, index_dir=index_dir)


def test_every_section_that_answers_has_six_to_ten_questions_or_more_and_none_is_a_labelled_one() -> None:
    books = add_questions(load_runbooks(RUNBOOKS_DIR), RUNBOOKS_DIR)  # a heading that is gone would warn, and fail
    chunks = [c for book in books for c in book.chunks if not c.heading.startswith(("チェックリスト", "関連手順書"))]
    assert {len(c.questions) for c in chunks if not c.heading.startswith("発動条件")} <= set(range(6, 11))
    # What somebody reports who does not know which runbook it is: each trigger in several people's words.
    assert {len(c.questions) for c in chunks if c.heading == "発動条件"} <= set(range(6, 31))
    labelled = {normalise_text(q["question"]) for q in load_questions()}
    assert not labelled & {normalise_text(q) for c in chunks for q in c.questions}


# --- synonyms and reranking


def test_synonyms_find_what_everyday_words_mean(runbooks: Path, index_dir: Path) -> None:
    assert build_index(runbooks, index_dir=index_dir).add_synonyms("合言葉を教えちゃった") == "合言葉を教えちゃった"
    entries = {"合言葉": ["パスワード"], "教えちゃ": ["認証情報", "入力した"], "教え": ["隔離"]}
    (runbooks / "synonyms.json").write_text(json.dumps(entries), encoding="utf-8")
    built = build_index(runbooks, index_dir=index_dir)
    assert built.n_embedded == 0
    assert built.add_synonyms("合言葉を教えちゃった") == "合言葉を教えちゃった パスワード 認証情報 入力した"
    assert built.search("合言葉を教えちゃった", k=1)[0].source == "phishing.md"
    assert load_index(index_dir).fingerprint == built.fingerprint


def test_changed_synonyms_make_the_index_stale(runbooks: Path, index_dir: Path) -> None:
    build_index(runbooks, index_dir=index_dir)
    (runbooks / "synonyms.json").write_text('{"合言葉": ["パスワード"]}', encoding="utf-8")
    with pytest.warns(UserWarning, match=r"synonyms\.json.*socjudge index"):
        load_index(index_dir)


@pytest.mark.parametrize("text", ["{", "[]", '{"a": "b"}', '{"a": []}x', '{"": ["b"]}', '{"a": [1]}'])
def test_bad_synonyms_name_the_file(runbooks: Path, index_dir: Path, text: str) -> None:
    (runbooks / "synonyms.json").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"synonyms\.json"):
        build_index(runbooks, index_dir=index_dir)


def test_the_bundled_synonyms_lead_to_words_of_the_runbooks(project_index: RunbookIndex) -> None:
    known = normalise_text("\n".join(chunk.words_text for chunk in project_index._stored.chunks))
    assert [word for word in project_index.synonyms if word in known] == []  # the questions have taught these
    text = normalise_text("\n".join(f"{p.heading}\n{p.text}" for p in project_index.passages))
    titles = normalise_text("\n".join(book.chunks[0].title for book in load_runbooks(RUNBOOKS_DIR)))
    for word, terms in project_index.synonyms.items():
        for term in terms:
            assert normalise_text(term) in text + titles, (word, term)


def test_reranking_prefers_the_runbook_on_the_subject_and_the_section_that_is_asked_for() -> None:
    passages = [
        Passage("", "a.md", "目的", 0.9),
        Passage("", "b.md", "復旧", 0.8),
        Passage("", "a.md", "封じ込め > 端末", 0.7),
        Passage("", "a.md", "調査", 0.6),
    ]
    # a.md: (0.9 + 0.7 + 0.6) / 3 = 0.733; b.md: 0.8 / 3 = 0.267
    # 目的 0.9 + 0.513 - 0.2; 復旧 0.8 + 0.187; 封じ込め 0.7 + 0.513 + 0.1; 調査 0.6 + 0.513; all / 1.95
    ranked = rerank("封じ込めの手順は", passages)
    assert [p.heading for p in ranked] == ["封じ込め > 端末", "目的", "調査", "復旧"]
    assert ranked[0].score == pytest.approx((0.7 + 0.7 * 2.2 / 3 + 0.1) / 1.95)
    assert rerank("この手順書の目的は", passages)[0].heading == "目的"
    covering = rerank("封じ込めの手順は", passages, {"b.md": 1.0})  # 復旧 0.8 + 0.187 + 0.15
    assert [p.heading for p in covering] == ["封じ込め > 端末", "目的", "復旧", "調査"]


def test_words_of_a_whole_runbook_tell_nothing_about_its_sections() -> None:
    texts = ["メールの報告をする", "メールの隔離をする", "サーバを止める", "回線を止める"]
    bm25 = Bm25(texts)
    together = bm25.match("メール 報告").scores
    among = bm25.match_among("メール 報告", [0, 1])
    assert among[0] > among[1] > 0
    assert among[1] / among[0] < together[1] / together[0]
    assert bm25.match_among("メール", [2, 3]).tolist() == [0.0, 0.0]
    assert bm25.match_among("", [0, 1]).tolist() == [0.0, 0.0]


def test_a_group_of_texts_covers_what_its_best_texts_say_together() -> None:
    bm25 = Bm25(["メールを開いた", "回線を止めた", "メールの設定", "予定の確認"])
    covered = bm25.match_groups("メールを開いたら回線が止まった", np.array([0, 0, 1, 1]))
    scores = bm25.match("メールを開いたら回線が止まった").scores
    assert covered[0] > scores[0]  # the second text adds its words
    assert covered[0] > covered[1] > 0
    # by hand: a token in one text only counts as there
    alone = bm25.match_groups("回線", np.array([0, 0, 1, 1]))
    assert alone.tolist() == pytest.approx([bm25.match("回線").scores[1], 0.0])


@pytest.mark.slow
def test_sections_are_told_apart_by_each_sentence_of_a_question(project_index: RunbookIndex) -> None:
    question = "緊急の修正の期限を教えてください。また、侵害調査ではどの日付までログを遡りますか。"
    rated = project_index.rate_sections(question, "urgent_vulnerability.md")
    assert [p.heading for p in rated] == [
        p.heading for p in project_index.passages if p.source == "urgent_vulnerability.md"
    ]
    assert all(0 <= p.score <= 1 for p in rated)
    best = [p.heading for p in sorted(rated, key=lambda p: -p.score)[:4]]
    assert "調査" in best


def test_sentences_are_rated_by_their_likeness_to_a_question(project_index: RunbookIndex) -> None:
    passages = [p for p in project_index.passages if p.heading == "連絡の手順 > 夜間・休日の呼び出し"]
    rated = project_index.rate_sentences("リーダーが電話に出ないとき、次は誰にかけますか", passages)
    assert set(split_sentences(passages[0].text)) <= set(rated)
    best = max(rated, key=lambda sentence: rated[sentence])
    assert "応答しない" in best or "連絡" in best


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "query", "source"),
    [
        ("aws_ja", "S3バケットのパブリックアクセスをブロックする", "ja.S3_Public_Access.md"),
        (
            "counteractive_en",
            "analyze the phishing message using a safe device",
            "playbooks_playbook-phishing.md",
        ),
    ],
)
def test_playbooks_of_others_can_be_searched(tmp_path: Path, folder: str, query: str, source: str) -> None:
    index = build_index(OTHERS / folder, index_dir=tmp_path)
    assert source in {passage.source for passage in index.search(query)}


# --- What a long report asks, apart from its story; and the runbook that one of its sentences speaks for

STORY = "倉庫の端末の件です。検知のあと切り離しました。どうせ誰も使っていません。"


@pytest.mark.parametrize(
    ("ending", "asking"),
    [
        ("いつ戻せばいいですか。よろしくお願いします。", "いつ戻せばいいですか"),
        ("記録は何を残す？上司には誰が話す？", "記録は何を残す。上司には誰が話す"),
        ("これから電源を入れてみます。", "これから電源を入れてみます"),
        ("利用者は席で待っています。", ""),
    ],
)
def test_of_a_long_report_the_sentences_that_ask_are_found_or_else_the_plan(ending: str, asking: str) -> None:
    assert find_asking(STORY + ending) == asking


def test_a_short_question_is_asked_as_a_whole() -> None:
    assert find_asking("端末が感染しました。いつ戻せますか。") == ""


def test_clauses_are_the_last_sentences_that_say_something() -> None:
    assert split_clauses("え！？画面が変です…助けてください。") == ["画面が変です", "助けてください"]
    assert len(split_clauses("画面が変わりました。" * 9)) == 6


@pytest.mark.parametrize(
    ("heading", "asking", "is_wanted"),
    [
        ("復旧", "いつ業務に戻していいですか", True),
        ("隔離後の確認と解除", "設定を外すのは誰ですか", False),
        ("隔離後の確認と解除", "分離を解除していいですか", True),
        ("調査 > 侵入経路", "どこまで広がったか調べる方法は", True),
        ("初動対応", "いつ業務に戻していいですか", False),
    ],
)
def test_a_section_is_of_the_stage_that_is_asked_for(heading: str, asking: str, is_wanted: bool) -> None:
    assert is_of_stage(heading, asking) is is_wanted


def test_leave_is_asked_for_an_act_not_for_a_time() -> None:
    assert asks_leave("もう戻していいですよね")
    assert not asks_leave("いつ戻せばいいのか、誰が決めるのかを教えてください。")


def test_one_sentence_can_speak_for_another_runbook_than_the_whole_report() -> None:
    whole = [Passage("a", "story.md", "初動", 0.9), Passage("b", "asked.md", "復旧", 0.8)]
    sentences = [
        [Passage("a", "story.md", "初動", 0.6), Passage("b", "asked.md", "復旧", 0.5)],
        [Passage("b", "asked.md", "復旧", 0.95)],
    ]
    assert choose_runbook(whole) == "story.md"
    assert choose_runbook(whole, sentences) == "asked.md"
    assert choose_runbook(whole, sentences[:1]) == "story.md"
