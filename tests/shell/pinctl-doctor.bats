#!/usr/bin/env bats
# pinctl doctor (design.md section 6): each check on a table that has the trouble and on one that has not; and the command that it names helps.
# shellcheck disable=SC2154 # stderr, output, lines: set by run
# shellcheck disable=SC2030,SC2031,SC2034 # each test is a process of its own, and its variables are read by the library

load pinctl_lib

checks=(branches remains head names folders flags sections pins window files lost guards stranded staged leaks interrupted times hint)

# Files as old as can be: git gave them the time of the checkout.
age() {
	find "$PINFS_DATASET" -exec touch -h -d 2020-01-01 {} +
}

use_aged() {
	use "$@"
	age
}

# says VERDICT CHECK TEXT [BRANCH]: of what the last run printed, the line of CHECK, with TEXT (a pattern) for its sentence.
says() {
	local line
	line=$(awk -F '\t' -v check="$2" -v branch="${4:-main}" '$3 == check && $2 == branch' <<<"$output")
	local verdict text
	IFS=$'\t' read -r verdict _ _ text command <<<"$line"
	# shellcheck disable=SC2053 # a pattern
	[[ $verdict == "$1" && $text == $3 ]] || {
		echo "expected: $1 $2 $3; it said: $line" >&2
		return 1
	}
}

# Nothing else is the matter.
only() {
	[ "$(awk -F '\t' '$1 != "ok" { print $3 }' <<<"$output" | sort -u | paste -sd ' ')" = "$*" ] || {
		echo "$output" >&2
		return 1
	}
}

# helps CHECK: the command of the last line that `says` looked at is a command, and afterwards nothing is the matter with it.
helps() {
	[[ $command == "pinctl -d "* ]]
	eval "$command" >/dev/null 2>&1
	run -0 --separate-stderr pinctl doctor
	[[ $(awk -F '\t' -v check="$1" '$3 == check { print $1 }' <<<"$output") == ok ]]
}

@test "of a table that is well every check says so, in its order, and nothing is changed" {
	local before
	for name in plain history v1-names deletions fri stable-row-ids btree legacy many-versions; do
		use_aged "$name"
		before=$(tree)
		got 0 doctor
		[ "$(cut -f 3 <<<"$output")" = "$(printf '%s\n' "${checks[@]}")" ]
		only
		[ "$(cut -f 1,2,5 <<<"$output" | sort -u)" = $'ok\tmain\t-' ]
		[ "$stderr" = "pinctl: 0 in trouble, 0 to be attended to" ]
		[ "$(tree)" = "$before" ]
	done
}

@test "--json: the same, a member a check" {
	use_aged plain
	got 0 doctor
	local text=$output
	got 0 doctor --json
	[ "$(jq -r '.checks[] | [.verdict, .branch, .check, .text, .command // "-"] | join("\t")' <<<"$output")" = "$text" ]
	[ "$(jq -c '[.checks[].details] | unique' <<<"$output")" = '[[]]' ]
	rm "$PINFS_DATASET"/data/*
	got 3 doctor --json
	[ "$(jq '.checks[] | select(.check == "files") | .details | length' <<<"$output")" -gt 0 ]
}

@test "in a terminal the verdict is coloured; else not" {
	use_aged plain
	echo stray >"$PINFS_DATASET/data/stray.lance"
	age
	got 0 doctor
	[[ $output != *$'\033'* ]]
	run -0 script -qec "pinctl doctor" /dev/null
	[[ $output == *$'\033[32mok\033[0m\t'* ]]
	[[ $output == *$'\033[33madvice\033[0m\tmain\tstranded'* ]]
}

@test "pins that are overdue" {
	use_pinned
	got 0 doctor
	says ok pins "1, none overdue, soonest expiry 2031-01-01T00:00:00Z"
	run -0 --separate-stderr at "2031-01-02 00:00:00" pinctl doctor
	says advice pins "1 of 1 overdue, the first since 2031-01-01T00:00:00Z: they hold until they are expired"
	[[ $command == "pinctl -d "*" expire --apply" ]]
	pinctl release "$id1" 2>/dev/null
	run -0 --separate-stderr at "2031-01-02 00:00:00" pinctl doctor
	says ok pins none
}

@test "a window that is blocked: which pin, and what it lacks; exit 4" {
	use_pinned
	got 0 doctor
	says ok window "whole from version 9 to 10"
	local file
	file=$(cd "$PINFS_DATASET" && find data -name '*.lance' | sort | head -n 1)
	mv "$PINFS_DATASET/$file" "$BATS_TEST_TMPDIR/away"
	got 4 doctor
	says trouble window "*$file*needed by pin $id1*"
	got 4 doctor --json
	[[ $(jq -r '.checks[] | select(.check == "window") | .details[]' <<<"$output") == *"$id1"* ]]
	mv "$BATS_TEST_TMPDIR/away" "$PINFS_DATASET/$file"
	got 0 doctor
	says ok window "whole *"

	# A version that is missing.
	pinctl register 2032-01-01T00:00:00Z --id "$id2" >/dev/null 2>&1
	mv "$(manifest_of 10)" "$BATS_TEST_TMPDIR/away"
	got 4 doctor
	says trouble window "version 10: it is missing*$id1*"
	pinctl release "$id1" "$id2" 2>/dev/null
	got 0 doctor
	says ok window "no pins; nothing speaks against a cleanup"
}

@test "a pin that was dropped; exit 4, and waiving it helps" {
	use_pinned
	got 0 doctor
	says ok lost "*"
	"$BATS_TEST_DIRNAME/drop-pins" "$PINFS_DATASET"
	got 4 doctor
	says trouble lost "pin $id1 of source *, written by lance 8.0.1, *; register anew under a new id, or waive"
	says advice flags "version 11 was made by a writer that drops bit 19 and pins: Lance up to 11*"
	pinctl release --waive "$id1" 2>/dev/null
	got 0 doctor
	says ok lost "*"
}

@test "guard tags that are missing, or stale" {
	use_pinned
	local tag=$PINFS_DATASET/_refs/tags/pinfs-$id1.json
	got 0 doctor
	says ok guards "*"
	mv "$tag" "$BATS_TEST_TMPDIR/tag"
	got 0 doctor
	says advice guards "1 missing, 0 stale"
	helps guards
	[ -e "$tag" ]
	pinctl release "$id1" 2>/dev/null
	mv "$BATS_TEST_TMPDIR/tag" "$tag"
	got 0 doctor
	says advice guards "0 missing, 1 stale"
	helps guards
	[ ! -e "$tag" ]
}

@test "files that were written and never committed: with their bytes, apart from what pins cost" {
	use_pinned
	local usage
	usage=$(pinctl usage --json | jq -c 'map(del(.age_seconds, .bytes_per_hour))')
	printf %1000d 0 >"$PINFS_DATASET/data/stray.lance"
	mkdir -p "$PINFS_DATASET/_indices/$nobody"
	printf %500d 0 >"$PINFS_DATASET/_indices/$nobody/page"
	got 0 doctor
	says ok stranded "2 files were written and never committed, 1500 bytes, in the last seven days: a writer may be at work"
	only
	[ "$(pinctl usage --json | jq -c 'map(del(.age_seconds, .bytes_per_hour))')" = "$usage" ]
	age
	printf %100d 0 >"$PINFS_DATASET/data/fresh.lance"
	got 0 doctor
	says advice stranded "2 files were written and never committed, 1500 bytes, like *; 1 more, 100 bytes, in the last seven days*"
	helps stranded
	[ ! -e "$PINFS_DATASET/data/stray.lance" ] && [ -e "$PINFS_DATASET/data/fresh.lance" ]
}

@test "files that nobody's cleanup comes to before the oldest version goes are said to be so" {
	use_aged plain
	local at
	at=$(date -ud "$(pinctl snapshots | cut -f 2 | sort | tail -n 1)" +%s)
	touch -d "@$((at + 60))" "$PINFS_DATASET/_transactions/7-$nobody.txn"
	run -0 --separate-stderr at "$(date -ud "@$((at + 30 * 86400))" '+%F %T')" pinctl doctor
	says advice stranded "1 files were*; 1 of them changed after the oldest version was made, and go only with that"
	[ "$command" = - ]
}

@test "what commits left that did not end" {
	use_aged plain
	touch "$PINFS_DATASET"/_versions/.tmp_1.manifest_x "$PINFS_DATASET"/_versions/.tmpabc
	got 0 doctor
	says ok staged "2 files were left by commits that did not end, 0 bytes, in the last seven days*"
	age
	got 0 doctor
	says advice staged "2 files were left by commits that did not end, 0 bytes, like \"_versions/.tmp*"
	only staged
	helps staged
	[ -z "$(find "$PINFS_DATASET/_versions" -name '.tmp*')" ]
}

@test "what Lance leaks" {
	use_aged plain
	mkdir -p "$PINFS_DATASET/_deletions"
	touch "$PINFS_DATASET"/_deletions/.tmp1 "$PINFS_DATASET"/_transactions/.tmp2 "$PINFS_DATASET"/data/x.lance#1 "$PINFS_DATASET"/_versions/9.manifest#2
	got 0 doctor
	says ok leaks "4 temporary files that Lance never collects, 0 bytes, in the last seven days*"
	age
	got 0 doctor
	says advice leaks "4 temporary files that Lance never collects, 0 bytes, like *"
	only leaks
	helps leaks
	[ -z "$(find "$PINFS_DATASET" -name '.tmp*' -o -name '*#*')" ]
}

@test "directories under tree/ that are of no branch" {
	use_aged plain
	python3 "$BATS_TEST_DIRNAME/make-branch" "$PINFS_DATASET" feat/x
	for part in data _deletions; do
		[ ! -e "$PINFS_DATASET/$part" ] || cp -a "$PINFS_DATASET/$part" "$PINFS_DATASET/tree/feat/x/"
	done
	age
	got 0 doctor
	says ok branches "1 beside main, all can be read"
	says ok remains "*"
	mkdir -p "$PINFS_DATASET/tree/feat/gone/_versions" "$PINFS_DATASET/tree/feat/x/y/data" "$PINFS_DATASET/tree/empty"
	printf %300d 0 >"$PINFS_DATASET/tree/feat/gone/_versions/1.manifest"
	printf %30d 0 >"$PINFS_DATASET/tree/feat/x/y/data/1.lance"
	got 0 doctor
	says ok remains "2 directories of no branch, first \"tree/feat/*\", changed in the last seven days*"
	age
	got 0 doctor
	says advice remains "2 directories are of no branch, 330 bytes, first \"tree/feat/*\": Lance never collects them"
	only remains
	[[ $command == *" cleanup --before-version 1 --leaks --apply" ]]
	helps remains
	[ ! -e "$PINFS_DATASET/tree/feat/gone" ] && [ ! -e "$PINFS_DATASET/tree/feat/x/y" ]
	[ -e "$PINFS_DATASET/tree/feat/x/_versions" ]
	says ok remains "*"
	says ok branches "1 beside main, all can be read"
}

@test "a version hint that is stale" {
	use_aged plain
	echo '{"version":1}' >"$PINFS_DATASET/_versions/latest_version_hint.json"
	age
	got 0 doctor
	says advice hint "the version hint says 1, the head is 8; nothing depends on it, and the next commit writes it anew"
	only hint
	pinctl enable --apply 2>/dev/null
	got 0 doctor
	says ok hint "*"
}

@test "a cleanup that was interrupted" {
	use_aged history
	local file
	file=$(manifest_of 2)
	mv "$file" "${file%/*}/.tmp-removed-${file##*/}.aside"
	got 0 doctor
	says advice interrupted "a cleanup was interrupted, or is at work: 1 versions are half removed"
	only interrupted
	helps interrupted
	[ ! -e "${file%/*}/.tmp-removed-${file##*/}.aside" ]
}

@test "flags, and what other writers would do" {
	use_aged plain
	got 0 doctor
	says ok flags "pins are not enabled: every release of Lance writes here"
	pinctl enable --apply 2>/dev/null
	got 0 doctor
	says ok flags "pins are enabled: Lance 12 and newer refuse to write here, up to 11 they drop the pins *"
}

@test "directories that cannot be written; exit 1" {
	use_aged plain
	chmod a-w "$PINFS_DATASET/_versions" "$PINFS_DATASET/data"
	run -1 --separate-stderr unprivileged pinctl doctor
	says trouble folders "_versions: Permission denied; and 1 more"
	only folders
	chmod u+w "$PINFS_DATASET/_versions" "$PINFS_DATASET/data"
	run -0 --separate-stderr unprivileged pinctl doctor
	says ok folders "*"
}

@test "manifests of both naming schemes; exit 3, and what can be known is said" {
	use_aged plain
	cp -a "$(manifest_of 1)" "$PINFS_DATASET/_versions/1.manifest"
	got 3 doctor
	says trouble names "manifests of both naming schemes, 1 of V1 and 8 of V2: *"
	says trouble head "*"
	says ok folders "*"
	[ "$(wc -l <<<"$output")" -eq 5 ]
}

@test "a branch whose head cannot be read, and the others are looked at" {
	use_aged plain
	python3 "$BATS_TEST_DIRNAME/make-branch" "$PINFS_DATASET" dev
	cp -a "$PINFS_DATASET"/{data,_deletions} "$PINFS_DATASET/tree/dev/"
	# Without the transactions of main's older versions.
	rm "$PINFS_DATASET/tree/dev/_transactions"
	mkdir "$PINFS_DATASET/tree/dev/_transactions"
	cp "$PINFS_DATASET"/_transactions/7-* "$PINFS_DATASET/tree/dev/_transactions/"
	age
	got 0 doctor --all-branches
	only
	[ "$(wc -l <<<"$output")" -eq $((2 * ${#checks[@]} - 2)) ]
	says ok head "version *" dev
	got 0 doctor -b dev
	says ok branches "*"
	says ok head "version *" dev
	[ "$(wc -l <<<"$output")" -eq ${#checks[@]} ]
	got 2 doctor -b dev --all-branches
	got 1 doctor -b nobody

	: >"$(find "$PINFS_DATASET/tree/dev/_versions" -name '*.manifest')"
	# It may hang from any version of main, whose cleanup is blocked by that.
	got 4 doctor
	says trouble branches "branch dev: *.manifest*"
	says ok head "version 8 *"
	says trouble window "*dev*"
	got 4 doctor --all-branches
	says trouble head "*.manifest*" dev
	says ok names "1 manifests*" dev
	echo '{' >"$PINFS_DATASET/_refs/branches/dev.json"
	got 4 doctor
	says trouble branches "*_refs/branches/dev.json*"
	says trouble remains "not looked for: some branches are not known"
}

@test "versions that are listed and lack files" {
	use_aged history
	local file
	# Not of the head.
	file=$(pinctl cleanup --retain 1 2>/dev/null | awk -F '\t' '$2 == "data" { print $3; exit }')
	rm "$PINFS_DATASET/$file"
	got 0 doctor
	says advice files "version * lacks files, like \"$file\"*a cleanup by Lance that was interrupted leaves that"
	[[ $command == "pinctl -d "*" cleanup --versions "*" --apply" ]]
	helps files
	use_aged plain
	rm "$PINFS_DATASET"/data/*
	got 3 doctor
	says trouble files "version * lacks files*"
}

@test "files younger than their versions, and versions of the future" {
	use_aged plain
	find "$PINFS_DATASET" -exec touch -d 2040-01-01 {} +
	run -0 --separate-stderr at "2040-01-02 00:00:00" pinctl doctor
	says advice times "the files of 8 versions are younger than these, as after a copy without times: *"
	only times
	age
	run -0 --separate-stderr at "2020-01-01 00:00:00" pinctl doctor
	says advice times "8 versions were made in the future of this host: a clock was wrong, or is"
}
