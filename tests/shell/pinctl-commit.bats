#!/usr/bin/env bats
# Commit of prepared work, as far as no Lance is needed for it; what lands is in tests/interop/commit.py.
# shellcheck disable=SC2154 # stderr, output, lines: set by run

load pinctl_lib

@test "commit says how it is used" {
	use_pinned
	got 2 commit
	[[ $stderr == *"--transaction FILE"* ]]
	got 0 help commit
	[[ $output == *"--dry-run"* ]]
}

@test "a transaction of long ago is found where it was committed" {
	use_pinned
	local version file
	version=$(head_version)
	file=$(printf '%s\n' "$PINFS_DATASET"/_transactions/1-*.txn)
	got 0 commit --transaction "$file" --json
	[ "$(jq -c '[.version, .already, .committed]' <<<"$output")" = '[2,true,false]' ]
	[ "$(head_version)" -eq "$version" ]
	[ -e "$file" ]
}

@test "what is no transaction is refused, and nothing changes" {
	use_pinned
	local version
	version=$(head_version)
	printf 'not a transaction' >"$BATS_TEST_TMPDIR/bad.txn"
	got 3 commit --transaction "$BATS_TEST_TMPDIR/bad.txn"
	one_sentence
	: >"$BATS_TEST_TMPDIR/empty.txn"
	got 3 commit --transaction "$BATS_TEST_TMPDIR/empty.txn"
	one_sentence
	got 2 commit --transaction "$BATS_TEST_TMPDIR/none.txn"
	one_sentence
	got 2 commit --transaction "$BATS_TEST_TMPDIR"
	[[ $stderr == *"is not a regular file"* ]]
	# It does not wait for somebody to write.
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	run -2 --separate-stderr timeout 20 pinctl commit --transaction "$BATS_TEST_TMPDIR/pipe"
	[[ $stderr == *"is not a regular file"* ]]
	[ "$(head_version)" -eq "$version" ]
}
