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

@test "find -delete while another process registers: what was there is gone, what came stays" {
	make_pins 50
	local id new=()
	ls "$P" >"$DIR/old"
	find "$P" -type f -delete 3>&- &
	local remover=$!
	for _ in {1..5}; do
		id=$(pinctl -d "$TABLE" register "$T" 2>/dev/null)
		new+=("$id")
	done
	wait "$remover"
	same "$(comm -12 <(sort "$DIR/old") <(ls "$P"))" ''
	# One that came before its part of the directory was listed is gone as well; none is half gone.
	for id in "${new[@]}"; do
		if test -e "$P/$id"; then
			pinctl -d "$TABLE" confirm "$id"
		else
			not pinctl -d "$TABLE" confirm "$id"
		fi
	done
	stop
}

@test "many renewals at once share commits, and each is answered" {
	command -v strace >/dev/null || skip 'no strace'
	make_pins 50
	local before file
	before=$(head_version)
	# While the first one is on its way the others gather.
	slow_commits 2s
	renew_at_once "$P"/*
	fast_commits
	for file in "$P"/*; do
		same "$(field "$file" expires_at)" "$LATER"
	done
	(($(head_version) - before <= 5))
	same "$(grep -c '	renew	.*	OK	' "$MNT/.pinfs/log")" 50
	stop
}

@test "50 shells at once: far fewer versions than renewals" {
	make_pins 50
	local before pids=() file
	before=$(head_version)
	for file in "$P"/*; do
		echo "$LATER" >"$file" 3>&- &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid"
	done
	same "$(cat "$P"/* | grep -c "\"expires_at\": \"$LATER\"")" 50
	(($(head_version) - before < 50))
	stop
}

@test "one bad renewal among others fails alone" {
	command -v strace >/dev/null || skip 'no strace'
	make_pins 3
	local pins=("$P"/*) writers=() first
	exec 5>"${pins[1]}"
	slow_commits 1s
	(echo "$LATER" >"${pins[0]}") 3>&- &
	first=$!
	eventually test -s "$DIR/trace"
	pinctl -d "$TABLE" release "${pins[1]##*/}"
	(echo "$LATER" >&5) 2>/dev/null 3>&- &
	writers[1]=$!
	(echo "$LATER" >"${pins[2]}") 3>&- &
	writers[2]=$!
	wait "$first"
	not wait "${writers[1]}"
	wait "${writers[2]}"
	exec 5>&-
	fast_commits
	same "$(cat "$P"/* | grep -c "\"expires_at\": \"$LATER\"")" 2
	not pinctl -d "$TABLE" confirm "${pins[1]##*/}"
	stop
}

@test "a slow commit does not keep others from reading" {
	new_pin
	local other=$F writer id
	new_pin
	stop
	hold linkat 1
	mount_table
	(echo "$LATER" >"$F") 3>&- &
	writer=$!
	eventually test -e "$DIR/held"
	timeout 60 cat "$other" "$F" "$MNT/head" "$MNT/.pinfs/last_status" "$MNT/.pinfs/metrics" >/dev/null
	same "$(timeout 60 find "$P" -type f | wc -l)" 2
	timeout 60 ls -l "$MNT" "$P" >/dev/null
	same "$(expiry)" "$T"
	kill -0 "$writer"
	let_go
	wait "$writer"
	same "$(expiry)" "$LATER"
	stop

	# A directory that is being changed is the kernel's to lock; what it knows in there can be read.
	hold linkat 1
	mount_table
	stat "$other" "$F" >/dev/null
	id=$(cat /proc/sys/kernel/random/uuid)
	mkdir "$P/$id,expires_at=$T" 3>&- &
	writer=$!
	eventually test -e "$DIR/held"
	timeout 60 cat "$other" "$F" "$MNT/head" >/dev/null
	timeout 60 stat "$other" "$F" >/dev/null
	same "$(timeout 60 ls "$MNT/branches/main/pins" | wc -l)" 2
	kill -0 "$writer"
	let_go
	wait "$writer"
	test -e "$P/$id"
	stop
}

# --- interrupted ---

@test "a caller who is interrupted: the commit is whole or not there, and the same again succeeds" {
	command -v strace >/dev/null || skip 'no strace'
	local signal before year=2040
	new_pin
	slow_commits 500ms
	for signal in INT TERM KILL; do
		before=$(head_version)
		((++year))
		run timeout -s "$signal" 0.2 bash -c "echo $year-01-01T00:00:00Z >'$F'"
		echo "$year-01-01T00:00:00Z" >"$F"
		same "$(expiry)" "$year-01-01T00:00:00Z"
		same "$(head_version)" $((before + 1))
	done
	fast_commits
	stop
}

@test "a signal handler that returns: the write goes on, and its answer is the commit's" {
	command -v strace >/dev/null || skip 'no strace'
	new_pin
	local before
	before=$(head_version)
	slow_commits 1s
	python3 - "$F" "$LATER" <<-'END'
		import os, signal, sys, time
		rung = []
		signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
		f = os.open(sys.argv[1], os.O_WRONLY)
		signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
		started = time.monotonic()
		wrote = os.write(f, sys.argv[2].encode())
		signal.setitimer(signal.ITIMER_REAL, 0)  # on the way out nothing handles it any more
		assert wrote == len(sys.argv[2])
		assert time.monotonic() - started >= 0.9 and rung
	END
	fast_commits
	same "$(head_version)" $((before + 1))
	same "$(expiry)" "$LATER"
	stop
}

@test "Ctrl-C at a terminal during a slow commit: no hang, and the commit is whole" {
	command -v strace >/dev/null || skip 'no strace'
	new_pin
	local before command
	before=$(head_version)
	for command in "echo $LATER >$F" "rm $F"; do
		slow_commits 1s
		timeout 20 python3 - "$DIR/trace" "$command" <<-'END'
			import os, pty, sys, time
			trace, command = sys.argv[1:]
			pid, fd = pty.fork()
			if pid == 0:
			    os.execlp("bash", "bash", "-c", command + "; sleep 60")
			while not os.path.getsize(trace):
			    time.sleep(0.02)
			os.write(fd, b"\x03")
			os.waitpid(pid, 0)
		END
		fast_commits
		same "$(head_version)" $((++before))
		[[ $command != echo* ]] || same "$(expiry)" "$LATER"
	done
	not test -e "$F"
	stop
}

@test "killed while somebody renews in a loop: the table has the last time that was acknowledged, or the next one" {
	local i acked writer
	new_pin
	for i in 1 2 3; do
		(
			for ((year = 2100 + 1000 * i; ; year++)); do
				echo "$year-01-01T00:00:00Z" >"$F" || break
				echo "$year" >"$DIR/acked"
			done
		) 2>/dev/null 3>&- &
		writer=$!
		eventually test -s "$DIR/acked"
		sleep "0.$((RANDOM % 10))"
		kill -KILL "$DAEMON"
		wait "$DAEMON" || :
		wait "$writer" || :
		run cat "$F"
		has "$output" 'not connected'
		acked=$(cat "$DIR/acked")
		rm "$DIR/acked"
		fusermount3 -u "$MNT"
		mount_table
		has "$(expiry)" "^($acked|$((acked + 1)))-01-01T00:00:00Z\$"
	done
	stop
}

# --- side by side ---

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

@test "unmounted lazily with a shell inside: the daemon ends when that leaves" {
	new_pin
	(
		cd "$P"
		echo there >"$DIR/inside"
		eventually test -e "$DIR/leave"
	) 3>&- &
	local inside=$!
	eventually test -s "$DIR/inside"
	fusermount3 -u -z "$MNT"
	not mountpoint -q "$MNT"
	kill -0 "$DAEMON"
	touch "$DIR/leave"
	wait "$inside"
	eventually not kill -0 "$DAEMON"
	wait "$DAEMON"
	DAEMON=
}

# Readers of two mounts and of pinctl, while all three write. Each change makes the time later; so whoever looks after somebody else has seen a
# time must see that one or a later one.
@test "two mounts and a pinctl on one table never disagree for longer than one read" {
	local other=$DIR/other
	mkdir "$other"
	"$PINFS_BIN" "$TABLE" "$other" 3>&-
	new_pin
	python3 - "$F" "$other/pins/$ID" "$PINCTL_BIN" "$TABLE" "$ID" <<-'END'
		import json, subprocess, sys, threading, time
		a, b, pinctl, table, pin = sys.argv[1:]

		def mount(name):
		    def read():
		        return json.load(open(name))["expires_at"]
		    def renew(value):
		        with open(name, "w") as f:
		            f.write(value)
		    return read, renew

		def tool():
		    def run(*args):
		        return subprocess.run([pinctl, "-d", table, *args], check=True, capture_output=True, text=True).stdout
		    return lambda: json.loads(run("show", pin))["expires_at"], lambda value: run("renew", pin, value)

		ways = [mount(a), mount(b), tool()]
		seen, problems, done = [], [], threading.Event()
		newest, lock = [""], threading.Lock()

		def watch(read):
		    while not done.is_set():
		        with lock:
		            at_least = newest[0]
		        value = read()
		        with lock:
		            seen.append(value)
		            if value < at_least:
		                problems.append("read %s after somebody had read %s" % (value, at_least))
		            newest[0] = max(newest[0], value)

		watchers = [threading.Thread(target=watch, args=(read,)) for read, _ in ways]
		for w in watchers:
		    w.start()
		try:
		    for i in range(45):
		        value = "%d-01-01T00:00:00Z" % (2100 + i)
		        ways[i % 3][1](value)
		        # It has returned: everybody must see it now.
		        for read, _ in ways:
		            if read() != value:
		                problems.append("%s was written, and is not there" % value)
		finally:
		    done.set()
		for w in watchers:
		    w.join()
		assert len(set(seen)) > 20, len(set(seen))
		sys.exit("\n".join(problems) or 0)
	END
	fusermount3 -u "$other"
	eventually not pgrep -f "pinfs.* $TABLE $other"
	stop
}
