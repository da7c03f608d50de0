# What the shell tests share. A test gets a directory of its own ($DIR, removed afterwards), copies of fixture tables in it, and mounts that are
# gone when it ends, however it ends.
# shellcheck shell=bash

load clock

: "${PINFS_SOURCE:=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}"
: "${PINFS_BUILD:=$PINFS_SOURCE/build-dev}"
: "${PINFS_BIN:=$PINFS_BUILD/fs/pinfs}"
: "${PINCTL_BIN:=$PINFS_BUILD/tools/pinctl/pinctl}"
export TZ=UTC

T=2031-01-01T00:00:00Z # a time to come
LATER=2032-01-01T00:00:00Z

pinctl() {
	"$PINCTL_BIN" "$@"
}

# Wait until a command succeeds, for a minute at most.
eventually() {
	local i
	for ((i = 0; i < 3000; i++)); do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.02
	done
	echo "never came true: $*" >&2
	return 1
}

# not COMMAND: it fails. (`!` does not make a test fail where it stands.)
not() {
	! "$@"
}

# same A B: two texts are the same.
same() {
	[[ $1 == "$2" ]] || {
		printf 'expected: %q\n     got: %q\n' "$2" "$1" >&2
		return 1
	}
}

# has TEXT PATTERN: a regular expression occurs in it.
has() {
	[[ $1 =~ $2 ]] || {
		printf 'expected: %s\n     got: %q\n' "$2" "$1" >&2
		return 1
	}
}

lib_setup() {
	[[ -c /dev/fuse ]] || skip 'no /dev/fuse'
	[[ -r /dev/fuse && -w /dev/fuse ]] || skip 'not allowed to use /dev/fuse'
	command -v fusermount3 >/dev/null || skip 'no fusermount3'
	DIR=$(mktemp -d "${BATS_TEST_TMPDIR:-${TMPDIR:-/tmp}}/pinfs.XXXXXX")
	MNT=$DIR/mnt
	mkdir "$MNT"
	DAEMON=
}

# as_nobody COMMAND...: as another user.
as_nobody() {
	setpriv --reuid=65534 --regid=65534 --clear-groups -- "$@"
}

# in_the_open: from here on the test is where others may go, with all that it has; where it lived is closed to them.
in_the_open() {
	local closed=$DIR
	[[ $(id -u) == 0 ]] || skip 'needs root, to be somebody else'
	DIR=$(mktemp -d /var/tmp/pinfs.XXXXXX)
	chmod 755 "$DIR"
	mv "$closed"/* "$DIR"
	rmdir "$closed"
	MNT=$DIR/mnt
	TABLE=$DIR/${TABLE##*/}
}

lib_teardown() {
	local m
	[[ ${DIR:-} ]] || return 0
	[[ ! $DAEMON ]] || kill -KILL "$DAEMON" 2>/dev/null || :
	while read -r _ _ _ _ m _; do
		[[ $m != "$DIR"/* ]] || fusermount3 -u -z "$m" || umount -l "$m" || :
	done </proc/self/mountinfo
	chmod -R u+w "$DIR"
	rm -rf "$DIR"
}

# copy_table [FIXTURE]: a table of our own, as Lance left it: $TABLE.
copy_table() {
	TABLE=$DIR/t.lance
	cp -R "$PINFS_SOURCE/tests/fixtures/tables/${1:-14.0.2/plain.lance}" "$TABLE"
	chmod -R u+w "$TABLE"
}

# pins_table [FIXTURE]: one that takes pins.
pins_table() {
	copy_table "$@"
	pinctl -d "$TABLE" enable --apply >/dev/null
}

# start [ARGUMENT...]: pinfs in the foreground, to the moment it is ready. Its process is $DAEMON, its words are in $DIR/said.
start() {
	: >"$DIR/said" # before anybody looks for what an earlier one said
	# What the shell starts with & ignores INT, and so would it.
	env --default-signal=INT "${under[@]}" "$PINFS_BIN" -f "$@" >"$DIR/said" 2>&1 3>&- 4>&- &
	DAEMON=$!
	eventually started
	grep -q ready "$DIR/said" || {
		cat "$DIR/said" >&2
		return 1
	}
}

started() {
	grep -q 'pinfs: ready' "$DIR/said" || not kill -0 "$DAEMON"
}

# mount_table [OPTION...]: $TABLE on $MNT; P is its directory of pins.
mount_table() {
	start "$@" "$TABLE" "$MNT"
	P=$MNT/pins
}

# Ask the daemon to end. It must say that all went well, and leave no mount.
stop() {
	local status=0 pid=$DAEMON
	kill -"${1:-TERM}" "$pid"
	eventually not kill -0 "$pid"
	wait "$pid" || status=$?
	DAEMON=
	[[ $status == 0 ]] || {
		echo "pinfs ended with $status" >&2
		cat "$DIR/said" >&2
		return 1
	}
	not mountpoint -q "$MNT"
}

# slow_commits DELAY: from now on the daemon waits this long before each publication; $DIR/trace gets a line when it begins to wait.
slow_commits() {
	strace -f -qq -o "$DIR/trace" -e trace=link,linkat -e inject="link,linkat:delay_enter=$1" -p "$DAEMON" 2>/dev/null 3>&- &
	TRACER=$!
	eventually attached
}

# attached: all threads of the daemon are traced. strace takes them one by one.
attached() {
	not grep -q '^TracerPid:[[:space:]]*0' "/proc/$DAEMON"/task/*/status
}

fast_commits() {
	kill "$TRACER"
	wait "$TRACER" || :
	eventually grep -q '^TracerPid:[[:space:]]*0' "/proc/$DAEMON/status"
}

# hold CALL N: what is put in "${under[@]}" is held before its Nth call of this name on the table, and $DIR/held is there while it is; let_go.
# Unlike strace it leaves the processes alone that are started: fusermount3 would lose its privileges.
under=()
hold() {
	# There is none of the thread sanitizer's.
	under=(env ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" "${PINFS_BUILD%-thread}/tests/crash/stepper" -d "$(realpath "$TABLE")"
		-c "$1" -n "$2" -p "$DIR/held")
	local status=0
	"${under[@]}" true || status=$?
	[[ $status != 77 ]] || skip 'processes cannot be traced here'
}

let_go() {
	rm "$DIR/held"
	under=()
}

# modes_count: of files, for the daemons to come, also if we are root.
modes_count() {
	# shellcheck disable=SC2054 # a list of setpriv's, in one word
	[[ $(id -u) -ne 0 ]] || under=(setpriv --bounding-set=-dac_override,-dac_read_search)
}

status_line() {
	cat "$MNT/.pinfs/last_status"
}

# The number of the head, read from the table and not through the mount: a change that must not happen must not be there either.
head_version() {
	local name n=0 v
	for name in "$TABLE"/_versions/*.manifest; do
		name=${name##*/}
		v=${name%.manifest}
		[[ $v =~ ^[0-9]+$ ]] || continue
		# 20 digits: 2^64-1-v; the last 15 are enough for any version of a test.
		[[ ${#v} != 20 ]] || v=$((744073709551615 - 10#${v:5}))
		((v <= n)) || n=$v
	done
	echo "$n"
}

# unchanged COMMAND...: whatever it returns, it commits nothing. Its status and output are in $status and $output, as of run.
unchanged() {
	local before after
	before=$(head_version)
	run "$@"
	after=$(head_version)
	same "$after" "$before"
}

# refused ERRNO PATTERN COMMAND...: it fails, commits nothing, and last_status says why.
refused() {
	local errno=$1 pattern=$2
	shift 2
	unchanged "$@"
	[[ $status != 0 ]] || {
		echo "succeeded: $*" >&2
		return 1
	}
	has "$(status_line)" "^[0-9T:.-]+Z $errno .*$pattern"
}

# renewed TIME COMMAND...: it succeeds, by one commit, and the record says so at once.
renewed() {
	local time=$1 before
	shift
	before=$(head_version)
	"$@"
	same "$(head_version)" $((before + 1))
	same "$(expiry)" "$time"
}

# new_pin [T]: register one through the mount; its id is $ID, its file $F.
new_pin() {
	ID=$(cat /proc/sys/kernel/random/uuid)
	mkdir "$P/$ID,expires_at=${1:-$T}"
	F=$P/$ID
}

# field FILE KEY: what a record says, without its quotes.
field() {
	sed -nE "s/^ *\"$2\": \"?([^\",]*)\"?,?\$/\\1/p" "$1"
}

# expiry: of the pin at hand.
expiry() {
	field "$F" expires_at
}

# renew_at_once FILE...: a writer each, in a process of its own; all have their file open before any of them writes $LATER.
renew_at_once() {
	python3 - "$LATER" "$@" <<-'END'
		import multiprocessing, os, sys
		def write(name):
		    f = os.open(name, os.O_WRONLY)
		    ready.wait()
		    os.write(f, sys.argv[1].encode())
		names = sys.argv[2:]
		ready = multiprocessing.Barrier(len(names))
		writers = [multiprocessing.Process(target=write, args=(name,)) for name in names]
		for w in writers:
		    w.start()
		for w in writers:
		    w.join()
		sys.exit(any(w.exitcode for w in writers))
	END
}

# make_pins N: register so many through the mount.
make_pins() {
	python3 - "$P" "$1" "$T" <<-'END'
		import os, sys, uuid
		for _ in range(int(sys.argv[2])):
		    os.mkdir("%s/%s,expires_at=%s" % (sys.argv[1], uuid.uuid4(), sys.argv[3]))
	END
}
