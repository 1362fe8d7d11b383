#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Reviews a change of policies: reports in files, annotations on GitHub, and an exit code that gates.
#
#   POLICYC_OLD      the commit to compare with, as git:REV names it (default: the pull request's base)
#   POLICYC_NEW      the path that is compared (default: `paths` of .policyc.yaml, else the directory)
#   POLICYC_OPTIONS  more options of `policyc diff` on one line, without quotes
#   POLICYC_FAIL_ON  any, widened, narrowed or none (default: widened)
#   POLICYC_GATE     everywhere or cluster (default: everywhere). A cluster in the repository is part of the
#                    change, so what passes over it is compared without it, too. `cluster` trusts it.
#   POLICYC_REPORTS  the directory of diff.md, diff.sarif and diff.xml (default: policyc-reports)
#
# Exit codes are those of `policyc diff`: 0 passes, 1 fails, 2 is wrong input, 3 is undecided.
set -euo pipefail

refuse() {
	echo "review.sh: $1" >&2
	exit 2
}

old=${POLICYC_OLD:-origin/${GITHUB_BASE_REF:-${CI_MERGE_REQUEST_TARGET_BRANCH_NAME:-}}}
[[ $old != origin/ ]] || refuse "set POLICYC_OLD to the commit to compare with"
given=${POLICYC_OPTIONS:-}
[[ $given != *[$'\n\r"'\']* ]] || refuse "POLICYC_OPTIONS is one line, without quotes"
read -r -a options <<<"$given"
fail_on=${POLICYC_FAIL_ON:-widened}
reports=${POLICYC_REPORTS:-policyc-reports}
mkdir -p "$reports"
rm -f "$reports"/diff.{md,sarif,xml}

# A branch that lacks commits of its base seems to undo them.
if [[ $(git rev-parse --is-shallow-repository) == false ]] && ! git merge-base --is-ancestor "$old" HEAD; then
	echo "review.sh: warning: the branch lacks commits of $old, which the report shows as undone: rebase it" >&2
fi

# The change under review may not weaken its own review: the base has the nearest configuration.
folder=$(git rev-parse --show-prefix)
while [[ -n $folder ]] && ! git cat-file -e "$old:$folder.policyc.yaml" 2>/dev/null; do
	folder=${folder%/}
	[[ $folder == */* ]] && folder=${folder%/*}/ || folder=
done
if git cat-file -e "$old:$folder.policyc.yaml" 2>/dev/null; then
	options+=(--config "git:$old:$folder.policyc.yaml")
else
	options+=(--config /dev/null)
fi

compare() {
	policyc diff "git:$old" ${POLICYC_NEW:+"$POLICYC_NEW"} "${options[@]}" "$@"
}

# Every report is written, also of a failure.
status=0
compare --format markdown -o "$reports/diff.md" --fail-on none || status=$?
compare --format sarif -o "$reports/diff.sarif" --fail-on none 2>/dev/null || status=$?
compare --format junit -o "$reports/diff.xml" --fail-on none 2>/dev/null || status=$?
if [[ -n ${GITHUB_STEP_SUMMARY:-} && -s $reports/diff.md ]]; then
	cat "$reports/diff.md" >>"$GITHUB_STEP_SUMMARY"
fi
format=text
[[ ${GITHUB_ACTIONS:-} != true ]] || format=github
compare --format "$format" --fail-on "$fail_on" 2>/dev/null || status=$?
if ((status == 0)) && [[ ${POLICYC_GATE:-everywhere} != cluster ]]; then
	compare --universe symbolic --format "$format" --fail-on "$fail_on" >"$reports/everywhere.txt" 2>/dev/null || status=$?
	if ((status != 0)); then
		echo "review.sh: nothing opens over the cluster, but the change opens traffic for other pods:" >&2
		cat "$reports/everywhere.txt"
	fi
	rm -f "$reports/everywhere.txt"
fi
exit "$status"
