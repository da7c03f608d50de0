#!/usr/bin/env bats
# What nobody gets done through a gateway: to what pins need, by whatever call, at whatever moment; and past the modes of the table.
# shellcheck disable=SC2154,SC2030,SC2031,SC2034,SC2012 # of run; each test is a subshell; MNT is of lib; names are Lance's, without spaces

load lib
load gateway_lib

assault() {
	run "$BATS_TEST_DIRNAME/assault" "$TABLE" "$TABLE/data/new.lance" "$@"
	same "$status: $output" '0: '
}

# --- what becomes needed ---

@test "a file that is open for writing when a version comes to need it is not written any more" {
	take_last
	open_gateway
	stage "$V8#1"
	run "$BATS_TEST_DIRNAME/held-open" "$DIR/last/data" "$TABLE/$LAST" "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8" plain
	same "$status: $output" '0: '
	has "$(status_line)" "EBUSY setattr $LAST: branch main needs $LAST"
	rm "$TABLE/_versions/$V8#1"
	window_whole
	stop
}

@test "nor is an upload that was renamed to the name which is needed" {
	take_last
	open_gateway
	stage "$V8#1"
	run "$BATS_TEST_DIRNAME/held-open" "$DIR/last/data" "$TABLE/$LAST" "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8" rename
	same "$status: $output" '0: '
	rm "$TABLE/_versions/$V8#1"
	window_whole
	stop
}

@test "nor is one that was linked to it" {
	take_last
	open_gateway
	stage "$V8#1"
	run "$BATS_TEST_DIRNAME/held-open" "$DIR/last/data" "$TABLE/$LAST" "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8" link
	same "$status: $output" '0: '
	rm "$TABLE/_versions/$V8#1"
	window_whole
	stop
}

@test "the head stays whole, pins or not" {
	open_gateway
	rm "$P/$ID"
	: >"$TABLE/data/new.lance"
	needed data _deletions
	assault "${FILES[@]}"
	no EBUSY 'needs .*: head' unlink "${FILES[0]}"
	rm "$TABLE/data/new.lance"
	stop
	pinctl -d "$TABLE" check >/dev/null
}

@test "a pin that is made past the gateway holds from its answer on" {
	local id
	open_gateway
	rm "$P/$ID"
	needed data
	for _ in 1 2 3 4 5; do
		id=$(pinctl -d "$TABLE" register "$T" 2>/dev/null)
		# The manifest before is the last that the pin does not hold.
		no EBUSY "$id" unlink "${FILES[0]}"
		no EBUSY "$id" unlink "$TABLE/_versions/$(printf '%020d.manifest' $((10#744073709551616 - $(head_version))) | sed 's/^00000/18446/')"
		pinctl -d "$TABLE" release "$id" >/dev/null
	done
	stop
}

# What the directories say of themselves is old, and the gateway has seen it.
still() {
	local head
	find "$TABLE/.pinfs/table/_refs" "$TABLE/.pinfs/table/_versions" "$TABLE/.pinfs/table/tree" -type d -exec touch -d '1 hour ago' {} +
	for _ in 1 2; do
		head=$(cut -f 3 "$TABLE/.pinfs/retention/files" | grep ^data/ | head -n 1)
		no EBUSY 'head' unlink "$TABLE/$head"
	done
}

@test "what is made past the gateway counts at the next call, however long nothing was made" {
	local past=$TABLE/.pinfs/table old file ref
	old=$(files_now)
	pinctl -d "$TABLE" branch create sub/x >/dev/null
	mv "$TABLE/_refs/branches/sub%2Fx.json" "$DIR/ref"
	pinctl -d "$TABLE" release "$ID" >/dev/null
	# From here on main needs less, and the branch has no ref.
	pinctl -d "$TABLE" restore 1 --apply >/dev/null
	mkdir -p "$TABLE/_refs/branches/sub" "$TABLE/_refs/tags"
	open_gateway
	file=$(comm -13 <(cut -f 3 "$TABLE/.pinfs/retention/files" | sort) <(echo "$old") | head -n 1)
	[[ $file ]]
	for ref in sub/x sub%2Fx; do
		still
		cp "$DIR/ref" "$past/_refs/branches/$ref.json"
		no EBUSY 'branch sub/x' unlink "$TABLE/$file"
		rm "$past/_refs/branches/$ref.json"
	done
	still
	same "$(call unlink "$TABLE/$file")" None
	stop
}

# whole_seconds: the table is where times are whole seconds, with inodes of the smallest size.
whole_seconds() {
	local fs=$DIR/seconds
	mkdir "$fs"
	truncate -s 64M "$fs.img"
	PATH=$PATH:/sbin:/usr/sbin mke2fs -q -t ext4 -I 128 "$fs.img" 2>/dev/null || skip 'no mke2fs'
	mount -o loop "$fs.img" "$fs" 2>/dev/null || skip 'no loop devices here'
	mv "$TABLE" "$fs"
	TABLE=$fs/${TABLE##*/}
}

@test "where times are whole seconds, what comes in the second of a look counts, too" {
	local old file past
	old=$(files_now)
	pinctl -d "$TABLE" release "$ID" >/dev/null
	pinctl -d "$TABLE" restore 1 --apply >/dev/null
	whole_seconds
	open_gateway
	past=$TABLE/.pinfs/table
	file=$(comm -13 <(cut -f 3 "$TABLE/.pinfs/retention/files" | sort) <(echo "$old") | head -n 1)
	[[ $file ]]
	# A second begins, and with it the last change before the look.
	python3 -c 'import time; time.sleep(1 - time.time() % 1)'
	: >"$past/_versions/x"
	rm "$past/_versions/x"
	: >"$TABLE/data/new.lance"
	sleep 0.12
	rm "$TABLE/data/new.lance"
	pinctl -d "$TABLE" restore 7 --apply >/dev/null
	no EBUSY 'head' unlink "$TABLE/$file"
	stop
	pinctl -d "$TABLE" check >/dev/null
	umount "$DIR/seconds"
}

# What was lost is not kept, and nobody was here to see it go.
lost_on() {
	no EBUSY "1 pins of branch $1 were dropped" unlink "$2"
	no EBUSY "1 pins of branch $1 were dropped" unlink "$TABLE/_versions/18446744073709551614.manifest"
}

@test "where pins were lost before the gateway came nothing is removed, until that is settled" {
	"$BATS_TEST_DIRNAME/drop-pins" "$TABLE"
	open_gateway
	lost_on main "$TABLE/_versions/$V6"
	pinctl -d "$TABLE" release --waive "$ID" >/dev/null
	eventually rm "$TABLE/_versions/$V6"
	stop
}

@test "nor where a branch lost them that nobody has looked at" {
	local id source
	pinctl -d "$TABLE" branch create side >/dev/null
	id=$(pinctl -d "$TABLE" -b side register "$T" 2>/dev/null)
	source=$(ls "$TABLE/tree/side/_versions"/*.manifest | tail -n 1)
	"$BATS_TEST_DIRNAME/drop-pins" "$TABLE/tree/side"
	open_gateway
	lost_on side "$source"
	pinctl -d "$TABLE" -b side release --waive "$id" >/dev/null
	eventually rm "$source"
	stop
}

@test "what a branch lost matters no more when it is gone" {
	pinctl -d "$TABLE" branch create side >/dev/null
	pinctl -d "$TABLE" -b side register "$T" >/dev/null 2>&1
	"$BATS_TEST_DIRNAME/drop-pins" "$TABLE/tree/side"
	open_gateway
	ls "$TABLE/.pinfs/branches/side" >/dev/null
	eventually grep -q 'pins_lost{branch="side"} 1' "$TABLE/.pinfs/metrics"
	no EBUSY 'of branch side were dropped' unlink "$TABLE/_versions/18446744073709551614.manifest"
	rm "$TABLE/_refs/branches/side.json"
	rm "$TABLE/_versions/18446744073709551614.manifest"
	rm -r "$TABLE/tree"
	stop
}

@test "the manifest that a cleanup put aside stays until that cleanup is ended" {
	mv "$TABLE/_versions/18446744073709551614.manifest" "$TABLE/_versions/.tmp-removed-18446744073709551614.manifest.aside"
	open_gateway
	local f=$TABLE/_versions/.tmp-removed-18446744073709551614.manifest.aside
	no EBUSY 'pinctl cleanup' unlink "$f"
	no EBUSY 'pinctl cleanup' rename "$f" "$TABLE/_versions/x"
	no EBUSY 'pinctl cleanup' write_open "$f"
	no EBUSY 'pinctl cleanup' trunc_open "$f"
	stop
}

@test "a version whose file is gone, or shorter than it should be, is not published" {
	take_last
	open_gateway
	stage "$V8#1"
	no EPERM "version 8 is not published: its file \"$LAST\" is gone" link "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8"
	head -c 100 "$DIR/last/data" >"$TABLE/$LAST"
	no EPERM "not published: its file \"$LAST\" has 100 of $(stat -c %s "$DIR/last/data") bytes" link "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8"
	same "$(head_version)" 7
	cp "$DIR/last/data" "$TABLE/$LAST"
	same "$(call link "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8")" None
	rm "$TABLE/_versions/$V8#1"
	window_whole
	stop
}

@test "what another program made just now, and no version names yet, is not left over" {
	local f theirs=(data/mine.lance _transactions/7-x.txn _deletions/0-7-1.arrow _versions/.tmp-mine)
	open_gateway
	for f in "${theirs[@]}"; do
		: >"$TABLE/.pinfs/table/$f"
		no EBUSY 'within the minute' unlink "$TABLE/$f"
		no EBUSY 'within the minute' rename "$TABLE/$f" "$TABLE/data/other"
		rm "$TABLE/.pinfs/table/$f"
		# What came through the gateway is its clients' to remove.
		: >"$TABLE/$f.ours"
		rm "$TABLE/$f.ours"
	done
	stop
}

# --- branches ---

@test "the ref of a branch with pins is neither removed nor moved nor changed" {
	local ref=$TABLE/_refs/branches/side.json
	pinctl -d "$TABLE" branch create side >/dev/null
	open_gateway
	new_pin_on side
	no EBUSY 'branch side has 1 pins' unlink "$ref"
	no EBUSY 'branch side has 1 pins' rename "$ref" "$TABLE/_refs/branches/other.json"
	no EBUSY 'branch side has 1 pins' rename "$ref" "$TABLE/data/other.json"
	no EBUSY 'branch side has 1 pins' trunc_open "$ref"
	no EBUSY 'branch side has 1 pins' write_open "$ref"
	no EBUSY 'branch side has 1 pins' truncate "$ref" 0o0
	no EPERM 'stay where they are' rename "$TABLE/tree/side" "$TABLE/tree/other"
	run rm -rf "$TABLE/tree/side" "$TABLE/_refs"
	[[ $status != 0 ]]
	pinctl -d "$TABLE" -b side check >/dev/null
	rm "$TABLE/.pinfs/branches/side/pins/$ID"
	rm -r "$ref"
	stop
}

new_pin_on() {
	ID=$(cat /proc/sys/kernel/random/uuid)
	mkdir "$TABLE/.pinfs/branches/$1/pins/$ID,expires_at=$T"
}

@test "what a branch refers to stays, however the way to it is spelled" {
	local spelling number=0 file old
	ln -s "$DIR" "$DIR/link"
	open_gateway
	stage "$V8#1"
	same "$(call link "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8")" None
	rm "$TABLE/_versions/$V8#1" "$P/$ID"
	stop
	mkdir "$DIR/last"
	for spelling in "$TABLE" "$DIR//t.lance" "$DIR/./t.lance/" "$DIR/link/t.lance" "$DIR/last/../t.lance" "file://$TABLE"; do
		number=$((number + 1))
		pinctl -d "$spelling" branch create "b$number" >/dev/null
	done
	old=$(ls "$TABLE/data")
	# From here on main needs less: version 1 has one of the files.
	pinctl -d "$TABLE" restore 1 --apply >/dev/null
	pinctl -d "$TABLE" register "$T" >/dev/null 2>&1
	open_gateway
	for file in $old; do
		same "$(call unlink "$TABLE/data/$file")" EBUSY
	done
	# One branch after the other goes, and the last one still holds them.
	for ((; number > 1; number--)); do
		rm "$TABLE/_refs/branches/b$number.json"
		for file in $old; do
			same "$(call unlink "$TABLE/data/$file")" EBUSY
		done
	done
	stop
}

# --- names ---

@test "any name is a name: newlines, bytes that are no text, dots" {
	local name names=($'a\nb' $'\xff\xfe' '...' '..x' ' ' $'\t' "it's" '%2F' '-rf' '*')
	open_gateway
	for name in "${names[@]}"; do
		echo "$name" >"$TABLE/data/$name"
		same "$(cat "$TABLE/data/$name")" "$name"
		same "$(cat "$TABLE/.pinfs/table/data/$name")" "$name"
		no EPERM 'second names' link "$TABLE/data/$name" "$TABLE/data/other"
	done
	# One line each, whatever is in it.
	same "$(grep -c 'EPERM' "$TABLE/.pinfs/log")" "${#names[@]}"
	same "$(wc -l <"$TABLE/.pinfs/last_status")" 1
	for name in "${names[@]}"; do
		rm "$TABLE/data/$name"
	done
	same "$(call mkdir "$TABLE/data/$(printf 'x%.0s' {1..300})")" ENAMETOOLONG
	# Out of the table the kernel leads, before anybody asks us.
	same "$(cat "$TABLE/data/../../last_word" 2>&1)" "cat: $TABLE/data/../../last_word: No such file or directory"
	stop
}

@test "a link that was planted leads whoever follows it, and never the gateway" {
	echo secret >"$DIR/secret"
	chmod 600 "$DIR/secret"
	ln -s "$DIR/secret" "$TABLE/data/link"
	ln -s "$DIR/next" "$TABLE/_versions/$V8#1"
	mkdir "$DIR/outside"
	cp "$DIR/next" "$DIR/outside/$V8#1"
	open_gateway
	ln -s "$DIR/outside" "$TABLE/.pinfs/table/data/away"
	same "$(readlink "$TABLE/data/link")" "$DIR/secret"
	# What is linked is the link.
	no EPERM 'replaced|second names|not published' link "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8"
	same "$(head_version)" 7
	no EBUSY 'within the minute' unlink "$TABLE/data/away"
	rm "$TABLE/data/link" "$TABLE/_versions/$V8#1"
	same "$(cat "$DIR/secret")" secret
	same "$(ls "$DIR/outside")" "$V8#1"
	stop
}

@test "a name that others swap for a link while it is used: no file outside is read, written or published" {
	local end
	echo secret >"$DIR/secret"
	: >"$DIR/victim"
	stage "$V8#1"
	open_gateway
	local real=$TABLE/.pinfs/table/
	cp "$DIR/next" "$DIR/real"
	(
		cd "$real" || exit
		while [[ ! -e $DIR/enough ]]; do
			ln -sfn "$DIR/victim" data/swap
			ln -sfn "$DIR/real" "_versions/$V8#1"
			rm -f data/swap "_versions/$V8#1"
			echo mine >data/swap
			cp "$DIR/next" "_versions/$V8#1"
		done
	) 3>&- &
	end=$((SECONDS + 2))
	while ((SECONDS < end)); do
		python3 - "$TABLE" "$V8" <<-'END'
			import os, sys
			table, name = sys.argv[1:]
			for i in range(200):
			    for act in (
			        lambda: os.close(os.open(table + "/data/swap", os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW)),
			        lambda: os.chmod(table + "/data/swap", 0o600, follow_symlinks=False),
			        lambda: os.rename(table + "/data/swap", table + "/data/swapped"),
			        lambda: os.link(table + "/_versions/%s#1" % name, table + "/_versions/.tmp-%d" % i, follow_symlinks=False),
			    ):
			        try:
			            act()
			        except (OSError, NotImplementedError):
			            pass
			for i in range(200):
			    try:
			        os.unlink(table + "/_versions/.tmp-%d" % i)
			    except OSError:
			        pass
		END
	done
	touch "$DIR/enough"
	wait %%
	same "$(cat "$DIR/secret")" secret
	same "$(stat -c '%s %h' "$DIR/victim")" '0 1'
	cmp "$DIR/real" "$DIR/next"
	same "$(stat -c %h "$DIR/real")" 1
	same "$(head_version)" 7
	rm -f "$real/data/swap" "$real/_versions/$V8#1"
	window_whole
	stop
}

# --- others ---

# open_to_others: a table that another user may read, and no more.
open_to_others() {
	in_the_open
	rm -rf "$TABLE"
	copy_table
	pinctl -d "$TABLE" enable --apply >/dev/null
	ID=$(pinctl -d "$TABLE" register "$T" 2>/dev/null)
	chmod -R go=rX "$TABLE"
}

@test "without allow_other another user gets nowhere" {
	open_to_others
	open_gateway
	run as_nobody ls "$TABLE"
	has "$output" 'Permission denied'
	run as_nobody cat "$TABLE/_versions/$V8"
	has "$output" 'Permission denied'
	run as_nobody cat "$TABLE/.pinfs/head"
	has "$output" 'Permission denied'
	stop
}

@test "with allow_other another user who may read does nothing else" {
	local f
	open_to_others
	open_gateway -o allow_other
	as_nobody cat "$TABLE/_versions/$V8" "$TABLE"/data/* >/dev/null
	as_nobody ls -lR "$TABLE" >/dev/null
	for f in _versions/$V8 "$(cd "$TABLE" && ls -d data/* | head -n 1)"; do
		f=$TABLE/$f
		same "$(as_nobody_call unlink "$f")" EACCES
		same "$(as_nobody_call rename "$f" "$TABLE/data/x")" EACCES
		has "$(as_nobody_call link "$f" "$TABLE/data/x")" '^(EACCES|EPERM)$' # fs.protected_hardlinks
		same "$(as_nobody_call link "$f" "$DIR/x")" EXDEV
		same "$(as_nobody_call truncate "$f" 0o0)" EACCES
		same "$(as_nobody_call write_open "$f")" EACCES
		same "$(as_nobody_call trunc_open "$f")" EACCES
		same "$(as_nobody_call chmod "$f" 0o666)" EPERM
		same "$(as_nobody_call chown "$f" 0o0 0o0)" EPERM
		same "$(as_nobody_call utime "$f")" EACCES
	done
	same "$(as_nobody_call create "$TABLE/_versions/x#1")" EACCES
	same "$(as_nobody_call mkdir "$TABLE/x")" EACCES
	same "$(as_nobody_call symlink /etc "$TABLE/x")" EACCES
	same "$(as_nobody_call rmdir "$TABLE/data")" EACCES
	same "$(as_nobody_call mkdir "$P/$(cat /proc/sys/kernel/random/uuid),expires_at=$T")" EACCES
	same "$(as_nobody_call unlink "$P/$ID")" EACCES
	same "$(as_nobody_call write_open "$P/$ID")" EACCES
	same "$(as_nobody_call listdir "$TABLE/.pinfs/table")" EACCES
	same "$(as_nobody_call mkdir "$TABLE/.pinfs/branches/x")" EACCES
	window_whole
	stop
}

as_nobody_call() {
	# The tests themselves may be where nobody is let in.
	as_nobody bash -c "$(declare -f call); call \"\$@\"" - "$@"
}

@test "what an access control list denies stays denied" {
	open_to_others
	python3 - "$TABLE/data" "$TABLE/data/"* <<-'END' || skip 'no access control lists here'
		import os, struct, sys
		# user::rwx, user:65534:---, group::r-x, mask::r-x, other::r-x
		entries = [(1, 7, 2**32 - 1), (2, 0, 65534), (4, 5, 2**32 - 1), (16, 5, 2**32 - 1), (32, 5, 2**32 - 1)]
		acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries)
		os.setxattr(sys.argv[2], "system.posix_acl_access", acl)
	END
	local f
	f=$(ls -d "$TABLE"/data/* | head -n 1)
	run as_nobody cat "$f"
	has "$output" 'Permission denied'
	open_gateway -o allow_other
	run as_nobody cat "$f"
	has "$output" 'Permission denied'
	as_nobody cat "$TABLE/_versions/$V8" >/dev/null
	stop
}
