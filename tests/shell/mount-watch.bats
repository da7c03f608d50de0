#!/usr/bin/env bats
# What a mount tells without being asked: metrics, what others do to pins, and pins that a writer dropped.
# shellcheck disable=SC2154,SC2030,SC2031 # of run; each test is a subshell

load lib

setup() {
	lib_setup
	pins_table
}

teardown() {
	lib_teardown
}

# metric NAME[{LABELS}]: its value.
metric() {
	awk -v name="$1" '$1 == name { print $2 }' "$MNT/.pinfs/metrics"
}

# metric_is NAME VALUE
metric_is() {
	same "$(metric "$1")" "$2"
}

# operations KIND OUTCOME
operations() {
	metric "pinfs_operations_total{branch=\"main\",kind=\"$1\",outcome=\"$2\"}"
}

# logged OP ID PATTERN: a line of the log, with the result `-`.
logged() {
	grep -qE "^[0-9T:.-]+Z	$1	pins/$2	-	$3" "$MNT/.pinfs/log"
}

# cleaned: a cleanup, and it expired the pin at hand.
cleaned() {
	pinctl -d "$TABLE" cleanup --retain 1 --apply && not test -e "$F"
}

# --- metrics ---

@test "metrics: the text format of Prometheus, whatever the table is called" {
	mv "$TABLE" "$DIR/a\"b\\c"$'\n\xff'"d,e"
	TABLE=$DIR/a\"b\\c$'\n\xff'd,e
	mount_table
	new_pin
	mkdir "$MNT/x" || :
	cat "$MNT/.pinfs/metrics" >"$DIR/metrics"
	"$BATS_TEST_DIRNAME/check-metrics" "$DIR/metrics"
	# Not UTF-8, so shown as in every sentence; then escaped as a label.
	grep -qF '/a\"b\\\\c\\n\\xffd,e"} 1' "$DIR/metrics"
	stop

	mv "$TABLE" "$DIR/a\"b\\c"$'\n'"é"
	TABLE=$DIR/a\"b\\c$'\n'é
	mount_table
	"$BATS_TEST_DIRNAME/check-metrics" "$MNT/.pinfs/metrics"
	grep -qF '/a\"b\\c\né"} 1' "$MNT/.pinfs/metrics"
	stop
}

@test "metrics: pins and the head" {
	mount_table
	same "$(metric 'pinfs_pins{branch="main"}')" 0
	same "$(metric 'pinfs_soonest_expiry_timestamp_seconds{branch="main"}')" ''
	new_pin "$LATER"
	new_pin
	same "$(metric 'pinfs_pins{branch="main"}')" 2
	same "$(metric 'pinfs_pins_overdue{branch="main"}')" 0
	same "$(metric 'pinfs_soonest_expiry_timestamp_seconds{branch="main"}')" "$(date -d "$T" +%s)"
	same "$(metric 'pinfs_head_version{branch="main"}')" "$(head_version)"
	same "$(metric 'pinfs_head_readable{branch="main"}')" 1
	mv "$TABLE/_versions" "$TABLE/away"
	same "$(metric 'pinfs_head_readable{branch="main"}')" 0
	same "$(metric 'pinfs_pins{branch="main"}')" ''
	"$BATS_TEST_DIRNAME/check-metrics" "$MNT/.pinfs/metrics"
	mv "$TABLE/away" "$TABLE/_versions"
	same "$(metric 'pinfs_pins{branch="main"}')" 2
	PINFS_DATASET=$TABLE overdue >/dev/null
	eventually metric_is 'pinfs_pins_overdue{branch="main"}' 1
	same "$(metric 'pinfs_pins{branch="main"}')" 3
	stop
}

@test "metrics: operations by kind and outcome, durations, refusals" {
	mount_table
	local id kind
	new_pin
	new_pin
	mkdir "$P/$ID,expires_at=$T"
	not mkdir "$P/$ID,expires_at=$T,label=other"
	echo "$LATER" >"$F"
	echo "$T" >"$F"
	rm "$F"
	for id in 1 2 3; do
		not mkdir "$P/$id"
	done
	not mv "$MNT/head" "$MNT/tail"
	same "$(operations register committed)" 2
	same "$(operations register unchanged)" 1
	same "$(operations register refused)" 1
	same "$(operations renew committed)" 1
	same "$(operations renew unchanged)" 1
	same "$(operations release committed)" 1
	same "$(operations release failed)" 0
	same "$(metric 'pinfs_refused_total{errno="EEXIST"}')" 1
	same "$(metric 'pinfs_refused_total{errno="EINVAL"}')" 3
	same "$(metric 'pinfs_refused_total{errno="EPERM"}')" 1
	same "$(metric 'pinfs_operation_retries_total{branch="main",kind="register"}')" 0
	for kind in register=4 renew=2 release=1; do
		same "$(metric "pinfs_operation_duration_seconds_count{branch=\"main\",kind=\"${kind%=*}\"}")" "${kind#*=}"
		not same "$(metric "pinfs_operation_duration_seconds_sum{branch=\"main\",kind=\"${kind%=*}\"}")" 0
	done
	"$BATS_TEST_DIRNAME/check-metrics" "$MNT/.pinfs/metrics"
	stop
}

@test "metrics: of each branch that was looked at, once, however many directories show it" {
	python3 "$BATS_TEST_DIRNAME/make-branch" "$TABLE" feat/x
	mount_table
	same "$(metric 'pinfs_pins{branch="feat/x"}')" ''
	P=$MNT/branches/feat%2Fx/pins
	new_pin
	P=$MNT/branches/main/pins
	new_pin
	same "$(ls "$MNT/pins")" "$ID"
	same "$(metric 'pinfs_pins{branch="feat/x"}')" 1
	same "$(metric 'pinfs_pins{branch="main"}')" 1
	same "$(operations register committed)" 1
	same "$(metric 'pinfs_operations_total{branch="feat/x",kind="register",outcome="committed"}')" 1
	"$BATS_TEST_DIRNAME/check-metrics" "$MNT/.pinfs/metrics"
	stop
}

@test "metrics: races that were lost are counted" {
	F=$MNT/pins/$(pinctl -d "$TABLE" register "$T")
	hold linkat 1
	mount_table
	(echo "$LATER" >"$F") 3>&- &
	local writer=$!
	eventually test -e "$DIR/held"
	pinctl -d "$TABLE" register "$T"
	let_go
	wait "$writer"
	same "$(metric 'pinfs_operation_retries_total{branch="main",kind="renew"}')" 1
	same "$(operations renew committed)" 1
	stop
}

# --- guard tags ---

@test "a guard tag that cannot be put: the pin holds, and the warning is in last_status, log and metrics" {
	mount_table
	new_pin
	test -e "$TABLE/_refs/tags/pinfs-$ID.json"
	mv "$TABLE/_refs" "$TABLE/away"
	touch "$TABLE/_refs"
	new_pin
	has "$(status_line)" "OK register pins/$ID: .*warning: .*guard tag"
	# Not the last line of all: the watcher may have something to say of the tags that it does not find.
	has "$(grep "	register	pins/$ID	" "$MNT/.pinfs/log")" "	OK	.*warning: .*guard tag"
	same "$(metric 'pinfs_guard_failures_total{branch="main"}')" 1
	pinctl -d "$TABLE" confirm "$ID"
	rm "$TABLE/_refs"
	mv "$TABLE/away" "$TABLE/_refs"
	# The same request again makes up for it.
	mkdir "$P/$ID,expires_at=$T"
	not grep -q warning "$MNT/.pinfs/last_status"
	test -e "$TABLE/_refs/tags/pinfs-$ID.json"
	stop
}

@test "noguard: no guard tags are put; those of pins that end are removed" {
	mount_table
	new_pin
	local guarded=$F
	stop
	mount_table -o noguard
	test -e "$TABLE/_refs/tags/pinfs-$ID.json"
	rm "$guarded"
	not test -e "$TABLE/_refs/tags/pinfs-$ID.json"
	new_pin
	same "$(ls "$TABLE/_refs/tags")" ''
	not grep -q warning "$MNT/.pinfs/last_status"
	stop
}

# --- others ---

@test "what others do to pins is in the log, within seconds; last_status stays the caller's own" {
	mount_table
	new_pin
	local before id version
	before=$(status_line)
	id=$(pinctl -d "$TABLE" register "$T" --label theirs)
	version=$(head_version)
	pinctl -d "$TABLE" renew "$id" "$LATER"
	pinctl -d "$TABLE" release "$id"
	eventually logged released "$id" "$((version + 2))	"
	logged registered "$id" "$version	on version $((version - 1)), until $T; by transaction [0-9a-f-]{36}\$"
	logged renewed "$id" "$((version + 1))	until $LATER, was $T; by transaction [0-9a-f-]{36}\$"
	pinctl -d "$TABLE" release "$ID"
	eventually logged released "$ID" "$((version + 3))	"
	same "$(awk -F'\t' 'NF != 6' "$MNT/.pinfs/log")" ''
	same "$(status_line)" "$before"
	stop
}

@test "our own acts are not told as if others had done them, also among theirs" {
	mount_table
	local i id mine theirs=()
	new_pin
	mine=$ID
	for i in {1..10}; do
		echo "20$((40 + i))-01-01T00:00:00Z" >"$F"
		id=$(pinctl -d "$TABLE" register "$T")
		theirs+=("$id")
	done
	eventually logged registered "$id" ''
	for id in "${theirs[@]}"; do
		logged registered "$id" ''
	done
	not grep -E "	(registered|renewed)	pins/$mine" "$MNT/.pinfs/log"
	stop
}

@test "a pin that a writer dropped is told at once, in the log and on stderr; then counted until it is active again" {
	mount_table
	new_pin
	local other=$ID lost source version before
	new_pin
	lost=$ID
	source=$(field "$F" source_version):$(field "$F" source_transaction_uuid)
	before=$(status_line)
	"$BATS_TEST_DIRNAME/drop-pins" "$TABLE"
	version=$(head_version)
	eventually logged lost "$lost" "$version	pin $lost of source $source is lost: version $version, written by lance 8.0.1, dropped it"
	eventually grep -q "pin $lost .* is lost" "$DIR/said"
	same "$(status_line)" "$before"
	eventually metric_is 'pinfs_pins_lost{branch="main"}' 2
	same "$(metric 'pinfs_pins{branch="main"}')" 0

	pinctl -d "$TABLE" enable --apply
	pinctl -d "$TABLE" register --id "$lost" "$T"
	eventually metric_is 'pinfs_pins_lost{branch="main"}' 1
	pinctl -d "$TABLE" release --waive "$other"
	eventually logged waived "$other" "$(head_version)	it was not there"
	same "$(metric 'pinfs_pins_lost{branch="main"}')" 0
	same "$(grep -c '	lost	' "$MNT/.pinfs/log")" 2
	stop
}

@test "a pin that was dropped while nobody watched is told at the start, once" {
	local id version
	id=$(pinctl -d "$TABLE" register "$T")
	"$BATS_TEST_DIRNAME/drop-pins" "$TABLE"
	version=$(head_version)
	mount_table
	eventually logged lost "$id" "$version	.*written by lance 8.0.1"
	pinctl -d "$TABLE" enable --apply
	id=$(pinctl -d "$TABLE" register "$T")
	eventually logged registered "$id" ''
	same "$(grep -c '	lost	' "$MNT/.pinfs/log")" 1
	same "$(grep -c 'is lost' "$DIR/said")" 1
	stop
}

@test "a pin that was dropped before the first look at its branch, and after the branch was opened, is told once" {
	local id
	id=$(pinctl -d "$TABLE" register "$T")
	python3 "$BATS_TEST_DIRNAME/make-branch" "$TABLE" dev
	mount_table -b dev
	eventually grep -q mount "$MNT/.pinfs/log"
	sleep 0.2 # the first look of all is over, the next one is to come
	same "$(ls "$MNT/branches/main/pins")" "$id"
	"$BATS_TEST_DIRNAME/drop-pins" "$TABLE"
	eventually grep -q "	lost	branches/main/pins/$id	-	" "$MNT/.pinfs/log"
	pinctl -d "$TABLE" enable --apply
	id=$(pinctl -d "$TABLE" register "$T")
	eventually grep -q "	registered	branches/main/pins/$id	-	" "$MNT/.pinfs/log"
	same "$(grep -c '	lost	' "$MNT/.pinfs/log")" 1
	stop
}

@test "branches are watched once they were looked at" {
	python3 "$BATS_TEST_DIRNAME/make-branch" "$TABLE" dev
	mount_table
	ls "$MNT/branches/dev" >/dev/null
	local id
	id=$(pinctl -d "$TABLE" -b dev register "$T")
	eventually grep -q "	registered	branches/dev/pins/$id	-	" "$MNT/.pinfs/log"
	stop
}

@test "a branch that is made anew is watched from there" {
	python3 "$BATS_TEST_DIRNAME/make-branch" "$TABLE" dev
	mount_table
	ls "$MNT/branches/dev" >/dev/null
	local id
	id=$(pinctl -d "$TABLE" -b dev register "$T")
	pinctl -d "$TABLE" -b dev release "$id"
	eventually grep -q "	released	branches/dev/pins/$id	-	" "$MNT/.pinfs/log"
	rm -r "$TABLE/tree" "$TABLE/_refs/branches"
	python3 "$BATS_TEST_DIRNAME/make-branch" "$TABLE" dev
	eventually grep -q "	watch	branches/dev/head	-	9	made anew: version 11 was the newest before" "$MNT/.pinfs/log"
	id=$(pinctl -d "$TABLE" -b dev register "$T")
	eventually grep -q "	registered	branches/dev/pins/$id	-	10	" "$MNT/.pinfs/log"
	stop
}

@test "a head that cannot be read is told once; when it can be, watching goes on" {
	mount_table
	new_pin
	local head id
	head=$(find "$TABLE/_versions" -name '*.manifest' | sort | head -n 1)
	id=$(pinctl -d "$TABLE" register "$T")
	eventually logged registered "$id" ''
	head=$(find "$TABLE/_versions" -name '*.manifest' | sort | head -n 1)
	cp -p "$head" "$DIR/good"
	truncate -s 40 "$head"
	eventually grep -q "	watch	head	EUCLEAN	.*${head##*/}" "$MNT/.pinfs/log"
	sleep 2.2 # two more looks
	same "$(grep -c '	watch	' "$MNT/.pinfs/log")" 1
	cp -p "$DIR/good" "$head"
	pinctl -d "$TABLE" release "$id"
	eventually logged released "$id" ''
	stop
}

@test "the daemon ends at once, also between two looks" {
	local i began took
	# It would take most of a second each time; that it takes less is seen once the machine has nothing else to do.
	for ((i = 0; i < 20; i++)); do
		mount_table
		began=${EPOCHREALTIME/./}
		stop
		took=$((${EPOCHREALTIME/./} - began))
		((took >= 700000)) || break
	done
	((took < 700000))
}

@test "the daemon ends although the watcher waits for storage" {
	command -v strace >/dev/null || skip 'no strace'
	mount_table
	eventually grep -q mount "$MNT/.pinfs/log"
	strace -f -qq -o "$DIR/trace" -e trace=getdents64 -e inject=getdents64:delay_enter=60s -p "$DAEMON" 2>/dev/null 3>&- &
	local tracer=$!
	eventually attached
	pinctl -d "$TABLE" register "$T"
	eventually test -s "$DIR/trace"
	kill "$DAEMON"
	# strace does not let go of a thread that it delays; that the daemon is through is all we can see.
	eventually grep -q '^State:[[:space:]]*Z' "/proc/$DAEMON/status"
	kill -KILL "$tracer"
	wait "$DAEMON"
	DAEMON=
	not mountpoint -q "$MNT"
}

@test "versions that cannot be read are given up in the end, and that is said" {
	mount_table
	local damaged id
	id=$(pinctl -d "$TABLE" register "$T")
	eventually logged registered "$id" ''
	kill -STOP "$DAEMON"
	id=$(pinctl -d "$TABLE" register "$T")
	damaged=$(find "$TABLE/_versions" -name '*.manifest' | sort | head -n 1)
	pinctl -d "$TABLE" renew "$id" "$LATER"
	truncate -s 40 "$damaged"
	kill -CONT "$DAEMON"
	eventually grep -q "	watch	head	EUCLEAN	.*${damaged##*/}" "$MNT/.pinfs/log"
	eventually grep -q "	watch	head	EUCLEAN	$(head_version)	not looked at from version $(($(head_version) - 1)) on" "$MNT/.pinfs/log"
	pinctl -d "$TABLE" renew "$id" 2033-01-01T00:00:00Z
	eventually logged renewed "$id" "$(head_version)	until 2033"
	stop
}

@test "log: what a cleanup by pinctl does to pins, and what is left can be mounted on" {
	mount_table
	new_pin
	local kept=$F
	ID=$(PINFS_DATASET=$TABLE overdue)
	F=$P/$ID
	eventually cleaned
	eventually logged expired "$ID" ''
	test -e "$kept"
	new_pin
	stop
}
