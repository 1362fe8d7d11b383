# SPDX-License-Identifier: Apache-2.0
"""The findings about input that is read from the commits of a git repository."""

from policyc.ir.diagnostics import Code, Severity

_E = Severity.ERROR

BAD_GIT_SOURCE = Code("PC0121", _E, "{text}: expected git:REV or git:REV:PATH")
NO_REPOSITORY = Code("PC0122", _E, "{folder} is not in the work tree of a git repository: {reason}")
NO_COMMIT = Code("PC0123", _E, "there is no commit {revision} in the repository {repository}")
NOT_IN_COMMIT = Code("PC0124", _E, "the commit {revision} has no {name}")
SUBMODULE = Code("PC0125", _E, "{name} is a submodule: its files are in another repository")
LFS_POINTER = Code("PC0127", _E, "{name} is a pointer of Git LFS: its text is not in the commit")
GIT_FAILED = Code("PC0128", _E, "git could not read {name}: {reason}")
