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
from ..base.showing import block, escape
from ..records import SPECIFIED_CRITERIA
from ..runs.load import load_run
from .controls import Panel, button, choice_box, heading, html, log_choices, text_box, told_in
from .scores_input import ScoresInput
from .state.labelling import LabelSession
from .views.labels import item_html, judged_html, progress_html

# {folders: log and rater}, so that a cell that is run again continues there.
_last: dict[tuple[str, Path], tuple[Path, str]] = {}


class LabelPanel(Panel):
    """Show 「📝 人による採点」 (scoring by people).

    People score the stored answers of a run, and see the judge's scores only after saving their own.

    The scores of an answer are on disk in `labels_dir` as soon as they are saved. The panel continues where the rater
    stopped, even if the cell was run again or the kernel was restarted. Each rater gets the answers in a different
    order. No model is called.

    repeats: how many answers come a second time at the end. They show how consistently the rater scores
    (`judge_agreement(labels, by="again")`). Five repeats after forty answers take about four more minutes.
    """

    def __init__(
        self,
        *,
        logs_dir: Path | str | None = None,
        labels_dir: Path | str | None = None,
        dataset: Path | str | None = None,
        repeats: int = 0,
    ) -> None:
        logs_dir = logs_dir or constants.LOGS_DIR
        labels_dir = labels_dir or constants.LABELS_DIR
        self.session: LabelSession | None = None
        self._logs_dir, self._labels_dir, self._dataset = logs_dir, Path(labels_dir), dataset
        self._repeats = repeats
        self._started = False
        self._lock = threading.Lock()  # clicks may be handled in several threads
        self.log_file = choice_box(say("Log to score"))
        self.rater = text_box(say("Rater"), placeholder=say("For example: Sato"), continuous_update=False)
        self.start_button = button(say("Begin"), "play", button_style="primary")
        self.scores_input = ScoresInput(
            list(SPECIFIED_CRITERIA)
        )  # used until a log is chosen, which brings its own criteria
        self.next_button = button(say("Next"), "arrow-right")
        self.skip_button = button(say("Skip"))
        self.back_button = button(say("Back"), "arrow-left")
        self.start_status, self.progress, self.item, self.status, self.judged = (html() for _ in range(5))

        buttons = widgets.HBox(
            [self.next_button, self.skip_button, self.back_button],
            layout=widgets.Layout(flex_flow="row wrap"),
        )
        self.item.layout = widgets.Layout(flex="1 1 26em", min_width="0")
        self._inputs = inputs = widgets.VBox(
            [self.scores_input, buttons, self.status, self.judged],
            layout=widgets.Layout(flex="1 1 20em", min_width="0"),
        )
        # Side by side if there is room, otherwise one below the other.
        beside = widgets.HBox([self.item, inputs], layout=widgets.Layout(flex_flow="row wrap", grid_gap="1em"))
        self._work = widgets.VBox([self.progress, beside], layout=widgets.Layout(display="none"))
        super().__init__(
            [
                heading(
                    f"📝 {say('Scoring by people')}",
                    say(
                        "Score stored answers without seeing the judge's scores, which are shown when yours are saved. "
                        "Ten answers can only show that a judge is bad; to trust one takes two people and 40 to 70 answers."
                    ),
                ),
                self.log_file,
                self.rater,
                widgets.HBox([self.start_button]),
                self.start_status,
                self._work,
            ]
        )
        self.add_class("socjudge-label-panel")
        self._listen()
        ways = {
            self.next_button: LabelSession.next,
            self.skip_button: LabelSession.skip,
            self.back_button: LabelSession.back,
        }
        for clicked in ways:
            clicked.on_click(lambda its: self._do(lambda: self._go(its, ways[its]), self.status))
        self.start_button.on_click(lambda _: self._do(self._start, self.start_status))
        for control in (self.log_file, self.rater):
            control.observe(lambda _: self._do(self._follow, self.start_status), "value")
        with told_in(self.start_status):
            self._offer_logs()

    @property
    def is_busy(self) -> bool:
        """Return whether a person has started to score answers in this panel and has not gone past the last one."""
        return self.session is not None and self.session.current is not None

    def _do(self, act: Callable[[], None], status: widgets.HTML) -> None:
        with self._lock, told_in(status):
            act()

    def reload(self) -> None:
        """List the logs again. What was chosen and typed is kept."""
        if not self._started:
            with told_in(self.start_status):
                self._offer_logs()

    def _offer_logs(self) -> None:
        logs = log_choices(self._logs_dir, blind=True)
        if not logs:
            self.start_button.disabled = True
            self.start_status.value = block(
                "warn", escape(say("{folder} has no log; run an evaluation first", folder=self._logs_dir))
            )
            return
        self.start_button.disabled, self.start_status.value = False, ""
        self.log_file.options = logs
        self.log_file.index = 0
        if (last := _last.get(self._place)) and last[0] in [log for _, log in logs]:
            self.log_file.value, self.rater.value = last
            self.start_button.click()

    @property
    def _place(self) -> tuple[str, Path]:
        return str(self._logs_dir), self._labels_dir.resolve()

    def _start(self) -> None:
        self._started, self.session = True, None
        self.start_status.value, self._work.layout.display = "", "none"
        run = load_run(self.log_file.value)
        self.session = LabelSession(
            run, self.rater.value, folder=self._labels_dir, dataset=self._dataset, repeats=self._repeats
        )
        _last[self._place] = (self.log_file.value, self.rater.value)
        if self.scores_input.criteria != (criteria := list(run.rubric.criteria)):
            self.scores_input = ScoresInput(criteria)
            self._listen()
            self._inputs.children = (self.scores_input, *self._inputs.children[1:])
        self._work.layout.display = ""
        self._show()

    def _listen(self) -> None:
        self.scores_input.on_msg(
            lambda which, message, __: self._do(lambda: self._from_page(which, message), self.status)
        )

    def _follow(self) -> None:
        if self._started:
            # Scores that the page sends late are not saved, because they belong to the answer that was shown before.
            self._start()

    def _from_page(self, which: ScoresInput, message: dict[str, Any]) -> None:
        is_shown = which is self.scores_input  # not a late click in the sliders of another log
        if self.session is None or not is_shown or not which.take(message) or not message.get("save"):
            return
        scores = dict(zip(self.scores_input.criteria, self.scores_input.scores, strict=True))
        missing = [name for name, score in scores.items() if score is None]
        if missing:
            self.status.value = block("warn", escape(say("Not scored yet: {names}", names=listed(missing))))
            return
        self.session.save(scores, self.scores_input.comment)
        self.scores_input.close_input()
        self._draw(is_open=False)
        self.next_button.focus()

    def _go(self, clicked: Any, way: Callable[[LabelSession], None]) -> None:
        if self.session is not None and not clicked.disabled:  # otherwise it is a second click
            way(self.session)
            self._show()

    def _show(self) -> None:
        assert self.session is not None
        self._draw(is_open=True)
        if self.session.current is None:
            self.back_button.focus()
            return
        label = self.session.label
        scores = label.scores if label else {}  # saved scores can be corrected
        self.scores_input.show(
            [scores.get(name) for name in self.scores_input.criteria], label.comment if label else ""
        )

    def _draw(self, *, is_open: bool) -> None:
        session = self.session
        assert session is not None
        item, label = session.current, session.label
        self.status.value = ""
        title = say("Saved before") if is_open else say("Saved")
        self.progress.value = progress_html(session)
        self.item.value = item_html(item) if item else ""
        self.judged.value = judged_html(title, label, session.judge_evaluations) if label else ""
        self.scores_input.layout.display = "" if item else "none"
        self.next_button.disabled = label is None
        self.skip_button.disabled = item is None or label is not None
        self.back_button.disabled = not session.can_go_back
