#!/usr/bin/env bats
# gate and trim, as far as no Lance is needed for them; the rest is in tests/interop/compact.py.
# shellcheck disable=SC2154 # stderr, output, lines: set by run

load pinctl_lib

# Lance's JSON of a compaction of fragment $1, to which the file $2 belongs.
result() {
	printf '{"read_version":%s,"original_fragments":[{"id":%s,"files":[{"path":"%s","fields":[0]}],"physical_rows":1}],"new_fragments":[],"row_addrs":null}' "$(head_version)" "$1" "$2"
}

@test "trim: a line a record, and nothing is written without --apply" {
	use fri
	local version before
	version=$(head_version)
	before=$(find "$PINFS_DATASET" | sort)
	got 0 trim
	[ "${#lines[@]}" -eq 2 ]
	[[ ${lines[0]} == "keep"$'\t'0$'\t'"version "*$'\t'index:* ]]
	got 0 trim --apply
	[[ $stderr == *"nothing to drop"* ]]
	[ "$(head_version)" -eq "$version" ]
	[ "$(find "$PINFS_DATASET" | sort)" = "$before" ]
	got 0 trim --json
	[ "$(jq -c '[.head, .dropped, .committed, .version, (.records|length)]' <<<"$output")" = "[$version,0,false,null,2]" ]
}

@test "trim of a table without moved rows" {
	use_pinned
	got 0 trim --apply
	[ -z "$output" ]
	[[ $stderr == *"nothing to drop"* ]]
}

@test "gate: what is no compaction of this table is refused" {
	use_pinned
	local version
	version=$(head_version)
	got 2 gate
	got 2 gate "$BATS_TEST_TMPDIR/none"
	one_sentence
	result 99 x.lance >"$BATS_TEST_TMPDIR/result.json"
	got 2 gate "$BATS_TEST_TMPDIR/result.json"
	[[ $stderr == *"fragment 99, which is not there"* ]]
	result 0 x.lance >"$BATS_TEST_TMPDIR/result.json"
	got 2 gate "$BATS_TEST_TMPDIR/result.json"
	[[ $stderr == *"another table"* ]]
	printf '{"read_version":1' >"$BATS_TEST_TMPDIR/result.json"
	got 2 gate "$BATS_TEST_TMPDIR/result.json"
	[[ $stderr == *"not JSON"* ]]
	# Nor does it wait for somebody to write.
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	run -2 --separate-stderr timeout 20 pinctl gate "$BATS_TEST_TMPDIR/pipe"
	[[ $stderr == *"is not a regular file"* ]]
	[ "$(head_version)" -eq "$version" ]
}
