#!/usr/bin/env bats
# What is kept and why, what it costs, and what would go: snapshots --reasons, usage, fri, why, what-if, check, status (design.md sections 3 and 6).
# shellcheck disable=SC2154 # stderr, output, lines: set by run
# shellcheck disable=SC2030,SC2031,SC2034 # each test is a process of its own, and its variables are read by the library

load pinctl_lib

# use_tags: the fixture with three tags, versions 1 to 5; enabled by 6; $id1 on 6, $id2 on 7. The head is 8.
use_tags() {
	use tags
	{
		pinctl enable --apply
		pinctl register 2031-01-01T00:00:00Z --id "$id1" --label first
		pinctl register 2032-01-01T00:00:00Z --id "$id2"
	} >/dev/null 2>&1
}

columns() {
	cut -f "$1" <<<"$output"
}

# size FILE...: of files of the table, together.
size() {
	(cd "$PINFS_DATASET" && stat -c %s "$@") | awk '{ n += $1 } END { print n + 0 }'
}

# version_size VERSION...: of their manifests and transactions.
version_size() {
	local v
	for v; do
		stat -c %s "$(manifest_of "$v")" "$PINFS_DATASET/_transactions/$((v - 1))"-*.txn
	done | awk '{ n += $1 } END { print n }'
}

# named VERSION...: the files that Lance says these versions of the fixture need, manifests and transactions apart.
named() {
	local v
	for v; do
		expected ".versions[] | select(.version == $v) | .files[]"
	done | grep -v ^_transactions/ | sort -u
}

kept_versions() {
	pinctl snapshots --reasons | awk -F'\t' '$4 != "-" { print $1 }'
}

# --- snapshots --reasons ----------------------------------------------------------------------------------------------

@test "snapshots --reasons: pins by their source, head, tags, or nothing" {
	use_tags
	got 0 snapshots --reasons
	[ "$(columns 1,3-)" = "$(printf '%s\n' \
		$'1\tOverwrite\ttag:first' \
		$'2\tAppend\t-' \
		$'3\tAppend\ttag:release-2.0' \
		$'4\tAppend\ttag:moved' \
		$'5\tAppend\t-' \
		$'6\tUpdateConfig (enable)\tpin:'"$id1" \
		$'7\tUpdateConfig (register)\tpin:'"$id1,pin:$id2" \
		$'8\tUpdateConfig (register)\tpin:'"$id1,pin:$id2,head")" ]
	[ -z "$stderr" ]
	# Times are those of the plain list.
	[ "$(columns 1-3)" = "$(pinctl snapshots)" ]
	got 0 snapshots --reasons --since 6 --limit 2
	[ "$(columns 1)" = $'7\n8' ]
}

@test "snapshots --reasons --json: what the mount has in retention/snapshots" {
	use_tags
	got 0 snapshots --reasons --json --since 4
	[ "$(jq -c '.[] | [.version, .head, .operation, .pin_operation, .readable, .reasons]' <<<"$output")" = "$(
		cat <<-END
			[4,8,"Append",null,true,["tag:moved"]]
			[5,8,"Append",null,true,[]]
			[6,8,"UpdateConfig","enable",true,["pin:$id1"]]
			[7,8,"UpdateConfig","register",true,["pin:$id1","pin:$id2"]]
			[8,8,"UpdateConfig","register",true,["pin:$id1","pin:$id2","head"]]
		END
	)" ]
	local file
	while read -r file; do
		[ -f "$PINFS_DATASET/$file" ]
	done < <(jq -r '.[].manifest' <<<"$output")
	# shellcheck disable=SC2046
	[ "$(jq '[.[].manifest_bytes] | add' <<<"$output")" = "$(size $(jq -r '.[].manifest' <<<"$output"))" ]
	[ "$(jq -r '.[0].transaction' <<<"$output")" = "$(expected '.versions[3].transaction.uuid')" ]
}

# --- usage ------------------------------------------------------------------------------------------------------------

@test "usage: bytes that only a pin holds and bytes that it shares, the dearest first" {
	use_tags
	local alone shared
	# Of version 6 only pin one has manifest and transaction; all else is of the head too, or of both.
	alone=$(version_size 6)
	# shellcheck disable=SC2046
	shared=$(($(version_size 7 8) + $(size $(named 5))))
	got 0 usage --json
	[ "$(jq -c '.[] | [.id, .label, .source_version, .versions, .exclusive_bytes, .shared_bytes]' <<<"$output")" = "$(
		cat <<-END
			["$id1","first",6,3,$alone,$shared]
			["$id2","",7,2,0,$shared]
		END
	)" ]
	got 0 usage
	[[ ${lines[0]} =~ ^"$id1  $alone  $shared  "[^\ ]+"  3  "[0-9]+s"  first"$ ]]
	[[ ${lines[1]} =~ ^"$id2  0 "\ *" $shared  "[^\ ]+"  2  "[0-9]+s$ ]]
}

@test "usage: growth is what the head does without, by age" {
	use plain
	pinctl enable --apply >/dev/null 2>&1
	at '2030-01-01 00:00:00' pinctl register 2031-01-01T00:00:00Z --id "$id1" >/dev/null 2>&1
	at '2030-01-01 02:00:00' pinctl register 2031-01-01T00:00:00Z --id "$id2" >/dev/null 2>&1
	run -0 --separate-stderr at '2030-01-01 10:00:00' pinctl usage --json
	local old
	old=$(jq '.[0].old_bytes' <<<"$output")
	# The source and the version above it, with their transactions.
	local source
	source=$(($(head_version) - 2))
	[ "$old" = "$(version_size "$source" $((source + 1)))" ]
	local age
	age=$(jq '.[0].age_seconds' <<<"$output")
	((age >= 36000 && age < 36060))
	[ "$(jq '.[0].bytes_per_hour' <<<"$output")" -eq $((old * 3600 / age)) ]
	run -0 --separate-stderr at '2030-01-01 10:00:00' pinctl usage
	[[ ${lines[0]} == *"  $((old * 3600 / age))/h  3  10h" ]]
}

@test "usage of a branch, and of none" {
	use plain
	got 0 usage
	[ -z "$output" ]
	got 0 usage --json
	[ "$output" = "[]" ]
	got 1 -b nowhere usage
	one_sentence
}

# --- fri --------------------------------------------------------------------------------------------------------------

use_fri() {
	use fri
	pinctl enable --apply >/dev/null 2>&1
}

# Version 0: stamped; the two compactions are older than any pin that can be made now, and the index is older than they are.
@test "fri: records in stored order, and who needs them" {
	use_fri
	pinctl register 2031-01-01T00:00:00Z --id "$id1" >/dev/null 2>&1
	got 0 fri
	[ "$output" = $'0\tversion 7\t0,1>4\tindex:id_idx\n1\tversion 10\t2,3,4>6\tindex:id_idx' ]
	got 0 fri 1
	[ "$output" = "$(
		cat <<-'END'
			record     1 of 2: version, stamp 10
			moved      2 (10 rows), 3 (10 rows), 4 (7 rows) > 6 (27 rows)
			index      id_idx
		END
	)" ]
	got 0 fri --json
	[ "$(jq -c '.[] | [.record, .kind, .stamp, .needed_by]' <<<"$output")" = "$(
		cat <<-'END'
			[0,"version",7,{"pins":[],"indices":["id_idx"],"unknown":null}]
			[1,"version",10,{"pins":[],"indices":["id_idx"],"unknown":null}]
		END
	)" ]
	[ "$(jq -c '.[0].groups' <<<"$output")" = '[{"from":[{"fragment":0,"physical_rows":4,"deleted_rows":1},{"fragment":1,"physical_rows":4,"deleted_rows":0}],"to":[{"fragment":4,"physical_rows":7,"deleted_rows":0}],"mapping":"version 0","map":null,"map_bytes":null}]' ]
	got 0 fri 0 --json
	[ "$(jq -c '[.record, .head]' <<<"$output")" = "[0,$(head_version)]" ]
	got 1 fri 2
	[ "$stderr" = "pinctl: there is no record 2: the history has 2" ]
	got 2 fri x
	one_sentence
}

@test "fri of a table without moved rows" {
	use plain
	got 0 fri
	[ -z "$output" ]
	[[ $stderr == "pinctl: _versions/"*".manifest has no fragment reuse index" ]]
	got 0 fri --json
	[ "$output" = "[]" ]
	got 1 fri 0
}

# --- why --------------------------------------------------------------------------------------------------------------

@test "why FILE: every reason, and the versions that name it" {
	use_tags
	local file
	# Of version 1, and of all since: nothing was deleted.
	file=$(named 1 | grep '^data/')
	got 0 why "$file"
	[ "$output" = "$(printf '%s\n' \
		"pin:$id1"$'\t'"its source is version 6; named by versions 6 to 8" \
		"pin:$id2"$'\t'"its source is version 7; named by versions 7 to 8" \
		$'head\tnamed by version 8' \
		$'tag:first\tnamed by version 1' \
		$'tag:moved\tnamed by version 4' \
		$'tag:release-2.0\tnamed by version 3')" ]
	[ -z "$stderr" ]
	# The manifest of a version that nothing keeps.
	file=_versions/$(basename "$(manifest_of 2)")
	got 1 why "$file"
	[ -z "$output" ]
	[ "$stderr" = "pinctl: nothing keeps file $file" ]
	got 1 why data/nobody.lance
	[ "$stderr" = "pinctl: nothing keeps file data/nobody.lance: no version names it" ]
	got 2 why
}

# cases-open B17
@test "why FILE: however the file and the table are spelled" {
	use_tags
	local file answer spelled link=$BATS_TEST_TMPDIR/link
	ln -s "$PINFS_DATASET" "$link"
	file=$(named 1 | grep '^data/')
	answer=$(pinctl why "$file")
	for spelled in "./$file" "${file/\//\/\/}" "data/./${file#data/}" "$PINFS_DATASET/$file" "$PINFS_DATASET//$file" "$link/$file" \
		"file://$PINFS_DATASET/$file"; do
		got 0 why "$spelled"
		[ "$output" = "$answer" ]
	done
	cd "$BATS_TEST_TMPDIR"
	for spelled in ./tags.lance tags.lance/ "$BATS_TEST_TMPDIR//x/../tags.lance" "$link" "file://$PINFS_DATASET"; do
		mkdir -p x
		got 0 -d "$spelled" why "$file"
		[ "$output" = "$answer" ]
	done
}

@test "why FILE: in the folder of an index" {
	use btree
	local newest
	newest=$(named 6 | grep '^_indices/' | head -n 1)
	got 0 why "$newest"
	[ "$output" = $'head\tnamed by version 6' ]
	got 0 why "${newest%/*}/"
	[ "$output" = $'head\tnamed by version 6' ]
}

@test "why FILE: on a branch, and of one" {
	use plain
	local file
	"$BATS_TEST_DIRNAME/make-branch" "$PINFS_DATASET" dev
	got 0 -b dev snapshots --reasons
	[ "$(columns 4)" = head ]
	file=$(cd "$PINFS_DATASET" && ls tree/dev/_versions/*.manifest)
	got 0 why "$file"
	[[ $output == $'head\tnamed by version '* ]]
	got 0 -b dev why "$file"
	got 1 -b main why "$file"
}

@test "why VERSION" {
	use_tags
	got 0 why 6
	[ "$output" = "pin:$id1"$'\tit is the source' ]
	got 0 why 7
	[ "$output" = "pin:$id1"$'\tin the window from its source, version 6\n'"pin:$id2"$'\tit is the source' ]
	got 0 why 4
	[ "$output" = $'tag:moved\tthe tag names it' ]
	got 1 why 2
	[ -z "$output" ]
	[ "$stderr" = "pinctl: nothing keeps version 2" ]
	got 1 why 9
	[ "$stderr" = "pinctl: there is no version 9 on main" ]
	got 0 why 8 --json
	[ "$(jq -c '[.kind, .name, .kept, .unknown, [.reasons[].reason]]' <<<"$output")" = \
		"[\"version\",\"8\",true,null,[\"pin:$id1\",\"pin:$id2\",\"head\"]]" ]
	got 1 why 2 --json
	[ "$(jq -c . <<<"$output")" = '{"kind":"version","name":"2","kept":false,"reasons":[],"unknown":null}' ]
}

@test "why fri/RECORD" {
	use_fri
	got 0 why fri/0
	[ "$output" = $'index:id_idx\tit finds its rows through it' ]
	got 1 why fri/2
	[ "$stderr" = "pinctl: there is no record 2: the history has 2" ]
}

# cases-open B10: nothing guesses "no tags".
@test "why: what cannot be determined is status 3, and what is known is kept is kept" {
	use_tags
	printf '{' >"$PINFS_DATASET/_refs/tags/moved.json"
	got 3 why 4
	[ -z "$output" ]
	[[ $stderr == "pinctl: whether version 4 is kept cannot be determined: \"_refs/tags/moved.json\""* ]]
	got 3 why 4 --json
	[ "$(jq -c '[.kept, .reasons]' <<<"$output")" = '[null,[]]' ]
	got 0 why 6
	[[ $stderr == "pinctl: there may be more reasons: \"_refs/tags/moved.json\""* ]]
	got 3 snapshots --reasons
	[ "$(columns 4 | tail -n 1)" = "pin:$id1,pin:$id2,head" ]
	got 3 what-if release "$id1"
	[[ $output == *"snapshots  1 of "* ]]
	# Pins can be let go of all the same.
	got 0 release "$id1"
}

@test "why: a damaged manifest makes files uncertain, not versions" {
	use_tags
	truncate -s 100 "$(manifest_of 2)"
	got 1 why 5
	got 3 why "_versions/$(basename "$(manifest_of 5)")"
	got 0 why "_versions/$(basename "$(manifest_of 6)")"
}

# --- what-if ----------------------------------------------------------------------------------------------------------

@test "what-if release: the window, and what would go" {
	use_tags
	local bytes all
	bytes=$(version_size 6)
	all=$(pinctl usage --json | jq '.[0] | .exclusive_bytes + .shared_bytes')
	all=$((all + $(version_size 1 3 4)))
	got 0 what-if release "$id1"
	[ "$output" = "$(
		cat <<-END
			window     version 6 to 8
			then       version 7 to 8
			snapshots  1 of 6 freed: 6
			files      2 of 17 freed
			bytes      $bytes of $all freed
			records    0 of 0 freed
		END
	)" ]
	got 0 what-if release "$id1" "$id2"
	[[ ${lines[1]} == "then       none" ]]
	[[ ${lines[2]} == "snapshots  2 of 6 freed: 6 to 7" ]]
	got 0 what-if release "$id1" --json
	[ "$(jq -c . <<<"$output")" = '{"head":8,"oldest_source":6,"oldest_source_then":7,"snapshots_freed":[6],"files_freed":2,"bytes_freed":'"$bytes"',"fri_records_freed":[],"fri_unknown":null}' ]
	got 1 what-if release "$nobody"
	[ "$stderr" = "pinctl: there is no pin $nobody on main" ]
	got 2 what-if release nope
	got 2 what-if release
	got 2 what-if
}

@test "what-if expire: the pins whose time has passed" {
	use_tags
	got 0 what-if expire
	[[ ${lines[2]} == "snapshots  0 of 6 freed" ]]
	run -0 --separate-stderr at '2031-06-01 00:00:00' pinctl what-if expire
	[[ ${lines[1]} == "then       version 7 to 8" ]]
	run -0 --separate-stderr at '2033-01-01 00:00:00' pinctl what-if expire --json
	[ "$(jq -c '[.oldest_source_then, .snapshots_freed]' <<<"$output")" = '[null,[6,7]]' ]
}

@test "what-if equals doing it on a copy; releasing never keeps more" {
	use_tags
	local before after freed table=$PINFS_DATASET words tag
	for words in "release $id1" "release $id2" "release $id1 $id2" "untag moved" "untag first release-2.0"; do
		export PINFS_DATASET=$table
		before=$(kept_versions)
		# shellcheck disable=SC2086
		freed=$(pinctl what-if $words --json)
		export PINFS_DATASET=$BATS_TEST_TMPDIR/copy.lance
		rm -rf "$PINFS_DATASET"
		cp -a "$table" "$PINFS_DATASET"
		# shellcheck disable=SC2086
		case $words in
		release*) pinctl $words 2>/dev/null ;;
		untag*) for tag in ${words#untag }; do rm "$PINFS_DATASET/_refs/tags/$tag.json"; done ;;
		esac
		after=$(kept_versions)
		# All that is kept now was kept before, or is the commit of the release.
		[ "$(comm -13 <(sort <<<"$before") <(sort <<<"$after" | grep -vx "$(head_version)"))" = "" ]
		# The head of before is free as soon as it is not the head any more.
		[ "$(comm -23 <(sort <<<"$before") <(sort <<<"$after") | grep -vx 8 | sort -n | jq -sc .)" = \
			"$(jq -c .snapshots_freed <<<"$freed")" ]
	done
}

@test "what-if untag: what a tag alone keeps" {
	use_tags
	got 0 what-if untag moved --json
	[ "$(jq -c '[.snapshots_freed, .files_freed, .bytes_freed]' <<<"$output")" = \
		"[[4],2,$(version_size 4)]" ]
	got 1 what-if untag nothing
	[ "$stderr" = 'pinctl: there is no tag "nothing" on main' ]
}

# --- check and status -------------------------------------------------------------------------------------------------

@test "check: everything that speaks against destructive work, with the pins, on all lines" {
	use_tags
	got 0 check
	[[ $stderr == *", 0 against destructive work" ]]
	local data manifest
	# cases-open B23
	local first="$id1 \"first\" (expires 2031-01-01T00:00:00Z)" second="$id2 (expires 2032-01-01T00:00:00Z)"
	data=$(named 1 | grep '^data/')
	rm "$PINFS_DATASET/$data"
	truncate -s -1 "$PINFS_DATASET/$(named 3 | grep '^data/' | grep -v "$data" | head -n 1)"
	rm "$(manifest_of 7)"
	got 3 check
	[ "$(grep -c '^window' <<<"$output")" -eq 4 ]
	grep -Fxq $'window\tmain\t6\t'"$data"$'\t'"$data is missing; it is needed by pins $first, $second" <<<"$output"
	grep -Eq $'^window\tmain\t6\tdata/.*: expected [0-9]+ bytes, found [0-9]+; it is needed by pins '"$id1 .*, $id2 .*\$" <<<"$output"
	grep -Fxq $'window\tmain\t7\t-\tit is missing, the source; it is needed by pin '"$second" <<<"$output"
	grep -Fxq $'window\tmain\t7\t-\tit is missing; it is needed by pins '"$first, $second" <<<"$output"
	got 3 check --json
	[ "$(jq -c '[.window[] | [.version, (.pins | length)]] | sort' <<<"$output")" = '[[6,2],[6,2],[7,1],[7,2]]' ]
	# Releasing stays possible, and then nothing is in the way.
	got 0 release "$id1" "$id2"
	run --separate-stderr pinctl check
	[ "$(grep -c '^window' <<<"$output")" -eq 0 ]
}

@test "check: windows of branches too" {
	use plain
	pinctl enable --apply >/dev/null 2>&1
	"$BATS_TEST_DIRNAME/make-branch" "$PINFS_DATASET" dev
	pinctl -b dev register 2031-01-01T00:00:00Z --id "$id2" >/dev/null 2>&1
	got 3 check
	# Its files are taken to be its own, and are not there.
	grep -Eq $'^window\tdev\t[0-9]+\ttree/dev/data/[^\t]*\t.* is missing; it is needed by pin '"$id2 (.*)\$" <<<"$output"
	[ "$(grep -c $'^window\tmain' <<<"$output")" -eq 0 ]
}

# Any one file: of each class, removed, cut short, by itself.
@test "a file of a window that is removed or cut short is named, with the pin" {
	local fixture name file copy
	for fixture in btree deletions; do
		use "$fixture"
		pinctl enable --apply >/dev/null 2>&1
		pinctl register 2031-01-01T00:00:00Z --id "$id1" >/dev/null 2>&1
		name=$(($(head_version) - 2))
		while read -r file; do
			copy=$BATS_TEST_TMPDIR/aside
			mv "$PINFS_DATASET/$file" "$copy"
			got 3 check
			grep -Eq "^window.*(${file}|${file%/*}).*; it is needed by pin $id1 .*\$" <<<"$output"
			[[ $(pinctl status) == *$'\nblocked    version '*"it is needed by pin $id1"* ]]
			head -c $(($(stat -c %s "$copy") - 1)) "$copy" >"$PINFS_DATASET/$file"
			# No manifest says how long a deletion file is.
			[[ $file != _deletions/* ]] || : >"$PINFS_DATASET/$file"
			got 3 check
			grep -Eq "^window.*(${file}|${file%/*}).*; it is needed by pin $id1 .*\$" <<<"$output"
			mv "$copy" "$PINFS_DATASET/$file"
		done < <(named "$name")
		got 0 check
	done
}

@test "status: whether destructive work is refused, and why" {
	use_tags
	[[ $(pinctl status) == *$'\nblocked    no\n'* ]]
	[ "$(pinctl status --json | jq -c '[.blocked, .blocked_unknown]')" = '[null,null]' ]
	local data
	data=$(named 1 | grep '^data/')
	rm "$PINFS_DATASET/$data"
	local said="version 6: $data is missing; it is needed by pins $id1 \"first\" (expires 2031-01-01T00:00:00Z), $id2 (expires 2032-01-01T00:00:00Z)"
	[[ $(pinctl status) == *$'\nblocked    '"$said"$'\n'* ]]
	[ "$(pinctl status --json | jq -r .blocked)" = "$said" ]
}

@test "a table that cannot be read is told, and nothing is guessed" {
	use_tags
	truncate -s 100 "$(manifest_of 8)"
	local words
	for words in "snapshots --reasons" usage fri "why 6" "what-if release $id1"; do
		# shellcheck disable=SC2086
		got 3 $words
		[ -z "$output" ]
		one_sentence
	done
}

# cases-open E14, E18, E19: what a tag file says is read right, or named as unreadable; nothing is guessed, and nothing breaks.
@test "tag files of strangers: read right, or named, by every command" {
	use_tags
	local text tag=$PINFS_DATASET/_refs/tags/odd.json deep
	while read -r text; do
		printf '%s' "$text" >"$tag"
		got 3 why 2
		[[ $stderr == *_refs/tags/odd.json* ]]
		got 3 snapshots --reasons --json
		[ "$(jq length <<<"$output")" -eq 8 ]
		[[ $(pinctl status --json | jq -r .blocked) == *_refs/tags/odd.json* ]]
		got 3 check
		[[ $output == *$'\nwindow\tmain\t-\t_refs/tags/odd.json\t'* ]]
		got 0 usage
	done <<-'END'
		{"branch":null,"version":18446744073709551616,"manifestSize":1}
		{"branch":null,"version":-1,"manifestSize":1}
		{"branch":null,"version":2.0,"manifestSize":1}
		{"branch":null,"version":"2","manifestSize":1}
		{"branch":null,"version":true,"manifestSize":1}
		{"branch":null,"version":02,"manifestSize":1}
		{"branch":null,"version":2,"version":3,"manifestSize":1}
		{"branch":null,"version":2,"manifestSize":1} {}
		[]
	END
	# Deeper than anybody reads, on the way in or out.
	deep=$(printf '{"a":%.0s' {1..3000})1$(printf '}%.0s' {1..3000})
	printf '{"branch":null,"version":2,"manifestSize":1,"metadata":%s}' "$deep" >"$tag"
	got 3 why 2
	[[ $stderr == *_refs/tags/odd.json* ]]
	got 3 tag ls --json
	got 3 snapshots --reasons --json
	rm "$tag"
	got 1 why 2
}

# use_slow: the fixture of 300 versions, and $slowly: before a command, makes each look at a file take a while. What was looked at is in $trace.
use_slow() {
	command -v strace >/dev/null || skip "no strace"
	use many-versions
	trace=$BATS_TEST_TMPDIR/trace
	rm -f "$trace"
	# The sanitizer looks for leaks as a tracer does, and there can be only one.
	slowly=(env ASAN_OPTIONS=detect_leaks=0 strace -f -qq -o "$trace" -e "trace=openat,statx" -e "inject=openat,statx:delay_enter=3ms")
}

# looked_at CALL: at more manifests than the head's.
looked_at() {
	(($(grep -c "$1(.*_versions/[0-9]*\.manifest" "$trace") > 8))
}

@test "a long look at versions, then at files, is told on a terminal, and only there" {
	use_slow
	local command
	for command in usage "what-if expire" check; do
		run script -qec "${slowly[*]} pinctl $command" /dev/null
		[[ $output == *"reading versions: "*" of 30"* ]]
		[[ $output == *"looking at files: "[1-9]* ]]
		[[ $command != check || $output == *"checking versions: "*" of 30"* ]]
	done
	run --separate-stderr "${slowly[@]}" pinctl usage
	[[ $stderr != *"reading "* && $stderr != *"looking "* ]]
}

@test "a long look ends at once on Ctrl-C, and has changed nothing" {
	local call before command
	use_slow
	before=$(tree)
	for call in openat statx; do
		for command in "snapshots --reasons" usage fri "why 1" "what-if expire" timeline check; do
			rm -f "$trace"
			# These looks alone, and so long that they are not over before somebody has seen that they go on.
			slowly[-1]="inject=$call:delay_enter=10ms"
			# shellcheck disable=SC2086 # they are words
			background "${slowly[@]}" pinctl $command
			eventually looked_at "$call"
			pkill -INT -P "$pid" pinctl
			ended 1
			if [ "$call" = openat ]; then
				[[ $(<"$err") == "pinctl: interrupted after "*" of 30"*" versions" ]]
			else
				[[ $(<"$err") == "pinctl: interrupted after "*" files" ]]
			fi
			[ ! -s "$out" ]
		done
	done
	[ "$(tree)" = "$before" ]
}

# cases-open B28.
@test "5,000 versions and 100,000 files: an account of all in less than a minute, and signs of life on the way" {
	export PINFS_DATASET=$BATS_TEST_TMPDIR/large
	"$build_dir/tests/bench/gentable" -d -m 20 -a 20 1 5000 "$PINFS_DATASET"
	local began=$SECONDS
	run script -qec "pinctl usage" /dev/null
	((SECONDS - began < 60))
	[[ $output == *"reading versions: "*" of 5000"* ]]
	[[ $output == *"looking at files: "[1-9]* ]]
	[[ ${lines[-1]} == *"  5000  "* ]]
	began=$SECONDS
	got 0 cleanup --retain 1
	((SECONDS - began < 60))
	[ -z "$output" ]
	rm -r "$PINFS_DATASET"
}
