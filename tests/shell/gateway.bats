#!/usr/bin/env bats
# Mounted over the table itself: what clients see that know nothing of pins, what they can publish, and what they cannot do.
# shellcheck disable=SC2154,SC2030,SC2031,SC2034,SC2012,SC2013 # of run; each test is a subshell; MNT is of lib; names are Lance's, without spaces

load lib
load gateway_lib

# bytes_that_differ A B: their number; both are as long.
bytes_that_differ() {
	same "$(stat -c %s "$1")" "$(stat -c %s "$2")"
	cmp -l "$1" "$2" | wc -l
}

# --- view ---

@test "the table is there as it is; of manifests since pins are enabled one bit differs; the tree of pins is hidden beside" {
	local f
	cp -R "$TABLE" "$DIR/before"
	stat -c '%n %s %i %a' "$TABLE"/*/* >"$DIR/stat-before"
	ls -RA "$TABLE" >"$DIR/ls-before"
	open_gateway
	ls -RA "$TABLE" | diff - "$DIR/ls-before"
	stat -c '%n %s %i %a' "$TABLE"/*/* | diff - "$DIR/stat-before"
	for f in "$TABLE"/data/* "$TABLE"/_deletions/* "$TABLE"/_transactions/*; do
		cmp "$f" "$DIR/before/${f#"$TABLE/"}"
	done
	for f in "$TABLE"/_versions/*.manifest; do
		case ${f##*/} in
		"$V6" | "$V7") same "$(bytes_that_differ "$f" "$DIR/before/_versions/${f##*/}")" 1 ;;
		*) cmp "$f" "$DIR/before/_versions/${f##*/}" ;;
		esac
	done
	same "$(ls "$TABLE/.pinfs")" "$(printf '%s\n' branches head last_status log metrics pins retention)"
	same "$(ls "$P")" "$ID"
	stop
	cmp "$TABLE/_versions/$V7" "$DIR/before/_versions/$V7"
}

# reorder FILE: its manifest with the writer's flags before all else, as long as it was.
reorder() {
	python3 - "$1" <<-'END'
		import re, struct, sys
		with open(sys.argv[1], "r+b") as f:
		    data = f.read()
		    at, = struct.unpack("<q", data[-16:-8])
		    body = data[at + 4:-16]
		    flags, = re.findall(rb"\x50[\x80-\xff]{2}[\x20-\x3f]", body)
		    f.seek(at + 4)
		    f.write(flags + body.replace(flags, b""))
	END
}

@test "a manifest in the place of another, with its name and its inode, is not shown as that was" {
	local inode
	open_gateway
	inode=$(stat -c %i "$TABLE/_versions/$V7")
	cmp -s "$TABLE/_versions/$V7" "$TABLE/.pinfs/table/_versions/$V7" && return 1
	reorder "$TABLE/.pinfs/table/_versions/$V7"
	same "$(stat -c %i "$TABLE/_versions/$V7")" "$inode"
	same "$(bytes_that_differ "$TABLE/_versions/$V7" "$TABLE/.pinfs/table/_versions/$V7")" 1
	same "$(cmp -l "$TABLE/_versions/$V7" "$TABLE/.pinfs/table/_versions/$V7" | awk '{ print $2, $3 }')" '0 40'
	stop
}

@test "what is written goes where its writer says, however the file was opened" {
	open_gateway
	printf 0123456789 >"$TABLE/data/x"
	python3 - "$TABLE/data/x" <<-'END'
		import fcntl, os, sys
		f = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
		os.write(f, b"ab")
		fcntl.fcntl(f, fcntl.F_SETFL, 0)
		os.pwrite(f, b"XY", 2)
	END
	same "$(cat "$TABLE/data/x")" 01XY456789ab
	stop
	same "$(cat "$TABLE/data/x")" 01XY456789ab
}

@test "the kernel reads ahead of a client by 512 KiB" {
	open_gateway
	local said
	said=/sys/class/bdi/$(stat -c %Hd:%Ld "$TABLE")/read_ahead_kb
	[[ -w $said ]] || skip 'the kernel cannot be told here'
	same "$(cat "$said")" 512
	stop
}

@test "without bit 19 nothing is changed and nothing is refused" {
	rm -rf "$TABLE"
	copy_table
	cp -R "$TABLE" "$DIR/before"
	open_gateway
	diff -r "$TABLE" "$DIR/before" -x .pinfs
	rm "$TABLE/_versions/$V8" "$TABLE"/data/*
	same "$(ls "$TABLE/data")" ''
	stop
}

# --- publishing ---

@test "a link of the staged manifest is the next version: bytes of the client, pins and bit 19 of the head" {
	open_gateway
	stage "$V8#1"
	same "$(call link "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8")" None
	rm "$TABLE/_versions/$V8#1"
	pinctl -d "$TABLE" confirm "$ID"
	has "$(pinctl -d "$TABLE" status)" 'head       version 8,'
	has "$(pinctl -d "$TABLE" status)" '19 ongoing-work-pins'
	window_whole
	stop
	window_whole
	# The client's transaction is the version's, and its time.
	has "$(pinctl -d "$TABLE" snapshots)" "^.*$(pinctl -d "$TABLE" snapshots | tail -n 1 | cut -f 1)"
}

@test "the client's staged file is the version, with pins and flags behind what it wrote, and nobody changes it any more" {
	open_gateway
	run "$BATS_TEST_DIRNAME/staged-open" "$DIR/next" "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8"
	same "$status: $output" '0: '
	same "$(stat -c %h "$TABLE/.pinfs/table/_versions/$V8")" 1
	window_whole
	stop
	window_whole
	# The next commit takes over what was added, and says it once.
	pinctl -d "$TABLE" renew "$ID" 2199-01-01T00:00:00Z
	has "$(pinctl -d "$TABLE" show "$ID")" 2199-01-01
	window_whole
}

@test "what is written to a staged file while it is published is not written to the version" {
	hold pwrite64 2
	open_gateway
	run "$BATS_TEST_DIRNAME/staged-late" "$DIR/next" "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8" "$DIR/held"
	under=()
	same "$status: $output" '0: '
	stop
}

# published_by_copy: the next version is not the staged file, which stays as it was written.
published_by_copy() {
	local before
	before=$(stat -c %i "$TABLE/_versions/$V8#1")
	same "$(call link "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8")" None
	cmp "$TABLE/_versions/$V8#1" "$DIR/next"
	[[ $(stat -c %i "$TABLE/_versions/$V8") != "$before" ]]
	window_whole
	stop
	rm -f "$TABLE/_versions/$V8"*
}

@test "a staged file that others may need as it is, or could not read, or that others may write to, is copied" {
	stage "$V8#1"
	open_gateway
	published_by_copy
	open_gateway
	stage "$V8#1"
	ln "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8#2"
	published_by_copy
	open_gateway
	stage "$V8#1"
	chmod 600 "$TABLE/_versions/$V8#1"
	published_by_copy
	open_gateway
	cp "$DIR/next" "$TABLE/data/next"
	mv "$TABLE/data/next" "$TABLE/_versions/$V8#1"
	published_by_copy
}

@test "a staged manifest with bit 19 is of a writer that knows pins: checked and published" {
	cp -R "$TABLE" "$DIR/knows"
	pinctl -d "$DIR/knows" renew "$ID" 2199-01-01T00:00:00Z
	# Another history: without the pin, and with one of its own.
	cp -R "$TABLE" "$DIR/other"
	rm "$DIR/other/_versions/$V7"
	mine=$(pinctl -d "$DIR/other" register "$T")
	pinctl -d "$DIR/other" renew "$mine" 2199-01-01T00:00:00Z
	open_gateway
	cp -n "$DIR/knows/_transactions"/7-*.txn "$TABLE/_transactions"
	cp -n "$DIR/other/_transactions"/7-*.txn "$TABLE/_transactions"
	cp "$DIR/other/_versions/$V8" "$TABLE/_versions/$V8#1"
	no EPERM "$mine" link "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8"
	cp "$DIR/knows/_versions/$V8" "$TABLE/_versions/$V8#2"
	same "$(call link "$TABLE/_versions/$V8#2" "$TABLE/_versions/$V8")" None
	has "$(pinctl -d "$TABLE" show "$ID")" 2199-01-01
	window_whole
	stop
	window_whole
}

@test "EEXIST is the answer only where the version exists" {
	open_gateway
	stage "$V8#1"
	# The kernel itself looks first.
	same "$(call link "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V7")" EEXIST
	no EPERM 'not the next one' link "$TABLE/_versions/$V8#1" "$TABLE/_versions/18446744073709551606.manifest"
	rm -f "$TABLE/_versions/$V8#1"
	# Version 1 is gone: a cleanup took it, and nobody may put another in its place.
	stop
	rm "$TABLE/_versions/18446744073709551614.manifest"
	open_gateway
	stage "1#1"
	no EPERM 'open the table anew' link "$TABLE/_versions/1#1" "$TABLE/_versions/18446744073709551614.manifest"
	same "$(head_version)" 7
	stop
}

@test "what is not whole, not of this version or not told by a transaction is not published" {
	open_gateway
	head -c 500 "$DIR/next" >"$TABLE/_versions/a#1"
	no EUCLEAN 'not published' link "$TABLE/_versions/a#1" "$TABLE/_versions/$V8"
	cat "$TABLE/_versions/18446744073709551610.manifest" >"$TABLE/_versions/b#1"
	no EUCLEAN 'version 8' link "$TABLE/_versions/b#1" "$TABLE/_versions/$V8"
	no EPERM 'second names' link "$TABLE/data/$(ls "$TABLE/data" | head -n 1)" "$TABLE/_versions/$V8"
	same "$(head_version)" 7
	stop
}

@test "a version gets its name in no other way" {
	open_gateway
	stage "$V8#1"
	no EPERM 'staged manifest' create "$TABLE/_versions/$V8"
	no EPERM 'staged manifest' rename "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8"
	no EPERM 'keeps its name' rename "$TABLE/_versions/$V7" "$TABLE/_versions/7.manifest"
	no EPERM 'second names' link "$TABLE/_versions/$V7" "$TABLE/_versions/$V8"
	no EPERM 'never changes' write_open "$TABLE/_versions/$V7"
	no EPERM 'never changes' trunc_open "$TABLE/_versions/$V7"
	no EPERM 'never changes' truncate "$TABLE/_versions/$V7" 0o0
	no EPERM 'never changes' chmod "$TABLE/_versions/$V7" 0o777
	same "$(head_version)" 7
	stop
}

@test "the pin that is made while a client works is in what it publishes" {
	open_gateway
	stage "$V8#1"
	new_pin
	# Version 8 is the registration's: the client has to plan anew.
	same "$(call link "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8")" EEXIST
	same "$(ls "$P" | wc -l)" 2
	stop
}

# --- what pins need ---

@test "what a pin needs is removed, moved, replaced or changed by nobody" {
	open_gateway
	: >"$TABLE/data/new.lance"
	needed data _deletions _transactions
	run "$BATS_TEST_DIRNAME/assault" "$TABLE" "$TABLE/data/new.lance" "${FILES[@]}"
	same "$status: $output" '0: '
	no EBUSY "$ID" unlink "${FILES[0]}"
	no EBUSY "$ID" unlink "$TABLE/_versions/$V6"
	no EPERM 'stay where they are' rename "$TABLE/data" "$TABLE/gone"
	no EPERM 'owner and mode stay' chmod "$TABLE/data" 0o0
	same "$(call rmdir "$TABLE/data")" ENOTEMPTY
	no EPERM 'files of the table stay in it' rename "$TABLE/data/new.lance" "$TABLE/.pinfs/pins/new"
	no EPERM 'would not be guarded' symlink /etc/passwd "$TABLE/data/link"
	rm "$TABLE/data/new.lance"
	window_whole
	stop
	window_whole
}

@test "rm -rf of the table leaves what pins need" {
	open_gateway
	run rm -rf "$TABLE"
	[[ $status != 0 ]]
	window_whole
	has "$(cat "$TABLE/.pinfs/log")" $'\tunlink\t_versions/'"$V7"$'\tEBUSY\t'
	stop
	window_whole
	# Older versions went, as nobody needed them.
	same "$(ls "$TABLE/_versions")" "$(printf '%s\n' "$V7" "$V6")"
}

@test "what no pin needs any more can go, but the manifest of the head" {
	open_gateway
	rm "$P/$ID"
	rm "$TABLE/_versions/$V6" "$TABLE/_versions/$V7"
	no EBUSY 'head' unlink "$TABLE/_versions/$V8"
	same "$(head_version)" 8
	stop
}

@test "where a window cannot be read nothing goes" {
	cp "$TABLE/_versions/$V6" "$DIR/saved"
	truncate -s 100 "$TABLE/_versions/$V6"
	open_gateway
	: >"$TABLE/data/new.lance"
	no EBUSY 'cannot be told' unlink "$TABLE/data/new.lance"
	no EBUSY 'cannot be told' unlink "$TABLE/_versions/18446744073709551614.manifest"
	stop
}

@test "a branch with pins keeps its ref" {
	"$BATS_TEST_DIRNAME/make-branch" "$TABLE" side
	# Its folders are links into the table, which a gateway does not go along with.
	run "$PINFS_BIN" -f "$TABLE" "$TABLE"
	same "$status" 1
	has "$output" 'tree/side/[_a-z]+ is a link'
	find "$TABLE/tree" -type l -exec sh -c 'cp -R "$(readlink -f "$1")" "$1.copy" && rm "$1" && mv "$1.copy" "$1"' sh {} \;
	pinctl -d "$TABLE" -b side register "$T" >/dev/null 2>&1
	open_gateway
	no EBUSY 'branch side has 2 pins' unlink "$TABLE/_refs/branches/side.json"
	no EBUSY 'branch side has 2 pins' rename "$TABLE/_refs/branches/side.json" "$TABLE/_refs/branches/other.json"
	rm "$TABLE"/.pinfs/branches/side/pins/*
	rm "$TABLE/_refs/branches/side.json"
	stop
}

@test "a guard tag stays with its pin, and goes with it" {
	local tag=$TABLE/_refs/tags/pinfs-$ID.json
	open_gateway
	no EBUSY 'guards the pin' unlink "$tag"
	no EBUSY 'guards the pin' rename "$tag" "$TABLE/_refs/tags/mine.json"
	cp "$tag" "$TABLE/_refs/tags/mine.json"
	no EBUSY 'guards the pin' rename "$TABLE/_refs/tags/mine.json" "$tag"
	no EBUSY 'guards the pin' truncate "$tag" 0o0
	# Tags of others come, move and go, and so does one that guards nobody.
	mv "$TABLE/_refs/tags/mine.json" "$TABLE/_refs/tags/yours.json"
	cp "$TABLE/_refs/tags/yours.json" "$TABLE/_refs/tags/mine.json"
	mv "$TABLE/_refs/tags/mine.json" "$TABLE/_refs/tags/yours.json"
	mv "$TABLE/_refs/tags/yours.json" "$TABLE/_refs/tags/pinfs-0f8fad5b-d9cb-469f-a165-70867728950e.json"
	rm "$TABLE/_refs/tags/pinfs-0f8fad5b-d9cb-469f-a165-70867728950e.json"
	rm "$P/$ID"
	not test -e "$tag"
	stop
}

# --- beside ---

@test "pinctl goes past the gateway, and so does another mount" {
	local other
	open_gateway
	other=$(pinctl -d "$TABLE" register "$T" 2>/dev/null)
	same "$(ls "$P" | wc -l)" 2
	pinctl -d "$TABLE" release "$other"
	same "$(ls "$P")" "$ID"
	stat -f -c %T "$TABLE/.pinfs/table/" | grep -qv fuse
	stop
}

@test "pinctl status names the process of the gateway, and metrics count what it published" {
	published() {
		sed -n 's/^pinfs_published_total{branch="main"} //p' "$TABLE/.pinfs/metrics"
	}
	has "$(pinctl -d "$TABLE" status)" $'\ngateway    none here'
	same "$(pinctl -d "$TABLE" status --json | jq .gateway_pid)" null
	open_gateway
	has "$(pinctl -d "$TABLE" status)" $'\n'"gateway    mounted over the table by process $DAEMON:"
	same "$(pinctl -d "$TABLE" status --json | jq .gateway_pid)" "$DAEMON"
	has "$(pinctl -d "$TABLE" doctor 2>/dev/null)" $'^ok\tmain\tgateway\t'"mounted over the table by process $DAEMON:"
	has "$(pinctl -d "$TABLE" doctor --json 2>/dev/null | jq -r '.checks[0].check')" '^gateway$'
	same "$(published)" 0
	stage "$V8#1"
	no EPERM 'not the next one' link "$TABLE/_versions/$V8#1" "$TABLE/_versions/18446744073709551606.manifest"
	same "$(published)" 0
	same "$(call link "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8")" None
	same "$(published)" 1
	"$BATS_TEST_DIRNAME/check-metrics" "$TABLE/.pinfs/metrics"
	stop
}

@test "a copy that is made through the gateway is a table without the flag, and pinctl says so; past it, it is the table" {
	open_gateway
	cp -R "$TABLE" "$DIR/seen.lance"
	cp -R "$TABLE/.pinfs/table/" "$DIR/stored.lance"
	stop
	has "$(pinctl -d "$DIR/seen.lance" status)" $'\nflag       missing .*enable --apply'
	not grep -q 'not enabled' <(pinctl -d "$DIR/seen.lance" status)
	diff -r "$TABLE" "$DIR/stored.lance"
}

@test "not twice, not under another name, not inside, not with folders that are links" {
	open_gateway
	run "$PINFS_BIN" -f "$TABLE" "$TABLE"
	same "$status" 1
	has "$output" 'mounted already.*fusermount3 -u'
	stop
	run "$PINFS_BIN" -f "$TABLE" "$TABLE/data"
	same "$status" 1
	has "$output" 'inside the dataset'
	mkdir "$DIR/t.lance2"
	"$PINFS_BIN" "$TABLE" "$DIR/t.lance2" 3>&-
	fusermount3 -u "$DIR/t.lance2"
	mv "$TABLE/data" "$DIR/elsewhere"
	ln -s "$DIR/elsewhere" "$TABLE/data"
	run "$PINFS_BIN" -f "$TABLE" "$TABLE"
	same "$status" 1
	has "$output" 'data is a link'
}

@test "after kill -9 nobody sees the naked table, and the next mount works" {
	open_gateway
	kill -KILL "$DAEMON"
	eventually not kill -0 "$DAEMON"
	DAEMON=
	run ls "$TABLE"
	has "$output" 'not connected'
	run "$PINFS_BIN" -f "$TABLE" "$TABLE"
	same "$status" 1
	has "$output" 'fusermount3 -u'
	fusermount3 -u "$TABLE"
	open_gateway
	window_whole
	stop
}

@test "what a client still has open when the daemon is told to end keeps nothing of it" {
	open_gateway
	local root data file=("$MNT"/data/*)
	exec {root}<"$MNT" {data}<"$MNT/data" {file}<"${file[0]}"
	stop TERM
	exec {root}<&- {data}<&- {file}<&-
}

@test "another user gets no further than modes let them" {
	in_the_open
	rm -rf "$TABLE"
	copy_table
	chmod -R go+rX "$TABLE"
	pinctl -d "$TABLE" enable --apply >/dev/null
	chmod 700 "$TABLE"
	open_gateway -o allow_other
	run as_nobody ls "$TABLE"
	has "$output" 'Permission denied'
	chmod 755 "$TABLE/.pinfs/table/"
	eventually as_nobody cat "$TABLE/data/"* >/dev/null
	run as_nobody touch "$TABLE/data/mine"
	has "$output" 'Permission denied'
	run as_nobody ls "$TABLE/.pinfs/table/"
	has "$output" 'Permission denied'
	run as_nobody "$PINCTL_BIN" -d "$TABLE" status
	has "$output" 'only its user gets past it, and root if'
	chmod 777 "$TABLE/.pinfs/table/data"
	eventually as_nobody touch "$TABLE/data/mine"
	same "$(stat -c %u "$TABLE/data/mine")" 65534
	stop
}
