"""Try edited prompts on stored answers, in the background of the kernel. This is the state that `PromptLab` shows.

The trials stand in `logs/trials/trials.jsonl`: a line for each trial that was started, and one more when it has ended.
Of several lines about one trial, the last one counts.
"""

from __future__ import annotations

import codecs
import warnings
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import orjson

from ...base.files import append_line, load_bytes, refuse_links
from ...base.messages import explained, say
from ...base.texts import encodable
from ...errors import ConfigError
from ...prompts.saved import save_prompt
from ...prompts.templates import Kind, Prompt, check_prompt, default_prompt_id, is_prompt_id, load_prompt
from ...records import EvaluationRun, Rubric
from ...report.trial import PromptTrial, TrialPlan, plan_trial, usual_model_of
from ...runbooks.index import open_index
from ...runs.logs import is_log_name, load_run, load_stored, log_files
from ...settings import open_project
from .session import Session


@dataclass(frozen=True)
class TrialSettings:
    """Hold the settings of a trial."""

    log: str = ""  # the name of the log whose answers are used
    kind: Kind = "judge"  # of the prompt
    base: str = field(default_factory=lambda: default_prompt_id("judge"))  # the edited prompt is compared with it
    text: str = ""  # of the edited prompt
    judge_model: str = "auto"
    assistant_model: str = "auto"  # used only in a trial of an assistant prompt


@dataclass(frozen=True)
class Trial:
    """Hold one trial, in which an edited prompt is tried on the answers of a log and compared with its base prompt."""

    id: str  # the time when the trial was first started (ISO 8601)
    choice: TrialSettings
    note: str = ""  # by the user
    # The names of two logs in logs/trials, with the results of the base prompt and of the edited prompt; empty until
    # the trial has ended. `before` stays empty if the log whose answers are used has the scores with the base prompt.
    before: str = ""
    after: str = ""
    difference: float | None = None  # of the mean score, in points; None if unknown


class TrialSession(Session):
    """Try prompts on the answers of stored runs, one trial at a time."""

    def __init__(self, *, logs_dir: Path, index_dir: Path) -> None:
        super().__init__()
        self.logs_dir, self.index_dir = logs_dir, index_dir
        self.trials_dir = logs_dir / "trials"  # a subfolder, so that trials are not part of the history
        self.trials = load_trials(self.trials_dir)  # the oldest first
        self.trial: Trial | None = None  # the one that is shown
        self.tried: TrialSettings | None = None  # of the trial that was started last
        self.effect: PromptTrial | None = None  # what the edited prompt of the shown trial changed
        self.choice = TrialSettings(text=load_prompt(None).text)  # of the next trial
        self._drafts: dict[tuple[str, str], str] = {}  # {(kind, base): the text as it was left}
        self._bases: dict[str, str] = {}  # {kind: the base prompt as it was left}
        self.choose_log()

    def choose_log(self) -> None:
        """Choose the newest log if none is chosen yet."""
        if not self.choice.log and (logs := self.logs):
            self.choose(log=logs[0])

    @property
    def logs(self) -> list[str]:
        """Return the names of the logs in `logs_dir`, the newest first."""
        return [path.name for path in reversed(log_files(self.logs_dir))]

    @property
    def base_text(self) -> str:
        """Return the text of the base prompt. Raises ConfigError if the prompt no longer exists."""
        return load_prompt(self.choice.base, rubric=self._rubric()).text

    # -- choosing; nothing changes while a trial is under way

    def choose(self, **changes: Any) -> None:
        """Change settings of the next trial (fields of `TrialSettings`). During a trial, nothing changes."""
        if self.is_busy:
            return
        old = self.choice
        # A changed setting also sets the settings that depend on it, unless they are given too.
        if changes.get("log", old.log) != old.log:
            changes = {**self._models_of(changes["log"]), **changes}
        kind = changes.get("kind", old.kind)
        self._drafts[old.kind, old.base], self._bases[old.kind] = old.text, old.base
        if kind != old.kind:
            changes = {"base": self._bases.get(kind) or default_prompt_id(kind), **changes}
        if changes.get("base", old.base) != old.base:
            draft = self._drafts.get((kind, changes["base"]))
            changes = {"text": draft or load_prompt(changes["base"], rubric=self._rubric()).text, **changes}
        choice = replace(old, **changes)
        self.choice = replace(choice, text=encodable(choice.text))

    def reopen(self, trial: Trial) -> None:
        """Restore the settings, the text and the result of an earlier trial. During a trial, nothing changes.
        Raises ConfigError if the present text was edited and not tried, or if a log of this trial no longer exists."""
        if self.is_busy:
            return
        if self.choice.text not in (self.base_text, *(each.choice.text for each in self.trials)):
            raise ConfigError("the prompt was edited and not tried, and would be replaced; try it first")
        self.choice, self.trial, self.effect = trial.choice, trial, None
        if trial.after:
            before = load_stored(self.trials_dir / trial.before) if trial.before else self._stored()
            after = load_stored(self.trials_dir / trial.after)
            made = (before, after) if trial.before else (after,)
            self.effect = PromptTrial(before, after, self.choice.kind == "judge", made)

    def save(self, name: str, *, note: str = "") -> Path:
        """Save the edited text as a prompt derived from the base prompt. Raises the errors of `save_prompt`."""
        choice = self.choice
        return save_prompt(
            choice.text, name=name, parent=choice.base, kind=choice.kind, note=note, rubric=self._rubric()
        )

    # -- the work

    def checked(self) -> Prompt:
        """Return the edited prompt. Raises ConfigError if it lacks a part that it needs, or has one that is not allowed."""
        prompt = Prompt(self.choice.base, self.choice.text)
        check_prompt(prompt, self.choice.kind, self._rubric())
        return prompt

    def plan(self) -> TrialPlan:
        """Return what the next trial asks and costs. Nothing is sent. Raises ConfigError if a setting is unusable."""
        choice, run = self.choice, self._stored()
        results = [result for result in run.results if not result.answer.is_empty]
        if not results:
            raise ConfigError("{log}: it has no answers; choose another log", log=choice.log)
        return plan_trial(
            replace(run, results=results),
            choice.text,
            kind=choice.kind,
            base=choice.base,
            judge_model=choice.judge_model,
            assistant_model=choice.assistant_model,
            get_index=lambda: open_index(index_dir=self.index_dir),
            logs_dir=self.trials_dir,
        )

    def start(self, plan: TrialPlan, *, note: str = "", max_cost_usd: float | None = None) -> None:
        """Try the edited text in the background, as in `plan`. An interrupted trial with the same settings is resumed, and
        what it has paid counts against `max_cost_usd`. Raises ConfigError if the trial cannot be noted."""
        if self.is_busy:
            return
        same = (trial for trial in self.trials if trial.choice == self.choice and not trial.after)
        trial = next(same, None) or Trial(datetime.now().astimezone().isoformat(), self.choice)
        trial = replace(trial, note=note or trial.note)
        self.tried, self.effect = self.choice, None
        self._keep(trial)

        def end(made: list[EvaluationRun]) -> None:
            effect = plan.effect_of(made)
            before, after = (self._log_name(run) for run in (effect.before, effect.after))
            self._keep(replace(trial, before=before, after=after, difference=effect.difference))
            self.effect = effect

        self.judge(plan.sides, max_cost_usd, plan.paid, end)

    def _keep(self, trial: Trial) -> None:
        save_trial(self.trials_dir, trial)
        by_id = {other.id: other for other in self.trials} | {trial.id: trial}
        self.trials, self.trial = list(by_id.values()), trial

    def _log_name(self, run: EvaluationRun) -> str:
        return run.log_path.name if run.log_path and run.log_path.parent == self.trials_dir else ""

    # -- what the trial is made from

    def _models_of(self, log: str) -> dict[str, str]:
        try:
            info = self._stored(log).run
        except ConfigError:  # this error is shown when the choice is checked
            return {}
        return {name: usual_model_of(getattr(info, name)) for name in ("judge_model", "assistant_model")}

    def _stored(self, log: str | None = None) -> EvaluationRun:
        log = self.choice.log if log is None else log
        path = self.logs_dir / log
        if not log or not path.is_file():
            raise ConfigError("{path}: no such log; run an evaluation first, or choose another one", path=path)
        return load_run(path)

    def _rubric(self) -> Rubric:
        try:
            return self._stored().rubric
        except ConfigError:
            return open_project().rubric


def load_trials(folder: Path) -> list[Trial]:
    """Return the stored trials, the oldest first. A line that cannot be read is left out with a warning.
    Raises ConfigError if the file cannot be read."""
    path, trials = folder / "trials.jsonl", dict[str, Trial]()
    with explained("{path}: cannot be read ({reason}); check path and permissions", path=path):
        try:
            raw = load_bytes(path)
        except FileNotFoundError:
            return []
    for number, line in enumerate(raw.removeprefix(codecs.BOM_UTF8).splitlines(), start=1):
        try:
            trial = msgspec.json.decode(line, type=Trial)
            logs = [name for name in (trial.choice.log, trial.before, trial.after) if name]
            # A name chooses no file of another folder.
            if not is_prompt_id(trial.choice.base) or not all(
                is_log_name(name) and Path(name).name == name for name in logs
            ):
                raise ValueError(say("it is not a trial"))
        except ValueError as error:  # msgspec's own errors are among them
            warnings.warn(
                say("{path}: line {line} is left out ({reason}); remove it", path=path, line=number, reason=error),
                stacklevel=2,
            )
        else:
            trials[trial.id] = trial
    return list(trials.values())


def save_trial(folder: Path, trial: Trial) -> None:
    """Append a line with a trial that is new or has changed. Raises ConfigError if the file cannot be written."""
    path = folder / "trials.jsonl"
    with explained("{path}: cannot be written ({reason}); check the permissions and the space left", path=path):
        refuse_links(folder)
        append_line(path, orjson.dumps(asdict(trial)))
