#!/usr/bin/env bats
# The life of pins by pinctl on real tables: from enable and register to release and expire (design.md sections 2 and 6).
# shellcheck disable=SC2154 # stderr, output, lines: set by run
# shellcheck disable=SC2030,SC2031,SC2034 # each test is a process of its own, and its variables are read by the library

load pinctl_lib

@test "enable says what it would change and changes nothing" {
	use plain
	local before
	before=$(tree)
	got 0 enable
	[[ $output == *"bit 19"* && $output == *"Lance 12 and newer"* && $output == *"Nothing has changed yet."* ]]
	[ -z "$stderr" ]
	got 0 enable --json
	[ "$(jq -r '.pins_enabled, (.effects | length > 3)' <<<"$output")" = $'false\ntrue' ]
	[ "$(tree)" = "$before" ]
}

@test "enable --apply makes one version, and only the first time" {
	use plain
	local version
	version=$(head_version)
	got 0 enable --apply
	[ -z "$output" ]
	[ "$(head_version)" -eq $((version + 1)) ]
	got 0 enable --apply
	[ "$(head_version)" -eq $((version + 1)) ]
	got 0 enable
	[[ $output != *"Nothing has changed yet."* ]]
	[ "$(pinctl status --json | jq -r '.flags.writer["19"]')" = ongoing-work-pins ]
	[ "$(pinctl status --json | jq -r '.flags.reader["19"]')" = null ]
}

@test "a table that is not enabled refuses its first pin" {
	use plain
	local before
	before=$(tree)
	got 1 register +2h
	one_sentence
	[[ $stderr == *"pinctl enable --apply"* ]]
	[ -z "$output" ]
	[ "$(tree)" = "$before" ]
}

@test "register prints the id, and says what the pin is for" {
	use plain
	pinctl enable --apply
	local version uuid
	version=$(head_version) uuid=$(pinctl status --json | jq -r .transaction)
	got 0 register 2031-01-01T01:00:00+01:00 --label 'büild 7, "x"'
	[[ $output =~ ^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$ ]]
	[[ $stderr == *"source $version:$uuid, expires 2031-01-01T00:00:00Z"* && $stderr == *"version $((version + 1))"* ]]
	local id=$output
	[ "$(head_version)" -eq $((version + 1)) ]
	got 0 show "$id"
	[ "$(jq -r '.id, .source_version, .source_transaction_uuid, .expires_at, .label' <<<"$output")" = \
		"$id"$'\n'"$version"$'\n'"$uuid"$'\n2031-01-01T00:00:00Z\nbüild 7, "x"' ]
	got 0 show "${id^^}"
	got 0 ls
	[[ $output == "$id  $version  2031-01-01T00:00:00Z  "*'d'*'  büild 7, "x"' ]]
	got 0 ls --json
	[ "$(jq -r '.[0].id, .[0].overdue' <<<"$output")" = "$id"$'\nfalse' ]
	got 0 register +2h --json
	[ "$(jq -r '.committed, .version, .pin.source_version' <<<"$output")" = "true"$'\n'"$((version + 2))"$'\n'"$((version + 1))" ]
}

@test "a registered pin has a guard tag on its source, gone with the pin; --no-guard puts none" {
	use_pinned
	local source
	source=$(pinctl show "$id1" | jq .source_version)
	got 0 tag ls
	[ "$(awk '{ print $1, $2, $3 }' <<<"$output")" = "pinfs-$id1 $source main" ]
	got 0 tag ls --json
	[ "$(jq -r '.[0].metadata["pinfs.pin"]' <<<"$output")" = "$id1" ]
	pinctl release "$id1"
	got 0 tag ls
	[ -z "$output" ]
	got 0 register +2h --id "$id2" --no-guard
	got 0 tag ls
	[ -z "$output" ]
}

@test "register again: the same is success without a commit, anything else is refused" {
	use_pinned
	local version uuid source before
	version=$(head_version) before=$(tree)
	source=$(pinctl show "$id1" | jq .source_version) uuid=$(pinctl show "$id1" | jq -r .source_transaction_uuid)
	got 0 register 2031-01-01T00:00:00Z --id "$id1" --label first
	[ "$output" = "$id1" ]
	got 0 register +2h --id "$id1" --label first # an earlier expiry is covered
	got 0 register 2031-01-01T00:00:00Z --id "${id1^^}" --label first --source "$source:$uuid"
	got 1 register 2031-01-01T00:00:01Z --id "$id1" --label first
	one_sentence
	got 1 register 2031-01-01T00:00:00Z --id "$id1" --label second
	got 1 register 2031-01-01T00:00:00Z --id "$id1"
	got 1 register 2031-01-01T00:00:00Z --id "$id1" --label first --source "$version:$uuid"
	[ "$(tree)" = "$before" ]
}

# cases-open B26.
@test "fifty registrations of one id at a time are one pin and one version" {
	use plain
	pinctl enable --apply
	local version line n pids=()
	version=$(head_version)
	line=$(pinctl request 2031-01-01T00:00:00Z --id "$id1")
	for n in {1..50}; do
		pinctl register --request "$line" >"$BATS_TEST_TMPDIR/out.$n" 2>&1 &
		pids+=($!)
	done
	for n in "${pids[@]}"; do
		wait "$n"
	done
	[ "$(head_version)" -eq $((version + 1)) ]
	[ "$(pinctl ls | wc -l)" -eq 1 ]
	pinctl register +2h --id "$id2" >/dev/null
	got 0 register --request "$line"
	got 1 register 2032-01-01T00:00:00Z --id "$id1"
	[ "$(pinctl show "$id1" | jq -r .expires_at)" = 2031-01-01T00:00:00Z ]
	[ "$(head_version)" -eq $((version + 2)) ]
}

# cases-open C32.
@test "an interrupted command has committed or not, and can be repeated" {
	strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"
	use_pinned
	local version signal year=2031 pid
	for signal in INT TERM KILL; do
		year=$((year + 1))
		version=$(head_version)
		rm -f "$PINFS_DATASET"/_versions/.tmp* # of the one before
		background env ASAN_OPTIONS=detect_leaks=0 strace -f -o /dev/null -e inject=link,linkat:delay_exit=3000000:when=1 \
			pinctl renew "$id1" $year-01-01T00:00:00Z
		eventually compgen -G "$PINFS_DATASET/_versions/.tmp*"
		# Of a machine that stalls it may have been through by then.
		pkill "-$signal" -P "$pid" || :
		eventually gone
		[ "$(head_version)" -le $((version + 1)) ]
		got 0 renew "$id1" $year-01-01T00:00:00Z
		[ "$(head_version)" -eq $((version + 1)) ]
	done
	got 0 check
}

@test "a saved request gets the snapshot it names, or nothing" {
	use plain
	pinctl enable --apply
	local line before version
	before=$(tree) version=$(head_version)
	line=$(pinctl request 2031-01-01T00:00:00Z --id "$id1" --label 'a,b %')
	[ "$line" = "$id1,expires_at=2031-01-01T00:00:00Z,label=a%2Cb%20%25,source=$version:$(pinctl status --json | jq -r .transaction)" ]
	[ "$(tree)" = "$before" ] # nothing is written
	got 1 confirm --request "$line"
	got 0 register --request "$line"
	[ "$output" = "$id1" ]
	got 0 confirm --request "$line"
	got 0 register --request "$line"
	echo "$line" >"$BATS_TEST_TMPDIR/line"
	got 0 register --request-file "$BATS_TEST_TMPDIR/line"
	run -0 --separate-stderr pinctl register --request-file - <"$BATS_TEST_TMPDIR/line"
	[ "$output" = "$id1" ]
	[ "$(head_version)" -eq $((version + 1)) ]

	# The head has moved past it: this request can never succeed, also not after a release.
	got 1 register --request "${line/$id1/$id2}"
	one_sentence
	[[ $stderr == *"new request"* ]]
	pinctl release "$id1"
	got 1 register --request "$line"
	got 1 confirm "$id1"
}

@test "request: ids, floating and JSON" {
	use plain
	got 0 request +2h
	[[ $output =~ ^[0-9a-f-]{36},expires_at=20[0-9:.TZ-]+,source=[0-9]+:[0-9a-f-]{36}$ ]]
	got 0 request +2h --floating --id "$id1"
	[[ $output =~ ^$id1,expires_at=20[0-9:.TZ-]+$ ]]
	got 0 request @1924992000 --source "7:$id2" --json
	[ "$(jq -r '.expires_at, .source_version, .source_transaction_uuid, .branch' <<<"$output")" = \
		"2031-01-01T00:00:00Z"$'\n7\n'"$id2"$'\nnull' ]
	[ "$(jq -r '.request | split(",")[0]' <<<"$output")" = "$(jq -r .id <<<"$output")" ]
	got 2 request +2h --id nope
	got 2 request +2h --source 7
	got 2 request +2h --label "$(printf 'x%.0s' {1..256})"
	got 2 request +2h --label $'a\nb'
}

@test "confirm: 0 held, 1 not, 76 cannot tell" {
	use_pinned
	local version line
	version=$(head_version)
	got 0 confirm "$id1"
	[[ $output == "held: $id1, source "*", expires 2031-01-01T00:00:00Z; read from version $version of main" ]]
	got 0 confirm "$id1" --json
	[ "$(jq -c '[.held, .version, .branch, .branch_id, .pin.id]' <<<"$output")" = "[true,$version,\"main\",null,\"$id1\"]" ]
	got 1 confirm "$id2"
	[[ $output == "not held: "*"; read from version $version of main" ]]
	got 1 confirm "$id2" --json
	[ "$(jq -c '[.held, .version, .pin]' <<<"$output")" = "[false,$version,null]" ]
	got 0 confirm --request "$id1,expires_at=2031-01-01T00:00:00Z,label=first"
	got 1 confirm --request "$id1,expires_at=2031-01-01T00:00:00Z,label=other"
	got 1 confirm --request "$id1,expires_at=2031-01-01T00:00:01Z,label=first"
	got 2 confirm nope
	got 76 -d "$BATS_TEST_TMPDIR/nothing" confirm "$id1"
	one_sentence
	truncate -s -1 "$(manifest_of "$version")"
	got 76 confirm "$id1"
}

@test "renew: extended, already long enough, gone" {
	use_pinned
	local version
	version=$(head_version)
	got 0 renew "$id1" 2032-01-01T00:00:00Z
	[ "$output" = 2032-01-01T00:00:00Z ]
	[ "$(head_version)" -eq $((version + 1)) ]
	got 0 renew "$id1" 2031-06-01T00:00:00Z
	[ "$output" = 2032-01-01T00:00:00Z ]
	[[ $stderr == *"already long enough"* ]]
	got 0 renew "$id1" +1h --json
	[ "$(jq -r '.committed, .pin.expires_at' <<<"$output")" = $'false\n2032-01-01T00:00:00Z' ]
	[ "$(head_version)" -eq $((version + 1)) ]
	got 1 renew "$nobody" +2h
	one_sentence
	[ -z "$output" ]
	[ "$(pinctl show "$id1" | jq -r .label)" = first ]
}

@test "release: each is reported, all in one commit, the worst status" {
	use_pinned
	local version
	pinctl register +2h --id "$id2" >/dev/null
	version=$(head_version)
	got 2 release "$id1" nope # read before anything is done
	[ "$(head_version)" -eq "$version" ]
	got 0 release "$nobody"
	one_sentence
	[ "$(head_version)" -eq "$version" ]
	got 0 release "$id1" "$nobody" "$id2"
	[ -z "$output" ]
	[ "${#stderr_lines[@]}" -eq 3 ]
	[ "$(head_version)" -eq $((version + 1)) ]
	got 0 ls
	[ -z "$output" ]
	got 0 release "$id1" --json
	[ "$(jq -c '[.[] | [.id, .released, .committed]]' <<<"$output")" = "[[\"$id1\",true,false]]" ]
	[ "$(pinctl status --json | jq -r '.flags.writer["19"]')" = ongoing-work-pins ]
}

@test "expire lists what is due, and removes it with --apply" {
	use_pinned
	local version
	overdue --id "$id2" --label short >/dev/null
	version=$(head_version)
	pinctl ls --expired | grep -q "$id2"
	got 0 status
	[[ $output == *"; 1 overdue"* ]]
	got 0 ls
	[[ $output == *"$id2"*"  overdue "*"  short"* ]]
	got 0 confirm "$id2" # it still holds
	got 0 expire
	[[ $output == "$id2  "*"  overdue "*"  short" ]]
	[ "${#lines[@]}" -eq 1 ]
	got 0 expire --json
	[ "$(jq -c '[.[] | [.id, .removed]]' <<<"$output")" = "[[\"$id2\",false]]" ]
	[ "$(head_version)" -eq "$version" ]
	got 0 expire --apply
	[[ $output == "$id2  "* ]]
	[ "$(head_version)" -eq $((version + 1)) ]
	got 1 show "$id2"
	got 0 show "$id1"
	got 0 expire --apply
	[ -z "$output" ]
	[ "$(head_version)" -eq $((version + 1)) ]
}

@test "expire skips a pin that is renewed while it commits" {
	use_pinned
	local version
	overdue --id "$id2" >/dev/null
	version=$(head_version)
	# Its commit is held up before it has a name; the renewal lands first.
	hold linkat
	"${under[@]}" pinctl expire --apply >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
	local expire=$!
	eventually test -e "$held"
	pinctl renew "$id2" 2031-01-01T00:00:00Z >/dev/null
	[ "$(head_version)" -eq $((version + 1)) ]
	rm "$held"
	wait "$expire"
	[ ! -s "$BATS_TEST_TMPDIR/out" ]
	grep -q "^pinctl: pin $id2 was renewed meanwhile, .*: skipped$" "$BATS_TEST_TMPDIR/err"
	[ "$(head_version)" -eq $((version + 1)) ]
	got 0 confirm "$id2"
}

@test "every kind of commit leaves a table that check finds whole" {
	use_pinned
	overdue --id "$id2" >/dev/null
	pinctl renew "$id1" 2032-01-01T00:00:00Z >/dev/null
	pinctl release "$id1"
	pinctl expire --apply | grep -q "$id2"
	got 0 check
	[ -z "$output" ]
}

@test "a table that cannot be read or written is said in a sentence and left as it is" {
	use_pinned
	local before
	before=$(tree)
	chmod -R a-w "$PINFS_DATASET"
	run -1 --separate-stderr unprivileged pinctl renew "$id1" 2032-01-01T00:00:00Z
	one_sentence
	[[ $stderr == *"ermission denied"* ]]
	run -0 --separate-stderr unprivileged pinctl confirm "$id1"
	chmod a-x "$PINFS_DATASET"
	run -1 --separate-stderr unprivileged pinctl ls
	one_sentence
	run -76 --separate-stderr unprivileged pinctl confirm "$id1"
	chmod -R u+wx "$PINFS_DATASET"
	[ "$(tree)" = "$before" ]
}

# unknown COMMAND...: run pinctl while directories cannot be made durable once its manifest has its name, so that whether it stays is not known.
# $settle is the command it prints.
unknown() {
	local nth
	for nth in {1..9}; do
		run --separate-stderr env ASAN_OPTIONS=detect_leaks=0 strace -f -o /dev/null \
			-e "inject=fsync:error=EIO:when=$nth+" pinctl "$@"
		[ "$status" -eq 1 ] || break
	done
	[ "$status" -eq 76 ]
	[ -z "$output" ]
	one_sentence
	settle=$(sed -n 's/^pinctl: .*; to find out: //p' <<<"$stderr")
}

@test "an unknown outcome exits 76 and prints the one command that settles it, from anywhere" {
	use_pinned
	strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"
	local at=$BATS_TEST_TMPDIR/"it's here" settle
	mv "$PINFS_DATASET" "$at"
	cd "$BATS_TEST_TMPDIR"
	PINFS_DATASET="it's here"
	unknown register 2031-01-01T00:00:00Z --id "$id2" --label "a b"
	[[ $settle == "pinctl -d '/"*"/it'\\''s here' confirm $id2" ]]
	cd /
	unset PINFS_DATASET
	run -0 --separate-stderr sh -c "$settle"
	[[ $output == "held: $id2, "* ]]

	unknown -d "$at" renew "$id2" 2032-01-01T00:00:00Z
	[[ $settle == *" show $id2" ]]
	run -0 --separate-stderr sh -c "$settle"
	[[ $output == *'"expires_at": "2032-01-01T00:00:00Z"'* ]]
	unknown -d "$at" release "$id2"
	[[ $settle == *" show $id2" ]]
	run -1 --separate-stderr sh -c "$settle"
	got 0 -d "$at" check
}

@test "an unknown outcome on a branch names the branch" {
	use plain
	strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"
	local settle
	"$BATS_TEST_DIRNAME/make-branch" "$PINFS_DATASET" feat/x
	unknown -b feat/x enable --apply
	[ "$settle" = "pinctl -d $(realpath "$PINFS_DATASET") -b feat/x status" ]
	run -0 sh -c "$settle"
	[[ $output == *"writer: "*"19 ongoing-work-pins"* ]]
}
