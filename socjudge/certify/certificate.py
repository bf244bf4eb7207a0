"""Define the certificate of a judge. Write it to a JSON file with a seal, load it, and find the one for a run."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import orjson

from .. import constants
from ..base.files import load_bytes, write_new
from ..base.messages import explained, listed, os_reason, say
from ..errors import ConfigError
from ..records import EXAMPLE_MODE, UNKNOWN, EvaluationRun, is_embedded
from ..runs.logs import to_json

# The words in certificates, in every language. Readers see `Verdict.shown`.
TRUSTED, CONDITIONAL, UNTRUSTED, UNDECIDED = "信頼できる", "条件つき", "信頼できない", "分からない"
_SHOWN = {
    TRUSTED: "trusted",
    CONDITIONAL: "with conditions",
    UNTRUSTED: "not trusted",
    UNDECIDED: "still unknown",
}
CONDITIONS = {
    "people": "agreement with people",
    "damage": "damage seen",
    "noise": "noise",
    "injection": "resistance to injection",
    "flags": "independence of the flags",
}
VALID_DAYS = 90  # before and after its date, because a service may change its model without notice
_KIND, _SCHEMA = "socjudge certificate", 1
_MOST_BYTES = 5_000_000


@dataclass(frozen=True)
class Binding:
    """Hold what a certificate is tied to. It applies to a run only if `differences` finds none between their bindings.
    Names and hashes are as in `RunInfo`."""

    judge_model: str
    judge_service: str
    judge_prompt_sha256: str
    criteria: tuple[str, ...]
    socjudge_version: str
    judge_model_resolved: str = UNKNOWN
    judge_settings: str = ""  # how the judge is set up and where it sends requests, as its model object reports

    def differences(self, other: Binding) -> list[str]:
        """Return in words each part in which this binding differs from `other`."""
        # The third number of a version changes no verdict.
        mine, theirs = (
            {name: getattr(one, name) for name in _BOUND} | {"socjudge_version": one.socjudge_version.split(".")[:2]}
            for one in (self, other)
        )
        if {self.judge_model_resolved, other.judge_model_resolved} & {"", UNKNOWN}:
            del mine["judge_model_resolved"]
        if is_embedded(self.judge_model) and {"", UNKNOWN} & {self.judge_settings, other.judge_settings}:
            del mine["judge_settings"]  # old logs do not say that the embedded judge has none
        return [say(told) for name, told in _BOUND.items() if name in mine and mine[name] != theirs[name]]


_BOUND = {
    "judge_model": "the judge's model",
    "judge_service": "the service",
    "judge_settings": "the judge's settings",
    "judge_prompt_sha256": "the judge prompt",
    "criteria": "criteria",
    "socjudge_version": "version of socjudge",
    "judge_model_resolved": "the model that answers",
}


@dataclass(frozen=True)
class Finding:
    """Hold whether one condition of trust is shown to hold for one criterion."""

    condition: str  # a key of CONDITIONS
    # "shown" (to hold), "against" (shown to be broken), "open" (neither is shown) or "untried" (there is nothing to
    # test). Only "people" can be "ranked": the judge is shown to order answers as people do, but not to give scores
    # that are about as high as theirs.
    state: str
    words: str  # the numbers from which the state follows


@dataclass(frozen=True)
class Verdict:
    """Hold the verdict on a criterion: whether the judge's scores on it can be trusted."""

    criterion: str
    word: str  # TRUSTED, CONDITIONAL, UNTRUSTED or UNDECIDED
    why: str
    findings: tuple[Finding, ...] = field(repr=False)  # one per condition of trust

    @property
    def shown(self) -> str:
        """Return `word` in the language of the messages, such as "trusted" for 信頼できる."""
        return say(_SHOWN[self.word])


@dataclass(frozen=True, repr=False)
class Certificate:
    """Hold for each criterion whether a judge can be trusted.
    `certify_judge` returns it, and `write_certificate_page` makes a page of it."""

    binding: Binding  # what the certificate is for
    issued_at: str  # ISO 8601 with zone
    verdicts: tuple[Verdict, ...]
    # log, run_id, judge_prompt_id, dataset_sha256, answers, tried, size, labels, labels_sha256, look, raters, calls and
    # cost_usd
    basis: Mapping[str, Any] = field(repr=False)
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = field(repr=False)  # the numbers behind the verdicts
    not_tried: tuple[str, ...] = field(default=(), repr=False)
    stopped: str = field(default="", repr=False)  # the message that the budget ran out before all cases were judged
    path: Path | None = field(default=None, compare=False)  # None if it does not come from a file

    def __repr__(self) -> str:
        told = ", ".join(f"{criterion} {word}" for criterion, word in self.words.items())
        return f"<Certificate {self.name}: {told}>"

    @property
    def name(self) -> str:
        """Return the name of the certificate's file, without the ending."""
        return _name(self) if self.path is None else self.path.stem

    @property
    def words(self) -> dict[str, str]:
        """Return {criterion: word}. A word is 信頼できる (trusted), 条件つき (with conditions), 信頼できない (not trusted) or
        分からない (unknown)."""
        return {verdict.criterion: verdict.word for verdict in self.verdicts}

    @property
    def holds(self) -> bool:
        """Return whether there are verdicts, and each of them is 信頼できる (trusted) or 条件つき (with conditions)."""
        return bool(self.words) and not {UNTRUSTED, UNDECIDED} & set(self.words.values())

    def speaks_on(self, day: datetime) -> bool:
        """Return whether the day is at most VALID_DAYS before or after the date of the certificate."""
        return abs(day - datetime.fromisoformat(self.issued_at)) <= timedelta(days=VALID_DAYS)


# -- files


def save_certificate(certificate: Certificate, folder: Path | str | None = None) -> Path:
    """Write a certificate to a new file and return the path. The file is written as a whole or not at all.

    `folder` is the project's `certificates` if left out. No file is overwritten. ConfigError if the file cannot be
    written.
    """
    folder = Path(folder or constants.CERTIFICATES_DIR)
    value = _value(certificate)
    line = to_json({**value, "sha256": _seal(value)})
    name = _name(certificate)
    with explained("{path}: cannot be written ({reason}); check the permissions and the space left", path=folder):
        return write_new(folder, [f"{name}.json", *(f"{name}_{n}.json" for n in range(2, 1000))], [line, b"\n"])


def load_certificate(path: Path | str) -> Certificate:
    """Load a certificate from a file that `save_certificate` wrote.

    ConfigError if the file cannot be read, is no certificate, or was changed by hand.
    """
    path = Path(path)
    try:
        value = orjson.loads(load_bytes(path, most=_MOST_BYTES + 1))
        seal = value.pop("sha256", None)
        if (value["kind"], value["schema"]) != (_KIND, _SCHEMA):
            raise ValueError
        if seal != _seal(value):
            raise ConfigError(
                "{path}: the certificate was changed after it was written (its hash does not fit), so it is "
                "not valid; make it anew (docs/certify.md)",
                path=path,
            )
        return _certificate(value, path)
    except OSError as error:
        raise ConfigError(
            "{path}: cannot be read ({reason}); check path and permissions", path=path, reason=os_reason(error)
        ) from None
    # It may hold JSON of another form, or too deeply nested for a seal.
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ConfigError(
            "{path}: is no certificate; name or keep there a file that is one (docs/certify.md)", path=path
        ) from None


def find_certificate(
    binding: Binding, *, on: datetime | str | None = None, folder: Path | str | None = None
) -> Certificate | str:
    """Find the latest certificate for this judge, prompt and service that is valid on a day. If there is none, return in
    words why not.

    `binding` is from `binding_of_run` or `binding_of_judge`. `on` is the day, with its time zone, or a run's `started_at`;
    now if left out. `folder` is the project's `certificates` if left out.

    ConfigError if no valid certificate is found, but a file in the folder is broken or was changed by hand: this file
    may be the certificate.
    """
    found, refused = _all(folder)
    day = _day(on)
    mine = [each for each in found if each.binding.judge_model == binding.judge_model]
    valid = [each for each in mine if day and not each.binding.differences(binding) and each.speaks_on(day)]
    if valid:
        return valid[-1]
    if refused:
        raise refused[-1]
    if not mine:
        return say(
            "there is no certificate of the judge {judge} in {folder}; `socjudge certify --log LOG --judge-model "
            "{judge}` makes one",
            judge=binding.judge_model,
            folder=folder or constants.CERTIFICATES_DIR,
        )
    causes = mine[-1].binding.differences(binding)
    if day is None or not mine[-1].speaks_on(day):
        causes.append(say("the date ({days} days are over)", days=VALID_DAYS))
    return say(
        "the certificate {name} is not valid: since it was made, this has changed: {causes}; make it anew "
        "(docs/certify.md)",
        name=mine[-1].name,
        causes=listed(causes),
    )


def _day(on: datetime | str | None) -> datetime | None:
    """Return None for a text that is no ISO 8601 time with a zone: no certificate is valid then."""
    if on is None:
        return datetime.now().astimezone()
    try:
        day = datetime.fromisoformat(on) if isinstance(on, str) else on
    except ValueError:
        return None
    return day if day.tzinfo else None


def earlier_looks(binding: Binding, labels_sha256: str) -> int:
    """Count the other sets of labels with which this judge has a certificate: each was a chance of luck."""
    mine = [each for each in _all(None)[0] if not each.binding.differences(binding)]
    return len({str(each.basis.get("labels_sha256") or "") for each in mine} - {"", labels_sha256})


def _all(folder: Path | str | None) -> tuple[list[Certificate], list[ConfigError]]:
    found, refused = [], []
    for path in sorted(Path(folder or constants.CERTIFICATES_DIR).glob("*.json")):
        try:
            found.append(load_certificate(path))
        except ConfigError as error:
            refused.append(error)
    return sorted(found, key=lambda each: datetime.fromisoformat(each.issued_at)), refused


def _name(certificate: Certificate) -> str:
    bound = certificate.binding
    judge, prompt = (re.sub(r"[^\w.-]+", "-", name) for name in (bound.judge_model, bound.judge_prompt_sha256))
    return f"{judge[:60]}_{prompt[:8]}_{datetime.fromisoformat(certificate.issued_at):%Y%m%d}"


def _value(certificate: Certificate) -> dict[str, Any]:
    """Return plain JSON values exactly as the file has them, so that the seal does not change when it is written."""
    value = {name: each for name, each in asdict(certificate).items() if name != "path"}
    return orjson.loads(to_json({"kind": _KIND, "schema": _SCHEMA, **value}))  # type: ignore[no-any-return]


def _seal(value: Mapping[str, Any]) -> str:
    """A seal reveals a change by hand. It does not reveal a forgery, because anybody can compute a new seal."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _certificate(value: Mapping[str, Any], path: Path) -> Certificate:
    tables = {"rates": [], **value["tables"]}  # which earlier certificates do not have
    made = msgspec.convert({**value, "tables": tables}, Certificate)
    is_dated = datetime.fromisoformat(made.issued_at).tzinfo is not None
    # one word for each criterion
    fits = made.binding.criteria and tuple(made.words) == made.binding.criteria and {*made.words.values()} <= {*_SHOWN}
    if not (is_dated and fits):
        raise ValueError
    return replace(made, binding=replace(made.binding), path=path)  # which sets the fields that an earlier file lacks


# -- the certificate of a run


def binding_of_run(run: EvaluationRun) -> Binding:
    """Return the binding of a run's judge. A certificate applies to the run if its own binding does not differ from
    this one."""
    info = run.run
    scored = next((list(r.evaluation.scores) for r in run.results if r.evaluation.scores), [])
    return Binding(
        info.judge_model, info.judge_service, info.judge_prompt_sha256, tuple(scored), info.socjudge_version,
        info.judge_model_resolved, info.judge_settings,
    )  # fmt: skip


def certificate_of(
    binding: Binding, started_at: str, *, folder: Path | str | None = None
) -> tuple[Certificate | None, str]:
    """Return the certificate that applies to a judge on the day of a run's start, or None, and a line about it."""
    try:
        found = find_certificate(binding, on=started_at, folder=folder)
    except ConfigError as error:
        return None, say("Certificate of this judge: cannot be used ({reason})", reason=error)
    if isinstance(found, str):
        return None, say("Certificate of this judge: none")
    words = listed(f"{verdict.criterion} {verdict.shown}" for verdict in found.verdicts)
    line = "Certificate of this judge: {name} ({date}) {words}"
    return found, say(line, name=found.name, date=found.issued_at[:10], words=words)


def run_certificate(run: EvaluationRun) -> tuple[Certificate | None, str]:
    """Return what `certificate_of` returns for a run's judge."""
    return certificate_of(binding_of_run(run), run.run.started_at, folder=certificates_folder(run.run.mode))


def why_uncertified(binding: Binding, *, folder: Path | str | None = None) -> str:
    """Return in words why no certificate says today that this judge can be trusted on all criteria. "" if one does."""
    try:
        found = find_certificate(binding, folder=folder)
    except ConfigError as error:
        return str(error)
    if isinstance(found, str) or found.holds:
        return found if isinstance(found, str) else ""
    refused = [each for each in found.verdicts if each.word in (UNTRUSTED, UNDECIDED)]
    return say(
        "the certificate {name} does not let this judge decide ({criteria}); the HTML page beside it says why",
        name=found.name,
        criteria=listed(f"{each.criterion} {each.shown}" for each in refused),
    )


def certificates_folder(mode: str) -> Path:
    """Return the folder in which the certificate for a run of this mode is looked for."""
    # The runs of the examples have a folder of their own, with the embedded judge's certificates.
    return constants.EXAMPLES_DIR / "certificates" if mode == EXAMPLE_MODE else constants.CERTIFICATES_DIR
