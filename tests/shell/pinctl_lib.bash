# What the shell tests of pinctl share. Each test works on its own copy of a fixture, named by PINFS_DATASET.
# shellcheck shell=bash
# shellcheck disable=SC2034 # most of it is used by those who load this

bats_require_minimum_version 1.5.0
load clock
source_dir=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd)
build_dir=${PINFS_BUILD:-$source_dir/build-dev}
PATH=$build_dir/tools/pinctl:$PATH

id1=01234567-89ab-4cde-8f01-23456789abcd
id2=01234567-89ab-4cde-8f01-23456789abce
nobody=ffffffff-89ab-4cde-8f01-23456789abcd

# use NAME [RELEASE]: work on a copy of this fixture.
use() {
	local release=${2:-14.0.2}
	export PINFS_DATASET=$BATS_TEST_TMPDIR/$1.lance
	cp -a "$source_dir/tests/fixtures/tables/$release/$1.lance" "$PINFS_DATASET"
	fixture=$release/$1.lance
}

# What Lance says about the fixture: expected JQ-FILTER
expected() {
	jq -r --arg fixture "$fixture" '.[$fixture] | '"$1" "$source_dir/tests/fixtures/expected.json"
}

# use_pinned: a copy of the plain fixture with pins enabled and $id1 on it.
use_pinned() {
	use plain
	pinctl enable --apply 2>/dev/null
	pinctl register 2031-01-01T00:00:00Z --id "$id1" --label first >/dev/null 2>&1
}

# got STATUS COMMAND...: run pinctl, and it must exit so. What it printed is in $output and $stderr.
got() {
	local status=$1
	shift
	run "-$status" --separate-stderr pinctl "$@"
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

# background COMMAND...: in a process of its own, $pid, with $out and $err for its words, and all signals as a terminal would have them.
background() {
	out=$BATS_TEST_TMPDIR/out err=$BATS_TEST_TMPDIR/err
	# Whoever waits for its first word must not find the one of the process before.
	rm -f "$out" "$err"
	# What the shell starts with & ignores INT and QUIT. What bats keeps open must not be kept open by a process that is left over.
	env --default-signal=INT,QUIT "$@" >"$out" 2>"$err" 3>&- 4>&- &
	pid=$!
}

# ended STATUS: the background process ends, so.
ended() {
	local status=0
	eventually gone
	wait "$pid" || status=$?
	# It may be another's from here on.
	pid=
	[[ $status == "$1" ]] || {
		echo "ended with $status, not $1; it said:" >&2
		cat "$out" "$err" >&2
		return 1
	}
}

# hold CALL: what is put behind "${under[@]}" is held before its first call of this name on the table, and $held is there as long as it is to be.
hold() {
	local status=0
	held=$BATS_TEST_TMPDIR/held
	# There is none of the thread sanitizer's.
	under=(env ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" "${build_dir%-thread}/tests/crash/stepper" -d "$(realpath "$PINFS_DATASET")"
		-c "$1" -n 1 -p "$held")
	"${under[@]}" true || status=$?
	[ "$status" -ne 77 ] || skip "processes cannot be traced here"
}

gone() {
	[[ ! -e /proc/$pid/stat || $(sed 's/.*) //' "/proc/$pid/stat") == Z* ]]
}

# manifest_of VERSION: its file, by either naming scheme.
manifest_of() {
	local v2
	v2=$PINFS_DATASET/_versions/$(printf '%020u' $((-1 - $1))).manifest # 2^64 - 1 - version
	if [[ -e $v2 ]]; then
		echo "$v2"
	else
		echo "$PINFS_DATASET/_versions/$1.manifest"
	fi
}

# unprivileged COMMAND...: modes of files count, also for root.
unprivileged=()
# shellcheck disable=SC2054 # a list of setpriv's, in one word
[[ $(id -u) -ne 0 ]] || unprivileged=(setpriv --bounding-set=-dac_override,-dac_read_search)
unprivileged() {
	"${unprivileged[@]}" "$@"
}

# Every file of the table with its content, to be compared before and after.
tree() {
	(cd "$PINFS_DATASET" && find . -type f -exec sha256sum {} + | sort -k 2)
}

head_version() {
	pinctl status --json | jq .version
}

# The sentence on stderr is one line and starts as all do.
one_sentence() {
	# shellcheck disable=SC2154 # set by run --separate-stderr
	[[ ${#stderr_lines[@]} -eq 1 && $stderr == "pinctl: "* ]]
}
