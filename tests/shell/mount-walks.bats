#!/usr/bin/env bats
# Walks of all versions for retention/ that take long: told, interrupted, shared, and in nobody's way.
# shellcheck disable=SC2154,SC2030,SC2031 # of run; each test is a subshell

load lib
load retention_lib

setup() {
	lib_setup
}

teardown() {
	lib_teardown
}

# slow_opens DELAY: from now on the daemon waits this long before it opens anything.
slow_opens() {
	command -v strace >/dev/null || skip 'no strace'
	strace -f -qq -o "$DIR/trace" -e trace=openat -e inject="openat:delay_enter=$1" -p "$DAEMON" 2>/dev/null 3>&- 4>&- &
	TRACER=$!
	eventually attached
}

# opened_more N: than so many manifests by now.
opened_more() {
	(($(opened | wc -l) > $1))
}

# wait_for_walk: until the log tells of one.
wait_for_walk() {
	eventually grep -q "	account	retention	-	-	[0-9]* of [0-9]* versions read" "$MNT/.pinfs/log"
}

@test "a long walk: told in the log; pins are read and committed meanwhile; ^C ends it, and the next look goes on from there" {
	retention_mounted 14.0.2/many-versions.lance
	new_pin
	let_watcher_read
	# It would take half a minute.
	slow_opens 100ms
	env --default-signal=INT cat "$R/summary" 3>&- &
	local reader=$! status=0 before first
	wait_for_walk
	timeout 60 ls "$P" >/dev/null
	timeout 60 cat "$F" >/dev/null
	timeout 60 bash -c "echo $LATER >$F"
	timeout 60 ls "$R/snapshots" >/dev/null
	eventually opened_more 20
	before=$SECONDS
	kill -INT "$reader"
	wait "$reader" || status=$?
	same "$status" 130
	((SECONDS - before < 15))
	has "$(grep '	open	retention/summary	EINTR	' "$MNT/.pinfs/log")" 'interrupted after [0-9]+ of 30[0-9] versions'
	first=$(opened)
	(($(wc -l <<<"$first") > 20))
	fast_commits
	traced openat cat "$R/snapshots/7" >"$DIR/snapshot"
	same "$(field "$DIR/snapshot" head)" "$(head_version)"
	# What was read is not read again: at most the one at which it was interrupted, and the head, which both looked at.
	(($(comm -12 <(echo "$first") <(opened) | wc -l) <= 3))
	(($(opened | wc -l) > 50))
	stop
}

@test "EINTR comes at once, to the one who walks and to those who wait for it" {
	retention_mounted 14.0.2/many-versions.lance
	# The walk would take half a minute.
	slow_opens 100ms
	python3 - "$R/summary" "$R/files" <<-'END'
		import ctypes, errno, multiprocessing, os, signal, sys, time
		libc = ctypes.CDLL(None, use_errno=True)
		signal.signal(signal.SIGALRM, lambda *_: None)
		def attempt(name):
		    signal.siginterrupt(signal.SIGALRM, True)
		    began = time.monotonic()
		    signal.setitimer(signal.ITIMER_REAL, 1.5, 0.5)  # more than once: the first may come before the call
		    r = libc.open(name.encode(), os.O_RDONLY)
		    e, took = ctypes.get_errno(), time.monotonic() - began
		    signal.setitimer(signal.ITIMER_REAL, 0)
		    sys.exit(0 if r == -1 and e == errno.EINTR and 1.4 < took < 15 else "%s: %d %d %f" % (name, r, e, took))
		all = [multiprocessing.Process(target=attempt, args=(name,)) for name in sys.argv[1:] * 3]
		for p in all:
		    p.start()
		for p in all:
		    p.join()
		assert not any(p.exitcode for p in all)
	END
	fast_commits
	cat "$R/files" >/dev/null
	stop
}

@test "callers at once share one walk" {
	retention_mounted 14.0.2/many-versions.lance
	let_watcher_read
	slow_opens 5ms
	local pids=() i
	for i in 1 2 3 4; do
		cat "$R/files" >"$DIR/out.$i" 3>&- &
		pids+=($!)
	done
	wait "${pids[@]}"
	kill "$TRACER"
	wait "$TRACER" || :
	# Each manifest was opened for the walk once, and the head for who looked at names.
	same "$(opened | wc -l)" 302
	same "$(openings | sort | uniq -d)" 18446744073709551313.manifest
	for i in 2 3 4; do
		same "$(cat "$DIR/out.$i")" "$(cat "$DIR/out.1")"
	done
	stop
}

@test "hundreds of callers: some are told to ask again, and pins are there for everybody" {
	retention_mounted 14.0.2/many-versions.lance
	new_pin
	let_watcher_read
	slow_opens 200ms
	python3 - "$R/snapshots/7" "$F" "$DIR/served" 3>&- <<-'END' &
		import errno, os, sys, threading, time
		results = []
		def attempt():
		    try:
		        os.close(os.open(sys.argv[1], os.O_RDONLY))
		        results.append(0)
		    except OSError as e:
		        results.append(e.errno)
		threads = [threading.Thread(target=attempt) for _ in range(300)]
		for t in threads:
		    t.start()
		while not results:  # the first to be sent away: all the places are taken
		    time.sleep(0.01)
		assert open(sys.argv[2]).read()
		assert set(results) == {errno.EAGAIN}, results  # the walk goes on still
		open(sys.argv[3], "w").close()
		for t in threads:
		    t.join()
		assert set(results) == {0, errno.EAGAIN}, results
		assert results.count(0) >= 250, results
	END
	local asking=$!
	eventually test -e "$DIR/served"
	fast_commits
	wait "$asking"
	has "$(grep '	open	retention/snapshots/7	EAGAIN	' "$MNT/.pinfs/log" | head -n 1)" 'ask again'
	stop
}

@test "TERM during a walk: the caller is told, and the daemon ends with 0" {
	retention_mounted 14.0.2/many-versions.lance
	slow_opens 50ms
	cat "$R/summary" >"$DIR/out" 2>&1 3>&- &
	local reader=$!
	wait_for_walk
	kill -TERM "$DAEMON"
	not wait "$reader"
	kill "$TRACER" 2>/dev/null || :
	eventually not kill -0 "$DAEMON"
	local status=0
	wait "$DAEMON" || status=$?
	DAEMON=
	same "$status" 0
	not mountpoint -q "$MNT"
}
