#!/usr/bin/env bats
# Starting and ending: what is refused before anything is mounted, the options, signals, daemons that were killed.
# shellcheck disable=SC2154,SC2030,SC2031 # of run; each test is a subshell

load lib

setup() {
	lib_setup
	copy_table
}

teardown() {
	lib_teardown
}

# will_not STATUS PATTERN ARGUMENT...: pinfs says one sentence and mounts nothing, in the background as in the foreground.
will_not() {
	local expected=$1 pattern=$2 first
	shift 2
	run timeout 20 "$PINFS_BIN" "$@"
	first=$output
	same "$status" "$expected"
	has "$output" "$pattern"
	same "${#lines[@]}" 1
	not mountpoint -q "$MNT"
	run timeout 20 "$PINFS_BIN" -f "$@"
	same "$status" "$expected"
	same "$output" "$first"
	not mountpoint -q "$MNT"
}

@test "a bad start is one sentence, and nothing is mounted" {
	mkdir "$DIR/empty"
	touch "$DIR/file"
	will_not 1 'absent.*[Nn]o such' "$DIR/absent" "$MNT"
	will_not 1 'not a Lance table' "$DIR/empty" "$MNT"
	will_not 1 'file' "$DIR/file" "$MNT"
	will_not 1 'gone.*No such' "$TABLE" "$DIR/gone"
	will_not 1 'not a directory' "$TABLE" "$DIR/file"
	will_not 1 'nosuch' -o branch=nosuch "$TABLE" "$MNT"
}

@test "a damaged head is not mounted: status 3, and the file is named" {
	truncate -s 100 "$TABLE/_versions/18446744073709551607.manifest"
	will_not 3 '18446744073709551607.manifest' "$TABLE" "$MNT"
}

@test "wrong usage is status 2" {
	will_not 2 'unknown option "colour=red"' -o ro,colour=red "$TABLE" "$MNT"
	will_not 2 'unknown option "-x"' -x "$TABLE" "$MNT"
	will_not 2 'mountpoint is missing.*pinfs -h' "$TABLE"
	will_not 2 'dataset and the mountpoint are missing'
	will_not 2 'one mountpoint' "$TABLE" "$MNT" more
	will_not 2 'mode=' -o mode=rwx "$TABLE" "$MNT"
	will_not 2 'mode=' -o mode=4755 "$TABLE" "$MNT"
	will_not 2 'mode=' -o mode= "$TABLE" "$MNT"
	will_not 2 'uid=' -o uid=nobody "$TABLE" "$MNT"
	will_not 2 'gid=' -o gid=-1 "$TABLE" "$MNT"
}

@test "-h and -V" {
	run "$PINFS_BIN" -h
	same "$status" 0
	has "$output" 'usage: pinfs .*DATASET MOUNTPOINT'
	run "$PINFS_BIN" -V
	same "$status" 0
	has "$output" '^pinfs [0-9]+\.[0-9]+'
}

# said: the options of the help, a line each.
said() {
	"$PINFS_BIN" -h | sed -n 's/^  \(-.*\)/\1/; T; s/   .*//; s/^-o //; s/, /\n/g; p' | grep -oE '^(-[a-zA-Z]|[a-z_]+=?)' | sort
}

# completed WORD...: what the last word can become.
completed() {
	PATH="${PINFS_BIN%/*}:${PINCTL_BIN%/*}:$PATH" bash -c '. "$0"
		COMP_WORDS=(pinfs "$@") COMP_CWORD=$# COMPREPLY=()
		_pinfs
		printf "%s\n" "${COMPREPLY[@]}"' "$PINFS_SOURCE/fs/pinfs.bash-completion" "$@" | sort
}

@test "the help, the manual and the completion know the same options" {
	diff <(said) <(sed -n '/^\.SH OPTIONS/,/^\.SH STARTED/{/^\.TP/{n;p}}' "$PINFS_SOURCE/man/pinfs.8" | sed 's/\\f.//g; s/\\//g' |
		grep -oE '(^| |")(-[a-zA-Z]\b|-o [a-z_]+=?|[a-z]+=)' | sed 's/^[ "]//; s/^-o //' | sort)
	diff <(said | grep -v ^-) <(completed -o '')
	diff <(said | grep ^-) <(completed - | grep -vx -e -o)
	same "$(completed -o ro,br)" ro,branch=
}

@test "a mountpoint in use is refused; a dead one is explained, and works again after fusermount3 -u" {
	start "$TABLE" "$MNT"
	run "$PINFS_BIN" "$TABLE" "$MNT"
	same "$status" 1
	has "$output" 'already'

	kill -KILL "$DAEMON"
	wait "$DAEMON" || :
	run "$PINFS_BIN" "$TABLE" "$MNT"
	same "$status" 1
	has "$output" 'fusermount3 -u'
	fusermount3 -u "$MNT"
	start "$TABLE" "$MNT"
	stop
}

@test "TERM, INT and HUP unmount, status 0" {
	local signal
	for signal in TERM INT HUP; do
		start "$TABLE" "$MNT"
		stop "$signal"
	done
}

@test "an unmount by somebody else ends the daemon, status 0" {
	start "$TABLE" "$MNT"
	fusermount3 -u "$MNT"
	wait "$DAEMON"
	DAEMON=
}

@test "mount and df show the dataset and the type" {
	start "$TABLE" "$MNT"
	has "$(grep -F " $MNT " /proc/self/mounts)" "^$TABLE $MNT fuse.pinfs rw"
	has "$(df --output=source,fstype "$MNT")" "$TABLE +fuse.pinfs"
	stop
}

@test "a dataset with a comma in its name" {
	mv "$TABLE" "$DIR/a,b"
	start "$DIR/a,b" "$MNT"
	has "$(grep -F " $MNT " /proc/self/mounts)" "^$DIR/a,b "
	stop
}

@test "the options that mount(8) and fstab hand on are taken" {
	start "$TABLE" "$MNT" -o rw,nosuid,nodev,noexec,noatime,noauto,nofail,_netdev,x-systemd.automount,defaults
	has "$(grep -F " $MNT " /proc/self/mounts)" 'rw,nosuid,nodev,noexec,noatime'
	stop
}

@test "ro: every change is EROFS" {
	pinctl -d "$TABLE" enable --apply
	mount_table
	new_pin
	stop
	mount_table -o ro
	for change in "mkdir $P/$(cat /proc/sys/kernel/random/uuid),expires_at=$T" "echo $LATER >$F" "touch -d $LATER $F" "rm $F" \
		"mv $F $F.x"; do
		unchanged bash -c "$change"
		same "$status" 1
		has "$output" 'Read-only file system'
	done
	same "$(expiry)" "$T"
	stop
}

@test "-f says ready on stderr, and nothing else" {
	start "$TABLE" "$MNT"
	cat "$MNT/head" >/dev/null
	stop
	same "$(cat "$DIR/said")" 'pinfs: ready'
}

@test "-d prints requests" {
	start -d "$TABLE" "$MNT"
	cat "$MNT/head" >/dev/null
	stop
	has "$(cat "$DIR/said")" 'LOOKUP'
}

@test "uid, gid and mode" {
	local uid=1234
	[[ $(id -u) == 0 ]] || uid=$(id -u) # who is neither root nor the owner sees nothing of it
	pinctl -d "$TABLE" enable --apply
	mount_table -o "uid=$uid,gid=5678,mode=0640"
	new_pin
	same "$(stat -c '%a %u %g' "$F")" "640 $uid 5678"
	same "$(stat -c '%a %u %g' "$MNT/head")" "440 $uid 5678"
	same "$(stat -c '%a %u %g' "$P")" "750 $uid 5678"
	same "$(stat -c '%a' "$MNT")" 750
	stop
	mount_table
	same "$(stat -c '%a %u' "$F" "$MNT/head" "$P")" "644 $(id -u)
444 $(id -u)
755 $(id -u)"
	stop
}

@test "others: nobody gets in without allow_other, and may only read with it" {
	in_the_open
	pinctl -d "$TABLE" enable --apply
	mount_table
	new_pin
	run as_nobody cat "$F"
	has "$output" 'Permission denied'
	stop

	mount_table -o allow_other
	same "$(as_nobody cat "$F")" "$(cat "$F")"
	same "$(as_nobody ls "$P")" "$ID"
	for change in "mkdir $P/$(cat /proc/sys/kernel/random/uuid),expires_at=$T" "echo $LATER >$F" "touch -d $LATER $F" "rm -f $F"; do
		unchanged as_nobody bash -c "umask 0; $change"
		same "$status" 1
		has "$output" 'denied|not permitted'
	done
	as_nobody test -r "$F"
	not as_nobody test -w "$F"
	not as_nobody test -w "$P"
	same "$(expiry)" "$T"
	stop

	mount_table -o allow_other,uid=65534,mode=0600
	as_nobody bash -c "echo $LATER >$F"
	same "$(expiry)" "$LATER"
	stop
}

@test "killed and mounted again: nothing is lost, and pins keep their inodes" {
	local ino
	pinctl -d "$TABLE" enable --apply
	mount_table
	new_pin
	ino=$(stat -c %i "$F")
	kill -KILL "$DAEMON"
	wait "$DAEMON" || :
	fusermount3 -u "$MNT"
	mount_table
	same "$(ls "$P")" "$ID"
	same "$(expiry)" "$T"
	same "$(stat -c %i "$F")" "$ino"
	stop
}

@test "TERM during a commit: it is finished and answered, then the mount goes" {
	pinctl -d "$TABLE" enable --apply
	F=$MNT/pins/$(pinctl -d "$TABLE" register "$T")
	hold linkat 1
	mount_table
	(echo "$LATER" >"$F") 3>&- &
	local writer=$!
	eventually test -e "$DIR/held"
	kill "$DAEMON"
	kill -0 "$writer"
	let_go
	wait "$DAEMON"
	DAEMON=
	not mountpoint -q "$MNT"
	wait "$writer"
	mount_table
	same "$(expiry)" "$LATER"
	stop
}
