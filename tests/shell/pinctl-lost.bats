#!/usr/bin/env bats
# Pins that a writer dropped, as pinctl tells of them, and what settles them (design.md section 1, "Lost pins").
# shellcheck disable=SC2154 # stderr, output, lines: set by run
# shellcheck disable=SC2030,SC2031,SC2034 # each test is a process of its own, and its variables are read by the library

load pinctl_lib

drop_pins() {
	"$BATS_TEST_DIRNAME/drop-pins" "$PINFS_DATASET" "$@"
}

# A table on which Lance 8.0.1 dropped $id1. $lost_by is the version that did.
use_lost() {
	use_pinned
	drop_pins
	lost_by=$(head_version)
}

@test "status names a lost pin, who dropped it, and what to do; nothing lost is said, too" {
	use_pinned
	got 0 status
	[ "${lines[-1]}" = "lost       none, looking back to version 1" ]
	got 0 status --json
	[ "$(jq -c '[.lost, .lost_since]' <<<"$output")" = '[[],1]' ]

	local source lost_by
	source=$(pinctl show "$id1" | jq -r '"\(.source_version):\(.source_transaction_uuid)"')
	drop_pins
	lost_by=$(head_version)
	got 0 status
	[ "${lines[-2]}" = "lost       1 pin, looking back to version 1: register anew under a new id, or \`pinctl release --waive ID\`" ]
	[ "${lines[-1]}" = "           pin $id1 of source $source is lost: version $lost_by, written by lance 8.0.1, dropped it without naming it" ]
	[ -z "$stderr" ]
	got 0 status --json
	[ "$(jq -c '.lost[] | [.id, .version, .writer, .label, .expires_at]' <<<"$output")" = \
		"[\"$id1\",$lost_by,\"lance 8.0.1\",\"first\",\"2031-01-01T00:00:00Z\"]" ]
}

@test "ls warns of a lost pin on stderr and does not list it; check finds damage" {
	use_lost
	got 0 ls
	[ -z "$output" ]
	one_sentence
	[[ $stderr == "pinctl: pin $id1 "*" is lost: version $lost_by, "*"\`pinctl release --waive ID\`" ]]
	got 0 ls --json
	[ "$output" = '[]' ]
	one_sentence
	got 3 check
	got 1 renew "$id1" +2h
	[[ $stderr == *"is lost: version $lost_by, written by lance 8.0.1"* ]]
}

@test "release --waive settles it, with its guard tag; a release without does not" {
	use_lost
	got 0 release "$id1"
	[ "$(head_version)" -eq "$lost_by" ]
	got 0 status --json
	[ "$(jq '.lost | length' <<<"$output")" -eq 1 ]
	got 0 release --waive "$id1"
	one_sentence
	[[ $stderr == *"pin $id1, which is not there, is waived (committed as version $((lost_by + 1)))" ]]
	got 0 status
	[ "${lines[-1]}" = "lost       none, looking back to version 1" ]
	got 0 ls
	[ -z "$stderr" ]
	got 0 tag ls
	[ -z "$output" ]
	got 1 show "$id1"
	# A pin that is there is released.
	pinctl enable --apply
	pinctl register +2h --id "$id2" >/dev/null
	got 0 release --waive "$id2" --json
	[ "$(jq -c '.[] | [.id, .committed, .pin.id]' <<<"$output")" = "[\"$id2\",true,\"$id2\"]" ]
	got 0 status --json
	[ "$(jq -c .lost <<<"$output")" = '[]' ]
}

@test "registered anew under a new id: the loss stays until it is waived" {
	use_lost
	pinctl enable --apply
	got 0 register +2h --id "$id2"
	got 0 ls
	[[ $output == "$id2 "* ]]
	[[ $stderr == *"$id1"*" is lost"* ]]
	pinctl release --waive "$id1"
	got 0 ls
	[ -z "$stderr" ]
}

@test "what was lost long ago is known by its guard tag, though its versions are gone" {
	use_lost
	local n
	drop_pins 12.0.0
	for ((n = 1; n <= lost_by; n++)); do
		rm "$(manifest_of "$n")"
	done
	got 0 status
	[[ ${lines[-1]} == "           pin $id1 of source "*" is lost: its guard tag is there, and no version that is kept says where it went" ]]
	got 0 status --json
	[ "$(jq -c '.lost[] | [.id, .version, .writer, .expires_at]' <<<"$output")" = "[\"$id1\",null,null,null]" ]
	got 0 ls
	[[ $stderr == *"$id1"*" is lost"* ]]
}

@test "damage in older versions hides nothing of the head: status says what it does not know, and exits 3" {
	use_lost
	truncate -s -1 "$(manifest_of 2)"
	got 3 status
	[[ ${lines[0]} == "table "* && ${lines[-1]} == "lost       not known: _versions/"* ]]
	one_sentence
	got 3 status --json
	[ "$(jq -c '[.version, .lost, .lost_since]' <<<"$output")" = "[$lost_by,null,null]" ]
	# The list of pins needs the head alone.
	rm "$PINFS_DATASET"/_refs/tags/*
	got 0 ls
	[ -z "$stderr" ]
}
