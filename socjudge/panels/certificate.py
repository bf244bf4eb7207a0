"""Show the panel that certifies a judge. `CertificatePanel()` shows itself in a notebook cell."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from .. import constants
from ..base.messages import say
from ..base.showing import block, escape, money, shown_path
from ..certify.all_experiments import chosen_experiments
from ..certify.certificate import Certificate, load_certificate, save_certificate
from ..certify.experiment import Experiment, Outcome
from ..certify.within_budget import Trials
from ..records import RunOptions
from ..runs.load import load_run
from .controls import (
    AUTO,
    PaidPanel,
    button,
    choice_box,
    dollar_box,
    heading,
    log_choices,
    model_box,
    prompt_box,
    text_box,
    tick_box,
    told_in,
    usual_model,
)

_TRIED = {
    "": "certify.panel_all", "probes": "certify.panel_probes", "injections": "certify.panel_injections",
    "anchoring": "certify.panel_anchoring", "prompts": "certify.panel_prompts",
}  # fmt: skip


class CertificatePanel(PaidPanel):
    """Show 「📜 Judgeの証明書」 (the judge's certificate).

    You choose a log and a judge, see the cost, and read whether to trust the judge's scores.

    No model is called before a click, and no call that costs money is made before the cost box is ticked. A certificate
    is made from several experiments. In the list `only`, you can choose a single experiment instead of a certificate.

    - certificate: the certificate that the last click made; None if it made none. It is saved in `certificates_dir`
      together with its HTML page.
    - outcome: the result of the single experiment that the last click ran; None if it ran none.
    """

    def __init__(
        self,
        *,
        logs_dir: Path | str | None = None,
        labels_dir: Path | str | None = None,
        certificates_dir: Path | str | None = None,
    ) -> None:
        super().__init__()
        self.certificate: Certificate | None = None
        self.outcome: Outcome | None = None
        self._logs_dir = logs_dir or constants.LOGS_DIR
        self._certificates_dir = Path(certificates_dir or constants.CERTIFICATES_DIR)
        self._plan: Trials | None = None  # what the controls ask for; None if they cannot be used
        self.log_file = choice_box(say("certify.panel_log"))
        self.judge_model = model_box("Judge", usual_model("judge"))
        self.judge_prompt = prompt_box(say("certify.panel_prompt"), "judge")
        self.only = choice_box(
            say("certify.panel_only"), options=[(say(key), name) for name, key in _TRIED.items()], value=""
        )
        self.labels = text_box(
            say("certify.panel_labels"), value=str(labels_dir or constants.LABELS_DIR), continuous_update=False
        )
        self.damaged = text_box(say("certify.panel_damaged"), continuous_update=False)
        self.budget_usd = dollar_box(0.1)
        self.quick = tick_box(say("certify.panel_quick"))
        self.certify_button = button(say("certify.panel_certify"), "certificate", button_style="primary")
        self.bar = widgets.IntProgress(layout=AUTO)
        self._controls = [
            self.log_file, self.judge_model, self.judge_prompt, self.only, self.labels, self.damaged, self.budget_usd,
            self.quick,
        ]  # fmt: skip
        self.children = [
            heading(f"📜 {say('certify.page_title')}", say("certify.panel_hint")), *self._controls, self.cost,
            self.allow_cost, widgets.HBox([self.certify_button, self.stop_button]), self.bar, self.status, self.result,
        ]  # fmt: skip
        self.add_class("socjudge-certificate-panel")
        self.certify_button.on_click(lambda _: self._start())
        self.bar.layout.visibility = "hidden"
        with told_in(self.status):
            self._list_logs()
        for control in self._controls:
            control.observe(lambda _: self._settle(), "value")
        self._settle()

    def _list_logs(self) -> None:
        logs = log_choices(self._logs_dir)
        self.log_file.options = [(label, str(log)) for label, log in logs]
        if logs:
            self.log_file.value = str(logs[0][1])
        else:
            self.status.value = block("warn", escape(say("certify.panel_no_logs", folder=self._logs_dir)))

    def _what(self) -> dict[str, Any]:
        """Return the values of the controls as arguments of `certify_judge`.

        The argument `labels` has the scores by people. It is None if there are none, or if these scores do not fit the
        answers in the log.
        """
        from ..certify.labelled import labels_of, read_labels
        from ..certify.subjects import find_subjects

        run = load_run(self.log_file.value)
        folder = Path(self.labels.value.strip())
        labels = None
        if self.labels.value.strip() and (folder.is_file() or any(folder.glob("*.jsonl"))):
            with told_in(self.status):
                labels, _ = labels_of(find_subjects(run), read_labels(folder))
        return {
            "given": run, "judge_model": self.judge_model.value.strip(), "judge_prompt": self.judge_prompt.value,
            "labels": labels, "damaged": self.damaged.value.strip() or None,
            "budget_usd": self.budget_usd.value or math.inf, "size": 1 if self.quick.value else None,
        }  # fmt: skip

    def _experiment(self, what: dict[str, Any]) -> Experiment:
        return chosen_experiments([self.only.value], size=what["size"])[0]

    def _planned(self, what: dict[str, Any]) -> Trials:
        plan = self._experiment(what).plan(what["given"], judge_prompt=what["judge_prompt"])
        return Trials(plan, plan.estimate(what["judge_model"]), 0, None)

    def _settle(self) -> None:
        """Show what the current choices cost. Enable the start button if these choices can be used, else disable it."""
        from ..certify.issue import plan_certificate
        from ..certify.trust_conditions import plan_told

        self._plan = None
        if self.is_busy or self.log_file.value is None:
            self.certify_button.disabled = True
            return
        self.status.value = ""
        with told_in(self.cost):
            what = self._what()
            plan = self._plan = self._planned(what) if self.only.value else plan_certificate(**what).trials
            told = []
            if not self.only.value:
                told = [say("certify.panel_labelled" if what["labels"] is not None else "certify.panel_unlabelled")]
                told += [say("certify.panel_size", size=plan.size)] if plan.size is not None else []
                told += plan_told(plan.tried, len(plan.plan.rubric.criteria)).splitlines()
            calls = plan.estimate.calls
            costs = say("certify.panel_costs", calls=calls, cost=money(plan.estimate.cost_usd))
            costs = costs if calls else say("certify.panel_free")
            self.cost.value = block("warn" if calls else "", escape(costs), *map(escape, told))
        self.quick.disabled = (
            not self.quick.value and self._plan is not None and self._plan.size == 1
        )  # the size is already 1, which is what this box sets
        self.allow_cost.layout.display = "" if self._plan is None or self._plan.estimate.calls else "none"
        self.certify_button.disabled = self._plan is None

    def _start(self) -> None:
        self._settle()  # a click may come before the page has followed a change
        if self.certify_button.disabled or self._plan is None:
            return
        self.bar.max, self.bar.value = sum(len(cases) for cases, _ in self._plan.plan.parts), 0
        what, costs = self._what(), self._plan.estimate.calls > 0
        self._ask(lambda: self._certify(what), costs=costs, stopped="certify.panel_stopped")

    def _lock(self, is_busy: bool) -> None:
        super()._lock(is_busy)
        for control in [*self._controls, self.allow_cost, self.certify_button]:
            control.disabled = is_busy
        self.bar.layout.visibility = "visible" if is_busy else "hidden"

    def _certify(self, what: dict[str, Any]) -> None:
        from ..certify.issue import certify_judge
        from ..report.certificate_page import write_certificate_page

        self.certificate, self.outcome, done = None, None, itertools.count(1)
        self._under_way(0, self.bar.max)
        options = RunOptions(stop=self._stop, on_result=lambda _: self._under_way(next(done), self.bar.max))
        if self.only.value:
            self._try(what, options)
            return
        made = certify_judge(**what, progress=False, options=options)
        path = save_certificate(made, self._certificates_dir)
        self.certificate = load_certificate(path)
        page = write_certificate_page(path.with_suffix(".html"), self.certificate)
        self.result.value = self.certificate._repr_html_()
        told = say("certify.panel_written", path=shown_path(path), page=shown_path(page))
        self.status.value = block("", escape(told))

    def _under_way(self, done: int, total: int) -> None:
        if done % 5 == 0 or done == total:
            self.bar.value = done
            super()._under_way(done, total)

    def _try(self, what: dict[str, Any], options: RunOptions) -> None:
        """Run the chosen single experiment and show its result."""
        judge = {"judge_model": what["judge_model"], "judge_prompt": what["judge_prompt"]}
        found = self.outcome = self._experiment(what).run(
            what["given"], **judge, max_cost_usd=what["budget_usd"], progress=False, options=options
        )
        self.result.value = block("", *map(escape, found.words.split("\n")))
        self.status.value = block("warn", escape(found.stopped)) if found.stopped else ""
