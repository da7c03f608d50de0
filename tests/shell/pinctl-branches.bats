#!/usr/bin/env bats
# Branches, tags, clones and copies by pinctl on real tables (design.md sections 4 and 6).
# shellcheck disable=SC2154 # stderr, output, lines: set by run
# shellcheck disable=SC2030,SC2031 # each test is a process of its own, and its variables are read by the library

load pinctl_lib

@test "tags are made on the head, a version, a tag and a branch, and removed" {
	use plain
	local head
	head=$(head_version)
	got 0 tag create now
	[[ $stderr == *"tag now: version $head of main" ]]
	got 0 tag create old 1
	got 0 tag create again old
	got 0 tag create named main:2 --json
	[ "$(jq -r '.name, .branch, .version' <<<"$output")" = $'named\nmain\n2' ]
	got 0 tag ls --json
	[ "$(jq -c '[.[] | [.name, .version]]' <<<"$output")" = '[["again",1],["named",2],["now",'"$head"'],["old",1]]' ]
	got 0 tag delete old
	got 1 tag delete old
	[[ $stderr == *"no tag old"* ]]
	got 1 tag create now 1
	[[ $stderr == *"there is a tag now already: version $head of main"* ]]
}

@test "tags that cannot be are refused with the reason" {
	use_pinned
	got 2 tag create a/b
	one_sentence
	got 2 tag create "pinfs-$nobody"
	[[ $stderr == *"guards the pin"* ]]
	got 2 tag delete "pinfs-$id1"
	[[ $stderr == *"pinctl release"* ]]
	got 1 tag create x 99
	[[ $stderr == *"no version 99"* ]]
	got 1 tag create x nowhere
	[[ $stderr == *"no branch nowhere"* ]]
	got 2 tag create x main:y
	got 0 tag create main 1
	got 2 tag create x main
	[[ $stderr == *"is a tag and a branch"* ]]
	# What may be a branch, too, is not taken for the tag.
	got 0 tag create twin 1
	mkdir -p "$PINFS_DATASET/_refs/branches"
	echo '{' >"$PINFS_DATASET/_refs/branches/twin.json"
	got 3 tag create x twin
	[[ $stderr == *"twin.json"* ]]
}

@test "a branch is made from the head, a version, a tag or a branch, without pins and with bit 19 as it was there" {
	use_pinned
	local head
	head=$(head_version)
	got 0 branch create feat/x
	[[ $stderr == *"branch feat/x made from version $head of main" ]]
	got 0 branch create old --from 2 --json
	[ "$(jq -r '.name, .head, .pins, .parent, .parent_version' <<<"$output")" = $'old\n2\n0\nmain\n2' ]
	pinctl tag create t 3
	got 0 branch create of-tag --from t
	got 0 branch create kid --from feat/x
	got 0 branch create kid2 --from "feat/x:$head"
	got 0 -b feat/x branch create kid3
	got 0 branch ls --json
	[ "$(jq -c '[.[].name] | sort' <<<"$output")" = '["feat/x","kid","kid2","kid3","main","of-tag","old"]' ]
	got 0 -b feat/x status --json
	[ "$(jq -r '.pins, .pins_enabled, .version' <<<"$output")" = "0"$'\ntrue\n'"$head" ]
	got 0 -b old status --json
	[ "$(jq -r '.pins, .pins_enabled, .version' <<<"$output")" = $'0\nfalse\n2' ]
	got 0 -b kid register +2h
	got 0 check
}

@test "a branch that cannot be made is refused with the reason, and nothing changes" {
	use_pinned
	pinctl branch create dev
	local before
	before=$(tree)
	got 1 branch create dev
	[[ $stderr == *"there is a branch dev already"* ]]
	for name in main a//b /a a..b x.lock 'a b' dev/data é ''; do
		got 2 branch create "$name"
		one_sentence
	done
	got 1 branch create x --from 99
	got 1 branch create x --from nowhere
	got 1 -b nowhere branch create x
	[ "$(tree)" = "$before" ]
}

# cases-open B23
@test "a branch with pins is not deleted, forced or not, and all of them are named, expired ones too" {
	use_pinned
	pinctl branch create dev 2>/dev/null
	pinctl -b dev register 2031-01-01T00:00:00Z --id "$id2" --label 'büild' 2>/dev/null
	pinctl -b dev register +2h --id "$nobody" 2>/dev/null
	local before
	before=$(tree)
	run -4 --separate-stderr at +4h pinctl branch delete dev
	run -4 --separate-stderr at +4h pinctl branch delete dev --force
	one_sentence
	[[ $stderr == *"$id2 \"büild\" (expires 2031-01-01T00:00:00Z)"* && $stderr == *"$nobody (expires "* ]]
	[[ $stderr != *"$id1"* ]]
	[ "$(tree)" = "$before" ]
	pinctl -b dev release "$id2" "$nobody" 2>/dev/null
	got 0 branch delete dev --json
	[ "$(jq -r .deleted <<<"$output")" = dev ]
	[ -z "$(find "$PINFS_DATASET/tree" "$PINFS_DATASET/_refs/branches" -mindepth 1)" ]
	got 1 branch delete dev
	got 0 show "$id1"
}

@test "children, tags and a head that cannot be read keep a branch, forced or not" {
	use plain
	pinctl branch create a
	pinctl branch create kid --from a
	pinctl tag create t a
	got 4 branch delete a --force
	[[ $stderr == *"branches made from it: kid"* && $stderr == *"tags: t"* ]]
	pinctl branch delete kid
	pinctl tag delete t
	local manifest
	manifest=$(echo "$PINFS_DATASET"/tree/a/_versions/*.manifest)
	cp "$manifest" "$BATS_TEST_TMPDIR/kept"
	truncate -s 10 "$manifest"
	got 4 branch delete a --force
	[[ $stderr == *"head that cannot be read"* ]]
	cp "$BATS_TEST_TMPDIR/kept" "$manifest"
	got 0 branch delete a
}

# cases-open A01
@test "every tag into a branch keeps it, forced or not, whatever version it names; tags elsewhere do not" {
	use_pinned
	pinctl branch create dev 2>/dev/null
	pinctl tag create on-main
	pinctl tag create keep-1 dev
	pinctl -b dev register +2h --id "$id2" --no-guard 2>/dev/null
	pinctl -b dev release "$id2" 2>/dev/null
	pinctl tag create keep-2 dev
	local before
	before=$(tree)
	for force in '' --force; do
		got 4 branch delete dev $force
		one_sentence
		[[ $stderr == *"tags: keep-1, keep-2"* && $stderr != *on-main* ]]
	done
	[ "$(tree)" = "$before" ]
	pinctl tag delete keep-1
	got 4 branch delete dev
	pinctl tag delete keep-2
	got 0 branch delete dev
	got 0 tag ls
	[[ $output == on-main* ]]
}

@test "a directory without a ref is looked into, and removed by force alone" {
	use_pinned
	pinctl branch create dev 2>/dev/null
	pinctl branch create dev/kid 2>/dev/null
	pinctl -b dev register +2h --id "$id2" --no-guard 2>/dev/null
	rm "$PINFS_DATASET/_refs/branches/dev.json"
	got 1 branch delete dev
	[[ $stderr == *"--force"* ]]
	got 4 branch delete dev --force
	[[ $stderr == *"$id2"* ]]
	got 4 branch create dev
	[[ $stderr == *"pinctl branch delete dev --force"* ]]
	rm "$PINFS_DATASET"/tree/dev/_versions/"$(printf '%020u' $((-1 - $(head_version) - 1)))".manifest
	got 0 branch delete dev --force
	[ "$(ls "$PINFS_DATASET/tree/dev")" = kid ]
	got 0 -b dev/kid status
	got 0 branch create dev
}

# cases-open A03
@test "a branch in either layout of its ref is listed, pinned, retained for and deleted like any other" {
	local layout
	for layout in file folder; do
		use plain
		pinctl enable --apply 2>/dev/null
		pinctl branch create feat/x --from 2 2>/dev/null
		if [[ $layout == folder ]]; then
			mkdir "$PINFS_DATASET/_refs/branches/feat"
			mv "$PINFS_DATASET/_refs/branches/feat%2Fx.json" "$PINFS_DATASET/_refs/branches/feat/x.json"
		fi
		got 0 branch ls --json
		[ "$(jq -c '[.[].name]' <<<"$output")" = '["main","feat/x"]' ]
		got 1 branch create feat/x
		got 0 -b feat/x enable --apply
		got 0 -b feat/x register +2h --id "$id2"
		got 0 -b feat/x confirm "$id2"
		# Main keeps the version that it was made of, for its sake.
		got 0 snapshots --reasons
		grep -q $'^2\t.*\tbranch:feat/x$' <<<"$output"
		got 0 cleanup --retain 1 --apply
		got 0 -b feat/x check
		got 4 branch delete feat/x --force
		[[ $stderr == *"$id2"* ]]
		got 0 branch create kid --from feat/x
		got 0 -b feat/x release "$id2"
		got 4 branch delete feat/x
		[[ $stderr == *"branches made from it: kid"* ]]
		got 0 branch delete kid
		got 0 branch delete feat/x
		[ ! -e "$PINFS_DATASET/tree/feat" ]
		got 0 branch ls --json
		[ "$(jq -c '[.[].name]' <<<"$output")" = '["main"]' ]
		rm -r "$PINFS_DATASET"
	done
}

# cases-open A24
@test "restore goes forward to old data, with the pins of now" {
	use_pinned
	local before head
	before=$(tree)
	head=$(head_version)
	got 0 restore 2
	[[ $stderr == *"would be restored as version $((head + 1))"* && $output == *"pin $id1"* ]]
	got 0 restore 2 --dry-run --json
	[ "$(jq -r '.version, .committed, .restored, .head' <<<"$output")" = "$((head + 1))"$'\nfalse\n2\n'"$head" ]
	[ "$(tree)" = "$before" ]
	got 0 restore 2 --apply
	[ "$(head_version)" -eq $((head + 1)) ]
	got 0 show "$id1"
	[ "$(jq -r '.source_version, .expires_at, .label' <<<"$output")" = "$((head - 1))"$'\n2031-01-01T00:00:00Z\nfirst' ]
	got 0 status --json
	[ "$(jq -r '.pins_enabled, .operation, .window.oldest_source, .window.head' <<<"$output")" = \
		$'true\nRestore\n'"$((head - 1))"$'\n'"$((head + 1))" ]
	got 0 check
}

@test "restore of what is not there is refused" {
	use_pinned
	local before
	before=$(tree)
	got 1 restore 99 --apply
	one_sentence
	got 2 restore x
	got 2 restore 1 --apply --dry-run
	[ "$(tree)" = "$before" ]
}

@test "a clone is a table of its own, without pins and with bit 19" {
	use_pinned
	local clone=$BATS_TEST_TMPDIR/clone.lance
	got 0 clone "$clone" --json
	[ "$(jq -r '.clone, .version, .branch' <<<"$output")" = "$clone"$'\n'"$(head_version)"$'\nmain' ]
	got 0 -d "$clone" status --json
	[ "$(jq -r '.pins, .pins_enabled, .branch' <<<"$output")" = $'0\ntrue\nmain' ]
	got 0 -d "$clone" register +2h
	got 1 clone "$clone"
	[[ $stderr == *"is a table already"* ]]
	# In the table it would be a branch that is being made, or files of another's.
	got 2 clone "$PINFS_DATASET/data/clone"
	got 2 clone "$PINFS_DATASET/clone"
	[ ! -e "$PINFS_DATASET/clone" ]
	got 1 clone "$BATS_TEST_TMPDIR/other" --from 99
	[ ! -e "$BATS_TEST_TMPDIR/other" ]
}

# cases-open A33
@test "a clone whose source was cleaned says what is missing, and nothing is deleted here or there" {
	use_pinned
	local clone=$BATS_TEST_TMPDIR/clone.lance source=$PINFS_DATASET here there
	pinctl clone "$clone" 2>/dev/null
	PINFS_DATASET=$clone
	got 0 ls
	[ -z "$output" ]
	pinctl register +2h --id "$id2" 2>/dev/null
	pinctl release "$id2" 2>/dev/null
	[ "$(pinctl status --json | jq .pins_enabled)" = true ]
	# What it shares with its source is not its own to delete.
	there=$(cd "$source" && find . -type f | sort)
	got 0 cleanup --retain 1 --delete-unverified --apply
	[ "$(cd "$source" && find . -type f | sort)" = "$there" ]
	pinctl register +2h --id "$id2" 2>/dev/null
	rm "$source"/data/*.lance
	here=$(tree)
	there=$(cd "$source" && find . -type f | sort)
	got 4 cleanup --retain 1 --delete-unverified --apply
	[[ $stderr == *"$source/data/"*".lance is missing; it is needed by pin $id2"* ]]
	[ "$(tree)" = "$here" ]
	[ "$(cd "$source" && find . -type f | sort)" = "$there" ]
	# Without a pin there is still the head.
	pinctl release "$id2" 2>/dev/null
	here=$(tree)
	got 4 cleanup --retain 1 --delete-unverified --apply
	[[ $stderr == *"$source/data/"*".lance is missing" ]]
	[ "$(tree)" = "$here" ]
}

@test "a copy has every version, and neither pins nor bit 19 anywhere" {
	use_pinned
	pinctl branch create dev 2>/dev/null
	pinctl -b dev register +2h 2>/dev/null
	pinctl tag create t 2 2>/dev/null
	local before copy=$BATS_TEST_TMPDIR/copy.lance
	before=$(tree)
	got 0 copy "$copy" --json
	[ "$(jq -r '.copy' <<<"$output")" = "$copy" ]
	[ "$(jq -r '.manifests' <<<"$output")" -eq "$(find "$PINFS_DATASET" -name '*.manifest' | wc -l)" ]
	[ "$(tree)" = "$before" ]
	got 0 -d "$copy" ls
	[ -z "$output" ]
	got 0 -d "$copy" tag ls --json
	[ "$(jq -c '[.[].name]' <<<"$output")" = '["t"]' ]
	for branch in main dev; do
		got 0 -d "$copy" -b "$branch" status --json
		[ "$(jq -r '.pins, .pins_enabled' <<<"$output")" = $'0\nfalse' ]
		[ "$(jq -r .version <<<"$output")" = "$(pinctl -b "$branch" status --json | jq .version)" ]
	done
	got 0 -d "$copy" check
	rm -r "$PINFS_DATASET"
	got 0 -d "$copy" -b dev usage
}

@test "a copy is not made where something is, nor inside the table; and nothing is left of one that failed" {
	use_pinned
	mkdir "$BATS_TEST_TMPDIR/there"
	got 1 copy "$BATS_TEST_TMPDIR/there"
	got 2 copy "$PINFS_DATASET/copy"
	got 2 copy ..
	got 1 copy "$BATS_TEST_TMPDIR/none/copy"
	truncate -s 10 "$(manifest_of 2)"
	got 3 copy "$BATS_TEST_TMPDIR/copy"
	[[ $stderr == *.manifest* ]]
	[ -z "$(find "$BATS_TEST_TMPDIR" -maxdepth 1 -name "copy*")" ]
}
