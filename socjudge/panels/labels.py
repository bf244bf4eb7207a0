"""Show the panel in which people score stored answers. `LabelPanel()` shows itself in a notebook cell.

Its data come from state/labelling.py."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from .. import constants
from ..base.messages import listed, say
from ..base.showing import block, escape, flags_html, question_html
from ..errors import ConfigError
from ..runs.logs import load_run
from .controls import Panel, button, field, heading, html, log_choices, told_in
from .state.labelling import LabelItem, LabelSession

_PLACE = {"style": {"description_width": "9em"}, "layout": {"width": "calc(100% - 4px)"}}
_OFFERED = ("0", "25", "50", "75", "100")  # for a mouse; any whole number from 0 to 100 can be typed


class LabelPanel(Panel):
    """Show 「📝 人による採点」 (scoring by people).

    People score the stored answers of a run, and see the judge's scores only after saving their own. Each score is typed
    (0–100); Tab goes on to the next field.

    The scores of an answer are on disk in `labels_dir` as soon as they are saved. The panel continues where the rater
    stopped, after the same name was given again. Each rater gets the answers in a different
    order. No model is called.

    repeats: how many answers come a second time at the end. They show how consistently the rater scores
    (`judge_agreement(labels, by="again")`). Five repeats after forty answers take about four more minutes.
    """

    def __init__(
        self,
        *,
        logs_dir: Path | str | None = None,
        labels_dir: Path | str | None = None,
        repeats: int = 0,
    ) -> None:
        self._logs_dir, self._labels_dir = logs_dir or constants.LOGS_DIR, Path(labels_dir or constants.LABELS_DIR)
        self._repeats = repeats
        self.session: LabelSession | None = None
        self._started = False
        self._lock = threading.Lock()  # clicks may be handled in several threads
        self.log_file = field(widgets.Dropdown, say("Log to score"))
        self.rater = field(widgets.Text, say("Rater"), placeholder=say("For example: Sato"), continuous_update=False)
        self.start_button = button(say("Begin"), "play", button_style="primary")
        self.next_button = button(say("Next"), "arrow-right")
        self.skip_button = button(say("Skip"))
        self.back_button = button(say("Back"), "arrow-left")
        self.save_button = button(say("Save"), "check", button_style="primary")
        self.scores: dict[str, Any] = {}  # {criterion: the field for its score}; new ones for each answer
        self.comment = field(widgets.Textarea, "")  # as these
        self.form = widgets.VBox()
        self.start_status, self.progress, self.item, self.status, self.judged = (html() for _ in range(5))
        self.item.layout = {"flex": "1 1 26em", "min_width": "0"}
        # After "Save" the focus is on "Next". The fields follow it, so that Tab reaches those of the next answer.
        ways = widgets.HBox([self.back_button, self.skip_button, self.next_button], layout={"flex_flow": "row wrap"})
        inputs = widgets.VBox(
            [ways, self.form, self.status, self.judged], layout={"flex": "1 1 20em", "min_width": "0"}
        )
        # Side by side if there is room, otherwise one below the other.
        beside = widgets.HBox([self.item, inputs], layout={"flex_flow": "row wrap", "grid_gap": "1em"})
        self._work = widgets.VBox([self.progress, beside], layout={"display": "none"})
        how = say(
            "Score stored answers without seeing the judge's scores, which are shown when yours are saved. "
            "Ten answers can only show that a judge is bad; to trust one takes two people and 40 to 70 answers."
        )
        super().__init__(
            [
                heading(f"📝 {say('Scoring by people')}", how), self.log_file, self.rater,
                widgets.HBox([self.start_button]), self.start_status, self._work,
            ]
        )  # fmt: skip
        self.add_class("socjudge-label-panel")
        self.next_button.on_click(lambda _: self._do(lambda: self._go(self.next_button, LabelSession.next)))
        self.skip_button.on_click(lambda _: self._do(lambda: self._go(self.skip_button, LabelSession.skip)))
        self.back_button.on_click(lambda _: self._do(lambda: self._go(self.back_button, LabelSession.back)))
        self.save_button.on_click(lambda _: self._do(self._save))
        self.start_button.on_click(lambda _: self._do(self._start, self.start_status))
        for control in (self.log_file, self.rater):
            # Once started, the panel follows. What was typed for another answer is not saved.
            control.observe(lambda _: self._do(self._start, self.start_status) if self._started else None, "value")
        with told_in(self.start_status):
            self._offer_logs()

    def reload(self) -> None:
        """List the logs again. What was chosen and typed is kept."""
        if not self._started:
            with told_in(self.start_status):
                self._offer_logs()

    def _do(self, act: Callable[[], None], status: Any = None) -> None:
        with self._lock, told_in(status or self.status):
            act()

    def _offer_logs(self) -> None:
        logs = log_choices(self._logs_dir, blind=True)
        self.start_button.disabled, self.start_status.value = not logs, ""
        if not logs:
            none = say("{folder} has no log; run an evaluation first", folder=self._logs_dir)
            self.start_status.value = block("warn", escape(none))
            return
        self.log_file.options = logs
        self.log_file.index = 0

    def _start(self) -> None:
        self._started, self.session = True, None
        self.start_status.value, self._work.layout.display = "", "none"
        run = load_run(self.log_file.value)
        self.session = LabelSession(run, self.rater.value, folder=self._labels_dir, repeats=self._repeats)
        self._work.layout.display = ""
        self._show()

    def _save(self) -> None:
        if self.session is None or self.save_button.disabled:  # otherwise it is a second click
            return
        texts = {name: box.value.strip() for name, box in self.scores.items()}
        missing = [name for name, typed in texts.items() if not typed]
        if missing:
            self.status.value = block("warn", escape(say("Not scored yet: {names}", names=listed(missing))))
            return
        unfit = [f"{name} {typed}" for name, typed in texts.items() if not _is_score(typed)]
        if unfit:
            raise ConfigError("expected a whole number from 0 to 100: {names}", names=listed(unfit))
        self.session.save({name: int(typed) for name, typed in texts.items()}, self.comment.value)
        self._draw(is_open=False)
        self.next_button.focus()

    def _go(self, clicked: Any, way: Callable[[LabelSession], None]) -> None:
        if self.session is None or clicked.disabled:
            return
        if way is LabelSession.next and self.session.label is None:
            self.status.value = block("warn", escape(say("Save the scores first, or skip this answer")))
            return
        way(self.session)
        self._show()
        if self.session.current is None:
            self.back_button.focus()

    def _show(self) -> None:
        """Show another answer, with fields of its own: what the page sends late is for an answer that is gone."""
        assert self.session is not None
        for box in self.form.children:
            if box is not self.save_button:
                box.close()
        label, rubric = self.session.label, self.session.run.rubric  # saved scores can be corrected
        self.scores = {
            name: field(
                widgets.Combobox,
                name,
                value="" if label is None else str(label.scores.get(name, "")),
                options=_OFFERED,
                placeholder=say("0 to 100"),
                tooltip=rubric.descriptions.get(name, ""),
                continuous_update=False,
                **_PLACE,  # so that no letter comes after a click
            )
            for name in rubric.criteria
        }
        self.comment = field(
            widgets.Textarea,
            say("Comment (optional)"),
            value=label.comment if label else "",
            rows=2,
            continuous_update=False,
            **_PLACE,
        )
        for box in (*self.scores.values(), self.comment):
            box.observe(lambda _: self._do(self._reopen), "value")
        self.form.children = [*self.scores.values(), self.comment, self.save_button]
        self._draw(is_open=True)

    def _reopen(self) -> None:
        # The page locks the fields once they are saved. JupyterLab may reorder the messages of different controls.
        if self.save_button.disabled:
            self._draw(is_open=True)
            late = say("A change came later than the click on “Save”. Check the scores, and press it again")
            self.status.value = block("warn", escape(late))

    def _draw(self, *, is_open: bool) -> None:
        session = self.session
        assert session is not None
        item, label = session.current, session.label
        self.status.value = ""
        title = say("Saved before") if is_open else say("Saved")
        self.progress.value = progress_html(session)
        self.item.value = item_html(item) if item else ""
        self.judged.value = block("good", title, *map(question_html, session.judge_results)) if label else ""
        self.form.layout.display = "" if item else "none"
        for box in self.form.children:
            box.disabled = not is_open
        self.next_button.disabled = item is None  # a button that is disabled loses the focus
        self.skip_button.disabled = item is None or label is not None
        self.back_button.disabled = not session.can_go_back


def _is_score(typed: str) -> bool:
    return typed.isascii() and typed.isdigit() and int(typed) <= 100


# -- what is shown, as HTML


def progress_html(session: LabelSession) -> str:
    """Return HTML that says how many answers the rater has scored."""
    done = say("{done}/{total} answers", done=session.done, total=session.total)
    line = [f"<b>{done}</b>", escape(say("{rater}", rater=session.rater))]
    if session.done == session.total:
        line.append(say("✅ All are scored"))
    if session.is_again:
        line.append(
            say(
                "🔁 The same answer again. Score it without recalling your scores (this measures how steady scoring is)"
            )
        )
    problem = [escape(session.problem)] if session.problem else []
    return block("warn" if session.problem else "", "　".join(line), *problem)


def item_html(item: LabelItem) -> str:
    """Return an answer to score as HTML, with its question, keypoints and context, but without the judge's scores."""
    question, answer = item.question, item.answer
    points = "".join(f"<li>{escape(point)}</li>" for point in question.expected_keypoints)
    keypoints = f"{say('Expected points')}<ul>{points}</ul>" if points else say("Expected points: not recorded")
    return block(
        "",
        f'<div class="question"><b>Q. {escape(question.question)}</b>　{escape(question.category)}</div>{keypoints}'
        f"{flags_html(answer)}{say('Answer')}<pre>{escape(answer.answer)}</pre>"
        f"<details><summary>{say('Context')}</summary><pre>{escape(answer.context)}</pre></details>",
    )
