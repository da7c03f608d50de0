#!/usr/bin/env bats
# Asking: register, renew and release by shell commands. Each does the right thing, or fails with nothing changed and the reason in last_status.
# shellcheck disable=SC2154,SC2030,SC2031 # of run; each test is a subshell

load lib
load times

setup() {
	lib_setup
	pins_table
	mount_table
}

teardown() {
	lib_teardown
}

uuid() {
	cat /proc/sys/kernel/random/uuid
}

# --- register ---

@test "mkdir registers: committed when it returns, on the head it found" {
	local before id
	before=$(head_version)
	id=$(uuid)
	mkdir "$P/$id,expires_at=$T,label=night%20run"
	same "$(head_version)" $((before + 1))
	F=$P/$id
	same "$(field "$F" id)" "$id"
	same "$(field "$F" source_version)" "$before"
	same "$(expiry)" "$T"
	same "$(field "$F" label)" 'night run'
	has "$(status_line)" "OK register pins/$id: "
	has "$(tail -n 1 "$MNT/.pinfs/log")" "	register	pins/$id	OK	$((before + 1))	"
	pinctl -d "$TABLE" confirm "$id"
	stop
}

@test "the name of the request never exists; the same request again succeeds and commits nothing" {
	local id line
	id=$(uuid)
	line=$id,expires_at=$T,label=a
	mkdir "$P/$line"
	not ls -d "$P/$line"
	same "$(ls -A "$P")" "$id"
	unchanged mkdir "$P/$line"
	same "$status" 0
	unchanged mkdir -p "$P/$line"
	same "$status" 0
	unchanged python3 -c 'import os, sys; os.mkdir(sys.argv[1])' "$P/$line"
	same "$status" 0
	refused EEXIST 'label' mkdir "$P/$id,expires_at=$T,label=b"
	refused EEXIST 'expires_at' mkdir "$P/$id,expires_at=$LATER,label=a"
	stop
}

@test "a request that pinctl printed" {
	local line
	line=$(pinctl -d "$TABLE" request +2h --label saved)
	mkdir "$P/$line"
	unchanged mkdir "$P/$line"
	same "$status" 0
	pinctl -d "$TABLE" confirm --request "$line"
	stop
}

@test "a named source: pinned if it is the head, EAGAIN when the head has moved on" {
	local id source
	source=$(field "$MNT/head" version):$(field "$MNT/head" transaction)
	id=$(uuid)
	mkdir "$P/$id,expires_at=$T,source=$source"
	same "$(field "$P/$id" source_version)" "${source%%:*}"
	refused EAGAIN 'source|head' mkdir "$P/$(uuid),expires_at=$T,source=$source"
	stop
}

@test "requests that are not" {
	local id
	id=$(uuid)
	refused EINVAL 'expires_at' mkdir "$P/$id"
	refused EINVAL 'expires_at' mkdir "$P/$id,label=x"
	refused EINVAL 'colour' mkdir "$P/$id,expires_at=$T,colour=red"
	refused EINVAL 'twice|once|again' mkdir "$P/$id,expires_at=$T,expires_at=$T"
	refused EINVAL '' mkdir "$P/$id,expires_at=2031-01-01"
	refused EINVAL '' mkdir "$P/$id,expires_at=1893456000"
	refused EINVAL '' mkdir "$P/$id,expires_at=$T,label=%zz"
	refused EINVAL '' mkdir "$P/$id,expires_at=$T,label=a%0Ab"
	refused EINVAL '' mkdir "$P/$id,expires_at=2001-01-01T00:00:00Z"
	refused EINVAL '' mkdir "$P/$id, expires_at=$T"
	refused EINVAL '' mkdir "$P/{$id},expires_at=$T"
	refused EINVAL '' mkdir "$P/00000000-0000-0000-0000-000000000000,expires_at=$T"
	refused ENAMETOOLONG '' mkdir "$P/$id,expires_at=$T,label=$(printf 'x%.0s' {1..256})"
	refused EINVAL 'branch' mkdir "$P/$id,expires_at=$T,branch=other"
	same "$(ls -A "$P")" ''
	# The kernel's own limit.
	unchanged mkdir "$P/$id,expires_at=$T,label=$(printf 'x%.0s' {1..5000})"
	has "$output" 'name too long'
	stop
}

@test "ids are matched whole" {
	new_pin
	local name change
	for name in "${ID%?}" "${ID}0" "${ID%%-*}" "{$ID}" "${ID//-/}" " $ID" "$ID " "urn:uuid:$ID" "$ID~" "$ID.txt" "$ID,expires_at=$T"; do
		for change in "cat '$P/$name'" "echo $LATER >'$P/$name'" "touch -c -d $LATER '$P/$name'; test -e '$P/$name'" "rm '$P/$name'"; do
			unchanged bash -c "$change"
			[[ $status != 0 ]]
		done
	done
	for name in "${ID%?}" "${ID}0" "{$ID}" "${ID//-/}" " $ID" "urn:uuid:$ID" ''; do
		refused EINVAL '' mkdir "$P/$name,expires_at=$T"
	done
	same "$(ls -A "$P")" "$ID"
	same "$(expiry)" "$T"
	stop
}

@test "a table where pins are not enabled, and one we may not write" {
	stop
	rm -rf "$TABLE"
	copy_table
	mount_table
	refused EOPNOTSUPP 'enable' mkdir "$P/$(uuid),expires_at=$T"
	stop

	pinctl -d "$TABLE" enable --apply
	modes_count
	mount_table
	new_pin
	chmod -R a-w "$TABLE"
	refused EACCES '_transactions/.*Permission denied' mkdir "$P/$(uuid),expires_at=$T"
	refused EACCES '_transactions/.*Permission denied' bash -c "echo $LATER >'$F'"
	refused EACCES '_transactions/.*Permission denied' rm -f "$F"
	same "$(expiry)" "$T"
	chmod -R u+w "$TABLE"
	renewed "$LATER" bash -c "echo $LATER >'$F'"
	stop
}

@test "times: the accepted set, by mkdir and by writing" {
	new_pin
	accepted_times | "$BATS_TEST_DIRNAME/ask-times" "$P" "$ID" accepted
	same "$(expiry)" 9999-12-31T23:59:59.999999999Z
	stop
}

@test "times: all else is refused, by mkdir and by writing" {
	new_pin
	refused_times >"$DIR/refused"
	unchanged "$BATS_TEST_DIRNAME/ask-times" "$P" "$ID" refused <"$DIR/refused"
	same "$status$output" 0
	same "$(expiry)" "$T"
	stop
}

# --- renew ---

@test "echo renews, and is done when it returns" {
	new_pin
	renewed 2040-01-01T00:00:00Z bash -c "echo 2040-01-01T00:00:00Z >'$F'"
	renewed 2041-01-01T00:00:00Z bash -c "echo 2041-01-01T00:00:00Z >>'$F'"
	renewed 2060-01-01T00:00:00Z sh -c "/bin/echo 2060-01-01T00:00:00Z >'$F'"
	has "$(status_line)" "OK renew pins/$ID: "
	# Their first flush comes before the write: it is no event.
	not grep -v -e 'OK' "$MNT/.pinfs/log"
	stop
}

@test "the record's own text with a later expires_at, as editors write it" {
	new_pin "$T,label=keep"
	sed "s/2031/2033/" "$F" >"$DIR/edited"
	renewed 2033-01-01T00:00:00Z cp "$DIR/edited" "$F"
	sed 's/keep/other/' "$F" >"$DIR/edited"
	refused EINVAL 'label' cp "$DIR/edited" "$F"
	same "$(ls -A "$P")" "$ID"
	same "$(field "$F" label)" keep
	stop
}

@test "already long enough: success, and no commit" {
	new_pin
	for change in "echo $T >$F" "echo 2030-01-01T00:00:00Z >$F" "echo +1m >$F" "touch -d 2020-01-01 $F" "touch -r /etc/hostname $F" \
		"echo @0 >$F"; do
		unchanged bash -c "$change"
		same "$status" 0
		same "$(expiry)" "$T"
	done
	stop
}

@test "one value in many writes: nothing is committed by halves" {
	new_pin
	refused EINVAL '' bash -c "set -o pipefail; echo $LATER | dd of='$F' bs=1 status=none"
	refused EINVAL '' bash -c "set -o pipefail; echo $LATER | dd of='$F' bs=1 oflag=append conv=notrunc status=none"
	refused EINVAL '' dd of="$F" bs=512 seek=8 status=none <<<"$LATER"
	refused EINVAL '' bash -c "printf 'a\nb\n' >'$F'"
	refused EINVAL '' bash -c "printf '\n$LATER\n' >'$F'"
	refused EINVAL '' bash -c "echo >'$F'"
	same "$(expiry)" "$T"
	# A shell sends the lines of this one by one. The value is complete in the first.
	renewed "$LATER" bash -c "printf '$LATER\n\n\n' >'$F'"
	# Two values are not one request: the second is refused, and the status says so.
	run bash -c "printf '2033-01-01T00:00:00Z\n2034-01-01T00:00:00Z\n' >'$F'"
	same "$status" 1
	same "$(expiry)" 2033-01-01T00:00:00Z
	stop
}

@test "no value, no change: truncation, bare touch, sync" {
	new_pin
	local change
	for change in ": >$F" "truncate -s 0 $F" "truncate -s 5 $F" "touch $F" "touch -a -d 2001-01-01 $F" "cat /dev/null >$F" "sync $F" \
		"dd of=$F if=/dev/null conv=fsync status=none" "exec 5>>$F"; do
		unchanged bash -c "$change"
		same "$status" 0
		same "$(expiry)" "$T"
		same "$(stat -c %Y "$F")" "$(date -d "$T" +%s)"
		same "$(stat -c %s "$F")" "$(wc -c <"$F")"
	done
	stop
}

@test "bytes around the value: only newlines at its end are stripped, the rest is shown" {
	new_pin
	one_write() {
		printf %b "$1" >"$DIR/v"
		refused EINVAL "$2" cp "$DIR/v" "$F"
	}
	one_write "$LATER\\r\\n" '\\r'
	one_write "\\xef\\xbb\\xbf$LATER\\n" '\\xef'
	one_write "$LATER\\0junk\\n" '\\x00'
	one_write '\0' '\\x00'
	one_write "  $LATER  \\n" ''
	one_write "\\n$LATER\\n" '\\n'
	one_write "$LATER\\xc2\\xa0\\n" '\\xc2'
	one_write "$LATER x\\n" ''
	one_write "$LATER\\n$LATER\\n" ''
	iconv -f utf-8 -t utf-16 <<<"$LATER" >"$DIR/v"
	refused EINVAL '' cp "$DIR/v" "$F"
	head -c 70000 /dev/zero | tr '\0' '\n' >"$DIR/v"
	refused EINVAL '' cp "$DIR/v" "$F"
	head -c 1000000 /dev/urandom >"$DIR/v"
	refused EINVAL '' cp "$DIR/v" "$F"
	same "$(expiry)" "$T"
	printf '%s\n\n\n' "$LATER" >"$DIR/v"
	renewed "$LATER" cp "$DIR/v" "$F"
	stop
}

@test "touch: a new name registers nothing; times that are none" {
	refused ENOENT '' touch "$P/newname"
	refused ENOENT '' touch "$P/$(uuid)"
	refused EPERM '' touch "$MNT/newname"
	new_pin
	refused EINVAL '' python3 -c 'import os, sys; os.utime(sys.argv[1], (0, 253402300800))' "$F"
	stop
}

# --- release ---

@test "rm releases, committed when it returns; again it is not there" {
	new_pin
	local before
	before=$(head_version)
	rm "$F"
	same "$(head_version)" $((before + 1))
	same "$(ls -A "$P")" ''
	has "$(status_line)" "OK release pins/$ID: "
	unchanged rm "$F"
	same "$status" 1
	has "$output" 'No such file'
	unchanged bash -c "echo $LATER >$F"
	same "$status" 1
	has "$(status_line)" 'ENOENT'
	stop
}

@test "rm of a pin that is open: released at once; its reader reads on, its writer fails" {
	new_pin
	local text
	text=$(cat "$F")
	exec 5<"$F"
	exec 6>"$F"
	rm "$F"
	same "$(ls -A "$P")" ''
	not pinctl -d "$TABLE" confirm "$ID"
	same "$(cat <&5)" "$text"
	same "$(stat -L -c %h "/proc/$$/fd/5")" 0
	refused ENOENT '' bash -c "echo $LATER >&6"
	exec 5<&- 6>&-
	same "$(ls -A "$P")" ''
	stop
}

# --- everything else ---

@test "rename, link, symlink, mknod, create: refused by name, nothing left" {
	new_pin
	refused EPERM 'pins/' mv "$F" "$P/$(uuid)"
	refused EPERM 'pins/' mv -T "$F" "$MNT/x"
	refused EPERM 'pins' mv "$P" "$MNT/other"
	refused EPERM '' ln "$F" "$P/link"
	refused EPERM '' ln -s "$F" "$P/link"
	refused EPERM '' mkfifo "$P/fifo"
	refused EPERM '' mkdir "$MNT/dir"
	refused EPERM '' mkdir "$MNT/.pinfs/x"
	refused EPERM '' rmdir "$P"
	refused EPERM '' rm "$MNT/head"
	refused EPERM '' bash -c "echo x >$MNT/new"
	refused ENOENT 'mkdir' bash -c "echo $T >$P/$(uuid)"
	refused EPERM '' bash -c "echo x >$MNT/head"
	refused EPERM '' truncate -s 0 "$MNT/head"
	refused EPERM '' touch -d "$LATER" "$MNT/head"
	same "$(ls -A "$P" "$MNT")" "$MNT:
branches
head
pins
retention

$P:
$ID"
	python3 - "$F" "$P/x" <<-'END'
		import errno, os, sys
		for call in os.rename, os.link, os.symlink:
		    try:
		        call(*sys.argv[1:])
		    except OSError as e:
		        assert e.errno == errno.EPERM, (call, e)
		    else:
		        sys.exit("it was done")
	END
	stop
}

@test "modes and owners: what is there already, or EPERM" {
	new_pin
	chmod 644 "$F"
	chown "$(id -u):$(id -g)" "$F"
	refused EPERM 'mode=' chmod 600 "$F"
	[[ $(id -u) != 0 ]] || refused EPERM 'uid=' chown 1234 "$F"
	refused EPERM 'mode=' chmod 700 "$P"
	stop
}

@test "last_status is one line, the log one line an act; strange names are escaped" {
	run mkdir "$P/"$'a\nb\t\e[31m'
	same "$(status_line | wc -l)" 1
	has "$(status_line)" 'pins/a\\nb\\t\\x1b\[31m'
	new_pin
	same "$(wc -l <"$MNT/.pinfs/log")" 3
	same "$(awk -F'\t' 'NF != 6' "$MNT/.pinfs/log")" ''
	local i
	for i in {1..1010}; do
		mkdir "$P/x$i" 2>/dev/null || :
	done
	same "$(wc -l <"$MNT/.pinfs/log")" 1000
	has "$(tail -n 1 "$MNT/.pinfs/log")" 'pins/x1010'
	same "$(stat -c %s "$MNT/.pinfs/log")" "$(wc -c <"$MNT/.pinfs/log")"
	stop
}
