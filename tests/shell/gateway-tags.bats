#!/usr/bin/env bats
# A gateway with -o tags: what pins keep is there as tags, which nobody stored and nobody can remove.
# shellcheck disable=SC2154,SC2030,SC2031,SC2034,SC2012 # of run; each test is a subshell; MNT is of lib; names are Lance's, without spaces

load lib
load gateway_lib

# shown: the names of tags that are there, but for those that guard a pin.
shown() {
	find "$TABLE/_refs/tags" -name '*.json' ! -name "pinfs-$ID.json" -printf '%f\n' | sort
}

# file_of BRANCH VERSION SIZE MADE: the tag as Lance 14 prints one.
file_of() {
	printf '{\n  "branch": %s,\n  "version": %s,\n  "createdAt": "%s",\n  "updatedAt": "%s",\n  "manifestSize": %s,\n  "metadata": {}\n}' \
		"$1" "$2" "$4" "$4" "$3"
}

# made FILE: when it was, as in a tag.
made() {
	date -u -d "$(stat -c %y "$1")" +%Y-%m-%dT%H:%M:%S.%NZ
}

@test "every version that a pin keeps has a tag as Lance writes it, and others have none" {
	open_gateway -o tags
	same "$(shown)" "$(printf '%s\n' pinfs-6.json pinfs-7.json)"
	local manifest=$TABLE/_versions/$V6
	same "$(cat "$TABLE/_refs/tags/pinfs-6.json")" "$(file_of null 6 "$(stat -c %s "$manifest")" "$(made "$manifest")")"
	same "$(stat -c '%s %F %a %U' "$TABLE/_refs/tags/pinfs-6.json")" \
		"$(wc -c <"$TABLE/_refs/tags/pinfs-6.json") regular file 444 $(stat -c %U "$TABLE")"
	same "$(stat -c %y "$TABLE/_refs/tags/pinfs-6.json")" "$(stat -c %y "$manifest")"
	for name in pinfs-5 pinfs-8 pinfs-06 pinfs- pinfs--6 pinfs-main-6 pinfs-other-6 pinfs-18446744073709551616; do
		same "$(call stat "$TABLE/_refs/tags/$name.json")" ENOENT
	done
	same "$(call stat "$TABLE/_refs/pinfs-6.json")" ENOENT
	# What a client publishes is kept from then on, what nobody pins is not.
	stage "$V8#1"
	call link "$TABLE/_versions/$V8#1" "$TABLE/_versions/$V8"
	same "$(shown)" "$(printf '%s\n' pinfs-6.json pinfs-7.json pinfs-8.json)"
	exec 7<"$TABLE/_refs/tags/pinfs-8.json"
	rm "$P/$ID"
	same "$(ls "$TABLE/_refs/tags")" ''
	same "$(call stat "$TABLE/_refs/tags/pinfs-8.json")" ENOENT
	# Whoever has it open reads on.
	has "$(cat <&7)" '"version": 8,'
	exec 7<&-
	stop
}

@test "without -o tags there are none, and with it nothing is stored" {
	open_gateway
	same "$(shown)" ''
	same "$(call stat "$TABLE/_refs/tags/pinfs-6.json")" ENOENT
	stop
	(cd "$TABLE" && find . | sort) >"$DIR/before"
	open_gateway -o tags
	has "$(shown)" pinfs-6.json
	cat "$TABLE/_refs/tags"/* >/dev/null
	stop
	(cd "$TABLE" && find . | sort) | diff - "$DIR/before"
}

@test "they can be neither removed nor moved nor replaced nor changed" {
	local tags=$TABLE/_refs/tags
	open_gateway -o tags
	echo '{}' >"$tags/x.json#1"
	no EBUSY 'pinfs-6.json is shown because a pin keeps' unlink "$tags/pinfs-6.json"
	no EBUSY 'is shown because' rename "$tags/pinfs-6.json" "$tags/mine.json"
	no EBUSY 'is shown because' rename "$tags/x.json#1" "$tags/pinfs-6.json"
	no EBUSY 'is shown because' trunc_open "$tags/pinfs-6.json"
	no EBUSY 'is shown because' write_open "$tags/pinfs-6.json"
	no EBUSY 'is shown because' append_open "$tags/pinfs-6.json"
	no EBUSY 'is shown because' truncate "$tags/pinfs-6.json" 0o0
	no EBUSY 'is shown because' chmod "$tags/pinfs-6.json" 0o600
	no EBUSY 'is shown because' utime "$tags/pinfs-6.json"
	no EBUSY 'is shown because' link "$tags/pinfs-6.json" "$tags/mine.json"
	no EBUSY 'is shown here' rmdir "$tags"
	same "$(call link "$tags/x.json#1" "$tags/pinfs-6.json")" EEXIST
	same "$(call create "$tags/pinfs-6.json")" EEXIST
	same "$(call mkdir "$tags/pinfs-6.json")" EEXIST
	rm "$tags/x.json#1"
	same "$(shown)" "$(printf '%s\n' pinfs-6.json pinfs-7.json)"
	# Other tags come and go as they do.
	echo '{}' >"$tags/pinfs-5.json#1"
	same "$(call link "$tags/pinfs-5.json#1" "$tags/pinfs-5.json")" None
	rm "$tags/pinfs-5.json#1"
	same "$(cat "$tags/pinfs-5.json")" '{}'
	mv "$tags/pinfs-5.json" "$tags/mine.json"
	rm "$tags/mine.json"
	stop
}

@test "a tag of the same name that is stored is the one that is seen, once" {
	local tags=$TABLE/_refs/tags
	echo '{"version":1,"manifestSize":2}' >"$tags/pinfs-6.json"
	cp "$tags/pinfs-6.json" "$DIR/stored"
	open_gateway -o tags
	same "$(shown)" "$(printf '%s\n' pinfs-6.json pinfs-7.json)"
	cmp "$tags/pinfs-6.json" "$DIR/stored"
	rm "$tags/pinfs-6.json"
	has "$(cat "$tags/pinfs-6.json")" '"version": 6,'
	stop
	# One that comes beside, while ours is known.
	open_gateway -o tags
	has "$(cat "$tags/pinfs-6.json")" '"version": 6,'
	cp "$DIR/stored" "$TABLE/.pinfs/table/_refs/tags/pinfs-6.json"
	cmp "$tags/pinfs-6.json" "$DIR/stored"
	stop
}

@test "inode numbers are no other's, the same in every listing" {
	open_gateway -o tags
	pinctl -d "$TABLE" branch create side >/dev/null
	pinctl -d "$TABLE" -b side register "$T" >/dev/null 2>&1
	find "$TABLE" "$TABLE/.pinfs" -printf '%i %p\n' | sort -u >"$DIR/numbers"
	cut -d ' ' -f 1 "$DIR/numbers" | uniq -d >"$DIR/twice"
	grep -E '/tags/pinfs-(side-)?[0-9]\.json$' "$DIR/numbers" >"$DIR/tags"
	same "$(wc -l <"$DIR/tags")" 4
	not grep -qwFf "$DIR/twice" "$DIR/tags"
	# By the directory alone, and by each file.
	same "$(ls -i "$TABLE/_refs/tags" | sed 's/^ *//')" "$(stat -c '%i %n' "$TABLE/_refs/tags"/* | sed "s|$TABLE/_refs/tags/||")"
	has "$(shown)" pinfs-side-
	stop
}

@test "of a branch: the tag names it, and its name has no slash" {
	local tags=$TABLE/_refs/tags version
	pinctl -d "$TABLE" branch create feat/my_x >/dev/null
	pinctl -d "$TABLE" branch create feat_/my-x >/dev/null
	pinctl -d "$TABLE" branch create idle >/dev/null
	pinctl -d "$TABLE" -b feat/my_x register "$T" >/dev/null 2>&1
	open_gateway -o tags
	# The pin is registered on the branch's first version.
	version=$(pinctl -d "$TABLE" -b feat/my_x status | sed -n 's/^head *version \([0-9]*\),.*/\1/p')
	has "$(shown)" "pinfs-feat_-my__x-$version.json"
	has "$(shown)" "pinfs-feat_-my__x-$((version - 1)).json"
	same "$(shown | grep -c feat)" 2
	not grep -q idle <(shown)
	has "$(cat "$tags/pinfs-feat_-my__x-$version.json")" "\"branch\": \"feat/my_x\",.*\"version\": $version,"
	for name in "feat__-my-x-$version" "feat_my__x-$version" "feat_-my_x-$version" "idle-$version" "-$version" "none-1"; do
		same "$(call stat "$tags/pinfs-$name.json")" ENOENT
	done
	no EBUSY 'is shown because' unlink "$tags/pinfs-feat_-my__x-$version.json"
	stop
}

@test "a table without a directory of tags has one, its owner's, and read-only is left alone" {
	rm -r "$TABLE/_refs"
	open_gateway -o tags,ro
	same "$(call stat "$TABLE/_refs/tags")" ENOENT
	stop
	open_gateway -o tags
	same "$(shown)" "$(printf '%s\n' pinfs-6.json pinfs-7.json)"
	same "$(stat -c '%U %a' "$TABLE/_refs/tags")" "$(stat -c '%U %a' "$TABLE")"
	stop
	same "$(ls -A "$TABLE/_refs/tags")" ''
}

@test "who may read the table may read them, and no more" {
	local tag
	in_the_open
	chmod -R go=rX "$TABLE"
	open_gateway -o tags,allow_other
	tag=$TABLE/_refs/tags/pinfs-6.json
	same "$(as_nobody cat "$tag")" "$(cat "$tag")"
	not as_nobody test -w "$tag"
	stop
}

@test "more than a thousand versions are not shown, and the log says so once" {
	TABLE=$DIR/many.lance
	"$PINFS_BUILD/tests/bench/gentable" 1K 1 1000 "$TABLE"
	open_gateway -o tags
	same "$(ls "$TABLE/_refs/tags" | wc -l)" 1000
	has "$(cat "$TABLE/_refs/tags/pinfs-1.json")" '"version": 1,'
	not grep -q 'as tags' "$TABLE/.pinfs/log"
	stop
	TABLE=$DIR/more.lance
	"$PINFS_BUILD/tests/bench/gentable" 1K 1 1001 "$TABLE"
	open_gateway -o tags
	same "$(ls "$TABLE/_refs/tags")" ''
	same "$(call stat "$TABLE/_refs/tags/pinfs-1.json")" ENOENT
	ls "$TABLE/_refs/tags"
	same "$(grep -c 'branch main keep 1001 versions, and more than 1000 are not shown as tags' "$TABLE/.pinfs/log")" 1
	stop
}

@test "only a gateway has them: elsewhere the option is refused" {
	run "$PINFS_BIN" -f -o tags "$TABLE" "$DIR/mnt"
	same "$status: $output" '2: pinfs: -o tags is of a gateway, which shows the table: mount over the table'\''s own directory, or leave it out'
	has "$("$PINFS_BIN" --help)" '-o tags '
}
