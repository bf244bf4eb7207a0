"""The public names of `socjudge.certify`; see `socjudge/__init__.pyi`."""

from ..report.certificate_page import write_certificate_page as write_certificate_page
from .anchoring import Anchoring as Anchoring
from .anchoring import summarise_anchoring as summarise_anchoring
from .certificate import binding_of_run as binding_of_run
from .certificate import find_certificate as find_certificate
from .certificate import load_certificate as load_certificate
from .certificate import save_certificate as save_certificate
from .injections import Injections as Injections
from .injections import summarise_injections as summarise_injections
from .issue import binding_of_judge as binding_of_judge
from .issue import certify_judge as certify_judge
from .issue import estimate_certificate as estimate_certificate
from .probe_findings import explain_probes as explain_probes
from .probe_findings import probe_matrix as probe_matrix
from .probe_findings import summarise_probes as summarise_probes
from .probes import Probes as Probes
from .two_prompts import Prompts as Prompts
from .two_prompts import prompt_equivalence as prompt_equivalence
