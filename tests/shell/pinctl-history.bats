#!/usr/bin/env bats
# What happened to pins: afterwards (log) and as it happens (watch). design.md section 6.
# shellcheck disable=SC2154 # stderr, output, lines: set by run
# shellcheck disable=SC2030,SC2031,SC2034 # each test is a process of its own, and its variables are read by the library

load pinctl_lib

teardown() {
	[[ ! ${pid:-} ]] || kill -KILL "$pid" 2>/dev/null || :
}

drop_pins() {
	"$BATS_TEST_DIRNAME/drop-pins" "$PINFS_DATASET" "$@"
}

# columns N,...: those of what was printed; the time of a version is not for tests to know.
columns() {
	cut -f "$1" <<<"$output"
}

# --- log --------------------------------------------------------------------------------------------------------------

@test "log: the life of pins, a line a change" {
	use_pinned
	local v
	v=$(head_version)
	pinctl register 2031-01-01T00:00:00Z --id "$id2" >/dev/null
	pinctl renew "$id1" 2032-01-01T00:00:00Z >/dev/null
	pinctl release "$id1"
	at '2031-06-01 00:00:00' pinctl expire --apply >/dev/null
	got 0 log
	[ "$(columns 1,3-)" = "$(printf '%s\n' \
		"$v"$'\t'"UpdateConfig (register)"$'\t'registered$'\t'"$id1"$'\t'2031-01-01T00:00:00Z$'\t'first \
		$((v + 1))$'\t'"UpdateConfig (register)"$'\t'registered$'\t'"$id2"$'\t'2031-01-01T00:00:00Z \
		$((v + 2))$'\t'"UpdateConfig (renew)"$'\t'renewed$'\t'"$id1"$'\t'"2031-01-01T00:00:00Z -> 2032-01-01T00:00:00Z"$'\t'first \
		$((v + 3))$'\t'"UpdateConfig (release)"$'\t'released$'\t'"$id1"$'\t'2032-01-01T00:00:00Z$'\t'first \
		$((v + 4))$'\t'"UpdateConfig (expire)"$'\t'expired$'\t'"$id2"$'\t'2031-01-01T00:00:00Z)" ]
	[[ $(columns 2 | tail -n 1) == 2031-06-01T00:00:0* ]]
	# Enabling is made for pins, too.
	[ "$stderr" = "pinctl: history is kept from version 1 on: $((v + 4)) versions up to $((v + 4)), 6 of them made for pins" ]

	got 0 log "${id2^^}"
	[ "$(columns 1,4)" = $((v + 1))$'\tregistered\n'$((v + 4))$'\texpired' ]
	got 1 log "$nobody"
	[ -z "$output" ]
	[ "${stderr_lines[1]}" = "pinctl: none of them names pin $nobody" ]
	got 2 log nope
}

@test "log --json: one object, its changes with their records" {
	use_pinned
	local v
	v=$(head_version)
	pinctl renew "$id1" 2032-01-01T00:00:00Z >/dev/null
	pinctl release "$id1"
	got 0 log --json
	[ "$(jq -c '.changes[] | [.version, .pin_operation, .change, .id, .pin.expires_at, .previous_expires_at]' <<<"$output")" = "$(
		cat <<-END
			[$v,"register","registered","$id1","2031-01-01T00:00:00Z",null]
			[$((v + 1)),"renew","renewed","$id1","2032-01-01T00:00:00Z","2031-01-01T00:00:00Z"]
			[$((v + 2)),"release","released","$id1","2032-01-01T00:00:00Z",null]
		END
	)" ]
	[ "$(jq -c .history <<<"$output")" = '{"from_version":1,"to_version":'$((v + 2))',"versions":'$((v + 2))',"made_for_pins":4,"gaps":[]}' ]
	use history
	got 0 log --json
	[ "$(jq -c '[.changes, .history.made_for_pins]' <<<"$output")" = '[[],0]' ]
}

@test "log: a lost pin with its writer, and its waiver" {
	use_pinned
	drop_pins 9.0.0
	pinctl release --waive "$id1"
	got 0 log "$id1"
	[ "$(columns 3-5)" = "UpdateConfig (register)"$'\tregistered\t'"$id1"$'\n'Append$'\t'"lost by lance 9.0.0"$'\t'"$id1"$'\n'"UpdateConfig (release)"$'\twaived\t'"$id1" ]
	got 0 log "$id1" --json
	[ "$(jq -c '.changes[] | [.change, .writer, .pin.label]' <<<"$output")" = \
		'["registered","lance 14.0.2","first"]'$'\n''["lost","lance 9.0.0","first"]'$'\n''["waived","lance 9.0.0",null]' ]
}

@test "log: what is not kept is named, and nothing is made up of it" {
	use_pinned
	local v n
	v=$(head_version)
	pinctl register 2031-01-01T00:00:00Z --id "$id2" >/dev/null
	pinctl release "$id2"
	for n in 1 2 3; do
		pinctl renew "$id1" "203$((n + 1))-01-01T00:00:00Z" >/dev/null
	done
	for ((n = 1; n <= v; n++)); do
		rm "$(manifest_of "$n")"
	done
	rm "$(manifest_of $((v + 2)))" "$(manifest_of $((v + 4)))" "$(manifest_of $((v + 3)))"
	got 0 log
	[ "$(columns 1,4,5)" = "$(printf '%s\n' \
		$((v + 1))$'\theld\t'"$id1" $((v + 1))$'\tregistered\t'"$id2" \
		$((v + 5))$'\trenewed\t'"$id1" $((v + 5))$'\tunknown\t'"$id2")" ]
	[ "${stderr_lines[0]}" = "pinctl: versions $((v + 2)) to $((v + 4)) are not kept: what they did to pins is not known" ]
	[[ ${stderr_lines[1]} == "pinctl: history is kept from version $((v + 1)) on: 2 versions up to $((v + 5)), 2 of them made for pins" ]]
	got 0 log --json
	[ "$(jq -c .history.gaps <<<"$output")" = "[{\"after\":$((v + 1)),\"before\":$((v + 5))}]" ]
}

@test "log ends at a damaged version, with what it knew before, and exits 3" {
	use_pinned
	local v
	v=$(head_version)
	pinctl renew "$id1" 2032-01-01T00:00:00Z >/dev/null
	truncate -s -1 "$(manifest_of $((v + 1)))"
	got 3 log --json
	jq -e '.changes | length == 1' <<<"$output"
	[[ ${stderr_lines[-1]} == "pinctl: _versions/$(basename "$(manifest_of $((v + 1)))"): "* ]]
}

# --- watch ------------------------------------------------------------------------------------------------------------

# watched N: as many lines are there.
watched() {
	[[ $(wc -l <"$out") -ge $1 ]]
}

said() {
	grep -q "$1" "$err"
}

watch() {
	background pinctl watch "$@"
	eventually test -s "$out"
}

@test "watch: the state, then each change as it comes, and the end it was given" {
	use_pinned
	local v
	v=$(head_version)
	watch -n 4
	eventually watched 2
	pinctl register 2031-01-01T00:00:00Z --id "$id2" --label second >/dev/null
	eventually watched 3
	pinctl release "$id1" "$id2"
	eventually watched 5
	drop_pins 14.0.2
	ended 0
	output=$(<"$out")
	[ "$(columns 1,3-)" = "$(printf '%s\n' \
		"$v"$'\t'"UpdateConfig (register)"$'\t-\t-\t-' \
		"$v"$'\t'"UpdateConfig (register)"$'\theld\t'"$id1"$'\t2031-01-01T00:00:00Z\tfirst' \
		$((v + 1))$'\t'"UpdateConfig (register)"$'\tregistered\t'"$id2"$'\t2031-01-01T00:00:00Z\tsecond' \
		$((v + 2))$'\t'"UpdateConfig (release)"$'\treleased\t'"$id1"$'\t2031-01-01T00:00:00Z\tfirst' \
		$((v + 2))$'\t'"UpdateConfig (release)"$'\treleased\t'"$id2"$'\t2031-01-01T00:00:00Z\tsecond' \
		$((v + 3))$'\t'Append$'\t-\t-\t-')" ]
	[ ! -s "$err" ]
}

@test "watch --json: an object a line; -n 0 tells only the state" {
	use_pinned
	local v
	v=$(head_version)
	got 0 watch --json -n 0
	[ "$(jq -c '[.version, .operation, .change, .id, .pin.label]' <<<"$output")" = \
		"[$v,\"UpdateConfig\",null,null,null]"$'\n'"[$v,\"UpdateConfig\",\"held\",\"$id1\",\"first\"]" ]
	watch --json --count 1
	drop_pins
	ended 0
	[ "$(tail -n 1 "$out" | jq -c '[.version, .change, .writer, .id, .pin.label]')" = "[$((v + 1)),\"lost\",\"lance 8.0.1\",\"$id1\",\"first\"]" ]
	# What was lost before is said when it starts.
	got 0 watch -n 0
	[[ $stderr == "pinctl: pin $id1 "*" is lost: "* ]]
}

@test "watch ends with status 0 on INT and TERM, and when its reader leaves" {
	use_pinned
	local signal
	for signal in INT TERM; do
		watch
		kill "-$signal" "$pid"
		ended 0
	done
	run -0 --separate-stderr timeout 60 bash -c 'pinctl watch | head -n 1'
	[ -z "$stderr" ]
}

@test "watch refuses what is no interval and no count" {
	use plain
	local word
	for word in 0s 1 s +1s -1s 1w 1.5s '' 99999999999999999999d; do
		got 2 watch --interval "$word"
		one_sentence
	done
	got 2 watch -n x
	got 2 watch -n -1
	got 2 watch extra
	got 1 -d "$BATS_TEST_TMPDIR/nothing" watch
	one_sentence
}

@test "watch survives a table that vanishes, and tells the state when one is back" {
	use_pinned
	local v
	v=$(head_version)
	watch
	eventually watched 2
	mv "$PINFS_DATASET" "$PINFS_DATASET.away"
	mkdir "$PINFS_DATASET"
	# Each in one step: whoever looks while files go or come sees another table.
	mv "$PINFS_DATASET.away/_versions" "$BATS_TEST_TMPDIR/versions"
	eventually said 'is not a Lance table: .*; watching on$'
	cp -a "$source_dir/tests/fixtures/tables/$fixture" "$PINFS_DATASET.new"
	mv -T "$PINFS_DATASET.new" "$PINFS_DATASET"
	eventually watched 3
	[ "$(tail -n 1 "$out" | cut -f 1)" = "$(expected .latest_version)" ]
	pinctl enable --apply
	eventually watched 4
	kill "$pid"
	ended 0
}

@test "watch goes on past a damaged head, once it is whole again" {
	use_pinned
	local v file
	v=$(head_version)
	watch
	eventually watched 2
	kill -STOP "$pid"
	pinctl renew "$id1" 2032-01-01T00:00:00Z >/dev/null
	file=$(manifest_of $((v + 1)))
	cp "$file" "$BATS_TEST_TMPDIR/whole"
	truncate -s -1 "$file"
	kill -CONT "$pid"
	eventually said "$(basename "$file"): .*; watching on$"
	mv "$BATS_TEST_TMPDIR/whole" "$file" # in one step
	eventually watched 3
	[ "$(tail -n 1 "$out" | cut -f 1,4)" = $((v + 1))$'\trenewed' ]
	[ "$(wc -l <"$err")" -eq 1 ]
	# One that later versions have passed is left behind: what it did cannot be told, what is, can.
	kill -STOP "$pid"
	pinctl renew "$id1" 2033-01-01T00:00:00Z >/dev/null
	pinctl renew "$id1" 2034-01-01T00:00:00Z >/dev/null
	truncate -s -1 "$(manifest_of $((v + 2)))"
	kill -CONT "$pid"
	eventually watched 5
	[ "$(tail -n 2 "$out" | cut -f 1,4,6)" = $((v + 3))$'\t-\t-\n'$((v + 3))$'\theld\t2034-01-01T00:00:00Z' ]
	kill "$pid"
	ended 0
}

@test "watch names versions that went before it could look, and a head that went back" {
	use_pinned
	local v n
	v=$(head_version)
	watch
	eventually watched 2
	kill -STOP "$pid"
	for n in 2 3 4; do
		pinctl renew "$id1" "203$n-01-01T00:00:00Z" >/dev/null
	done
	rm "$(manifest_of $((v + 2)))"
	kill -CONT "$pid"
	eventually watched 4
	[ "$(tail -n 1 "$out" | cut -f 1,4,6)" = $((v + 3))$'\trenewed\t2032-01-01T00:00:00Z -> 2034-01-01T00:00:00Z' ]
	said "^pinctl: version $((v + 2)) is not kept"
	rm "$(manifest_of $((v + 3)))"
	eventually watched 6
	said "^pinctl: the head went back, from version $((v + 3)) to $((v + 1))"
	[ "$(tail -n 1 "$out" | cut -f 1,4)" = $((v + 1))$'\theld' ]
	kill "$pid"
	ended 0
}
