#!/usr/bin/env bats
# mkdir and rmdir in branches/: branches made and deleted through the mount (design.md section 5).
# shellcheck disable=SC2154,SC2030,SC2031 # of run; each test is a subshell

load lib

setup() {
	lib_setup
	pins_table 2>/dev/null
}

teardown() {
	lib_teardown
}

# refused ERRNO TEXT COMMAND...: it fails, nothing is committed, and last_status says so.
refused() {
	local errno=$1 text=$2
	shift 2
	not "$@" 2>/dev/null
	has "$(status_line)" " $errno "
	has "$(status_line)" "$text"
}

@test "mkdir makes a branch of the head, and rmdir deletes it" {
	mount_table
	mkdir "$MNT/branches/dev" "$MNT/branches/feat%2Fx"
	same "$(ls "$MNT/branches")" $'dev\nfeat%2Fx'
	same "$(jq -r '.version, .branch, .pins' "$MNT/branches/feat%2Fx/head")" "$(head_version)"$'\nfeat/x\n0'
	has "$(status_line)" " OK mkdir branches/feat%2Fx: made from version $(head_version) of main"
	same "$(pinctl -d "$TABLE" branch ls --json | jq -c '[.[].name]')" '["main","dev","feat/x"]'
	rmdir "$MNT/branches/feat%2Fx"
	same "$(ls "$MNT/branches")" dev
	not test -e "$TABLE/tree/feat"
	has "$(status_line)" " OK rmdir branches/feat%2Fx: "
	stop
}

@test "a branch that is made again is another one, and works" {
	mount_table
	local id
	for _ in 1 2 3; do
		mkdir "$MNT/branches/dev"
		id=$(jq -r .branch_id "$MNT/branches/dev/head")
		not grep -q "$id" "$DIR/ids" 2>/dev/null
		echo "$id" >>"$DIR/ids"
		(cd "$MNT/branches/dev/pins" && mkdir "01234567-89ab-4cde-8f01-23456789abcd,expires_at=$T")
		rm "$MNT/branches/dev/pins/01234567-89ab-4cde-8f01-23456789abcd"
		rmdir "$MNT/branches/dev"
	done
	stop
}

# cases-open A03
@test "a branch whose ref is stored as a nested path has one name in the mount" {
	mount_table
	mkdir "$MNT/branches/feat%2Fx"
	mkdir "$TABLE/_refs/branches/feat"
	mv "$TABLE/_refs/branches/feat%2Fx.json" "$TABLE/_refs/branches/feat/x.json"
	same "$(ls "$MNT/branches")" feat%2Fx
	not test -e "$MNT/branches/feat"
	mkdir "$MNT/branches/feat%2Fx/pins/01234567-89ab-4cde-8f01-23456789abcd,expires_at=$T"
	same "$(jq -r .branch "$MNT/branches/feat%2Fx/head")" feat/x
	refused EBUSY '01234567-89ab-4cde-8f01-23456789abcd' rmdir "$MNT/branches/feat%2Fx"
	rm "$MNT/branches/feat%2Fx/pins/01234567-89ab-4cde-8f01-23456789abcd"
	rmdir "$MNT/branches/feat%2Fx"
	same "$(ls "$MNT/branches")" ''
	stop
}

# cases-open B23
@test "rmdir of a branch that is held is EBUSY, and last_status says by whom" {
	mount_table
	mkdir "$MNT/branches/dev"
	mkdir "$MNT/branches/dev/pins/01234567-89ab-4cde-8f01-23456789abcd,expires_at=$T,label=mine"
	refused EBUSY '01234567-89ab-4cde-8f01-23456789abcd "mine" \(expires 2031-01-01T00:00:00Z\)' rmdir "$MNT/branches/dev"
	rm "$MNT/branches/dev/pins/"*
	pinctl -d "$TABLE" tag create t dev 2>/dev/null
	refused EBUSY 'tags: t' rmdir "$MNT/branches/dev"
	pinctl -d "$TABLE" tag delete t 2>/dev/null
	rmdir "$MNT/branches/dev"
	stop
}

@test "what cannot be made or deleted is refused by its errno" {
	mount_table
	mkdir "$MNT/branches/dev"
	run mkdir "$MNT/branches/dev" # the kernel has found it
	has "$output" 'File exists'
	for name in 'a b' 'x.lock' 'a%2F%2Fb' 'a%2fb' main 'dev%2Fdata'; do
		refused EINVAL '' mkdir "$MNT/branches/$name"
	done
	not rmdir "$MNT/branches/none" 2>/dev/null
	refused EPERM '' mkdir "$MNT/new"
	refused EPERM '' rmdir "$MNT/pins"
	same "$(ls "$MNT/branches")" dev
	stop
	mount_table -o ro
	run mkdir "$MNT/branches/new"
	has "$output" 'Read-only file system'
	run rmdir "$MNT/branches/dev"
	has "$output" 'Read-only file system'
	stop
	mount_table -o branch=dev
	refused EBUSY 'this mount shows' rmdir "$MNT/branches/dev"
	refused EPERM '' rmdir "$MNT/branches/main"
	mkdir "$MNT/branches/kid"
	same "$(pinctl -d "$TABLE" branch ls --json | jq -r '.[] | select(.name == "kid") | .parent')" dev
	stop
}
