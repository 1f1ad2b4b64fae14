"""The whole library of CEL as Kubernetes has it: importing this module fills the tables.

What it must never do: hold functions itself; each library has its module.
"""

from echelon.hub import cel_formats, cel_kube, cel_lists, cel_operators, cel_strings, cel_time
from echelon.hub.cel_overloads import FUNCTIONS, METHODS

LIBRARIES = (cel_operators, cel_strings, cel_lists, cel_time, cel_kube, cel_formats)

__all__ = ["FUNCTIONS", "LIBRARIES", "METHODS"]
