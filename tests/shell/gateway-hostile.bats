#!/usr/bin/env bats
# Programs that mean ill, or are careless, and have every right to the table: what they do to it through a gateway, and what is there afterwards.
# shellcheck disable=SC2154,SC2030,SC2031,SC2034 # of run; each test is a subshell; MNT is of lib

load lib
load gateway_lib

@test "a name that Lance takes for a version's is given to nothing" {
	local name
	open_gateway
	stage "$V8#1"
	for name in 00008.manifest +8.manifest 8.x.manifest 8.xmanifest "0$V8" "$V8.manifest"; do
		no EPERM 'for a version' create "$TABLE/_versions/$name"
		no EPERM 'for a version' rename "$TABLE/_versions/$V8#1" "$TABLE/_versions/$name"
		no EPERM 'for a version' link "$TABLE/_versions/$V8#1" "$TABLE/_versions/$name"
		no EPERM 'for a version' mkdir "$TABLE/_versions/$name"
	done
	no EPERM 'side by side' mkdir "$TABLE/_versions/x"
	# Those it does not are staged, detached or nobody's.
	for name in d8.manifest x.manifest "$V8-x" "${V8^^}"; do
		same "$(call link "$TABLE/_versions/$V8#1" "$TABLE/_versions/$name")" None
		rm "$TABLE/_versions/$name"
	done
	rm "$TABLE/_versions/$V8#1"
	window_whole
	stop
}

@test "of a branch that cannot be, nothing becomes a version of main" {
	open_gateway
	mkdir -p "$TABLE/tree/main/_versions"
	cp -R "$TABLE/data" "$TABLE/_deletions" "$TABLE/_transactions" "$TABLE/tree/main"
	cp "$DIR/next" "$TABLE/tree/main/_versions/$V8#1"
	no EPERM 'no branch is called main' link "$TABLE/tree/main/_versions/$V8#1" "$TABLE/tree/main/_versions/$V8"
	same "$(head_version)" 7
	rm -r "$TABLE/tree"
	stop
}

@test "who sets the time of a directory back hides no version from what guards it" {
	local folder
	take_last
	open_gateway
	old_times
	: >"$TABLE/data/new.lance"
	rm "$TABLE/data/new.lance" # what is needed is looked up
	cp "$DIR/last/data" "$TABLE/$LAST"
	stage "$V8#1"
	same "$(call link "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8")" None
	pinctl -d "$TABLE" register "$T" >/dev/null 2>&1
	pinctl -d "$TABLE" restore 5 --apply >/dev/null
	old_times
	no EBUSY 'needs .*: pin:' unlink "$TABLE/$LAST"
	rm "$TABLE/_versions/$V8#1"
	window_whole
	stop
}

old_times() {
	touch -d @1000000000 "$TABLE/_versions" "$TABLE/_refs/tags" "$TABLE/_refs"
}

@test "a file whose name is lines for the log is told in one" {
	local name
	take_last
	# As long as the name was, in the manifest and in its transaction.
	name=$(python3 - "$TABLE" "$DIR/next" "${LAST#data/}" <<-'END'
		import glob, os, sys
		table, manifest, old = sys.argv[1:]
		new = "a\n1970-01-01T00:00:00Z OK \x1b[2J"
		new += old[len(new):]
		for name in [manifest, *glob.glob(table + "/_transactions/*")]:
		    with open(name, "rb") as f:
		        data = f.read()
		    with open(name, "wb") as f:
		        f.write(data.replace(old.encode(), new.encode()))
		print(new)
	END
	)
	mv "$DIR/last/data" "$TABLE/data/$name"
	open_gateway
	stage "$V8#1"
	same "$(call link "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8")" None
	same "$(call unlink "$TABLE/data/$name")" EBUSY
	same "$(wc -l <"$TABLE/.pinfs/last_status")" 1
	same "$(grep -c '^1970' "$TABLE/.pinfs/log")" 0
	same "$(grep -c $'\x1b' "$TABLE/.pinfs/log")" 0
	has "$(status_line)" 'needs data/a\\n1970-01-01T00:00:00Z OK \\x1b\[2J'
	rm "$TABLE/_versions/$V8#1"
	stop
}

@test "the ref of a branch with pins is replaced by nothing but the same branch" {
	local ref=$TABLE/_refs/branches/side.json staged=$TABLE/_refs/branches/side.json#1 text
	pinctl -d "$TABLE" branch create side >/dev/null
	pinctl -d "$TABLE" branch create other >/dev/null
	pinctl -d "$TABLE" -b side register "$T" >/dev/null 2>&1
	open_gateway
	cp "$ref" "$DIR/ref"
	for text in '' x '{}' "$(cat "$TABLE/_refs/branches/other.json")"; do
		echo "$text" >"$staged"
		no EBUSY 'branch side has 1 pins' rename "$staged" "$ref"
	done
	# Lance writes it anew when its metadata are changed.
	sed 's/"metadata": *{}/"metadata": {"a": "b"}/' "$DIR/ref" >"$staged"
	same "$(call rename "$staged" "$ref")" None
	has "$(cat "$ref")" '"a": "b"'
	pinctl -d "$TABLE" -b side check >/dev/null
	stop
}

@test "a file that is being emptied is needed by nothing until it is" {
	local i way
	take_last
	for way in 'truncate %s 0o0' 'trunc_open %s'; do
		hold ftruncate 1
		open_gateway
		cp "$DIR/last/data" "$TABLE/$LAST"
		stage "$V8#1"
		# shellcheck disable=SC2046,SC2059 # words of the table above
		call $(printf "$way" "$TABLE/$LAST") >"$DIR/emptied" 3>&- &
		eventually test -e "$DIR/held"
		call link "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8" >"$DIR/linked" 3>&- &
		# Who publishes waits. Who did not would be done by then.
		for ((i = 0; i < 50; i++)); do
			[[ ! -s $DIR/linked ]] || break
			sleep 0.02
		done
		let_go
		# Either may be the last to say so.
		eventually test -s "$DIR/linked"
		eventually test -s "$DIR/emptied"
		same "$(cat "$DIR/emptied")" None
		same "$(cat "$DIR/linked")" EPERM
		has "$(status_line)" 'has 0 of'
		rm "$TABLE/_versions/$V8#1" "$TABLE/$LAST" "$DIR/linked" "$DIR/emptied"
		window_whole
		stop
	done
}

@test "a staged file that was published while it was opened to be emptied is not emptied" {
	local n
	# Held before the looks that the daemon takes at it: when the kernel asks for its attributes, and once it is open.
	for n in 1 2; do
		hold newfstatat 1000000
		# Of this file alone: the watcher looks at the directory that it is in, whenever its second is over.
		under+=(-d "$(realpath "$TABLE")/_versions/$V8#1" -r "$DIR/arm")
		open_gateway
		stage "$V8#1"
		echo "$n" >"$DIR/arm"
		# By what it has of the file already, so that the kernel asks for nothing but to open it.
		python3 - "$TABLE/_versions/$V8#1" "$DIR/arm" "$DAEMON" >"$DIR/emptied" 3>&- <<-'END' &
			import os, signal, sys
			f = os.open(sys.argv[1], os.O_PATH)
			os.kill(int(sys.argv[3]), signal.SIGUSR1)
			while "counted" not in open(sys.argv[2]).read():
			    pass
			try:
			    os.open("/proc/self/fd/%d" % f, os.O_WRONLY | os.O_TRUNC)
			    print("done")
			except OSError as e:
			    print(e.strerror)
		END
		eventually test -e "$DIR/held"
		(call link "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8" && rm "$TABLE/_versions/$V8#1") >"$DIR/linked" 3>&- &
		eventually test -s "$DIR/linked"
		eventually not test -e "$TABLE/_versions/$V8#1"
		let_go
		eventually test -s "$DIR/emptied"
		same "$(cat "$DIR/linked")" None
		has "$(cat "$DIR/emptied")" 'No such file|not permitted'
		window_whole
		stop
		rm -f "$TABLE/_versions/$V8" "$DIR/emptied" "$DIR/linked"
	done
}

@test "a ref that nobody can read can be removed again, unless it may be of a branch that has versions" {
	local name
	pinctl -d "$TABLE" branch create side >/dev/null
	open_gateway
	new_pin
	for name in half.json ..json %00.json %2Fetc.json $'a\nb.json' a%2F..%2Fb.json; do
		printf '{"parentBranch"' >"$TABLE/_refs/branches/$name"
		same "$(call unlink "$TABLE/data/new.lance")" ENOENT
		rm "$TABLE/_refs/branches/$name"
	done
	cp "$TABLE/_refs/branches/side.json" "$DIR/ref"
	printf '{"parentBranch"' >"$TABLE/.pinfs/table/_refs/branches/side.json"
	no EBUSY 'cannot be told' unlink "$TABLE/_refs/branches/side.json"
	cp "$DIR/ref" "$TABLE/.pinfs/table/_refs/branches/side.json"
	rm "$TABLE/_refs/branches/side.json"
	stop
}

@test "in a directory that gives its group, what is made has that" {
	in_the_open
	rm -rf "$TABLE"
	copy_table
	pinctl -d "$TABLE" enable --apply >/dev/null
	chgrp 12345 "$TABLE/data"
	chmod 2777 "$TABLE/data"
	chmod -R go+rX "$TABLE"
	open_gateway -o allow_other
	as_nobody touch "$TABLE/data/x"
	as_nobody mkdir "$TABLE/data/y"
	as_nobody touch "$TABLE/data/y/z"
	mkdir "$TABLE/data/ours"
	same "$(stat -c '%u %g' "$TABLE/data/x")" '65534 12345'
	same "$(stat -c '%u %g %A' "$TABLE/data/y")" '65534 12345 drwxr-sr-x'
	same "$(stat -c '%u %g' "$TABLE/data/y/z")" '65534 12345'
	same "$(stat -c '%u %g %A' "$TABLE/data/ours")" '0 12345 drwxr-sr-x'
	stop
}
