# What the shell tests of retention/ share: a mounted table that takes pins, and what the daemon read of it.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # R is for those who load this, after lib.bash

# retention_mounted [FIXTURE]: one that takes pins, mounted; R is its retention/.
retention_mounted() {
	pins_table "$@" 2>/dev/null
	mount_table
	R=$MNT/retention
}

# traced CALLS COMMAND...: run it; what the daemon asked of storage meanwhile is in $DIR/trace.
traced() {
	command -v strace >/dev/null || skip 'no strace'
	strace -f -qq -y -o "$DIR/trace" -e trace="$1" -p "$DAEMON" 2>/dev/null 3>&- 4>&- &
	TRACER=$!
	eventually attached
	shift
	"$@"
	fast_commits
}

# The manifests that were opened, by name: each time, and once each.
openings() {
	sed -nE 's/.*openat\(.*"(.*_versions\/)?([0-9]+\.manifest)".*/\2/p' "$DIR/trace"
}

opened() {
	openings | sort -u
}

# The watcher reads manifests, too: wait until it has seen all that there are, the newest of which has a new pin, $id.
let_watcher_read() {
	id=$(pinctl -d "$TABLE" register "$T" 2>/dev/null)
	eventually grep -q "	registered	.*$id" "$MNT/.pinfs/log"
}
