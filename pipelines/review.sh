#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Reviews a change of policies: reports in files, annotations on GitHub, and an exit code that gates.
#
#   POLICYC_OLD      the commit to compare with, as git:REV names it (default: the pull request's base)
#   POLICYC_NEW      the path that is compared (default: `paths` of .policyc.yaml, else the directory)
#   POLICYC_OPTIONS  more options of `policyc diff`, as --cluster cluster
#   POLICYC_FAIL_ON  any, widened, narrowed or none (default: widened)
#   POLICYC_REPORTS  the directory of diff.md, diff.sarif and diff.xml (default: policyc-reports)
#
# Exit codes are those of `policyc diff`: 0 passes, 1 fails, 2 is wrong input, 3 is undecided.
set -euo pipefail

old=${POLICYC_OLD:-origin/${GITHUB_BASE_REF:-${CI_MERGE_REQUEST_TARGET_BRANCH_NAME:-}}}
if [[ $old == origin/ ]]; then
	echo "review.sh: set POLICYC_OLD to the commit to compare with" >&2
	exit 2
fi
reports=${POLICYC_REPORTS:-policyc-reports}
read -r -a options <<<"${POLICYC_OPTIONS:-}"
mkdir -p "$reports"

# A branch that lacks commits of its base seems to undo them.
if [[ $(git rev-parse --is-shallow-repository) == false ]] && ! git merge-base --is-ancestor "$old" HEAD; then
	echo "review.sh: warning: the branch lacks commits of $old, which the report shows as undone: rebase it" >&2
fi

# The change under review may not weaken its own review.
if git cat-file -e "$old:.policyc.yaml" 2>/dev/null; then
	options+=(--config "git:$old:.policyc.yaml")
else
	options+=(--config /dev/null)
fi

compare() {
	policyc diff "git:$old" ${POLICYC_NEW:+"$POLICYC_NEW"} "${options[@]}" "$@"
}

compare --format markdown -o "$reports/diff.md" --fail-on none
compare --format sarif -o "$reports/diff.sarif" --fail-on none 2>/dev/null
compare --format junit -o "$reports/diff.xml" --fail-on none 2>/dev/null
if [[ -n ${GITHUB_STEP_SUMMARY:-} ]]; then
	cat "$reports/diff.md" >>"$GITHUB_STEP_SUMMARY"
fi
format=text
if [[ ${GITHUB_ACTIONS:-} == true ]]; then
	format=github
fi
compare --format "$format" --fail-on "${POLICYC_FAIL_ON:-widened}" 2>/dev/null
