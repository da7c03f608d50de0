#!/usr/bin/env bats
# Work on a copy of a table brought back, as far as no Lance is needed for it; what Lance does there is in tests/interop/replay.py.
# shellcheck disable=SC2154 # stderr, output, lines: set by run

load pinctl_lib

# use_copy: a pinned table and a copy of it; $made is their version.
use_copy() {
	use_pinned
	copy=$BATS_TEST_TMPDIR/desk.lance
	pinctl copy "$copy" 2>/dev/null
	made=$(head_version)
}

# append AT NAME: a fragment of one row, whose file is that of another by a new name.
append() {
	local file json=$BATS_TEST_TMPDIR/$2.json scratch=$BATS_TEST_TMPDIR/scratch
	file=$(printf '%s\n' "$PINFS_DATASET"/data/*.lance | head -n 1)
	mkdir -p "$scratch"
	cp "$file" "$scratch/$2.lance"
	jq -n --arg path "$2.lance" '{id: 0, physical_rows: 1, deletion_file: null, row_id_meta: null, files: [{path: $path,
		fields: [0, 1], column_indices: [0, 1], file_major_version: 2, file_minor_version: 2, file_size_bytes: null, base_id: null}]}' >"$json"
	pinctl -d "$1" commit --append "$json" --from "$scratch" >/dev/null 2>&1
}

@test "a copy that a cleanup overtakes is none" {
	use_pinned
	# All manifests are copied before the first file is linked, and it is held there.
	hold linkat
	background "${under[@]}" pinctl copy "$BATS_TEST_TMPDIR/copy"
	eventually test -e "$held"
	# What goes first is the name of a version; its files may go before they are looked for.
	mv "$(manifest_of 1)" "$PINFS_DATASET/_versions/.tmp-removed-1"
	rm "$held"
	ended 75
	grep -q "went while it was copied: somebody cleans this table, try again" "$err"
	[ ! -e "$BATS_TEST_TMPDIR/copy" ]
}

@test "commit --from-copy says how it is used, and what does not go together" {
	use_copy
	got 0 help commit
	[[ $output == *"--from-copy DIR"* && $output == *"--skip-indices"* ]]
	got 2 commit --from-copy "$copy" --append x
	got 2 commit --from-copy "$copy" --from y
	[[ $stderr == *"goes without --from"* ]]
	got 2 commit --append x --skip-indices
	[[ $stderr == *"goes with --from-copy"* ]]
	got 2 commit --from-copy
}

@test "what was committed on a copy comes back once, and only what is new" {
	use_copy
	got 0 commit --from-copy "$copy"
	[ -z "$output" ]
	[[ $stderr == *"nothing was committed on the copy since version $made"* ]]
	append "$copy" one
	append "$copy" two
	append "$PINFS_DATASET" others
	got 0 commit --from-copy "$copy" --dry-run
	[ "$output" = "$(printf '%s\n' "$((made + 1))	$((made + 2))	Append	possible" "$((made + 2))	-	Append	later")" ]
	[ "$(head_version)" -eq "$((made + 1))" ]
	[ ! -e "$PINFS_DATASET/data/one.lance" ]
	got 0 commit --from-copy "$copy"
	[ "$output" = "$(printf '%s\n' "$((made + 1))	$((made + 2))	Append	committed" "$((made + 2))	$((made + 3))	Append	committed")" ]
	[[ $stderr == *"all 2 versions"*"; 0 were before"* ]]
	[ "$PINFS_DATASET/data/one.lance" -ef "$copy/data/one.lance" ]
	append "$copy" three
	got 0 commit --from-copy "$copy" --json
	[ "$(jq -c '[.[] | [.copy_version, .version, .operation, .state]]' <<<"$output")" = \
		"[[$((made + 1)),$((made + 2)),\"Append\",\"already\"],[$((made + 2)),$((made + 3)),\"Append\",\"already\"],[$((made + 3)),$((made + 4)),\"Append\",\"committed\"]]" ]
	got 0 ls
	[[ $output == *"$id1"* ]]
	got 0 check
}

@test "pins that were made on the copy stay there" {
	use_copy
	pinctl -d "$copy" enable --apply 2>/dev/null
	pinctl -d "$copy" register +1h --id "$id2" >/dev/null 2>&1
	append "$copy" one
	got 0 commit --from-copy "$copy"
	[ "$(cut -f 2,4 <<<"$output")" = "$(printf -- '-\tleft-out\n-\tleft-out\n%s\tcommitted' "$((made + 1))")" ]
	got 0 ls
	[[ $output != *"$id2"* ]]
}

@test "copies that cannot come back are refused, and nothing changes" {
	use_copy
	append "$copy" one
	pinctl -d "$copy" restore 1 --apply >/dev/null 2>&1
	got 2 commit --from-copy "$copy"
	one_sentence
	[[ $stderr == *"version $((made + 2)) of the copy: it restores version 1"* ]]
	got 2 commit --from-copy "$PINFS_DATASET"
	one_sentence
	got 2 commit --from-copy "$BATS_TEST_TMPDIR/none"
	one_sentence
	rm "$copy/.pinfs-copy"
	got 2 commit --from-copy "$copy"
	[[ $stderr == *"expected one that \`pinctl copy\` made"* ]]
	[ "$(head_version)" -eq "$made" ]
	[ ! -e "$PINFS_DATASET/data/one.lance" ]
}

@test "what stops it says what is in, and it goes on from there" {
	use_copy
	append "$copy" one
	append "$copy" two
	mkdir -p "$PINFS_DATASET/data"
	printf another >"$PINFS_DATASET/data/two.lance"
	got 1 commit --from-copy "$copy"
	[ "$output" = "$((made + 1))	$((made + 1))	Append	committed" ]
	[[ $stderr == *"version $((made + 2)) of the copy, Append: "*"nothing is overwritten"* ]]
	[[ $stderr == *"its versions up to $((made + 1)), the last as version $((made + 1)); the same command goes on behind them"* ]]
	[ "$(cat "$PINFS_DATASET/data/two.lance")" = another ]
	rm "$PINFS_DATASET/data/two.lance"
	got 0 commit --from-copy "$copy"
	[ "$(cut -f 4 <<<"$output")" = "$(printf 'already\ncommitted')" ]
}
