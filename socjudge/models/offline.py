"""Provide the embedded default: it quotes the passages, and judges by what can be measured without an LLM."""

from __future__ import annotations

import json

from ..base.messages import listed
from ..embedded.answer import compose_answer
from ..errors import ConfigError
from ..records import Completion, ModelRequest, Rubric, Usage
from . import event_loop
from .gate import RunGate
from .pacing import Account, Model

JUDGE_NAME = "offline-rubric-12"
ASSISTANT_NAME = "offline-extract-10"


class OfflineModel(Model):
    """Answer and judge without any service. It reads a request's `material`, not its `messages`."""

    def __init__(self) -> None:
        super().__init__("offline", "offline", Account())

    def most_usd(self, request: ModelRequest) -> float:
        return 0.0

    def check_rubric(self, rubric: Rubric) -> None:
        from ..embedded.measures import MEASURES

        # If it measures some of the criteria, the scores for the others will be missing.
        if not set(rubric.criteria) & set(MEASURES):
            raise ConfigError(
                "the embedded judge has no measure for any of the criteria ({criteria}); choose a language model "
                "with --judge-model (judge_model=…)",
                criteria=listed(rubric.criteria),
            )

    async def _send(self, request: ModelRequest, gate: RunGate) -> Completion:
        return await event_loop.in_thread(self._reply, request)  # type: ignore[no-any-return]

    def _reply(self, request: ModelRequest) -> Completion:
        material = request.material
        if request.task == "judge":
            # its import takes a tenth of a second, which an answer does not need
            from ..embedded.judge import BY_KEYPOINTS, BY_PASSAGES, has_no_passages, judge

            reply = judge(material["question"], material["answer"], material["criteria"])
            left = [name for name in material["criteria"] if name not in reply["scores"]]
            causes = dict.fromkeys(left, "no_measure")
            if not material["question"].expected_keypoints:
                causes |= {name: "no_keypoints" for name in left if name in BY_KEYPOINTS}
            if has_no_passages(material["answer"]):
                causes |= {name: "no_passages" for name in left if name in BY_PASSAGES}
            text = json.dumps(reply, ensure_ascii=False)
            return Completion(text, JUDGE_NAME, Usage(calls=1), "stop", missing=causes, is_computed=True)
        return Completion(compose_answer(**material), ASSISTANT_NAME, Usage(calls=1), "stop")
