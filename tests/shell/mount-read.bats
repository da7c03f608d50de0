#!/usr/bin/env bats
# Looking: the tree, sizes, times, attributes; nothing from yesterday, nothing twice.
# shellcheck disable=SC2154,SC2030,SC2031 # of run; each test is a subshell

load lib

setup() {
	lib_setup
}

teardown() {
	lib_teardown
}

# make_branch NAME: a branch of the head, as Lance lays it out.
make_branch() {
	python3 "$BATS_TEST_DIRNAME/make-branch" "$TABLE" "$1"
}

@test "the tree" {
	pins_table
	mount_table
	new_pin
	same "$(cd "$MNT" && find . | sort)" ".
./branches
./head
./pins
./pins/$ID
./retention
./retention/expired
./retention/files
./retention/fri
./retention/snapshots
$(printf './retention/snapshots/%d\n' 1 10 2 3 4 5 6 7 8 9)
./retention/summary"
	same "$(ls -A "$MNT")" "branches
head
pins
retention"
	same "$(ls -A "$MNT/.pinfs")" "last_status
log
metrics"
	stop
}

@test "head is JSON and says what pinctl status says" {
	copy_table
	mount_table
	python3 - "$MNT/head" <<-'END'
		import json, sys
		head = json.load(open(sys.argv[1]))
		assert head["version"] == 8, head
		assert head["rows"] == 8, head
		assert head["branch"] in (None, "main"), head
	END
	stop
}

@test "a record reads the same by every tool, at the first look" {
	pins_table
	mount_table
	new_pin "$T,label=nightly"
	local text size
	text=$(pinctl -d "$TABLE" show "$ID")
	size=$((${#text} + 1))
	stop

	look() {
		mount_table
		same "$("$@")" "$text"
		stop
	}
	look cat "$F"
	look head -c 100000 "$F"
	look grep '' "$F"
	look python3 -c 'import sys; sys.stdout.write(open(sys.argv[1]).read())' "$F"
	# shellcheck disable=SC2016 # the inner shell's variables
	look bash -c 'mapfile a <"$1"; IFS=; printf %s "${a[*]}"' - "$F"
	# shellcheck disable=SC2016
	look bash -c 'printf "%s\n" "$(<"$1")"' - "$F"
	# shellcheck disable=SC2016
	look bash -c 'cp "$1" "$2" && cat "$2"' - "$F" "$DIR/copy"
	mount_table
	same "$(wc -c <"$F")" "$size"
	same "$(stat -c %s "$F")" "$size"
	tar -c -C "$P" "$ID" | tar -xO >"$DIR/untarred"
	same "$(cat "$DIR/untarred")" "$text"
	test -s "$F"
	stop
}

@test "reading ends where the text ends" {
	pins_table
	mount_table
	new_pin
	same "$(timeout 60 cat "$F" | wc -c)" "$(stat -c %s "$F")"
	same "$(dd if="$F" bs=1 skip=100000 count=1 status=none | wc -c)" 0
	same "$(timeout 60 dd if="$F" bs=1 status=none)" "$(cat "$F")"
	python3 -c 'import os, sys; assert os.pread(os.open(sys.argv[1], os.O_RDONLY), 10, 1 << 62) == b""' "$F"
	stop
}

@test "mapped: read right privately; a shared writable mapping cannot carry a value" {
	pins_table
	mount_table
	new_pin
	python3 - "$F" <<-'END'
		import mmap, os, sys
		f = os.open(sys.argv[1], os.O_RDONLY)
		text = os.pread(f, 100000, 0)
		assert mmap.mmap(f, 0, mmap.MAP_PRIVATE, mmap.PROT_READ)[:] == text
		try:
		    m = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 0, mmap.MAP_SHARED)
		    m[:4] = b"2035"
		    m.flush()
		    sys.exit("a shared mapping was written")
		except OSError:
		    pass
	END
	same "$(git hash-object "$F")" "$(git hash-object --stdin <"$F")"
	same "$(expiry)" "$T"
	stop
}

@test "mtime is the expiry, ctime the commit; find finds by them" {
	pins_table
	mount_table
	new_pin
	same "$(date -u -d "@$(stat -c %Y "$F")" +%FT%TZ)" "$T"
	same "$(find "$P" -type f -newermt '2030-12-31T23:59:59Z')" "$F"
	same "$(find "$P" -type f -newermt '2031-01-01T00:00:01Z')" ''
	same "$(find "$P" -type f -newerct '1 hour ago')" "$F"
	has "$(field "$MNT/head" timestamp)" "^$(date -u -d "@$(stat -c %Z "$F")" +%FT%T)"
	stop
}

@test "times far away keep their value" {
	pins_table
	mount_table
	for time in 2038-01-19T03:14:08Z 2106-02-07T06:28:16Z 2486-07-02T00:00:00Z 9999-12-31T23:59:59Z; do
		new_pin "$time"
		same "$(expiry)" "$time"
		same "$(stat -c %Y "$F")" "$(date -u -d "$time" +%s)"
	done
	new_pin 2031-01-01T00:00:00.123456789Z
	same "$(expiry)" 2031-01-01T00:00:00.123456789Z
	has "$(stat -c %y "$F")" '00:00:00.123456789'
	stop
}

@test "the fields as extended attributes" {
	command -v getfattr >/dev/null || skip 'no getfattr'
	pins_table
	mount_table
	new_pin "$T,label=caf%C3%A9"
	value() {
		getfattr --only-values --absolute-names -n "user.pins.$1" "$F"
	}
	same "$(value id)" "$ID"
	same "$(value expires_at)" "$T"
	same "$(value label)" 'café'
	same "$(value branch)" main
	for key in source_version source_transaction_uuid created_at; do
		same "$(value "$key")" "$(field "$F" "$key")"
	done
	same "$(getfattr --absolute-names "$F" | grep -c '^user\.pins\.')" 7
	run getfattr --absolute-names -n user.pins.nothing "$F"
	has "$output" 'No such attribute'
	run setfattr -n user.pins.label -v other "$F"
	has "$output" 'not supported'
	same "$(getfattr --absolute-names "$MNT/head")" ''
	python3 - "$F" <<-'END'
		import ctypes, errno, sys
		libc = ctypes.CDLL(None, use_errno=True)
		name = sys.argv[1].encode()
		assert libc.getxattr(name, b"user.pins.id", None, 0) == 36
		buf = ctypes.create_string_buffer(35)
		assert libc.getxattr(name, b"user.pins.id", buf, 35) == -1 and ctypes.get_errno() == errno.ERANGE
		n = libc.listxattr(name, None, 0)
		buf = ctypes.create_string_buffer(n)
		assert libc.listxattr(name, buf, n) == n
		assert libc.listxattr(name, buf, n - 1) == -1 and ctypes.get_errno() == errno.ERANGE
	END
	stop
}

@test "changes made by others are seen at the next look" {
	pins_table
	mount_table
	local i id
	id=$(cat /proc/sys/kernel/random/uuid)
	for i in {1..20}; do
		not test -e "$P/$id"
		pinctl -d "$TABLE" register --id "$id" "2031-01-01T00:00:00Z" >/dev/null
		ls "$P/$id" >/dev/null
		F=$P/$id
		pinctl -d "$TABLE" renew "$id" "20$((31 + i))-01-01T00:00:00Z"
		same "$(expiry)" "20$((31 + i))-01-01T00:00:00Z"
		same "$(date -u -d "@$(stat -c %Y "$F")" +%Y)" "20$((31 + i))"
		same "$(ls "$P")" "$id"
		pinctl -d "$TABLE" release "$id"
		not test -e "$F"
		same "$(ls "$P")" ''
		same "$(field "$MNT/head" version)" "$(head_version)"
	done
	stop
}

@test "an open file keeps the text it was opened with" {
	pins_table
	mount_table
	new_pin
	exec 5<"$F"
	pinctl -d "$TABLE" renew "$ID" "$LATER"
	has "$(cat <&5)" "$T"
	exec 5<&-
	same "$(expiry)" "$LATER"
	stop
}

@test "names that file managers and shells try: absent, without a look at the table, and they register nothing" {
	pins_table
	mount_table
	local name
	# With the directory locked away, whatever is asked of storage fails.
	mv "$TABLE/_versions" "$TABLE/away"
	for name in .Trash .Trash-1000 .hidden autorun.inf .git HEAD .xdg-volume-info .DS_Store pins.json; do
		run ls -d "$MNT/$name"
		has "$output" 'No such file'
		run python3 -c 'import os, sys; os.stat(sys.argv[1])' "$MNT/.pinfs/$name"
		has "$output" 'FileNotFoundError'
	done
	mv "$TABLE/away" "$TABLE/_versions"
	for name in .Trash .Trash-1000 .git HEAD 0f8fad5b-d9cb-469f-a165-70867728950e 0f8fad5bd9cb469fa16570867728950e; do
		run ls -d "$P/$name"
		has "$output" 'No such file'
	done
	refused EINVAL 'Trash-1000' mkdir "$P/.Trash-1000"
	(cd "$P" && not git status 2>/dev/null)
	ls --color=always -laR "$MNT" >/dev/null
	stop
}

@test "an id in capitals is the same pin" {
	pins_table
	mount_table
	new_pin
	same "$(cat "$P/${ID^^}")" "$(cat "$F")"
	same "$(stat -c %i "$P/${ID^^}")" "$(stat -c %i "$F")"
	same "$(ls "$P")" "$ID"
	stop
}

@test "branches: their own head and pins, a slash as %2F, seen as soon as they are there" {
	pins_table
	mount_table
	not ls "$MNT/branches/dev"
	make_branch dev
	ls "$MNT/branches/dev" >/dev/null
	make_branch feat/x
	same "$(ls "$MNT/branches")" 'dev
feat%2Fx'
	same "$(ls "$MNT/branches/feat%2Fx")" 'head
pins
retention'
	same "$(field "$MNT/branches/feat%2Fx/head" branch)" feat/x
	not ls -d "$MNT/branches/feat%2fx"
	not ls -d "$MNT/branches/feat"
	not ls -d "$MNT/branches/feat/x"

	new_pin
	local id
	id=$(cat /proc/sys/kernel/random/uuid)
	mkdir "$MNT/branches/feat%2Fx/pins/$id,expires_at=$T"
	same "$(ls "$MNT/branches/feat%2Fx/pins")" "$id"
	same "$(ls "$P")" "$ID"
	same "$(ls "$MNT/branches/dev/pins")" ''
	has "$(status_line)" "branches/feat%2Fx/pins/$id"
	same "$(getfattr --only-values --absolute-names -n user.pins.branch "$MNT/branches/feat%2Fx/pins/$id")" feat/x
	stop

	mount_table -o branch=feat/x
	same "$(ls "$P")" "$id"
	same "$(field "$MNT/head" branch)" feat/x
	same "$(ls "$MNT/branches")" 'dev
feat%2Fx
main'
	same "$(ls "$MNT/branches/main/pins")" "$ID"
	rm "$P/$id"
	same "$(ls "$MNT/branches/feat%2Fx/pins")" ''
	stop
	mount_table -b dev
	same "$(field "$MNT/head" branch)" dev
	stop
}

@test "ordinary tools give sane answers; inode numbers are unique and stay" {
	pins_table
	mount_table
	make_branch dev
	new_pin
	new_pin
	new_pin
	df "$MNT" >/dev/null
	df -i "$MNT" >/dev/null
	du -a "$MNT" >/dev/null
	same "$(stat -f -c %l "$MNT")" 1023
	local inodes
	inodes=$(find "$MNT" -printf '%i\n' | sort)
	same "$(uniq -d <<<"$inodes")" ''
	same "$(find "$MNT" -printf '%i\n' | sort)" "$inodes"
	same "$(ls -i "$F")" "$(stat -c '%i %n' "$F")"
	same "$(find "$P" -inum "$(stat -c %i "$F")")" "$F"
	test -w "$F"
	not test -x "$F"
	not test -w "$MNT/head"
	not readlink "$F"
	same "$(stat -c %h "$F")" 1
	stop
}

@test "a head that cannot be read: said with the file's name, and not a hang; back when it is" {
	pins_table
	mount_table
	new_pin
	local head good
	head=$(find "$TABLE/_versions" -name '*.manifest' | sort | head -n 1)
	good=$(cat "$F")
	cp -p "$head" "$DIR/good"
	truncate -s 40 "$head"
	for file in "$MNT/head" "$F" "$P"; do
		run timeout 60 ls "$file/."
		run timeout 60 grep -r . "$file"
		has "$output" 'Structure needs cleaning'
	done
	has "$(status_line)" "EUCLEAN .*${head##*/}"
	unchanged mkdir "$P/$(cat /proc/sys/kernel/random/uuid),expires_at=$T"
	has "$output" 'Structure needs cleaning'
	ls "$MNT" >/dev/null
	cp -p "$DIR/good" "$head"
	same "$(cat "$F")" "$good"
	stop
}
