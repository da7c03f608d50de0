#!/usr/bin/env bats
# Branches, tags, clones and copies by pinctl on real tables (design.md sections 4 and 6).
# shellcheck disable=SC2154 # stderr, output, lines: set by run
# shellcheck disable=SC2030,SC2031 # each test is a process of its own, and its variables are read by the library

load pinctl_lib

@test "tags are made on the head, a version, a tag and a branch, and removed" {
	use plain
	local head
	head=$(head_version)
	got 0 tag create now
	[[ $stderr == *"tag now: version $head of main" ]]
	got 0 tag create old 1
	got 0 tag create again old
	got 0 tag create named main:2 --json
	[ "$(jq -r '.name, .branch, .version' <<<"$output")" = $'named\nmain\n2' ]
	got 0 tag ls --json
	[ "$(jq -c '[.[] | [.name, .version]]' <<<"$output")" = '[["again",1],["named",2],["now",'"$head"'],["old",1]]' ]
	got 0 tag delete old
	got 1 tag delete old
	[[ $stderr == *"no tag old"* ]]
	got 1 tag create now 1
	[[ $stderr == *"there is a tag now already: version $head of main"* ]]
}

@test "tags that cannot be are refused with the reason" {
	use_pinned
	got 2 tag create a/b
	one_sentence
	got 2 tag create "pinfs-$nobody"
	[[ $stderr == *"guards the pin"* ]]
	got 2 tag delete "pinfs-$id1"
	[[ $stderr == *"pinctl release"* ]]
	got 1 tag create x 99
	[[ $stderr == *"no version 99"* ]]
	got 1 tag create x nowhere
	[[ $stderr == *"no branch nowhere"* ]]
	got 2 tag create x main:y
	got 0 tag create main 1
	got 2 tag create x main
	[[ $stderr == *"is a tag and a branch"* ]]
}
