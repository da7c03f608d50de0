#!/usr/bin/env bats
# As the system starts it: in the background, by mount(8) and fstab, under a service manager.
# shellcheck disable=SC2154,SC2030,SC2031 # of run; each test is a subshell

load lib

setup() {
	lib_setup
	pins_table
}

teardown() {
	lib_teardown
}

# --- background ---

# mount_in_background [OPTION...]: as mount_table, by a daemon that leaves us; $DAEMON is not our child.
mount_in_background() {
	"$PINFS_BIN" "$@" "$TABLE" "$MNT" 3>&-
	P=$MNT/pins
	find_daemon
}

find_daemon() {
	DAEMON=$(pgrep -f "pinfs.* $TABLE $MNT\$")
	[[ $DAEMON =~ ^[0-9]+$ ]]
}

gone() {
	eventually not kill -0 "$DAEMON"
	DAEMON=
	not mountpoint -q "$MNT"
}

@test "in the background: returns when the mount answers; a relative dataset still resolves" {
	cd "$DIR"
	"$PINFS_BIN" t.lance mnt 3>&-
	cd /
	has "$(cat "$MNT/head")" '"version": 9'
	DAEMON=$(pgrep -f "^$PINFS_BIN t.lance mnt")
	has "$(ls "/proc/$DAEMON/task")" "
"
	same "$(readlink "/proc/$DAEMON/cwd")" /
	same "$(readlink "/proc/$DAEMON/fd/2")" /dev/null
	fusermount3 -u "$MNT"
	gone
}

@test "in the background: what fails is said, and is the status" {
	mkdir "$DIR/empty"
	run "$PINFS_BIN" "$DIR/empty" "$MNT"
	same "$status" 1
	has "$output" 'not a Lance table'
}

@test "in the background everything works as in the foreground: requests, shared commits, the watcher, signals" {
	mount_in_background
	local before id
	new_pin
	echo "$LATER" >"$F"
	same "$(expiry)" "$LATER"
	make_pins 20
	before=$(head_version)
	renew_at_once "$P"/*
	(($(head_version) - before < 20))
	rm "$P"/*
	same "$(ls "$P")" ''
	id=$(pinctl -d "$TABLE" register "$T")
	eventually grep -q "	registered	pins/$id	-" "$MNT/.pinfs/log"
	"$BATS_TEST_DIRNAME/drop-pins" "$TABLE"
	eventually grep -q "	lost	pins/$id	-" "$MNT/.pinfs/log"
	kill -TERM "$DAEMON"
	gone

	mount_in_background -b main -o ro
	not mkdir "$P/$id,expires_at=$T"
	kill -HUP "$DAEMON"
	gone
}

# Whoever takes over the processes of those that are gone sees how the daemon ends.
@test "in the background: TERM, INT, HUP and an unmount by somebody else end it with status 0" {
	python3 - "$PINFS_BIN" "$TABLE" "$MNT" <<-'END'
		import ctypes, os, signal, subprocess, sys
		pinfs, table, mnt = sys.argv[1:]
		assert ctypes.CDLL(None).prctl(36, 1) == 0 # PR_SET_CHILD_SUBREAPER
		for end in "TERM", "INT", "HUP", "":
		    subprocess.run([pinfs, table, mnt], check=True)
		    with open("/proc/self/task/%d/children" % os.getpid()) as f:
		        (daemon,) = map(int, f.read().split())
		    assert os.path.exists(mnt + "/head")
		    if end:
		        os.kill(daemon, signal.Signals["SIG" + end])
		    else:
		        subprocess.run(["fusermount3", "-u", mnt], check=True)
		    assert os.waitpid(daemon, 0) == (daemon, 0)
		    assert not os.path.ismount(mnt)
	END
}

# --- mount(8) ---

need_mount() {
	[[ $(id -u) == 0 ]] || skip 'only root can use mount'
	command -v mount.fuse3 >/dev/null || skip 'no mount.fuse3'
	unshare -m true 2>/dev/null || skip 'no mount namespaces'
}

# in_namespace COMMAND...: where pinfs is installed, and /etc/fstab is $DIR/fstab, as nobody else sees it.
in_namespace() {
	cat >"$DIR/inside" <<-'END'
		set -e
		mount -t tmpfs none /usr/local/bin
		ln -s "$PINFS_BIN" /usr/local/bin/pinfs
		[[ ! -e $DIR/fstab ]] || mount --bind "$DIR/fstab" /etc/fstab
		"$@"
	END
	export DIR PINFS_BIN PINCTL_BIN MNT TABLE
	unshare -m bash "$DIR/inside" "$@" 3>&-
}

@test "mount -t fuse.pinfs and umount" {
	need_mount
	# shellcheck disable=SC2016 # for the shell inside
	in_namespace bash -ec '
		mount -t fuse.pinfs "$TABLE" "$MNT" -o ro,nosuid,branch=main,mode=0600
		grep -F " $MNT " /proc/self/mounts
		cat "$MNT/head"
		umount "$MNT"' >"$DIR/out"
	has "$(cat "$DIR/out")" "^$TABLE $MNT fuse.pinfs ro,nosuid"
	has "$(cat "$DIR/out")" '"version": 9'
	eventually not pgrep -f "pinfs.* $TABLE $MNT"
}

@test "a line in fstab: mount and umount by the mountpoint alone" {
	need_mount
	printf '%s\t%s\tfuse.pinfs\tnoauto,nofail,_netdev,x-systemd.automount,user,branch=main\t0 0\n' "$TABLE" "$MNT" >"$DIR/fstab"
	# shellcheck disable=SC2016
	in_namespace bash -ec '
		mount "$MNT"
		findmnt -n -o SOURCE,FSTYPE "$MNT"
		mkdir "$MNT/pins/0f8fad5b-d9cb-469f-a165-70867728950e,expires_at=+1h"
		ls "$MNT/pins"
		umount "$MNT"' >"$DIR/out"
	has "$(cat "$DIR/out")" "$TABLE +fuse.pinfs"
	has "$(cat "$DIR/out")" '0f8fad5b-d9cb-469f-a165-70867728950e'
	eventually not pgrep -f "pinfs.* $TABLE $MNT"
	pinctl -d "$TABLE" confirm 0f8fad5b-d9cb-469f-a165-70867728950e
}

@test "a gateway by mount(8) and by a line in fstab: the table in both places" {
	need_mount
	printf '%s\t%s\tfuse.pinfs\tnoauto,nofail,allow_other\t0 0\n' "$TABLE" "$TABLE" >"$DIR/fstab"
	# shellcheck disable=SC2016
	in_namespace bash -ec '
		mount -t fuse.pinfs "$TABLE" "$TABLE"
		findmnt -n -o SOURCE,FSTYPE "$TABLE"
		umount "$TABLE"
		mount "$TABLE"
		findmnt -n -o SOURCE,FSTYPE,OPTIONS "$TABLE"
		ls "$TABLE/_versions"
		mkdir "$TABLE/.pinfs/pins/0f8fad5b-d9cb-469f-a165-70867728950e,expires_at=+1h"
		"$PINCTL_BIN" -d "$TABLE" confirm 0f8fad5b-d9cb-469f-a165-70867728950e
		umount "$TABLE"
		ls -A "$TABLE"' >"$DIR/out"
	same "$(grep -cE "^$TABLE +fuse.pinfs" "$DIR/out")" 2
	has "$(cat "$DIR/out")" 'allow_other'
	has "$(cat "$DIR/out")" '[0-9]{20}\.manifest'
	not grep -qx "\.pinfs" "$DIR/out"
	eventually not pgrep -f "pinfs.* $TABLE $TABLE"
	pinctl -d "$TABLE" confirm 0f8fad5b-d9cb-469f-a165-70867728950e
}

@test "what mount(8) asks for and cannot get is its status and one sentence" {
	need_mount
	mkdir "$DIR/empty"
	run in_namespace mount -t fuse.pinfs "$DIR/empty" "$MNT"
	[[ $status != 0 ]]
	has "$output" 'not a Lance table'
	not mountpoint -q "$MNT"
}

# --- a service manager ---

# listen NAME: be one, at the socket of this name (@: abstract). What it is told is in $DIR/told, and on READY=1 how the mount answers then.
listen() {
	# What an earlier one was told is not for this one.
	rm -f "$DIR/told"
	python3 - "$1" "$MNT/head" >"$DIR/told" 3>&- <<-'END' &
		import os, socket, sys
		name = sys.argv[1]
		s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
		s.bind("\0" + name[1:] if name[0] == "@" else name)
		print("listening", flush=True)
		while True:
		    text = s.recv(4096).decode()
		    print(text, flush=True)
		    if "READY=1" in text.split("\n"):
		        print("head", os.stat(sys.argv[2]).st_mode & 0o777, flush=True)
	END
	MANAGER=$!
	eventually grep -q listening "$DIR/told"
	export NOTIFY_SOCKET=$1
}

told() {
	grep -qE "$1" "$DIR/told"
}

# In the foreground as in the background, by a path as by an abstract name.
@test "a manager is told READY=1 when the mount answers, how things are, and STOPPING=1" {
	local id
	listen "$DIR/socket"
	mount_table
	eventually told "^READY=1\$"
	eventually told '^head 292$'
	told "^MAINPID=$DAEMON\$"
	eventually told '^STATUS=branch main, version 9, pins: 0, lost: 0$'
	id=$(pinctl -d "$TABLE" register "$T")
	eventually told '^STATUS=branch main, version 10, pins: 1, lost: 0$'
	"$BATS_TEST_DIRNAME/drop-pins" "$TABLE"
	eventually told '^STATUS=branch main, version 11, pins: 0, lost: 1$'
	not told STOPPING
	stop
	eventually told '^STOPPING=1$'
	kill "$MANAGER"

	listen "@pinfs-$$-$BATS_TEST_NUMBER"
	mount_in_background
	eventually told '^head 292$'
	told "^MAINPID=$DAEMON\$"
	kill -TERM "$DAEMON"
	gone
	eventually told '^STOPPING=1$'
	kill "$MANAGER"
}

@test "a manager that is not there, or none at all, changes nothing" {
	local name
	for name in "$DIR/nobody" "@nobody-$$" '' / relative "/$(printf 'x%.0s' {1..200})"; do
		NOTIFY_SOCKET=$name mount_table
		same "$(cat "$DIR/said")" 'pinfs: ready'
		stop
	done
}

@test "the service: its command line mounts, stops cleanly, and starts again after a kill" {
	local unit=$PINFS_BUILD/fs/pinfs@.service command after
	TABLE=$DIR/'with blank'
	mv "$DIR/t.lance" "$TABLE"
	command=$(sed -n 's|^ExecStart=.*/pinfs ||p' "$unit")
	after=$(sed -n 's|^ExecStopPost=-||p' "$unit")
	[[ $command && $after ]]
	# ${NAME} is one argument, as systemd has it.
	# shellcheck disable=SC2016
	serve() {
		local word args=()
		for word in $1; do
			case $word in
			'${OPTIONS}') args+=(rw) ;;
			'${DATASET}') args+=("$TABLE") ;;
			'${MOUNTPOINT}') args+=("$MNT") ;;
			*) args+=("$word") ;;
			esac
		done
		shift
		"$@" "${args[@]}"
	}
	serve "$command" start
	has "$(cat "$MNT/head")" '"version": 9'
	stop
	serve "$command" start
	kill -KILL "$DAEMON"
	wait "$DAEMON" || :
	serve "$after" command
	not mountpoint -q "$MNT"
	serve "$command" start
	stop
	# The same for a gateway, whose mountpoint is the table.
	MNT=$TABLE
	serve "$command" start
	has "$(cat "$TABLE/.pinfs/head")" '"version": 9'
	kill -KILL "$DAEMON"
	wait "$DAEMON" || :
	serve "$after" command
	not mountpoint -q "$TABLE"
	serve "$command" start
	has "$(cat "$TABLE/.pinfs/head")" '"version": 9'
	stop
	if command -v systemd-analyze >/dev/null; then
		sed "s|^ExecStart=[^ ]*|ExecStart=$PINFS_BIN|; s|/etc/pinfs/|$DIR/|" "$unit" >"$DIR/pinfs@x.service"
		run systemd-analyze --man=no verify "$DIR/pinfs@x.service"
		same "$output" ''
		same "$status" 0
	fi
}
