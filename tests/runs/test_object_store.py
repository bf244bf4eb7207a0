"""Logs in an object store: a real S3 server on loopback, with its rights, its refusals and its absence."""

from __future__ import annotations

import errno
import json
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import boto3
import pytest
import s3fs
from fsspec.registry import _registry
from one_run import STARTED, one_run
from run_options import with_options
from service import Service
from typer.testing import CliRunner
from upath import UPath

from socjudge import (
    ConfigError,
    EvalQuestion,
    EvaluationRun,
    constants,
    load_run,
    load_scores,
    rejudge,
    run_evaluation_suite,
    unfinished_runs,
)
from socjudge.base import storage as places
from socjudge.cli.app import app
from socjudge.history import check_logs
from socjudge.judge import save_evaluation_results
from socjudge.records import EvaluationResult
from socjudge.runbooks.index import RunbookIndex
from socjudge.runs import finishing as finish
from socjudge.runs import journal, logs
from socjudge.runs.logs import LoggedResults, log_files

pytestmark = pytest.mark.slow

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
URL = "s3://logs/team"


@dataclass(frozen=True)
class Store:
    """An S3 service with the bucket "logs"."""

    endpoint: str
    client: Any
    environment: pytest.MonkeyPatch
    rights: ExitStack

    def names(self) -> list[str]:
        return [entry["Key"] for entry in self.client.list_objects_v2(Bucket="logs").get("Contents", [])]

    def remove_bucket(self) -> None:
        for name in self.names():
            self.client.delete_object(Bucket="logs", Key=name)
        self.client.delete_bucket(Bucket="logs")

    def become(self, *actions: str) -> None:
        """Go on as a user who may do these things and nothing else."""
        with closing(boto3.client("iam", endpoint_url=self.endpoint)) as iam:
            statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
            policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
            iam.create_user(UserName="user")
            iam.put_user_policy(UserName="user", PolicyName="rights", PolicyDocument=policy)
            key = iam.create_access_key(UserName="user")["AccessKey"]
        self.environment.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
        self.environment.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
        from moto.core import enable_iam_authentication

        self.rights.enter_context(enable_iam_authentication())
        forget_sessions()


def forget_sessions() -> None:
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer  # half a second, and every worker imports this file

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()
    server._server.server_close()  # stop() leaves its socket open


@pytest.fixture
def store(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Store]:
    """The service, empty but for the bucket, with the environment pointing to it and the journals in tmp_path/logs."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_S3": endpoint,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "AWS_MAX_ATTEMPTS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(constants, "LOGS_DIR", tmp_path / "logs")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/moto-api/reset", method="POST")).close()
    forget_sessions()
    with closing(boto3.client("s3")) as client, ExitStack() as rights:
        client.create_bucket(Bucket="logs")
        yield Store(endpoint, client, monkeypatch, rights)
    forget_sessions()


def run_offline(
    questions: list[EvalQuestion], index: RunbookIndex, logs_dir: Path | str = URL, **keywords: Any
) -> EvaluationRun:
    keywords = {"assistant_model": "offline", "judge_model": "offline", **keywords}
    return run_evaluation_suite(questions, index=index, logs_dir=logs_dir, progress=False, **with_options(**keywords))


# -- a run


def test_a_run_is_logged_as_one_object_and_loads_back(
    store: Store, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    run = run_offline(questions[:3], index)
    assert isinstance(run.log_path, UPath)
    assert store.names() == [f"team/{run.log_path.name}"]
    loaded = load_run(f"{URL}/{run.log_path.name}")
    assert loaded == load_run(run.log_path) == run
    assert loaded.log_path == run.log_path
    assert list((tmp_path / "logs").iterdir()) == []  # neither the journal nor its lock is left


def test_the_object_holds_what_the_file_would(store: Store, tmp_path: Path) -> None:
    run = one_run()
    key = save_evaluation_results(run, URL).path.removeprefix("logs/")  # type: ignore[attr-defined]
    stored = store.client.get_object(Bucket="logs", Key=key)
    with stored["Body"] as body:
        assert body.read() == save_evaluation_results(run, tmp_path).read_bytes()
    assert stored["ContentType"] == "application/json"


def test_rejudge_reads_from_the_bucket_and_writes_to_it(
    store: Store, index: RunbookIndex, questions: list[EvalQuestion]
) -> None:
    first = run_offline(questions[:2], index)
    assert first.log_path is not None
    second = rejudge(load_run(str(first.log_path)), judge_model="offline", logs_dir=URL, progress=False)
    assert second.run.rejudged_from == first.run.run_id
    assert len(store.names()) == 2


def test_the_journal_is_local_and_a_broken_off_run_goes_on_into_the_bucket(
    store: Store, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    def interrupt(result: EvaluationResult) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_offline(questions[:3], index, max_concurrency=1, on_result=interrupt)
    assert store.names() == []
    (unfinished,) = unfinished_runs(URL)
    assert unfinished.path.parent == tmp_path / "logs"
    run = run_offline(questions[:3], index)
    assert (run.run.run_id, run.run.sessions) == (unfinished.run.run_id, 2)
    assert len(store.names()) == 1
    assert unfinished_runs(URL) == []


def test_a_run_whose_log_is_in_the_bucket_is_not_taken_up_again(
    store: Store, index: RunbookIndex, questions: list[EvalQuestion], monkeypatch: pytest.MonkeyPatch
) -> None:
    close = journal.Journal.close
    with monkeypatch.context() as killed:  # before the journal could be removed
        killed.setattr(journal.Journal, "close", lambda self, discard=False: close(self))
        first = run_offline(questions[:1], index)
    assert len(unfinished_runs(URL)) == 1
    second = run_offline(questions[:1], index)
    assert second.run.run_id != first.run.run_id
    assert unfinished_runs(URL) == []


@pytest.mark.parametrize("place", [URL, "here"])
def test_a_large_run_is_read_from_its_log_row_by_row(
    store: Store,
    index: RunbookIndex,
    questions: list[EvalQuestion],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    monkeypatch.setattr(finish, "IN_MEMORY", 2)
    monkeypatch.setattr(logs, "AT_ONCE", 2)
    run = run_offline(questions[:5], index, URL if place == URL else tmp_path / "here")
    assert isinstance(run.results, LoggedResults)
    assert run.log_path is not None
    rows = load_run(run.log_path).results
    reads: list[str] = []
    monkeypatch.setattr(logs, "load_bytes", lambda path, *at: reads.append(path) or places.load_bytes(path, *at))
    assert list(run.results) == list(rows)
    assert len(reads) == 3  # rows 0 and 1, 2 and 3, 4
    assert list(reversed(run.results)) == list(rows[::-1])
    assert (run.results[3], run.results[-1]) == (rows[3], rows[4])
    assert run.results[1:5:3] == list(rows[1:5:3])
    assert run.results[4:0:-2] == list(rows[4:0:-2])
    assert run.results[2:2] == []
    assert run == load_run(run.log_path)


def test_a_large_run_whose_log_is_gone_says_so(
    store: Store, index: RunbookIndex, questions: list[EvalQuestion], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finish, "IN_MEMORY", 0)
    run = run_offline(questions[:1], index)
    store.remove_bucket()
    with pytest.raises(ConfigError, match=r"s3://logs/team/judge_eval_.*cannot be read any more.*does not exist"):
        list(run.results)


def test_the_command_line_takes_urls(store: Store, index: RunbookIndex, tmp_path: Path) -> None:
    dataset = tmp_path / "two.json"
    dataset.write_text(json.dumps(json.loads(constants.EVAL_DATASET_PATH.read_bytes())[:2]), encoding="utf-8")
    options = ["-q", "--judge-model", "offline", "--logs-dir", URL]
    inputs = ["--dataset", str(dataset), "--index-dir", str(index.index_dir)]
    ran = CliRunner().invoke(app, ["run", *options, *inputs, "--assistant-model", "offline"])
    assert ran.exit_code == 0, ran.output
    (name,) = store.names()
    assert f"評価完了！結果を s3://logs/{name} に保存しました" in ran.output
    again = CliRunner().invoke(app, ["rejudge", f"s3://logs/{name}", *options])
    assert again.exit_code == 0, again.output
    assert len(store.names()) == 2
    missing = CliRunner().invoke(app, ["rejudge", "s3://logs/team/judge_eval_20260101_000000.json", *options])
    assert missing.exit_code == 2
    assert "judge_eval_20260101_000000.json: the log cannot be read (not found" in missing.output


# -- nothing is overwritten


def test_a_name_that_is_taken_moves_on_by_a_second(store: Store) -> None:
    run = replace(one_run(), run=replace(one_run().run, started_at="2026-01-02T03:04:59+09:00"))
    names = [save_evaluation_results(run, URL).name for _ in range(2)]
    names.append(save_evaluation_results(replace(run, run=replace(run.run, run_id="other")), URL).name)
    assert names == [
        "judge_eval_20260102_030459.json",
        "judge_eval_20260102_030500.json",
        "judge_eval_20260102_030501.json",
    ]
    assert len(store.names()) == 3


def test_a_writer_in_the_same_moment_is_not_overwritten(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    # Both look before either has written.
    monkeypatch.setattr(s3fs.S3FileSystem, "exists", lambda self, path: False)
    runs = [replace(one_run(), run=replace(one_run().run, run_id=name)) for name in ("first", "second")]
    paths = [save_evaluation_results(run, URL) for run in runs]
    assert [load_run(path).run.run_id for path in paths] == ["first", "second"]
    assert len(store.names()) == 2


def test_an_upload_whose_reply_was_lost_is_not_made_twice(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put, calls = s3fs.S3FileSystem._put_file, []

    async def put_twice(*arguments: Any, **keywords: Any) -> None:
        calls.append(arguments)
        await put(*arguments, **keywords)
        if len(calls) == 1:  # as botocore does after a lost reply; now the name is taken, by ourselves
            await put(*arguments, **keywords)

    monkeypatch.setattr(s3fs.S3FileSystem, "_put_file", put_twice)
    path = save_evaluation_results(one_run(), URL)
    assert store.names() == [f"team/{path.name}"]


def test_a_store_without_conditional_writes_is_written_all_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = s3fs.S3FileSystem._put_file

    async def put_simply(*arguments: Any, mode: str = "overwrite", **keywords: Any) -> None:
        if mode == "create":
            raise OSError(errno.ENOSYS, "A header you provided implies functionality that is not implemented")
        await put(*arguments, **keywords)

    monkeypatch.setattr(s3fs.S3FileSystem, "_put_file", put_simply)
    paths = [save_evaluation_results(one_run(), URL) for _ in range(2)]
    assert [load_run(path) for path in paths] == [one_run()] * 2
    assert len(store.names()) == 2


# -- a store that cannot be written


def no_bucket(store: Store) -> None:
    store.remove_bucket()


def no_credentials(store: Store) -> None:
    store.environment.delenv("AWS_ACCESS_KEY_ID")
    store.environment.delenv("AWS_SECRET_ACCESS_KEY")


def no_service(store: Store) -> None:
    store.environment.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")  # nobody listens there


def no_package(store: Store) -> None:
    store.environment.setitem(sys.modules, "s3fs", None)
    store.environment.delitem(_registry, "s3", raising=False)  # where fsspec keeps what it has imported


def no_right_to_write(store: Store) -> None:
    store.become("s3:ListBucket", "s3:GetObject")


FAULTS = pytest.mark.parametrize(
    ("fault", "remedy"),
    [
        (no_bucket, "create the bucket.*The specified bucket does not exist"),
        (no_credentials, "check the credentials .AWS_ACCESS_KEY_ID.*NoCredentialsError"),
        (no_service, "cannot be reached: check the network and AWS_ENDPOINT_URL"),
        (no_package, r"pip install 'socjudge\[s3\]'"),
        (no_right_to_write, "access denied: check the credentials"),
    ],
)


@FAULTS
def test_a_store_that_cannot_be_written_stops_the_run_before_the_first_call(
    store: Store,
    service: Service,
    index: RunbookIndex,
    questions: list[EvalQuestion],
    tmp_path: Path,
    fault: Callable[[Store], None],
    remedy: str,
) -> None:
    fault(store)
    forget_sessions()
    with pytest.raises(ConfigError, match=rf"{URL}: no log can be written there.*{remedy}"):
        run_offline(questions, index, assistant_model="gpt-4o-mini", judge_model="gpt-4o-mini")
    assert service.requests == []
    assert not (tmp_path / "logs").exists()


@FAULTS
def test_a_log_that_cannot_be_put_there_is_kept_elsewhere_with_the_reason(
    store: Store, fault: Callable[[Store], None], remedy: str
) -> None:
    fault(store)
    forget_sessions()
    with pytest.warns(UserWarning, match=rf"{URL}: .*{remedy}.*results are safe in"):
        path = save_evaluation_results(one_run(), URL)
    assert path.parent == logs.fallback_folder()
    assert load_run(path) == one_run()


def test_a_bucket_that_goes_away_during_the_run_loses_nothing(
    store: Store, service: Service, index: RunbookIndex, questions: list[EvalQuestion]
) -> None:
    def remove(result: EvaluationResult) -> None:
        if result.question.id == 1:
            store.remove_bucket()

    with pytest.warns(UserWarning, match=rf"{URL}: the log cannot be written .*results are safe in .*judge_eval_"):
        run = run_offline(questions, index, assistant_model="gpt-4o-mini", judge_model="gpt-4o-mini", on_result=remove)
    assert run.log_path is not None
    assert run.log_path.parent == logs.fallback_folder()
    assert load_run(run.log_path) == run
    assert service.judge_calls == 10


def test_credentials_that_were_mended_are_used_at_once(
    store: Store, index: RunbookIndex, questions: list[EvalQuestion]
) -> None:
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("AWS_ACCESS_KEY_ID")
        with pytest.raises(ConfigError, match="check the credentials"):
            run_offline(questions[:1], index)
    assert run_offline(questions[:1], index).log_path is not None


def test_the_right_to_write_is_enough(store: Store, index: RunbookIndex, questions: list[EvalQuestion]) -> None:
    store.become("s3:PutObject")
    runs = [run_offline(questions[:1], index) for _ in range(2)]  # perhaps in the same second
    with pytest.raises(ConfigError, match="the logs cannot be listed .access denied"):
        log_files(URL)
    store.rights.close()
    assert store.names() == [f"team/{run.log_path.name}" for run in runs if run.log_path is not None]


def test_trying_a_place_leaves_nothing_behind(store: Store) -> None:
    places.check_place(places.as_path(URL))
    assert store.names() == []
    assert "Uploads" not in store.client.list_multipart_uploads(Bucket="logs")


def test_a_web_address_is_not_written_to(index: RunbookIndex, questions: list[EvalQuestion]) -> None:
    with pytest.raises(ConfigError, match="a web address can only be read"):
        run_offline(questions, index, "https://logs.invalid/team")


# -- secrets


@pytest.mark.parametrize("url", [f"s3://AKIAKEY:{SECRET}@logs/team", f"s3://logs/team?X-Amz-Signature={SECRET}"])
def test_a_url_with_a_secret_is_refused_without_repeating_it(
    url: str, index: RunbookIndex, questions: list[EvalQuestion]
) -> None:
    for use in (
        lambda: save_evaluation_results(one_run(), url),
        lambda: run_offline(questions, index, url),
        lambda: load_run(f"{url}/judge_eval_20260101_000000.json"),
        lambda: log_files(url),
        lambda: unfinished_runs(url),
    ):
        with pytest.raises(ConfigError, match="leave it out") as caught:
            use()
        assert "MDENG" not in str(caught.value)


def test_what_a_store_says_is_shown_without_secrets(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*arguments: Any, **keywords: Any) -> None:
        raise RuntimeError(f"bad signature\nfor http://user:{SECRET}@127.0.0.1/ with {SECRET}")

    monkeypatch.setattr(s3fs.S3FileSystem, "_put_file", refuse)
    with pytest.warns(
        UserWarning, match=r"refused; RuntimeError: bad signature for http://\[key\].* with \[key\]"
    ) as caught:
        save_evaluation_results(one_run(), URL)
    assert "MDENG" not in str(caught[0].message)


# -- places


def test_the_logs_of_a_place_are_listed_by_name(store: Store, tmp_path: Path) -> None:
    assert log_files(URL) == log_files(tmp_path / "nowhere") == []
    for name in (
        "judge_eval_20260102_000000.json",
        "judge_eval_20260101_000000.json",
        "judge_eval_20260103.txt",
        "x.json",
    ):
        (tmp_path / name).write_bytes(b"{}")
        store.client.put_object(Bucket="logs", Key=f"team/{name}", Body=b"{}")
    names = ["judge_eval_20260101_000000.json", "judge_eval_20260102_000000.json"]
    for place in (URL, f"{URL}/", tmp_path, str(tmp_path), tmp_path.as_uri()):
        assert [path.name for path in log_files(place)] == names
    assert [str(path) for path in log_files(URL)] == [f"{URL}/{name}" for name in names]
    with pytest.raises(ConfigError, match=r"s3://elsewhere/team: the logs cannot be listed \(not found.*bucket"):
        log_files("s3://elsewhere/team")


def test_what_others_have_written_since_is_listed(store: Store) -> None:
    first = save_evaluation_results(one_run(), URL)
    assert log_files(URL) == [first]
    store.client.put_object(Bucket="logs", Key="team/judge_eval_20990101_000000.json", Body=b"{}")
    assert len(log_files(URL)) == 2


def test_a_file_url_is_a_folder(tmp_path: Path) -> None:
    path = save_evaluation_results(one_run(), (tmp_path / "logs").as_uri())
    assert path == tmp_path / "logs" / "judge_eval_20260102_030405.json"
    assert load_run(path.as_uri()).log_path == path
    assert STARTED.startswith("2026-01-02T03:04:05")


@pytest.mark.parametrize(
    "place", ["logs", "/var/logs", r"C:\logs", "C:/logs", "C://logs", "a b:c", "2026-01-01T00:00:00", ".", Path("logs")]
)
def test_what_is_no_url_is_a_folder(place: str | Path) -> None:
    assert places.as_path(place) == Path(place)


@pytest.mark.parametrize("url", ["s3://bucket", "s3://bucket/a/b", "s3a://bucket/a", "memory://a/b"])
def test_a_url_stays_whole(url: str) -> None:
    path = places.as_path(url)
    assert str(path / "log.json") == f"{url}/log.json"
    assert places.as_path(path) == path


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (Path("s3://bucket/logs"), "give it as a text"),
        ("s3:/bucket/logs", "give it as a text"),
        ("nowhere://logs", "Unsupported filesystem.*s3://"),
    ],
)
def test_a_url_that_cannot_work_is_refused(place: str | Path, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        places.as_path(place)


def test_the_history_in_a_bucket_is_read_as_frames(
    store: Store, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    runs = [run_offline(questions[:2], index), run_offline(questions[2:5], index)]
    scores = load_scores(URL, text=True)
    assert set(scores["run_id"]) == {run.run.run_id for run in runs}
    assert len(scores) == 5 * 6
    (first,) = [run for run in runs if run.run.run_id == scores["run_id"].iloc[0]]
    assert (
        scores[scores["run_id"] == first.run.run_id]["rationale"].tolist() == first.scores_frame()["rationale"].tolist()
    )
    assert check_logs(URL).empty
    assert not [name for name in store.names() if ".history" in name]
