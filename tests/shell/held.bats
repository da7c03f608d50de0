#!/usr/bin/env bats
# Processes that are held up at the worst moment, and what others do meanwhile; pins that somebody else would tidy away (cases-open A09, A10, B01,
# B05, B07, B08, B10, B25, C32).
# shellcheck disable=SC2154,SC2030,SC2031 # of run; each test is a subshell

load lib

setup() {
	lib_setup
	pins_table
	export PINFS_DATASET=$TABLE
}

teardown() {
	lib_teardown
}

new_id() {
	cat /proc/sys/kernel/random/uuid
}

register() {
	pinctl register "$@" 2>/dev/null
}

# manifest VERSION: its file.
manifest() {
	printf '%s/_versions/%020u.manifest' "$TABLE" $((-1 - $1)) # 2^64 - 1 - version
}

# due N: so many pins are past their time.
due() {
	[[ $(pinctl ls --expired | wc -l) == "$1" ]]
}

# in_background COMMAND...: under whatever hold said; $HELD is its process, its words are in $DIR/out and $DIR/err.
in_background() {
	"${under[@]}" "$PINCTL_BIN" "$@" >"$DIR/out" 2>"$DIR/err" 3>&- 4>&- &
	HELD=$!
	eventually test -e "$DIR/held"
}

# ends STATUS: let it go, and it ends so.
ends() {
	local status=0
	let_go
	wait "$HELD" || status=$?
	same "$status" "$1" || {
		cat "$DIR/err" >&2
		return 1
	}
}

# others_pass_and_clean N: N registrations by others; of the versions below the last nothing is left but what keeps the table whole. By then they are so
# old that what gets its name now is younger, whatever the ticks of clocks are: within 100 ms that could not be told, and pinctl would say so.
others_pass_and_clean() {
	local i v
	for ((i = 0; i < $1; i++)); do
		register "$T" --no-guard
	done
	v=$(head_version)
	for ((i = v - 1; i > 0; i--)); do
		rm -f "$(manifest "$i")"
	done
	PASSED=$v
	sleep 0.2
}

no_gap() {
	local v
	v=$(head_version)
	for ((; v >= PASSED; v--)); do
		test -e "$(manifest "$v")"
	done
	same "$(find "$TABLE/_versions" -name '*.manifest' | wc -l)" $(($(head_version) - PASSED + 1))
}

@test "A09: a version that was free again below the head is not what anybody is told of" {
	local id
	id=$(new_id)
	hold linkat 1
	in_background register "$T" --id "$id"
	others_pass_and_clean 2
	ends 0
	# Its number was free; it is on the head's line all the same, and pins what was the head then.
	same "$(head_version)" $((PASSED + 1))
	no_gap
	has "$(cat "$DIR/err")" "pin $id holds version $PASSED .*committed as version $((PASSED + 1))"
	pinctl confirm "$id"
	same "$(pinctl show "$id" | jq .source_version)" "$PASSED"

	# One that names its source gets that or nothing.
	id=$(new_id)
	local line
	line=$(pinctl request "$T" --id "$id")
	hold linkat 1
	in_background register --request "$line"
	others_pass_and_clean 2
	ends 1
	same "$(cat "$DIR/out")" ''
	same "$(head_version)" "$PASSED"
	no_gap
	not pinctl confirm "$id"
}

@test "A09: a renewal and a release that were held up so" {
	local id
	id=$(register "$T")
	hold linkat 1
	in_background renew "$id" "$LATER"
	others_pass_and_clean 2
	ends 0
	no_gap
	same "$(pinctl show "$id" | jq -r .expires_at)" "$LATER"
	hold linkat 1
	in_background release "$id"
	others_pass_and_clean 2
	ends 0
	no_gap
	not pinctl confirm "$id"
	same "$(head_version)" $((PASSED + 1))
}

@test "A10: the version a commit is based on vanishes: the daemon commits on the head, and stays" {
	local writer
	F=$MNT/pins/$(register "$T")
	hold linkat 1
	mount_table
	(echo "$LATER" >"$F") 3>&- &
	writer=$!
	eventually test -e "$DIR/held"
	others_pass_and_clean 2
	let_go
	wait "$writer"
	same "$(head_version)" $((PASSED + 1))
	no_gap
	same "$(find "$P" -type f | wc -l)" 3
	same "$(expiry)" "$LATER"
	stop
}

@test "A10: it vanishes before it is read again" {
	local id
	id=$(register "$T")
	# After its transaction is in place, the manifest is copied.
	hold renameat 1
	in_background renew "$id" "$LATER"
	others_pass_and_clean 2
	ends 0
	no_gap
	same "$(pinctl show "$id" | jq -r .expires_at)" "$LATER"
}

@test "B01: what is renewed after it was listed as due stays, what is not goes" {
	local a b
	a=$(overdue) b=$(overdue)
	due 2
	hold linkat 1
	in_background expire --apply
	under=()
	mount_table
	echo "$LATER" >"$P/$a"
	ends 0
	has "$(cat "$DIR/err")" "pin $a was renewed meanwhile, .*: skipped"
	has "$(cat "$DIR/out")" "^$b "
	same "$(ls "$P")" "$a"
	same "$(pinctl show "$a" | jq -r .expires_at)" "$LATER"
	same "$(pinctl tag ls | grep -o 'pinfs-[0-9a-f-]*')" "pinfs-$a"
	stop
}

@test "B05, B25: whatever tidies removes what is past its time, and nothing else" {
	local old live far i
	for i in 1 2; do
		old+=$(overdue --label job)$'\n'
	done
	for i in 1 2; do
		live+=$(register +2h --label job)$'\n'
	done
	far=$(register +3650d --label job)
	due 2
	for i in {1..5}; do
		pinctl expire --apply
	done >"$DIR/out"
	same "$(cut -d' ' -f1 "$DIR/out" | sort)" "$(sort <<<"${old%$'\n'}")"
	mount_table
	same "$(ls "$P")" "$(sort <<<"$live$far")"
	rm "$P/${live%%$'\n'*}"
	same "$(find "$P" -type f | wc -l)" 2
	for i in {1..20}; do
		pinctl expire --apply
	done
	pinctl confirm "$far"
	stop
}

@test "B07: a renewal changes the time in the table, and nothing else of the record" {
	mount_table
	new_pin "$T,label=keep%20me"
	local before
	before=$(pinctl show "$ID")
	echo "$LATER" >"$F"
	same "$(pinctl show "$ID" | jq -S .)" "$(jq -S --arg t "$LATER" '.expires_at = $t' <<<"$before")"
	stop
}

@test "B08: past its time a pin can be renewed; once removed it cannot, and is not made anew" {
	ID=$(overdue)
	mount_table
	F=$P/$ID
	due 1
	test -e "$F"
	renewed "$LATER" bash -c "echo $LATER >'$F'"
	ID=$(overdue)
	F=$P/$ID
	exec 5>"$F"
	due 1
	pinctl expire --apply >/dev/null
	unchanged bash -c "echo $LATER >'$F'"
	not same "$status" 0
	refused ENOENT '' bash -c "echo $LATER >&5"
	exec 5>&-
	unchanged pinctl renew "$ID" "$LATER"
	same "$status" 1
	not test -e "$F"
	stop
}

@test "B10: a tag that cannot be read stops nobody but those who depend on tags, and they name it" {
	local form keep=$TABLE/_refs/tags/keep.json id
	register "$T" >/dev/null
	mount_table
	for form in '' '{' '[]' '{"version":"1"}' directory; do
		rm -rf "$keep"
		if [[ $form == directory ]]; then mkdir "$keep"; else printf %s "$form" >"$keep"; fi
		new_pin
		echo "$LATER" >"$F"
		same "$(pinctl ls 2>/dev/null | wc -l)" 2
		pinctl renew "$ID" 2033-01-01T00:00:00Z
		rm "$F"
		id=$(register "$T")
		pinctl release "$id"
		run pinctl tag ls
		not same "$status" 0
		has "$output" '_refs/tags/keep.json'
		# Whether pins were lost is read from tags, too: it is not guessed.
		run pinctl status
		has "$output" 'lost +not known: "_refs/tags/keep.json"'
	done
	stop
}

# A request that is under way is waited for, whatever comes: the result is the commit's.
@test "C32: while callers wait who were told to end, others are answered; one version comes of it" {
	local before other signal callers=() i
	other=$(register "$T")
	F=$MNT/pins/$(register "$T")
	before=$(head_version)
	hold linkat 1
	mount_table
	for signal in INT TERM KILL; do
		env --default-signal=INT bash -c "echo >&4; echo $LATER >'$F'" 4>"$DIR/writes.$signal" 3>&- &
		callers+=($!)
		eventually test -s "$DIR/writes.$signal"
		eventually test -e "$DIR/held"
		kill -"$signal" $!
		timeout 60 cat "$P/$other" "$MNT/head" >/dev/null
		same "$(timeout 60 find "$P" -type f | wc -l)" 2
	done
	let_go
	for i in "${callers[@]}"; do
		wait "$i" || :
	done
	echo "$LATER" >"$F"
	same "$(expiry)" "$LATER"
	same "$(head_version)" $((before + 1))
	stop
}
