#!/usr/bin/env bats
# pinctl cleanup (design.md sections 4 and 6): what it prints, what it deletes, what stops it. What goes is compared with Lance in tests/interop.
# shellcheck disable=SC2154 # stderr, output, lines: set by run
# shellcheck disable=SC2030,SC2031 # each test is a process of its own

load pinctl_lib

# All files as old as can be: git gave them the time of the checkout, and what was made after the oldest version is not looked at.
use_aged() {
	use "$@"
	find "$PINFS_DATASET" -exec touch -d 2020-01-01 {} +
}

# Paths of all files.
files() {
	(cd "$PINFS_DATASET" && find . -type f -printf '%P\n' | sort)
}

# The third column of what was printed.
paths() {
	cut -f 3 <<<"$output" | sort
}

versions() {
	pinctl snapshots | cut -f 1 | paste -sd ' '
}

@test "without --apply it lists, and changes nothing; with it these files go and no others" {
	use_aged history
	local before listed there
	before=$(tree)
	there=$(files)
	got 0 cleanup --retain 2
	listed=$(paths)
	[ -n "$listed" ]
	[ "$(tree)" = "$before" ]
	# bytes, class, path
	while IFS=$'\t' read -r bytes class path; do
		[ "$(stat -c %s "$PINFS_DATASET/$path")" -eq "$bytes" ]
		[[ $class =~ ^(manifest|data|deletion|transaction|index|map|other)$ ]]
	done <<<"$output"
	[[ $stderr == "pinctl: main: "*" would go (--apply deletes them); "* ]]
	# What goes and what stays are all there are.
	[ "$(awk '$1 == "goes" || $1 == "stays" { n += $3 } END { print n }' <<<"$stderr")" -eq "$(wc -l <<<"$there")" ]

	got 0 cleanup --retain 2 --apply
	[ "$(paths)" = "$listed" ]
	[ "$(comm -23 <(echo "$there") <(files))" = "$listed" ]
	[ -z "$(comm -13 <(echo "$there") <(files))" ]
	[ "$(wc -w <<<"$(versions)")" -eq 2 ]
	got 0 check
	got 0 cleanup --retain 2 --apply
	[ -z "$output" ]
}

@test "manifests go last, data before them" {
	use_aged history
	got 0 cleanup --retain 1
	[ "$(cut -f 2 <<<"$output" | uniq | sort | uniq -d)" = "" ]
	[[ $(cut -f 2 <<<"$output" | tail -n 1) == manifest ]]
}

@test "without a policy it is Lance's: fourteen days" {
	use_aged plain
	got 0 cleanup
	[[ ${stderr%%$'\n'*} == "pinctl: no policy given: versions older than 14 days, as Lance does" ]]
	local default=$output
	got 0 cleanup --older-than 14d
	[ "$output" = "$default" ]
	[[ $stderr != *"no policy"* ]]
}

@test "older than nothing is everything but the head" {
	use_aged plain
	got 0 cleanup --retain 1
	local all=$output
	got 0 cleanup --older-than 0s
	[ -n "$output" ]
	[ "$output" = "$all" ]
}

@test "what it is given must make sense" {
	use plain
	local before word
	before=$(tree)
	while read -r word; do
		# shellcheck disable=SC2086 # several words
		got 2 cleanup $word --apply
		one_sentence
	done <<-'END'
		--retain 0
		--retain x
		--before-version 0
		--older-than 3
		--older-than -3d
		--versions 3,
		--versions 5-3
		--versions 1-99999999999
		--versions x
		--rate 0
		--jobs 0
		--jobs 1000
		--tags no
		--all-branches -b dev
	END
	[ "$(tree)" = "$before" ]
	got 1 -b nobody cleanup
	[[ $stderr == *"there is no branch nobody"* ]]
}

@test "versions may be named; what the policy names and is not there is no matter" {
	use_aged history
	local all
	all=$(versions)
	got 0 cleanup --versions 2-3,99 --apply
	[ "$(versions)" = "$(tr ' ' '\n' <<<"$all" | grep -vx '[23]' | paste -sd ' ')" ]
	got 0 cleanup --versions "$(head_version)" --apply
	[ -z "$output" ]
}

@test "a tag on a version that would go refuses, with status 4, or keeps it" {
	use_aged tags
	local before
	before=$(tree)
	got 4 cleanup --retain 1 --apply
	[[ $stderr == *"tags on versions that the policy lets go: "*"first"* ]]
	[ "$(tree)" = "$before" ]
	got 0 cleanup --retain 1 --tags skip --apply
	local version
	for version in $(pinctl tag ls --json | jq '.[] | select(.branch == null) | .version'); do
		[[ " $(versions) " == *" $version "* ]]
	done
	got 0 check
}

@test "a pin keeps its window, and what only it keeps is said" {
	use_aged history
	pinctl enable --apply 2>/dev/null
	pinctl register 2031-01-01T00:00:00Z --id "$id1" >/dev/null 2>&1
	local source
	source=$(pinctl show "$id1" | jq .source_version)
	pinctl register 2031-01-01T00:00:00Z --id "$id2" >/dev/null 2>&1
	got 0 cleanup --retain 1 --apply
	[ "$(versions)" = "$source $((source + 1)) $((source + 2))" ]
	[[ $stderr == *"  stays    pin "* ]]
	got 0 cleanup --retain 1 --explain
	grep -q $'\tstays\tpin:'"$id1" <<<"$output"
	got 0 check
	pinctl release "$id1" "$id2" 2>/dev/null
	got 0 cleanup --retain 1 --apply
	[ "$(versions)" = "$((source + 3))" ]
	got 0 check
}

@test "the versions that name a file decide, not its age" {
	use_pinned
	pinctl register 2031-01-01T00:00:00Z --id "$id2" >/dev/null 2>&1
	local source needed
	source=$(pinctl show "$id1" | jq .source_version)
	find "$PINFS_DATASET" -type f -exec touch -d '400 days ago' {} +
	needed=$(pinctl cleanup --retain 1 --explain 2>/dev/null | awk -F'\t' '$4 == "stays" { print $3 }' | sort)
	got 0 cleanup --retain 1 --delete-unverified --apply
	[ -n "$output" ]
	[ "$(cd "$PINFS_DATASET" && find _versions _transactions data _deletions _indices -type f 2>/dev/null | sort)" = "$needed" ]
	[ "$(versions)" = "$(seq -s ' ' "$source" "$(head_version)")" ]
	got 0 check
}

@test "of pins with one label those go whose time has passed, and no others" {
	use plain
	pinctl enable --apply 2>/dev/null
	local hour ids=()
	for hour in 3 1 4 2 5; do
		ids[hour]=$(pinctl register "2031-12-31T0$hour:00:00Z" --label job 2>/dev/null)
	done
	run -0 --separate-stderr at "2031-12-31 02:00:00" pinctl cleanup --retain 1 --apply
	[ "$(pinctl ls --json | jq -r '.[].id' | sort)" = "$(printf '%s\n' "${ids[@]:3:3}" | sort)" ]
	pinctl release "${ids[4]}" 2>/dev/null
	[ "$(pinctl ls --json | jq -r '.[].id' | sort)" = "$(printf '%s\n' "${ids[3]}" "${ids[5]}" | sort)" ]
}

@test "a pin whose time has passed is expired first" {
	use_pinned
	find "$PINFS_DATASET" -exec touch -d 2020-01-01 {} +
	local before head
	before=$(tree)
	head=$(head_version)
	run -0 --separate-stderr at "2032-01-01 00:00:00" pinctl cleanup --retain 1
	[[ $stderr == *"pin $id1 is due: --apply expires it first"* ]]
	[ "$(tree)" = "$before" ]
	run -0 --separate-stderr at "2032-01-01 00:00:00" pinctl cleanup --retain 1 --apply
	[[ $stderr == *"$id1"* ]]
	[ "$(versions)" = "$((head + 1))" ]
	got 0 log "$id1"
	[[ $output == *expired* ]]
	[ ! -e "$PINFS_DATASET/_refs/tags/pinfs-$id1.json" ]
	got 0 check
}

@test "what is listed with a pin that is due is what goes, though its expiry makes one more version" {
	use_pinned
	find "$PINFS_DATASET" -exec touch -d 2020-01-01 {} +
	local listed
	run -0 --separate-stderr at "2032-01-01 00:00:00" pinctl cleanup --retain 2
	listed=$(sort <<<"$output")
	run -0 --separate-stderr at "2032-01-01 00:00:00" pinctl cleanup --retain 2 --apply
	[ "$(sort <<<"$output")" = "$listed" ]
	[ "$(wc -w <<<"$(versions)")" -eq 2 ]
}

@test "a window that cannot be verified blocks with status 4, and releasing the pin ends that" {
	use_pinned
	local source before
	source=$(pinctl show "$id1" | jq .source_version)
	pinctl register 2031-01-01T00:00:00Z --id "$id2" >/dev/null 2>&1
	rm "$(manifest_of $((source + 1)))"
	before=$(tree)
	got 4 cleanup --retain 1 --apply
	[[ $stderr == *"version $((source + 1))"*"$id1"* ]]
	[ -z "$output" ]
	[ "$(tree)" = "$before" ]
	pinctl release "$id1" "$id2" 2>/dev/null
	got 0 cleanup --retain 1 --apply
}

@test "a lost pin blocks until it is waived; guard tags are put right" {
	use_pinned
	rm "$PINFS_DATASET/_refs/tags/pinfs-$id1.json"
	got 0 cleanup --retain 1 --apply
	[[ $stderr == *"guard tags: 1 were put, 0 were removed"* ]]
	[ -e "$PINFS_DATASET/_refs/tags/pinfs-$id1.json" ]
	"$BATS_TEST_DIRNAME/drop-pins" "$PINFS_DATASET"
	local before
	before=$(tree)
	got 4 cleanup --retain 1 --apply
	[[ $stderr == *"pin $id1 "*" is lost: "*"\`pinctl release --waive ID\`"* ]]
	[ "$(tree)" = "$before" ]
	pinctl release --waive "$id1" 2>/dev/null
	got 0 cleanup --retain 1 --apply
}

@test "a file that cannot be removed is named and counted; the next run ends it" {
	use_aged history
	[ "$(id -u)" -ne 0 ] || command -v setpriv >/dev/null || skip "no setpriv"
	chmod a-w "$PINFS_DATASET/_transactions"
	run -1 --separate-stderr unprivileged pinctl cleanup --retain 1 --apply
	[[ $stderr == *"cannot be removed: Permission denied"* ]]
	[[ $stderr == *"  failed   transaction "* ]]
	# Its version is out of sight, and what is listed is whole.
	[ "$(wc -w <<<"$(versions)")" -eq 1 ]
	compgen -G "$PINFS_DATASET/_versions/.tmp-removed-*" >/dev/null
	got 0 check
	chmod u+w "$PINFS_DATASET/_transactions"
	got 0 cleanup --retain 1 --apply
	[ -n "$output" ]
	run -1 compgen -G "$PINFS_DATASET/_versions/.tmp-removed-*"
	[ "$(find "$PINFS_DATASET/_transactions" -type f | wc -l)" -eq 1 ]
}

@test "a table that cannot be written is not half cleaned" {
	use_aged history
	[ "$(id -u)" -ne 0 ] || command -v setpriv >/dev/null || skip "no setpriv"
	local before
	before=$(tree)
	chmod a-w "$PINFS_DATASET/_versions"
	run -1 --separate-stderr unprivileged pinctl cleanup --retain 1 --apply
	[[ $stderr == *"_versions: Permission denied"* ]]
	[ "$(tree)" = "$before" ]
}

@test "Ctrl-C, or a kill, leaves versions that are whole; the next run ends as if nothing had been" {
	local signal
	use_aged many-versions
	pinctl cleanup --retain 3 --apply >/dev/null 2>&1
	local want
	want=$(files)
	for signal in INT TERM KILL; do
		rm -rf "$PINFS_DATASET"
		use_aged many-versions
		background pinctl cleanup --retain 3 --apply --rate 100
		# It is under way when something is out of sight and something is gone.
		eventually test -s "$out"
		kill -s "$signal" "$pid"
		case $signal in
		KILL) ended 137 ;;
		*)
			ended 1
			[[ $(<"$err") == *"interrupted; the next run goes on"* ]]
			;;
		esac
		got 0 check
		[ "$(wc -w <<<"$(versions)")" -eq 3 ]
		got 0 cleanup --retain 3 --apply
		[ "$(files)" = "$want" ]
	done
}

@test "Ctrl-C is heard between two removals, however slow and however many at once" {
	use_aged many-versions
	background pinctl cleanup --retain 3 --apply --rate 1 --jobs 60
	eventually test -s "$out"
	kill -s INT "$pid"
	ended 1
	[[ $(<"$err") == *"interrupted; the next run goes on"* ]]
	# Not what each of the sixty would have taken next.
	[ "$(wc -l <"$out")" -lt 40 ]
}

@test "explained, every file is there with what becomes of it" {
	use_aged history
	echo x >"$PINFS_DATASET/data/notes.txt"
	echo x >"$PINFS_DATASET/data/young.lance"
	got 0 cleanup --retain 1 --explain
	[ "$(paths)" = "$(cd "$PINFS_DATASET" && find _versions _transactions data _deletions _indices _fri _blobs -type f 2>/dev/null | sort)" ]
	grep -qx $'2\tother\tdata/notes.txt\tstays\tnot known to be Lance.s' <<<"$output"
	grep -qx $'2\tdata\tdata/young.lance\tstays\tno version names it, and it is not seven days old' <<<"$output"
	grep -q $'\tmanifest\t_versions/.*\tgoes\tof version ' <<<"$output"
	grep -q $'\tmanifest\t_versions/.*\tstays\thead,policy$' <<<"$output"
	[ "$(cut -f 4 <<<"$output" | sort -u | paste -sd ' ')" = "goes stays" ]
}

@test "orphans go when they are old, or nobody writes; leaks when they are asked for" {
	use_aged plain
	echo x >"$PINFS_DATASET/data/young.lance"
	echo x >"$PINFS_DATASET/data/old.lance"
	echo x >"$PINFS_DATASET/data/old.lance#1"
	touch -d '8 days ago' "$PINFS_DATASET"/data/old*
	got 0 cleanup --retain 100
	[ "$output" = $'2\tdata\tdata/old.lance' ]
	got 0 cleanup --retain 100 --delete-unverified
	[ "$(paths)" = $'data/old.lance\ndata/young.lance' ]
	got 0 cleanup --retain 100 --leaks --apply
	[ "$(paths)" = $'data/old.lance\ndata/old.lance#1' ]
	[ -e "$PINFS_DATASET/data/young.lance" ]
}

@test "what is not Lance's stays, whatever it is called and however old; files from the future are young" {
	use_aged plain
	mkdir -p "$PINFS_DATASET/videos/data"
	touch -d '30 days ago' "$PINFS_DATASET"/{videos/clip.mp4,videos/data/k.lance,data/notes.txt,README}
	touch -d 2100-01-01 "$PINFS_DATASET/data/future.lance"
	got 0 cleanup --retain 1 --leaks --apply
	[ -e "$PINFS_DATASET/data/future.lance" ]
	got 0 cleanup --retain 1 --delete-unverified --leaks --apply
	[ "$(paths)" = data/future.lance ]
	local theirs
	for theirs in videos/clip.mp4 videos/data/k.lance data/notes.txt README; do
		[ -e "$PINFS_DATASET/$theirs" ]
	done
}

@test "the plan is the same whatever the table's path is written like" {
	use_aged history
	local plan spelling
	got 0 cleanup --retain 1
	plan=$output
	[ -n "$plan" ]
	ln -s "$PINFS_DATASET" "$BATS_TEST_TMPDIR/link"
	cp -a "$PINFS_DATASET" "$BATS_TEST_TMPDIR/a %20#+"
	cd "$(dirname "$PINFS_DATASET")"
	local name
	name=$(basename "$PINFS_DATASET")
	for spelling in "$name" "./$name" "$name/" "$PWD//.//$name" "$PWD/../$(basename "$PWD")/$name" "file://$PWD/$name" \
		"$BATS_TEST_TMPDIR/link" "$BATS_TEST_TMPDIR/a %20#+"; do
		got 0 -d "$spelling" cleanup --retain 1
		[ "$output" = "$plan" ]
	done
}

@test "what is left of a branch without a ref goes with the leaks of main" {
	use_aged plain
	"$BATS_TEST_DIRNAME/make-branch" "$PINFS_DATASET" dev
	rm "$PINFS_DATASET/tree/dev/_transactions" "$PINFS_DATASET"/_refs/branches/dev.json
	got 0 cleanup --retain 100 --leaks
	[ -z "$output" ]
	find "$PINFS_DATASET/tree" -exec touch -d '8 days ago' {} +
	got 0 cleanup --retain 100
	[ -z "$output" ]
	got 0 cleanup --retain 100 --leaks --apply
	[[ $(paths) == tree/dev/_versions/*.manifest ]]
	[ ! -e "$PINFS_DATASET/tree/dev" ]
	got 0 check
}

@test "a folder that is a link blocks, and what is behind another link stays" {
	use_aged plain
	mkdir "$BATS_TEST_TMPDIR/elsewhere"
	echo x >"$BATS_TEST_TMPDIR/elsewhere/theirs.lance"
	touch -d 2020-01-01 "$BATS_TEST_TMPDIR/elsewhere/theirs.lance"
	ln -s "$BATS_TEST_TMPDIR/elsewhere" "$PINFS_DATASET/data/link"
	got 0 cleanup --retain 1 --apply
	[ -e "$BATS_TEST_TMPDIR/elsewhere/theirs.lance" ]
	[ -L "$PINFS_DATASET/data/link" ]
	mv "$PINFS_DATASET/data" "$BATS_TEST_TMPDIR/data"
	ln -s "$BATS_TEST_TMPDIR/data" "$PINFS_DATASET/data"
	got 4 cleanup --retain 1 --apply
	[[ $stderr == *"data is a link"* ]]
}

@test "as JSON: one value with all of it" {
	use_aged history
	local listed
	got 0 cleanup --retain 1
	listed=$(paths)
	got 0 cleanup --retain 1 --json
	[ "$(jq -r '.branches[0].files[].path' <<<"$output" | sort)" = "$listed" ]
	[ "$(jq -c '.branches[0] | [.branch, .applied, .expired, .failures]' <<<"$output")" = '[null,false,[],[]]' ]
	[ "$(jq '[.branches[0].removed[].files] | add' <<<"$output")" -eq "$(wc -l <<<"$listed")" ]
	[ "$(jq '[.branches[0] | (.removed, .kept, .failed)[].files] | add' <<<"$output")" -eq \
		"$(cd "$PINFS_DATASET" && find _versions _transactions data _deletions _indices -type f 2>/dev/null | wc -l)" ]
	got 0 cleanup --retain 1 --json --explain
	[ "$(jq -r '.branches[0].explained[] | select(.goes) | .path' <<<"$output" | sort)" = "$listed" ]
	[ "$(jq -r '.branches[0].explained[] | select(.path | startswith("_versions/1")) | .why' <<<"$output" | grep -c '^of version ')" -gt 1 ]
	got 0 cleanup --retain 1 --json --apply
	[ "$(jq -c '.branches[0].applied' <<<"$output")" = true ]
	[ "$(jq -r '.branches[0].files[].path' <<<"$output" | sort)" = "$listed" ]
}

@test "a branch is cleaned by itself, or all of them" {
	use_aged plain
	local before
	"$BATS_TEST_DIRNAME/make-branch" "$PINFS_DATASET" dev
	# It shares the folder by a link, which a cleaner does not follow.
	rm "$PINFS_DATASET/tree/dev/_transactions"
	cp -a "$PINFS_DATASET/_transactions" "$PINFS_DATASET/tree/dev/_transactions"
	before=$(files)
	pinctl -b dev enable --apply 2>/dev/null
	find "$PINFS_DATASET" -exec touch -d 2020-01-01 {} +
	got 0 -b dev cleanup --retain 1 --apply
	[[ $stderr == *"pinctl: dev: 1 versions, "* ]]
	[ "$(grep -c '^_versions/' <<<"$(files)")" -eq "$(grep -c '^_versions/' <<<"$before")" ]
	[[ $output == *"tree/dev/_versions/"* ]]
	# Nothing of anybody else's.
	paths >"$BATS_TEST_TMPDIR/paths"
	run -1 grep -v '^tree/dev/' "$BATS_TEST_TMPDIR/paths"
	got 0 cleanup --retain 1 --all-branches
	[[ $stderr == *"pinctl: dev: 0 versions"*"pinctl: main: "* ]]
}

@test "the progress of a long run shows on a terminal, and only there" {
	use_aged many-versions
	run -0 script -qec "pinctl cleanup --retain 1 --apply --rate 400 >/dev/null" /dev/null
	[[ $output == *"removed "*" of "*" files, "*" a second, "*" left"* ]]
	use_aged many-versions
	got 0 cleanup --retain 1 --apply --rate 400
	[[ $stderr != *" a second"* ]]
}
