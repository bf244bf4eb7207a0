"""Provide the functions that the specification defines in its judge.py. Other modules of socjudge define them."""

from .answering.dataset import load_eval_dataset
from .judging.judge import evaluate_answer
from .runs.logs import save_evaluation_results
from .runs.suite import run_evaluation_suite

__all__ = ["evaluate_answer", "load_eval_dataset", "run_evaluation_suite", "save_evaluation_results"]
