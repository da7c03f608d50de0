#!/usr/bin/env bats
# The texts that pinctl takes for ids, times and requests: the accepted set, all else refused with nothing changed (design.md section 2).
# shellcheck disable=SC2154 # stderr, output, lines: set by run
# shellcheck disable=SC2030,SC2031,SC2034 # each test is a process of its own, and its variables are read by the library

load pinctl_lib
load times

@test "ids are matched whole" {
	use_pinned
	local version word
	version=$(head_version)
	for word in 0 01234567 "${id1%?}" "${id1}0" "{$id1}" "($id1)" "$id1}" " $id1" "$id1 " "x${id1}y" "\"$id1\"" "urn:uuid:$id1" \
		"URN:UUID:$id1" "${id1//-/}" 0123456789ab-4cde-8f01-2345-6789abcd "${id1/0/٠}" not-a-uuid ffff \
		00000000-0000-0000-0000-000000000000 ffffffff-ffff-ffff-ffff-ffffffffffff ''; do
		got 2 show "$word"
		one_sentence
		got 2 release "$word"
		got 2 register +2h --id "$word"
		got 2 renew "$word" +2h
		got 2 confirm "$word"
		got 2 log "$word"
		got 2 release --waive "$word"
	done
	# One is the other but for the last digit.
	pinctl register +2h --id "$id2" >/dev/null
	version=$(head_version)
	got 1 show "$nobody"
	one_sentence
	[ "$(head_version)" -eq "$version" ]
	got 0 release "$id2"
	got 0 confirm "$id1"
	got 1 confirm "$id2"
}

@test "times: the accepted set, stored and printed to the last digit" {
	use_pinned
	local text want
	while read -r text want; do
		got 0 renew "$id1" "$text"
		[ "$output" = "$want" ]
		[ "$(pinctl show "$id1" | jq -r .expires_at)" = "$want" ]
	done < <(accepted_times)
	got 0 expire
	[ -z "$output" ]
	# What is printed, given back, changes nothing.
	local version
	version=$(head_version)
	got 0 renew "$id1" "$(pinctl show "$id1" | jq -r .expires_at)"
	[ "$(head_version)" -eq "$version" ]
}

@test "times: all else is refused, and nothing changes" {
	use_pinned
	local text before
	before=$(tree)
	while IFS= read -r text; do
		text=$(printf '%bx' "$text")
		text=${text%x}
		got 2 renew "$id1" "$text"
		one_sentence
		got 2 register "$text" --id "$id2"
		[ -z "$output" ]
		one_sentence
	done < <(refused_times)
	[ "$(tree)" = "$before" ]
}

@test "an expiry that has passed registers nothing" {
	use_pinned
	local before
	before=$(tree)
	got 2 register 2020-01-01T00:00:00Z
	got 2 register @0
	got 2 register +0s
	[ "$(tree)" = "$before" ]
}

@test "a request file that is not one line of the accepted form does nothing" {
	use_pinned
	local before file=$BATS_TEST_TMPDIR/line good="$id2,expires_at=2031-01-01T00:00:00Z" text
	before=$(tree)
	while IFS= read -r text; do
		# shellcheck disable=SC2059 # the texts hold escapes
		printf "$text" >"$file"
		got 2 register --request-file "$file"
		one_sentence
	done <<-END

		\n
		nonsense
		$good,force=yes
		$good,label=a,label=b
		$good,expires_at=2032-01-01T00:00:00Z
		$id2
		$id2,label=x
		$good\n$good\n
		$good\r\n
		 $good
		$good\0
		\xef\xbb\xbf$good
		{"id": "$id2"}
		{"id": "$id2", "expires_at": "2031-01-01T00:00:00Z"}
		{"id": 7, "id": [], "expires_at": {}, "force": true}
		["$good"]
		null
		$good,
		,$good
		$good,label
		$good,=x
		$good,LABEL=x
		$good,id=$id1
		$good,expires_at
		$id2,expires_at=1924992000
		$id2,expires_at=
		$good,label=a\0b
		$good\0$good
		$good\n\0
		$good,branch=
		$good,branch=../x
		$good,branch_id=7
		$good,label=%%zz
		$good,label=%%00
		$good,source=1
		$good,source=0:$id1
	END
	# Long, deep, and long behind what would do.
	for text in x '[' '{"a":' '\n' '\0' ',label=x'; do
		printf '%s' "$good" >"$file.good"
		printf "$text%.0s" {1..200000} >"$file"
		cat "$file.good" "$file" >"$file.both"
		got 2 register --request-file "$file"
		one_sentence
		got 2 register --request-file "$file.both"
		one_sentence
		run -2 --separate-stderr pinctl register --request-file - <"$file.both"
	done
	printf '%s\n%4000s\n' "$good" '' >"$file"
	got 2 register --request-file "$file"
	printf '%s%5000s%s' "$good" '' "$good" | tr ' ' '\n' >"$file"
	got 2 register --request-file "$file"
	one_sentence
	got 1 register --request-file "$BATS_TEST_TMPDIR/nothing"
	[ "$(tree)" = "$before" ]
	printf '%s' "$good" >"$file"
	got 0 register --request-file "$file"
}
