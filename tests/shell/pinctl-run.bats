#!/usr/bin/env bats
# pinctl run: a pin as long as a command runs (design.md section 6). CMD tells what it saw by files in $DIR, and waits for what it must see.
# shellcheck disable=SC2154 # stderr, output, lines: set by run
# shellcheck disable=SC2030,SC2031,SC2034 # each test is a process of its own, and its variables are read by the library
# shellcheck disable=SC2016 # the commands are for CMD's shell to expand

load pinctl_lib

setup() {
	use plain
	pinctl enable --apply 2>/dev/null
	export DIR=$BATS_TEST_TMPDIR
	cat >"$DIR/functions" <<-'END'
		eventually() {
			n=0
			until "$@" >/dev/null 2>&1; do
				n=$((n + 1))
				[ "$n" -lt 1000 ] || exit 99
				sleep 0.02
			done
		}
		renewed() { [ "$(pinctl log "$PINFS_PIN_ID" | grep -c renewed)" -ge "$1" ]; }
		said() { grep -q "$1" "$DIR/err"; }
	END
}

teardown() {
	[[ ! ${pid:-} ]] || kill -KILL "$pid" 2>/dev/null || :
}

# cmd TEXT: a CMD of this text, for sh.
cmd() {
	printf '. "$DIR/functions"\n%s\n' "$1" >"$DIR/cmd"
}

said() {
	grep -q "$1" "$err"
}

pins() {
	pinctl ls --json | jq length
}

# The command that is printed when a pin is kept.
release_command() {
	sed -n 's/^pinctl: pin .* is kept, its expiry is .*; to release it: //p' "$@"
}

@test "run: the pin holds while CMD runs, is named in its environment, and is released when it returns 0" {
	local v
	v=$(head_version)
	cmd 'pinctl confirm "$PINFS_PIN_ID" >&2 && pinctl tag ls >&2 && pinctl show "$PINFS_PIN_ID"; echo "$PINFS_DATASET"; echo "$@"'
	cd "$(dirname "$PINFS_DATASET")"
	run -0 --separate-stderr pinctl -d ./plain.lance run --for 2h --label 'büild' -- sh "$DIR/cmd" -x --label y -- z
	[ "$(jq -r .label <<<"${output%\}*\}}")" = 'büild' ]
	[ "${lines[-2]}" = "$(realpath "$PINFS_DATASET")" ]
	[ "${lines[-1]}" = '-x --label y -- z' ]
	[[ $stderr == *"(committed as version $((v + 1)))"*"held: "*"pinfs-"*" is released (committed as version $((v + 2)))" ]]
	[ "$(pins)" -eq 0 ]
	[ -z "$(pinctl tag ls)" ]
	got 0 run --for 1d --no-guard pinctl tag ls # the first operand ends the options
	[ -z "$output" ]
}

@test "run: CMD's status is returned, and when it fails the pin is kept and how to release it printed" {
	local n
	for n in 1 3 126 200 255; do
		got "$n" run --for 2h -- sh -c "exit $n"
		[ -z "$output" ]
		[[ ${stderr_lines[1]} == "pinctl: sh returned $n" ]]
		[ "$(pins)" -eq 1 ]
		bash -c "$(release_command <<<"$stderr")"
		[ "$(pins)" -eq 0 ]
	done
	got 137 run --for 2h -- sh -c 'kill -KILL $$'
	[[ $stderr == *"pinctl: sh was ended by signal 9, Killed"* ]]
	[ "$(pins)" -eq 1 ]
}

@test "run: a CMD that is not found, or cannot be run, leaves no pin" {
	got 127 run --for 2h -- nonesuch --for 1h
	[[ $stderr == *"pinctl: cannot run nonesuch: No such file or directory"* ]]
	got 127 run --for 2h -- ./nonesuch
	got 126 run --for 2h -- "$DIR"
	got 126 run --for 2h -- "$DIR/functions"
	[ "$(pins)" -eq 0 ]
	# A script without #! is run as a shell would.
	printf 'echo "hello $1"\n' >"$DIR/script"
	chmod +x "$DIR/script"
	got 0 run --for 2h -- "$DIR/script" you
	[ "$output" = 'hello you' ]
}

@test "run: no pin, no CMD" {
	local word
	got 2 run true
	one_sentence
	for word in 2 2x '' +2h -2h 0s 1.5h '2 h' 2h30m @5 2031-01-01T00:00:00Z 99999999999999999999d; do
		got 2 run --for "$word" -- touch "$DIR/ran"
		one_sentence
	done
	got 2 run --for 9999999d -- touch "$DIR/ran" # past the year 9999
	got 2 run --for 2h
	got 2 run --for 2h --
	got 2 run --for 2h --label $'a\nb' -- touch "$DIR/ran"
	got 2 run --for 2h --source "1:$id1" -- touch "$DIR/ran"
	got 1 -d "$DIR/nothing" run --for 2h -- touch "$DIR/ran"
	use history # not enabled
	got 1 run --for 2h -- touch "$DIR/ran"
	[[ $stderr == *"pinctl enable --apply"* ]]
	truncate -s -1 "$(manifest_of "$(head_version)")"
	got 3 run --for 2h -- touch "$DIR/ran"
	[ ! -e "$DIR/ran" ]
}

@test "run: a registration of unknown outcome starts nothing" {
	strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"
	local nth
	for nth in {1..9}; do
		run --separate-stderr env ASAN_OPTIONS=detect_leaks=0 strace -f -o /dev/null \
			-e "inject=fsync:error=EIO:when=$nth+" pinctl run --for 2h -- touch "$DIR/ran"
		[ "$status" -eq 1 ] || break
	done
	[ "$status" -eq 76 ]
	[ ! -e "$DIR/ran" ]
	bash -c "$(sed -n 's/^pinctl: .*; to find out: //p' <<<"$stderr")"
}

@test "run: the pin is renewed at half its life, for as much again" {
	cmd 'eventually renewed 2'
	got 0 run --for 8s -- sh "$DIR/cmd"
	[[ ${#stderr_lines[@]} -eq 2 ]] # nothing to say about renewals that go well
	got 0 log --json
	[ "$(jq '[.changes[] | select(.change == "renewed")] | length >= 2' <<<"$output")" = true ]
	# Each for eight seconds from then, which was no sooner than four seconds before the end of what was there.
	[ "$(jq 'def sec: sub("\\..*"; "Z") | fromdate;
		[.changes[] | select(.change == "renewed") | (.pin.expires_at | sec) - (.previous_expires_at | sec)] | all(. >= 4)' \
		<<<"$output")" = true ]
	[ "$(pins)" -eq 0 ]
}

@test "run: the clock that expiries are judged by counts, also when it is set" {
	cmd 'pinctl show "$PINFS_PIN_ID" | jq -r .expires_at'
	run -0 --separate-stderr at '2031-06-01 00:00:00' pinctl run --for 2h -- sh "$DIR/cmd"
	[[ $output == 2031-06-01T02:00:0* ]]

	echo '+0' >"$DIR/clock"
	cmd 'trap "echo woken >>$DIR/usr1" USR1; touch "$DIR/ready"; until renewed 1; do sleep 0.05; done; env -u LD_PRELOAD pinctl show "$PINFS_PIN_ID" >"$DIR/record"'
	background env FAKETIME_TIMESTAMP_FILE="$DIR/clock" FAKETIME_NO_CACHE=1 LD_PRELOAD="$(at +0 sh -c 'echo "$LD_PRELOAD"')" \
		ASAN_OPTIONS=verify_asan_link_order=0 pinctl run --for 10h -- sh "$DIR/cmd"
	eventually test -e "$DIR/ready"
	echo '+6h' >"$DIR/clock"
	kill -USR1 "$pid" # any event makes it look at the clock
	ended 0
	[ "$(jq -r '.expires_at | sub("\\..*"; "Z") | fromdate | . - now | . > 15.9 * 3600 and . <= 16 * 3600' "$DIR/record")" = true ]
}

@test "run: signals are passed on, and CMD's answer is the end" {
	local signal n=10
	for signal in INT TERM HUP QUIT USR1 USR2; do
		n=$((n + 1))
		rm -f "$DIR/ready"
		cmd "trap 'exit $n' $signal; touch \"\$DIR/ready\"; while :; do sleep 0.02; done"
		background pinctl run --for 2h -- sh "$DIR/cmd"
		eventually test -e "$DIR/ready"
		kill "-$signal" "$pid"
		ended "$n"
		bash -c "$(release_command "$err")"
	done
	background pinctl run --for 2h -- sleep 60
	eventually pgrep -P "$pid" -x sleep
	kill "$pid"
	ended 143
	said '^pinctl: sleep was ended by signal 15, Terminated$'
	# A CMD that ends well at a signal has ended well.
	rm "$DIR/ready"
	cmd 'trap "exit 0" TERM; touch "$DIR/ready"; while :; do sleep 0.02; done'
	background pinctl run --for 2h -- sh "$DIR/cmd"
	eventually test -e "$DIR/ready"
	kill "$pid"
	ended 0
	said ' is released '
}

@test "run: CMD begins as if it were started without it" {
	local want
	want=$(grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status)
	got 0 run --for 2h -- grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status
	[ "$output" = "$want" ]
	want=$(trap '' PIPE HUP CHLD; grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status)
	output=$(trap '' PIPE HUP CHLD; pinctl run --for 2h -- grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status 2>/dev/null)
	[ "$output" = "$want" ]
	got 0 run --for 2h -- ls /proc/self/fd
	[ "$output" = "$(ls /proc/self/fd)" ]
	run -0 --separate-stderr bash -c 'echo text | pinctl run --for 2h -- cat'
	[ "$output" = text ]
}

@test "run: children of whoever became pinctl are not CMD" {
	# It has no hold of what is read from them all: that would wait for it, and then there is nobody to kill.
	run -4 --separate-stderr bash -c 'sleep 0.1 & sleep 20 >/dev/null & echo $! >"$DIR/sleeper"; exec pinctl run --for 2h -- sh -c "sleep 0.3; exit 4"'
	kill "$(cat "$DIR/sleeper")"
}

@test "run in a terminal: CMD reads it, Ctrl-C comes to CMD once, Ctrl-Z stops both" {
	cmd 'trap "echo INT >>\"$DIR/ints\"" INT; echo $$ >"$DIR/ready"; until read -r word; do :; done; sleep 0.2; echo "$word" >"$DIR/word"'
	run -0 "$BATS_TEST_DIRNAME/in-terminal" interrupt "$DIR" pinctl run --for 2h -- bash "$DIR/cmd"
	[ "$(cat "$DIR/ints")" = INT ]
	[ "$(cat "$DIR/word")" = go ]
	[ "$(pins)" -eq 0 ]
	rm "$DIR/ready" "$DIR/word"
	run -0 "$BATS_TEST_DIRNAME/in-terminal" stop "$DIR" pinctl run --for 2h -- bash "$DIR/cmd"
	[ "$(cat "$DIR/word")" = go ]
	[ "$(pins)" -eq 0 ]
}

@test "run: a pin that is gone is told at once; with --strict CMD is stopped" {
	cmd 'pinctl release "$PINFS_PIN_ID"; eventually said "there is no pin $PINFS_PIN_ID to renew"'
	background pinctl run --for 4s -- sh "$DIR/cmd"
	ended 0
	said '^pinctl: there is no pin .* to release$'
	cmd 'pinctl release "$PINFS_PIN_ID"; exec sleep 60'
	background pinctl run --strict --for 4s -- sh "$DIR/cmd"
	ended 75
	said '^pinctl: stopping sh: its pin is gone$'
	said '^pinctl: sh was ended by signal 15, Terminated$'
	# Whatever it makes of it.
	cmd 'trap "exit 0" TERM; pinctl release "$PINFS_PIN_ID"; while :; do sleep 0.02; done'
	background pinctl run --strict --for 4s -- sh "$DIR/cmd"
	ended 75
}

@test "run --strict: what does not end at SIGTERM is killed, stopped or not" {
	cmd 'trap "" TERM; pinctl release "$PINFS_PIN_ID"; kill -STOP $$; while :; do sleep 0.02; done'
	background pinctl run --strict --for 4s -- sh "$DIR/cmd"
	ended 75
	said '^pinctl: sh was ended by signal 9, Killed$'
}

@test "run: a pin that an old writer drops is told with version and writer" {
	cmd '"$DROP" "$PINFS_DATASET" 8.0.1; exec sleep 60'
	export DROP=$BATS_TEST_DIRNAME/drop-pins
	background pinctl run --strict --for 4s -- sh "$DIR/cmd"
	ended 75
	said "^pinctl: pin .* is lost: version $(head_version), written by lance 8.0.1, "
	said '^pinctl: stopping sh: its pin is gone$'
}

@test "run: renewals that fail are told and tried again, also after the expiry" {
	cmd 'chmod a-w "$PINFS_DATASET/_transactions"; eventually said "Permission denied; trying on, the pin is overdue since"
		chmod u+w "$PINFS_DATASET/_transactions"; eventually said "^pinctl: pin $PINFS_PIN_ID expires at "'
	background "${unprivileged[@]}" pinctl run --for 8s -- sh "$DIR/cmd"
	ended 0
	said 'Permission denied; trying on, the pin expires in '
	[ "$(grep -c 'trying on' "$err")" -le 3 ] # when it begins, when time is short, when it is over
	[ "$(pins)" -eq 0 ]
}

@test "run --strict: CMD is stopped at the first renewal that is refused" {
	cmd 'chmod a-w "$PINFS_DATASET/_transactions"; exec sleep 60'
	background "${unprivileged[@]}" pinctl run --strict --for 12s -- sh "$DIR/cmd"
	ended 75
	said 'Permission denied; trying on, the pin expires in [2-6]s$' # at once, when half of its time was left; not when an eighth is
	said '^pinctl: stopping sh: the renewal of its pin was refused$'
	[ "$(pins)" -eq 1 ]
	chmod u+w "$PINFS_DATASET/_transactions"
	bash -c "$(release_command "$err")"
	[ "$(pins)" -eq 0 ]
}

@test "run --strict: CMD is stopped at the first renewal of unknown outcome" {
	strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"
	# The renewal's thread comes through with its transaction and manifest, but no sync of the directory of the manifest says so.
	cmd 'strace -f -o /dev/null -p "$PPID" -e inject=fsync:error=EIO:when=2+ & exec sleep 60'
	background env ASAN_OPTIONS=detect_leaks=0 pinctl run --strict --for 12s -- sh "$DIR/cmd"
	ended 75
	said ' may or may not have been committed: .*; trying on, the pin expires in [2-6]s$'
	said '^pinctl: stopping sh: whether its pin was renewed is not known$'
	bash -c "$(release_command "$err")"
	[ "$(pins)" -eq 0 ]
}

@test "run --strict: storage that hangs does not hold up the end" {
	strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"
	# From here on no file gets a name within six seconds.
	cmd 'strace -f -o /dev/null -p "$PPID" -e inject=link,linkat:delay_enter=6000000 &
		trap "touch \"$DIR/stopped\"; exit 5" TERM; while :; do sleep 0.02; done'
	background env ASAN_OPTIONS=detect_leaks=0 pinctl run --strict --for 2s -- sh "$DIR/cmd"
	eventually test -e "$DIR/stopped"
	run -1 said 'returned 5' # it waits for the renewal still
	said 'the renewal of the pin takes long; trying on'
	said '^pinctl: stopping sh: its pin is overdue and not renewed$'
	ended 75
}

@test "run: whoever is interrupted before CMD begins gets no CMD and leaves no pin" {
	hold linkat
	background "${under[@]}" pinctl run --for 2h -- touch "$DIR/ran"
	eventually test -e "$held"
	kill "$pid" # which passes it on
	rm "$held"
	ended 143
	[ ! -e "$DIR/ran" ]
	said ' is released '
	[ "$(pins)" -eq 0 ]
}

@test "run --strict: CMD does not outlive a pinctl that was killed" {
	cmd 'trap "touch \"$DIR/stopped\"; exit" TERM; touch "$DIR/ready"; while :; do sleep 0.02; done'
	background pinctl run --strict --for 2h -- sh "$DIR/cmd"
	eventually test -e "$DIR/ready"
	kill -KILL "$pid"
	ended 137
	eventually test -e "$DIR/stopped"
}

@test "run on a branch: its own pin, and a command that names it" {
	"$BATS_TEST_DIRNAME/make-branch" "$PINFS_DATASET" feat/x
	cmd 'pinctl -b feat/x confirm "$PINFS_PIN_ID"; exit 1'
	got 1 -b feat/x run --for 2h -- sh "$DIR/cmd"
	[[ $output == "held: "*" of feat/x, id "* ]]
	[[ $(release_command <<<"$stderr") == "pinctl -d "*" -b feat/x release "* ]]
	bash -c "$(release_command <<<"$stderr")"
	[ "$(pinctl -b feat/x ls --json | jq length)" -eq 0 ]
}
