"""Load prompt templates by id or file, check what they must contain, and fill them."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
import unicodedata
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from .. import constants
from ..base.files import decoded, load_bytes
from ..base.messages import listed, say
from ..base.showing import FLAGS, one_line
from ..base.texts import plain_name
from ..errors import ConfigError
from ..records import SPECIFIED_CRITERIA, AssistantAnswer, EvalQuestion, Flags, Rubric
from ..settings import SPECIFIED_PROMPT, open_project
from .for_rubric import OF_RUBRIC, is_specified, rubric_prompt_text

Kind = Literal["judge", "assistant"]
PLACEHOLDERS: dict[Kind, tuple[tuple[str, ...], tuple[str, str]]] = {  # those that are known, and those that are needed
    "judge": (("question", "context", "answer", *FLAGS, "expected_keypoints", "nonce"), ("question", "answer")),
    "assistant": (("question", "context", *FLAGS, "suspected_operation"), ("question", "context")),
}
# A placeholder is a lower-case name in braces. The JSON braces of the judge prompt never look like this.
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_SAFE_ID = re.compile(r"[\w.-]+")
# What a filled-in name in braces could have been meant to be: in full width, in capitals, with spaces.
_LIKE_PLACEHOLDER = re.compile(r"[{｛][^{}｛｝\n]{1,60}[}｝]")
_NOT = "not-"
# The block that `save_prompt` writes above a prompt.
_BLOCK = re.compile(r"---\nkind: .*\nparent: .*\n(?:[a-z0-9_]+:.*\n)*---\n")


@dataclass(frozen=True)
class Prompt:
    """Hold the text of a prompt template, and the id under which it appears in logs."""

    id: str
    text: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def placeholders(self) -> set[str]:
        return set(_PLACEHOLDER.findall(self.text))

    @property
    def reasons_first(self) -> bool:  # in the reply that the prompt asks for
        return -1 < self.text.find('"rationale"') < self.text.find('"scores"')


def load_prompt(prompt: Prompt | str | Path | None, *, kind: Kind = "judge", rubric: Rubric | None = None) -> Prompt:
    """Return a prompt by its id, or read it from a file. None means the default prompt of this kind.

    - prompt: the id of a built-in prompt or of one in eval/prompts/, or a path that ends in .txt. A `Prompt` is
      returned as it is. If a `Prompt` or a file has the name of a built-in prompt and another text, its id gets "not-"
      before it, and there is a UserWarning.
    - rubric: the criteria that a judge prompt asks for; None for the project's rubric. The prompt "rubric-1" is made
      from the rubric. It is the default if the criteria are not the specification's six and the project has chosen no
      prompt.

    The block at the head of a saved prompt (`save_prompt`) is not part of its text. If there is no such prompt, a
    ConfigError says where prompts are looked for.
    """
    if isinstance(prompt, Prompt):
        return _truly_named(prompt, rubric)
    if isinstance(prompt, Path) or (prompt or "").endswith(".txt"):
        return _truly_named(_read_prompt(Path(str(prompt))), rubric)
    prompt_id = prompt or default_prompt_id(kind, rubric)
    if prompt_id == OF_RUBRIC:
        return Prompt(OF_RUBRIC, rubric_prompt_text(rubric or open_project().rubric))
    if prompt_id in _built_in():
        return _built_in()[prompt_id]
    if is_prompt_id(prompt_id) and (own := constants.PROMPTS_DIR / f"{prompt_id}.txt").is_file():
        return _truly_named(_read_prompt(own), rubric)
    raise ConfigError(
        "no prompt {prompt}: built in are {known}; your own go to {folder}/<id>.txt",
        prompt=one_line(prompt_id),
        known=listed(sorted(built_in_ids())),
        folder=constants.PROMPTS_DIR,
    )


def true_id(prompt_id: str, sha256: str, rubric: Rubric | None = None) -> str:
    """Return the id of a prompt, but "not-guide-1" for one that is called guide-1 (or as any other built-in prompt) and
    has another text. `sha256` is "" if the text is unknown; `rubric` is that of the run."""
    name = plain_name(prompt_id).casefold()
    name = "".join("-" if unicodedata.category(letter) == "Pd" else letter for letter in name)
    if not sha256 or name not in built_in_ids() or (name == OF_RUBRIC and rubric is None):
        return prompt_id
    with contextlib.suppress(ConfigError):  # a rubric without descriptions has no prompt of its own
        return prompt_id if load_prompt(name, rubric=rubric).sha256 == sha256 else _NOT + name
    return prompt_id


def pretended_name(prompt_id: str) -> str:
    """Return the name of the built-in prompt that a prompt had and was not, if its id is from `true_id`, otherwise ""."""
    name = prompt_id.removeprefix(_NOT)
    return name if prompt_id.startswith(_NOT) and name in built_in_ids() else ""


def _truly_named(prompt: Prompt, rubric: Rubric | None) -> Prompt:
    name = true_id(prompt.id, prompt.sha256, rubric)
    if name != prompt.id:
        told = say(
            "the prompt '{id}' has another text than the built-in prompt of this name, and is called '{name}' here and "
            "in logs; give it a name of its own",
            id=prompt.id,
            name=name,
        )
        warnings.warn(told, stacklevel=3)
    return replace(prompt, id=name)


def default_prompt_id(kind: Kind, rubric: Rubric | None = None) -> str:
    """The prompt that is used if the caller names none: the one that the project has chosen, if any. Otherwise, a judge's
    is the specification's for its six criteria, and the one made from the rubric for others."""
    project = open_project()
    if kind == "assistant":
        return project.assistant_prompt
    return project.judge_prompt or (SPECIFIED_PROMPT if is_specified(rubric or project.rubric) else OF_RUBRIC)


def is_prompt_id(name: str) -> bool:
    # A name that ends in ".txt" is a path. 200 bytes fit any disk.
    return bool(_SAFE_ID.fullmatch(name)) and not name.endswith(".txt") and len(name.encode()) <= 200


@functools.cache
def _built_in() -> dict[str, Prompt]:
    paths = Path(__file__).parent.glob("*.txt")
    return {path.stem: Prompt(path.stem, path.read_text(encoding="utf-8")) for path in paths}


def built_in_ids() -> set[str]:
    return {OF_RUBRIC, *_built_in()}


def _read_prompt(path: Path) -> Prompt:
    try:
        # also with the byte order mark and the line ends of Windows editors
        text = decoded(load_bytes(path)).replace("\r\n", "\n").replace("\r", "\n")
    except (OSError, ValueError) as error:
        raise ConfigError(
            "{path}: the prompt cannot be read ({reason}); expected a UTF-8 text file", path=path, reason=error
        ) from error
    return Prompt(path.stem, _BLOCK.sub("", text, count=1) if text.startswith("---") else text)


def check_prompt(prompt: Prompt, kind: Kind, rubric: Rubric | None = None) -> None:
    """Raise ConfigError unless a prompt has what its kind needs: question and context or answer, only known
    placeholders, and a judge's the criteria of `rubric`. A built-in one with the specification's six asks for no fewer."""
    known, required = PLACEHOLDERS[kind]
    unfilled = []
    for part in dict.fromkeys(_LIKE_PLACEHOLDER.findall(prompt.text)):
        name = unicodedata.normalize("NFKC", part)[1:-1].strip().lower()
        if name in known and part != f"{{{name}}}":
            unfilled.append(f"{part} ({{{name}}})")
    criteria = rubric.criteria if rubric and kind == "judge" else ()
    is_of_six = prompt.id.startswith(SPECIFIED_PROMPT) and prompt.id in built_in_ids()
    told = {
        "lacks {names}": [f"{{{name}}}" for name in required if name not in prompt.placeholders],
        "has unknown {names}": [f"{{{name}}}" for name in sorted(prompt.placeholders - set(known))],
        "has {names}, which must be written as in brackets": unfilled,
        "does not ask for {names}": [name for name in criteria if name not in prompt.text],
        "also asks for {names}": [
            name for name in SPECIFIED_CRITERIA if criteria and is_of_six and name not in criteria
        ],
    }
    if found := "; ".join(say(sentence, names=listed(names)) for sentence, names in told.items() if names):
        raise ConfigError(
            "prompt '{prompt}' {found}. Correct it (known placeholders: {known}), or choose '{of_rubric}', the judge "
            "prompt that is made from the criteria and [rubric.descriptions] of socjudge.toml",
            prompt=prompt.id,
            found=found,
            known=", ".join(f"{{{name}}}" for name in known),
            of_rubric=OF_RUBRIC,
        )


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace each placeholder `{name}` in one pass, so that a `{context}` inside an answer is not replaced."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), template)


def judge_values(question: EvalQuestion, answer: AssistantAnswer) -> dict[str, str]:
    """Return the values for the seven placeholders of a judge prompt, and a nonce for a fence around them.
    It is a hash of the values, so that equal answers give equal requests and no value can contain it."""
    values = {
        "question": question.question,
        "context": answer.context,
        "answer": answer.answer,
        **_flag_values(answer.flags),
        "expected_keypoints": "\n".join(f"- {keypoint}" for keypoint in question.expected_keypoints),
    }
    told = "\0".join(values.values()).encode("utf-8", "replace")
    return {**values, "nonce": hashlib.sha256(told).hexdigest()[:16]}


def assistant_values(question: str, context: str, flags: Flags, suspected: str = "") -> dict[str, str]:
    """The values for the placeholders of an assistant prompt. `suspected` is the dangerous operation, if there is one."""
    values = {"question": question, "context": context, **_flag_values(flags)}
    return {**values, "suspected_operation": suspected or "なし"}


def _flag_values(flags: Flags) -> dict[str, str]:
    return {name: "あり" if getattr(flags, name) else "なし" for name in FLAGS}
