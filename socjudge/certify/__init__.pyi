"""The public names of `socjudge.certify`; see `socjudge/__init__.pyi`."""

from ..report.certificate_page import write_certificate_page as write_certificate_page
from .certificate import binding_of_run as binding_of_run
from .certificate import find_certificate as find_certificate
from .certificate import load_certificate as load_certificate
from .certificate import save_certificate as save_certificate
from .issue import binding_of_judge as binding_of_judge
from .issue import certify_judge as certify_judge
from .issue import plan_certificate as plan_certificate
