#!/usr/bin/env bats
# Many at once: listing while others remove, reading while others commit, shells side by side.
# shellcheck disable=SC2154,SC2030,SC2031 # of run; each test is a subshell

load lib

setup() {
	lib_setup
	pins_table
	mount_table
}

teardown() {
	lib_teardown
}

# make_pins N
make_pins() {
	python3 - "$P" "$1" "$T" <<-'END'
		import os, sys, uuid
		for _ in range(int(sys.argv[2])):
		    os.mkdir("%s/%s,expires_at=%s" % (sys.argv[1], uuid.uuid4(), sys.argv[3]))
	END
}

count() {
	find "$P" -type f | wc -l
}

@test "find -delete, rm * and readdir with unlink release every pin; what stays is seen once" {
	make_pins 100
	same "$(count)" 100
	find "$P" -type f -delete
	same "$(ls "$P")" ''
	make_pins 20
	rm "$P"/*
	same "$(ls "$P")" ''

	make_pins 100
	python3 - "$P" <<-'END'
		import os, sys
		seen = []
		with os.scandir(sys.argv[1]) as entries:
		    for i, entry in enumerate(entries):
		        seen.append(entry.name)
		        if i % 2:
		            os.unlink(entry.path)
		assert len(seen) == len(set(seen)) == 100, len(seen)
		assert len(os.listdir(sys.argv[1])) == 50
	END
	stop
}

@test "rewinddir lists anew" {
	make_pins 3
	python3 - "$P" <<-'END'
		import ctypes, os, sys
		libc = ctypes.CDLL(None)
		libc.opendir.restype = ctypes.c_void_p
		libc.readdir.restype = ctypes.c_void_p
		libc.readdir.argtypes = libc.rewinddir.argtypes = libc.closedir.argtypes = [ctypes.c_void_p]
		def count(d):
		    n = 0
		    while libc.readdir(d):
		        n += 1
		    return n
		d = libc.opendir(sys.argv[1].encode())
		assert count(d) == 5
		os.unlink(os.path.join(sys.argv[1], os.listdir(sys.argv[1])[0]))
		libc.rewinddir(d)
		assert count(d) == 4
		libc.closedir(d)
	END
	stop
}

@test "a slow commit does not keep others from reading" {
	command -v strace >/dev/null || skip 'no strace'
	new_pin
	local other=$F tracer writer
	new_pin
	strace -f -qq -o "$DIR/trace" -e trace=link,linkat -e inject=link,linkat:delay_enter=3s -p "$DAEMON" 2>/dev/null 3>&- &
	tracer=$!
	eventually grep -q '^TracerPid:[[:space:]]*[1-9]' "/proc/$DAEMON/status"
	(echo "$LATER" >"$F") 3>&- &
	writer=$!
	eventually test -s "$DIR/trace"
	timeout 2 cat "$other" "$F" "$MNT/head" "$MNT/.pinfs/last_status" >/dev/null
	same "$(timeout 2 find "$P" -type f | wc -l)" 2
	timeout 2 ls -l "$MNT" "$P" >/dev/null
	same "$(expiry)" "$T"
	kill -0 "$writer"
	wait "$writer"
	same "$(expiry)" "$LATER"
	kill "$tracer"
	wait "$tracer" || :
	eventually grep -q '^TracerPid:[[:space:]]*0' "/proc/$DAEMON/status"
	stop
}

@test "a caller who is interrupted: the commit is whole or not there, and the same again succeeds" {
	command -v strace >/dev/null || skip 'no strace'
	local tracer signal before year=2040
	new_pin
	strace -f -qq -o "$DIR/trace" -e trace=link,linkat -e inject=link,linkat:delay_enter=500ms -p "$DAEMON" 2>/dev/null 3>&- &
	tracer=$!
	eventually grep -q '^TracerPid:[[:space:]]*[1-9]' "/proc/$DAEMON/status"
	for signal in INT TERM KILL; do
		before=$(head_version)
		((++year))
		run timeout -s "$signal" 0.2 bash -c "echo $year-01-01T00:00:00Z >'$F'"
		echo "$year-01-01T00:00:00Z" >"$F"
		same "$(expiry)" "$year-01-01T00:00:00Z"
		same "$(head_version)" $((before + 1))
	done
	kill "$tracer"
	wait "$tracer" || :
	eventually grep -q '^TracerPid:[[:space:]]*0' "/proc/$DAEMON/status"
	stop
}

@test "16 shells: each renews a pin of its own and reads all; every acknowledged time is there" {
	make_pins 16
	worker() {
		local i file=$1 got
		for i in {1..10}; do
			echo "20$((40 + i))-01-01T00:00:00Z" >"$file" || return 1
			got=$(field "$file" expires_at)
			same "$got" "20$((40 + i))-01-01T00:00:00Z" || return 1
			cat "$P"/* >/dev/null || return 1
		done
	}
	local file pids=()
	for file in "$P"/*; do
		worker "$file" 3>&- &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid"
	done
	same "$(cat "$P"/* | grep -c '"expires_at": "2050-01-01T00:00:00Z"')" 16
	stop
}

@test "unmount while busy: refused; lazily, an open pin is still served to its end" {
	new_pin
	(
		cd "$P"
		not fusermount3 -u "$MNT" 2>/dev/null
	)
	exec 5>"$F"
	fusermount3 -u -z "$MNT"
	echo "$LATER" >&5
	exec 5>&-
	eventually not kill -0 "$DAEMON"
	wait "$DAEMON"
	DAEMON=
	pinctl -d "$TABLE" show "$ID" | grep -q "$LATER"
}
