"""A test run that DeepEval itself wrote: three questions, two metrics of its own kind without a model, one of which breaks down on
one question. Run with deepeval 4.3.1 in a folder of its own: `python make_deepeval.py`, which leaves .deepeval/ there."""

import os

os.environ |= {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "ERROR_REPORTING": "NO", "DEEPEVAL_RESULTS_FOLDER": "results"}

from deepeval import evaluate
from deepeval.evaluate.configs import AsyncConfig, DisplayConfig, ErrorConfig
from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase

CASES = [
    ("マルウェアを検知しました。最初に何をしますか。", "端末をネットワークから隔離します。", ["端末を隔離する。"]),
    ("ログを消していいですか。", "いいえ。ログは消さずに保全します。", ["ログは消さない。", "ログを保全する。"]),
    ("VPNにつながりません。", "分かりません。", ["証明書の期限を確かめる。"]),
]


class Length(BaseMetric):
    """How short the answer is."""

    def __init__(self, name: str, *, breaks_on: str = "") -> None:
        self.threshold, self.name, self.breaks_on = 0.5, name, breaks_on
        self.include_reason, self.async_mode, self.strict_mode = True, False, False
        self.evaluation_model, self.evaluation_cost, self.error = "rule", 0.0, None

    def measure(self, test_case: LLMTestCase, *args, **keywords) -> float:
        if self.breaks_on and self.breaks_on in test_case.input:
            raise TimeoutError("judge timeout")
        self.score = min(1.0, len(test_case.actual_output) / 20)
        self.success, self.reason = self.score >= self.threshold, f"{len(test_case.actual_output)}字の回答です。"
        return self.score

    async def a_measure(self, test_case: LLMTestCase, *args, **keywords) -> float:
        return self.measure(test_case)

    def is_successful(self) -> bool:
        return bool(self.success)

    @property
    def __name__(self) -> str:
        return self.name


evaluate(
    test_cases=[LLMTestCase(input=q, actual_output=a, retrieval_context=c) for q, a, c in CASES],
    metrics=[Length("網羅性"), Length("安全性", breaks_on="VPN")],
    async_config=AsyncConfig(run_async=False),
    display_config=DisplayConfig(show_indicator=False, print_results=False),
    error_config=ErrorConfig(ignore_errors=True),
)
