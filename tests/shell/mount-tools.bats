#!/usr/bin/env bats
# What people write into files with: each tool renews, or fails clearly and nothing has changed.
# shellcheck disable=SC2154,SC2030,SC2031 # of run; each test is a subshell

load lib

setup() {
	lib_setup
	pins_table
	mount_table
	new_pin "$T,label=keep"
}

teardown() {
	lib_teardown
}

need() {
	local name
	for name; do
		command -v "$name" >/dev/null || skip "no $name"
	done
}

# only_pin: the one pin is there and nothing else, with its label.
only_pin() {
	same "$(ls -A "$P")" "$ID"
	same "$(field "$F" label)" keep
}

# in_terminal COMMAND...: as somebody at a terminal runs it. What it prints is in $DIR/screen.
in_terminal() {
	TERM=xterm timeout 30 script -qec "$(printf '%q ' "$@")" "$DIR/screen" >/dev/null </dev/null
}

# in_shell SHELL...: what any shell must do. The commands see the pin as $F.
in_shell() {
	local before
	export F P
	# shellcheck disable=SC2016 # for the shell under test
	{
		renewed 2040-01-01T00:00:00Z "$@" -c 'echo 2040-01-01T00:00:00Z >"$F"'
		renewed 2041-01-01T00:00:00Z "$@" -c 'echo 2041-01-01T00:00:00Z >>"$F"'
		renewed 2042-01-01T00:00:00Z "$@" -c 'printf %s 2042-01-01T00:00:00Z >"$F"'
		renewed 2043-01-01T00:00:00Z "$@" -c 'exec 5<>"$F"; echo 2043-01-01T00:00:00Z >&5'
		renewed 2044-01-01T00:00:00Z "$@" -c 'cat >"$F" <<-END
			2044-01-01T00:00:00Z
			END'
		# Two values by one open file are two requests.
		before=$(head_version)
		"$@" -c '{ echo 2045-01-01T00:00:00Z; echo; } >"$F"'
		same "$(head_version)" $((before + 1))
		same "$("$@" -c 'while read -r line; do case $line in *expires_at*) echo "$line" ;; esac; done <"$F"')" \
			'"expires_at": "2045-01-01T00:00:00Z",'
		refused EINVAL 'nonsense' "$@" -c 'echo nonsense >"$F"'
		refused EINVAL 'nonsense' "$@" -c 'echo nonsense >>"$F"'
		# The shell itself refuses, or nothing is asked for.
		unchanged "$@" -c 'set -C; echo 2050-01-01T00:00:00Z >"$F"'
		not same "$status" 0
		renewed 2046-01-01T00:00:00Z "$@" -c 'set -C; echo 2046-01-01T00:00:00Z >|"$F"'
		unchanged "$@" -c ': >"$F"'
		same "$status" 0
		refused ENOENT 'mkdir' "$@" -c 'echo 2050-01-01T00:00:00Z >"$P/0f8fad5b-d9cb-469f-a165-70867728950e"'
	}
	only_pin
}

@test "bash" {
	in_shell bash
	stop
}

@test "dash" {
	need dash
	in_shell dash
	stop
}

@test "zsh" {
	need zsh
	in_shell zsh -f
	stop
}

@test "busybox: sh and applets" {
	need busybox
	in_shell busybox sh
	echo 2050-01-01T00:00:00Z >"$DIR/v"
	renewed 2050-01-01T00:00:00Z busybox cp "$DIR/v" "$F"
	renewed 2051-01-01T00:00:00Z busybox tee "$F" <<<2051-01-01T00:00:00Z
	renewed 2052-01-01T00:00:00Z busybox dd of="$F" <<<2052-01-01T00:00:00Z
	renewed 2053-01-01T00:00:00Z busybox touch -d '2053-01-01 00:00:00' "$F"
	refused ENOENT '' busybox sed -i s/2053/2054/ "$F"
	refused EPERM 'pins/' busybox mv "$F" "$P/other"
	same "$(busybox cat "$F")" "$(cat "$F")"
	same "$(busybox stat -c %s "$F")" "$(busybox wc -c <"$F")"
	only_pin
	busybox mkdir "$P/0f8fad5b-d9cb-469f-a165-70867728950e,expires_at=$T"
	busybox ls -la "$P" >/dev/null
	busybox find "$P" -type f -exec busybox rm {} +
	same "$(ls -A "$P")" ''
	stop
}

@test "a refused value fails in write, and the status of its writer says so" {
	refused EINVAL 'nonsense' /bin/sh -c "/bin/echo nonsense >'$F'"
	refused EINVAL 'nonsense' bash -c "set -o pipefail; echo nonsense | tee '$F'"
	refused EINVAL 'nonsense' dd of="$F" status=none <<<nonsense
	echo nonsense >"$DIR/v"
	refused EINVAL 'nonsense' cp "$DIR/v" "$F"
	only_pin
	same "$(expiry)" "$T"
	stop
}

@test "tee, dd, cp and touch" {
	echo 2041-01-01T00:00:00Z >"$DIR/v"
	renewed 2041-01-01T00:00:00Z cp "$DIR/v" "$F"
	renewed 2042-01-01T00:00:00Z tee "$F" <<<2042-01-01T00:00:00Z
	renewed 2043-01-01T00:00:00Z tee -a "$F" <<<2043-01-01T00:00:00Z
	renewed 2044-01-01T00:00:00Z dd of="$F" status=none <<<2044-01-01T00:00:00Z
	renewed 2045-01-01T00:00:00Z dd of="$F" oflag=append conv=notrunc status=none <<<2045-01-01T00:00:00Z
	renewed 2046-01-01T00:00:00Z dd of="$F" conv=notrunc,fsync oflag=sync status=none <<<2046-01-01T00:00:00Z
	renewed 2048-01-01T00:00:00Z touch -d 2048-01-01T00:00:00Z "$F"
	renewed 2049-01-01T00:00:00Z touch -m -d 2049-01-01T00:00:00Z "$F"
	renewed 2050-01-01T00:00:00.5Z touch -d 2050-01-01T00:00:00.5Z "$F"
	renewed 2051-02-03T04:05:06Z touch -t 205102030405.06 "$F"
	touch -d 2052-01-01T00:00:00Z "$DIR/v"
	renewed 2052-01-01T00:00:00Z touch -r "$DIR/v" "$F"
	only_pin
	stop
}

@test "sed -i, perl -i and sort -o: refused at once, nothing registered, lost or left" {
	refused ENOENT '' sed -i 's/2031/2032/' "$F"
	refused ENOENT '' sed -i.bak 's/2031/2032/' "$F"
	unchanged perl -pi -e 's/2031/2032/' "$F"
	unchanged perl -pi.bak -e 's/2031/2032/' "$F"
	refused EINVAL '' sort -r -o "$F" "$F"
	only_pin
	same "$(expiry)" "$T"
	# sed without -i, and a shell that writes what it printed.
	sed 's/2031/2032/' "$F" >"$DIR/edited"
	# shellcheck disable=SC2016 # of the inner shell
	renewed 2032-01-01T00:00:00Z bash -c 'cat "$1" >"$2"' - "$DIR/edited" "$F"
	stop
}

@test "cp -p, cp -a and rsync: the value is judged by the write, and the status agrees with the record" {
	need rsync
	echo 2041-01-01T00:00:00Z >"$DIR/v"
	chmod 644 "$DIR/v"
	renewed 2041-01-01T00:00:00Z cp -p "$DIR/v" "$F"
	echo 2042-01-01T00:00:00Z >"$DIR/v"
	renewed 2042-01-01T00:00:00Z cp -a "$DIR/v" "$F"
	echo 2043-01-01T00:00:00Z >"$DIR/v"
	renewed 2043-01-01T00:00:00Z rsync -a --inplace "$DIR/v" "$F"
	echo 2044-01-01T00:00:00Z >"$DIR/v"
	renewed 2044-01-01T00:00:00Z rsync -a --inplace --whole-file --no-times "$DIR/v" "$F"
	echo 2045-01-01T00:00:00Z >"$DIR/v"
	refused ENOENT '' rsync -a "$DIR/v" "$F"
	echo 2046-01-01T00:00:00Z >"$DIR/v"
	unchanged rsync -a --backup "$DIR/v" "$F"
	not same "$status" 0
	only_pin
	same "$(expiry)" 2044-01-01T00:00:00Z
	stop
}

@test "copies out of the mount: cp -a, rsync, tar" {
	need rsync
	cp -a "$P" "$DIR/copied"
	rsync -a "$P/" "$DIR/synced/"
	mkdir "$DIR/untarred"
	tar -c -C "$P" . | tar -x -C "$DIR/untarred"
	local copy
	for copy in copied synced untarred; do
		same "$(ls -A "$DIR/$copy")" "$ID"
		same "$(cat "$DIR/$copy/$ID")" "$(cat "$F")"
		same "$(stat -c %Y "$DIR/$copy/$ID")" "$(date -d "$T" +%s)"
	done
	stop
}

@test "whatever removes the old file first has released the pin, and says that it failed" {
	echo "$LATER" >"$DIR/v"
	removes() {
		new_pin
		run "$@" "$DIR/v" "$F"
		same "$status" 1
		not test -e "$F"
		test -e "$DIR/v"
		grep -q "	release	pins/$ID	OK	" "$MNT/.pinfs/log"
	}
	removes install -m 600
	removes cp --remove-destination
	removes mv # from another file system
	stop
}

@test "vim: ex mode, normal mode, with backups of every kind" {
	need vim script
	HOME=$DIR
	renewed 2034-01-01T00:00:00Z vim -u NONE -es -c '%s/2031/2034/' -c 'wq' "$F" </dev/null
	renewed 2035-01-01T00:00:00Z in_terminal vim -u NONE -c '%s/2034/2035/' -c 'wq' "$F"
	renewed 2036-01-01T00:00:00Z in_terminal vim -c '%s/2035/2036/' -c 'x' "$F"
	only_pin
	# A value in place of the record, as somebody types it.
	renewed 2037-01-01T00:00:00Z in_terminal vim -c '%d' -c 'call setline(1, "2037-01-01T00:00:00Z")' -c 'wq' "$F"
	# A backup beside the file, and a new file in place of the old one: not here.
	unchanged in_terminal vim -u NONE -c 'set backup backupskip= backupcopy=yes backupdir=. | %s/2037/2038/' -c 'w' -c 'qa!' "$F"
	grep -q 'E509' "$DIR/screen"
	unchanged in_terminal vim -u NONE -c 'set backup backupskip= backupcopy=no backupdir=. | %s/2037/2038/' -c 'w' -c 'qa!' "$F"
	grep -qE 'E5[0-9][0-9]|E166|E212' "$DIR/screen"
	unchanged in_terminal vim -u NONE -c '%s/keep/other/' -c 'w' -c 'qa!' "$F"
	grep -qE 'E514|E667|E72' "$DIR/screen"
	has "$(status_line)" 'EINVAL renew .*label'
	only_pin
	same "$(expiry)" 2037-01-01T00:00:00Z
	stop
}

# nano takes keys alone: cut all lines, type this one, save, leave.
nano_types() {
	TERM=xterm HOME=$DIR timeout 30 python3 - "$F" "$1" "$DIR/screen" <<-'END'
		import os, pty, select, sys, time
		file, text, screen = sys.argv[1:]
		pid, fd = pty.fork()
		if pid == 0:
		    os.execlp("nano", "nano", "--ignorercfiles", file)
		out = open(screen, "wb")
		def drawn():
		    try:
		        data = os.read(fd, 65536)
		    except OSError:  # it has ended
		        data = b""
		    out.write(data)
		    return data
		def settle():
		    while select.select([fd], [], [], 0.4)[0] and drawn():
		        pass
		# What is typed before it has taken the terminal is lost.
		seen = b""
		while b"^X" not in seen:
		    more = drawn()
		    assert more, seen
		    seen += more
		settle()
		for keys in "\x0b" * 12, text, "\x0f", "\r", "\x18", "n":
		    try:
		        os.write(fd, keys.encode())
		    except OSError:
		        break
		    settle()
		while drawn():
		    pass
		os.close(fd)
		sys.exit(os.waitpid(pid, 0)[1])
	END
}

@test "nano" {
	need nano
	renewed 2034-01-01T00:00:00Z nano_types 2034-01-01T00:00:00Z
	unchanged nano_types nonsense
	grep -q 'Error writing' "$DIR/screen"
	has "$(status_line)" 'EINVAL renew .*nonsense'
	only_pin
	stop
}

@test "python" {
	python() {
		python3 -c "import json, os, pathlib, shutil, sys, time
name = sys.argv[1]
$1" "$F"
	}
	renewed 2040-01-01T00:00:00Z python 'open(name, "w").write("2040-01-01T00:00:00Z")'
	renewed 2041-01-01T00:00:00Z python 'print("2041-01-01T00:00:00Z", file=open(name, "a"))'
	renewed 2042-01-01T00:00:00Z python 'pathlib.Path(name).write_text("2042-01-01T00:00:00Z\n")'
	renewed 2043-01-01T00:00:00Z python 'open(name, "wb", buffering=0).write(b"2043-01-01T00:00:00Z\n")'
	renewed 2044-01-01T00:00:00Z python '
with open(name, "r+") as f:
    pin = json.load(f)
    pin["expires_at"] = "2044-01-01T00:00:00Z"
    f.seek(0)
    json.dump(pin, f)
    f.truncate()'
	renewed 2045-01-01T00:00:00Z python '
f = open(name, "w")
f.write("2045-01-01T00:00:00Z")
f.flush()
os.fsync(f.fileno())
f.close()'
	renewed 2046-01-01T00:00:00Z python 'os.utime(name, (0, 2398377600))'
	refused EINVAL 'nonsense' python '
with open(name, "w") as f:
    f.write("nonsense")'
	refused EINVAL 'label' python '
pin = json.load(open(name))
pin["expires_at"], pin["label"] = "2050-01-01T00:00:00Z", "other"
with open(name, "w") as f:
    json.dump(pin, f)'
	unchanged python 'open(name, "x")'
	has "$output" 'FileExistsError'
	refused EPERM 'pins/' python 'os.replace(name, name + ".x")'
	refused ENOENT 'mkdir' python 'open(name + ".tmp", "w")'
	unchanged python 'open(name, "w").close()'
	same "$status" 0
	only_pin
	same "$(expiry)" 2046-01-01T00:00:00Z
	python 'os.unlink(name)'
	same "$(ls -A "$P")" ''
	stop
}

@test "perl" {
	need perl
	# shellcheck disable=SC2016 # perl's
	{
		renewed 2047-01-01T00:00:00Z perl -e 'open F, ">", $ARGV[0]; print F "2047-01-01T00:00:00Z\n"; close F or die' "$F"
		renewed 2048-01-01T00:00:00Z perl -e 'open F, ">>", $ARGV[0]; print F "2048-01-01T00:00:00Z\n"; close F or die' "$F"
		renewed 2049-01-01T00:00:00Z perl -e 'utime 0, 2493072000, $ARGV[0] or die' "$F"
		refused EINVAL nonsense perl -e 'open F, ">", $ARGV[0]; print F "nonsense\n"; close F or die' "$F"
		only_pin
		perl -e 'unlink $ARGV[0] or die' "$F"
	}
	same "$(ls -A "$P")" ''
	stop
}
