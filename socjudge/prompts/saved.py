"""Save your own prompts under a name in eval/prompts/, with a record of where each comes from. List all prompts."""

from __future__ import annotations

import contextlib
import os
from datetime import datetime
from pathlib import Path

from .. import constants
from ..base.files import write_new
from ..base.messages import explained, say
from ..base.texts import DEVICE_NAME, encodable, without_unseen
from ..errors import ConfigError
from ..records import Rubric, RunInfo
from ..settings import SPECIFIED_PROMPT, open_project
from .for_rubric import OF_RUBRIC, is_specified
from .templates import Kind, Prompt, built_in_ids, check_prompt, default_prompt_id, is_prompt_id, load_prompt


def save_prompt(
    text: str,
    *,
    name: str,
    parent: str,
    kind: Kind = "judge",
    note: str = "",
    prompts_dir: Path | str | None = None,
    rubric: Rubric | None = None,
) -> Path:
    r"""Write a prompt to `eval/prompts/<name>.txt`, below a block with kind, parent, note and time.

    Line ends become "\n", as they do when a text file is read. Nothing is overwritten.

    Parameters
    ----------
    text, note
        The prompt, and a note for the block, on one line there.
    name
        The id of the new prompt, for `judge_prompt="<name>"`.
    parent
        The id of the prompt that this one was made from.
    kind
        "judge" or "assistant", which decides what the prompt must contain.
    prompts_dir
        A folder to use instead of `eval/prompts`.
    rubric
        A judge prompt must ask for its criteria; the project's rubric if left out.

    Raises
    ------
    ConfigError
        If the name is taken, built in or not a valid id, or if the text does not contain what it must.
    """
    path = _free_path(name, parent, constants.PROMPTS_DIR if prompts_dir is None else Path(prompts_dir))
    prompt = Prompt(name, encodable(text.replace("\r\n", "\n").replace("\r", "\n")))
    check_prompt(prompt, kind, rubric or open_project().rubric)
    saved_at = datetime.now().astimezone().isoformat(timespec="seconds")
    about = {"kind": kind, "parent": parent, "note": note, "saved_at": saved_at}
    block = [f"{key}: {' '.join(without_unseen(value).split())}" for key, value in about.items()]
    content = "\n".join(["---", *block, "---", prompt.text]).encode("utf-8", "replace")
    with explained(
        "{path}: the prompt cannot be written ({reason}); free space, fix the permissions or shorten the name",
        path=path,
    ):
        write_new(path.parent, [path.name], [content])
    return path


def _free_path(name: str, parent: str, folder: Path) -> Path:
    if not is_prompt_id(name) or name.startswith(".") or DEVICE_NAME.fullmatch(name):
        raise ConfigError(
            "{name!r} is no name for a prompt: use letters, digits, '_', '-' and '.', such as '{parent}-b', "
            "without .txt",
            name=name,
            parent=parent,
        )
    path = folder / f"{name}.txt"
    is_built_in = name.casefold() in {each.casefold() for each in built_in_ids()}
    if is_built_in or os.path.exists(path):  # unlike path.exists(), it accepts a name that is too long for the disk
        raise ConfigError(
            "the prompt '{name}' exists and stays as it is; choose another name, such as '{name}-b'", name=name
        )
    return path


def list_prompts(kind: Kind) -> list[str]:
    """List the ids of the prompts of a kind: the default one, the other built-in ones that fit the project's criteria,
    and your own. Files that cannot be read are left out, and "rubric-1" if a criterion has no description."""
    unfit = OF_RUBRIC if is_specified(open_project().rubric) else SPECIFIED_PROMPT
    names = sorted(name for name in built_in_ids() if not name.startswith(unfit))
    names += sorted({path.stem for path in constants.PROMPTS_DIR.glob("*.txt")} - built_in_ids())
    found = []
    for name in filter(is_prompt_id, names):
        with contextlib.suppress(ConfigError):
            # Only a judge is shown an answer.
            if ("answer" in load_prompt(name).placeholders) == (kind == "judge"):
                found.append(name)
    usual = default_prompt_id(kind)
    return sorted(found, key=lambda name: name != usual)


def find_prompt(sha256: str) -> Prompt | None:
    """The built-in or saved judge prompt whose text has this hash; None if it no longer exists."""
    names = [*sorted(built_in_ids() - {OF_RUBRIC}), *list_prompts("judge")]
    return next((prompt for prompt in map(load_prompt, names) if prompt.sha256 == sha256), None)


def judge_prompt_of(info: RunInfo) -> Prompt | None:
    """The judge prompt of a run, from its log or by the hash in its log; None if its text is lost."""
    if info.judge_prompt_text:
        return Prompt(info.judge_prompt_id, info.judge_prompt_text)
    return find_prompt(info.judge_prompt_sha256)


def foreign_prompt_note(info: RunInfo) -> str:
    """A remark on the judge prompt of a run whose text is in the log alone."""
    prompt = judge_prompt_of(info)
    if prompt is None or prompt.id == OF_RUBRIC or find_prompt(prompt.sha256):
        return ""
    return say(
        "The judge prompt '{id}' is in the log alone, and not among the prompts here. Read it before you trust the scores",
        id=prompt.id,
    )
