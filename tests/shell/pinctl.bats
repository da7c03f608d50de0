#!/usr/bin/env bats
# pinctl on real tables: its command line, and the commands that only look (design.md section 6).
# shellcheck disable=SC2154 # stderr, output, lines: set by run
# shellcheck disable=SC2030,SC2031,SC2034 # each test is a process of its own, and its variables are read by the library

load pinctl_lib

# --- the command line -------------------------------------------------------------------------------------------------

@test "no command is a usage error, help is not" {
	got 2
	one_sentence
	got 0 --help
	[[ ${lines[0]} == "usage: pinctl [-d DATASET] [-b BRANCH] [--json] COMMAND" ]]
	local help=$output
	got 0 help
	[ "$output" = "$help" ]
}

@test "every command has a help, the same by either way" {
	local name last
	while read -r name; do
		# shellcheck disable=SC2086 # names of two words
		got 0 help $name
		[[ $output == "usage: pinctl "*" $name"* ]]
		local help=$output
		# shellcheck disable=SC2086
		got 0 $name --help
		[ "$output" = "$help" ]
		last=$name
	done < <(commands)
	[ "$last" = version ]
}

# The names of all commands, as the help lists them.
commands() {
	pinctl help | sed -n '/^commands:/,/^$/s/^  \([a-z-]*\( [a-z]\+\)\?\)  .*/\1/p'
}

# options_of [COMMAND]: its long options, or those that all have.
options_of() {
	# shellcheck disable=SC2086 # names of two words
	pinctl help $1 | sed -n 's/^  \(-.,\|   \) \(--[a-z-]*\).*/\2/p' | sort
}

# A line a command and option of its own that the manual describes or shows, and a line a command. Running text, which names others, is not asked.
in_manual() {
	awk '
		/^\.It Xo/ { opens = 1; next }
		/^\.S[hs] / { name = "" }
		/^\.It Cm / || opens {
			opens = 0
			sub(/^\.(It )?Cm /, ".Cm ")
			name = $2
			if (name ~ /^(what-if|branch|tag)$/)
				name = name " " $3
			print name
			heads = 1
		}
		/^[^.]|^\.Xc/ { heads = 0 }
		name != "" && (heads || /^\.It Fl /) {
			for (i = 1; i < NF; i++)
				if ($i == "Fl" && $(i + 1) ~ /^-[a-z]/)
					print name " -" $(i + 1)
		}
	' "$source_dir/man/pinctl.1" | sort -u
}

@test "the manual and the help name the same commands, and the same options of each" {
	local name
	diff <(while read -r name; do
		echo "$name"
		comm -23 <(options_of "$name") <(options_of) | sed "s/^/$name /"
	done < <(commands) | sort -u) <(in_manual)
}

# completed WORD...: what the last word can become, by the completion of bash.
completed() {
	bash -c '
		. "$0"
		COMP_WORDS=(pinctl "$@")
		COMP_CWORD=$#
		_pinctl
		printf "%s\n" "${COMPREPLY[@]}"' "$source_dir/tools/pinctl/pinctl.bash-completion" "$@" | sort
}

@test "completion knows each command and option of the help" {
	local name
	local -a word
	diff <(commands | cut -d' ' -f1 | sort -u) <(completed '')
	diff <(commands | cut -d' ' -f1 | sort -u) <(completed help '')
	while read -r name; do
		read -ra word <<<"$name"
		diff <(options_of "$name") <(completed "${word[@]}" --)
		[[ ${#word[@]} -eq 1 ]] || completed "${word[0]}" '' | grep -qx "${word[1]}"
		[[ ${#word[@]} -eq 1 ]] || completed help "${word[0]}" '' | grep -qx "${word[1]}"
	done < <(commands)
}

@test "completion knows the pins, tags, branches and versions of the table" {
	use_pinned
	pinctl tag create friday 2>/dev/null
	pinctl branch create side 2>/dev/null
	[ "$(completed release '')" = "$id1" ]
	[ "$(completed -d "$PINFS_DATASET" show 0)" = "$id1" ]
	[ "$(completed tag delete f)" = friday ]
	[ "$(completed what-if untag f)" = friday ]
	[ "$(completed branch delete s)" = side ]
	[ "$(completed clone --from f)" = friday ]
	[ "$(completed branch create x --from s)" = side ]
	diff <(pinctl snapshots | cut -f1 | sort) <(completed restore '')
}

@test "completion runs nothing that a name in the table says" {
	use_pinned
	pinctl tag create friday 2>/dev/null
	cd "$BATS_TEST_TMPDIR"
	# shellcheck disable=SC2016 # it is the name
	cp "$PINFS_DATASET/_refs/tags/friday.json" "$PINFS_DATASET/_refs/tags/"'$(touch${IFS}ran).json'
	pinctl tag ls | grep -q 'touch.*ran'
	diff <(printf 'friday\npinfs-%s\n' "$id1") <(completed tag delete '')
	[ "$(completed clone --from f)" = friday ]
	[ ! -e ran ]
}

@test "the README names every command" {
	local name
	while read -r name; do
		grep -q "^|.*\`${name}[ \`].* |" "$source_dir/README.md" || {
			echo "README.md does not name $name"
			return 1
		}
	done < <(commands | grep -vx 'help\|version')
}

@test "an unknown command names the nearest one" {
	local word
	while read -r word meant; do
		got 2 "$word"
		one_sentence
		[[ $stderr == *"did you mean \`pinctl $meant\`?" ]]
	done <<-'END'
		stauts status
		regster register
		branch branch ls
		snap snapshots
		Release release
	END
	got 2 frobnicate
	one_sentence
	[[ $stderr != *"did you mean"* ]]
	got 2 branch create
	got 2 help frobnicate
}

@test "unknown options, missing values and wrong counts are usage errors" {
	use plain
	got 2 ls --frob
	[[ $stderr == *'"--frob" is unknown'* ]]
	got 2 ls -x
	[[ $stderr == *'"-x" is unknown'* ]]
	got 2 -d
	[[ $stderr == *"needs a value"* ]]
	got 2 ls --json=yes
	[[ $stderr == *"takes no value"* ]]
	got 2 ls --apply
	got 2 ls extra
	got 2 show
	got 2 renew "$id1"
	got 2 release
	got 2 register
	got 2 register +2h --request "$id1,expires_at=+2h"
	got 2 register --request "$id1,expires_at=+2h" --request-file -
	got 2 register --request "$id1,expires_at=+2h" --label x
	got 2 confirm
	got 2 confirm "$id1" --request "$id1,expires_at=+2h"
	got 2 request +2h --floating --source "1:$id1"
	got 2 snapshots --limit x
	got 2 snapshots --since -1
}

@test "global options stand before or after the command, PINFS_DATASET names the table" {
	use plain
	got 0 status --json
	local want=$output at=$PINFS_DATASET
	unset PINFS_DATASET
	got 0 -d "$at" --json status
	[ "$output" = "$want" ]
	got 0 status --json --dataset "$at" -b main
	[ "$output" = "$want" ]
	got 0 --dataset="$at" status --json
	[ "$output" = "$want" ]
	PINFS_DATASET=/nonexistent got 0 -d "$at" status --json
	[ "$output" = "$want" ]
}

@test "no table given is a usage error, no table there a failure, in one sentence" {
	local command
	unset PINFS_DATASET
	for command in status enable ls snapshots 'branch ls' 'tag ls' check "show $id1" "renew $id1 +2h" "release $id1" \
		expire 'request +2h' 'register +2h' "confirm $id1"; do
		# shellcheck disable=SC2086
		got 2 $command
		one_sentence
		[[ $stderr == *PINFS_DATASET* ]]
	done
	mkdir "$BATS_TEST_TMPDIR/empty"
	for PINFS_DATASET in "$BATS_TEST_TMPDIR/empty" "$BATS_TEST_TMPDIR/nothing" "$BATS_TEST_DIRNAME/pinctl.bats"; do
		export PINFS_DATASET
		for command in status enable ls snapshots 'branch ls' 'tag ls' check "show $id1" "renew $id1 +2h" \
			"release $id1" expire 'request +2h' 'register +2h'; do
			# shellcheck disable=SC2086
			got 1 $command
			one_sentence
			[ -z "$output" ]
		done
	done
	[ -z "$(ls -A "$BATS_TEST_TMPDIR/empty")" ]
}

@test "version" {
	got 0 version
	[[ $output =~ ^pinctl\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
	local want=$output
	got 0 -V
	[ "$output" = "$want" ]
	got 0 ls --version
	[ "$output" = "$want" ]
}

@test "output that cannot be written is a failure" {
	use_pinned
	run -1 --separate-stderr bash -c 'pinctl ls >/dev/full'
	[[ $stderr == *"No space left on device"* ]]
	run -1 --separate-stderr bash -c 'pinctl ls >&-'
	one_sentence
	# Held is held: what did not arrive is no "not held", which is status 1.
	run -76 --separate-stderr bash -c "pinctl confirm $id1 >/dev/full"
	run -76 --separate-stderr bash -c "pinctl confirm $id1 --json >/dev/full"
	# A reader who left: no words about it.
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	# shellcheck disable=SC2016 # of the inner shell
	run -1 --separate-stderr bash -c 'exec 5<>"$1" 6>"$1" 5<&-; pinctl snapshots --json >&6' - "$BATS_TEST_TMPDIR/pipe"
	[ -z "$stderr" ]
}

@test "no file of the table gets the number of a closed standard descriptor" {
	strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"
	use_pinned
	local log=$BATS_TEST_TMPDIR/log
	ASAN_OPTIONS=detect_leaks=0 strace -f -o "$log" -e trace=openat pinctl register +2h --id "$id2" <&- 2>&-
	grep -q 'O_CREAT.* = [0-9]*$' "$log"
	run -1 grep 'O_CREAT.* = [0-2]$' "$log"
	got 0 confirm "$id2"
}

# --- looking ----------------------------------------------------------------------------------------------------------

@test "status before pins are enabled" {
	use plain
	got 0 status
	[[ $output == *"table      $PINFS_DATASET"* ]]
	[[ $output == *"head       version $(expected .latest_version), "* ]]
	[[ $output == *"transaction $(expected '.versions[-1].transaction.uuid')"* ]]
	[[ $output == *"pins       not enabled: "*"pinctl enable --apply"* ]]
	[ "${#lines[@]}" -le 24 ]
	got 0 status --json
	[ "$(jq -c '[.version, .rows, .fragments, .transaction, .pins, .pins_enabled, .window, .branch, .branch_id]' <<<"$output")" = \
		"$(expected '.versions[-1] | [.version, .rows, .fragments, .transaction.uuid, 0, false, null, "main", null]' | jq -c .)" ]
}

@test "status with pins: count, soonest expiry, window" {
	use_pinned
	local source
	source=$(pinctl show "$id1" | jq .source_version)
	got 0 status
	[[ $output == *"pins       1, soonest expiry 2031-01-01T00:00:00Z, in "*"; 0 overdue"* ]]
	[[ $output == *"window     version $source to $((source + 1)), 2 versions"* ]]
	[[ $output == *"flags      reader: "*"; writer: "*"19 ongoing-work-pins"* ]]
	got 0 status --json
	[ "$(jq -c '[.pins, .pins_enabled, .overdue, .soonest_expiry, .window, .pin_operation, .operation]' <<<"$output")" = \
		'[1,true,0,"2031-01-01T00:00:00Z",{"oldest_source":'"$source"',"head":'$((source + 1))',"versions":2,"missing":0},"register","UpdateConfig"]' ]
}

@test "status says when versions of the window are gone" {
	use_pinned
	local source
	source=$(pinctl show "$id1" | jq .source_version)
	rm "$(manifest_of "$source")"
	got 0 status
	[[ $output == *"2 versions, 1 of them missing"* ]]
	got 0 status --json
	[ "$(jq -c '[.window.versions, .window.missing]' <<<"$output")" = '[1,1]' ]
}

@test "every fixture: status and snapshots say what Lance says" {
	local at release name
	for at in "$source_dir"/tests/fixtures/tables/*/*.lance; do
		release=$(basename "$(dirname "$at")") name=$(basename "$at" .lance)
		fixture=$release/$name.lance
		export PINFS_DATASET=$at
		got 0 status --json
		[ "$(jq -c '[.version, .rows, .fragments, .transaction]' <<<"$output")" = \
			"$(expected '.versions[-1] | [.version, .rows, .fragments, .transaction.uuid]' | jq -c .)" ]
		got 0 snapshots --json
		[ "$(jq -c '[.[] | [.version, .transaction, .timestamp[:19]]]' <<<"$output")" = \
			"$(expected '[.versions[] | [.version, .transaction.uuid, .timestamp[:19]]]' | jq -c .)" ]
	done
	[ "$name" ]
}

@test "snapshots: a line a version, oldest first" {
	use history
	got 0 snapshots
	[ "${#lines[@]}" -eq "$(expected '.versions | length')" ]
	local i=0 version time operation
	while IFS=$'\t' read -r version time operation; do
		[ "$version" = "$(expected ".versions[$i].version")" ]
		[[ $time == "$(expected ".versions[$i].timestamp[:19]")"*Z ]]
		[ "$operation" = "$(expected ".versions[$i].transaction.operation // \"$operation\"")" ]
		i=$((i + 1))
	done <<<"$output"
}

@test "snapshots: --since and --limit, and our own operations by name" {
	use many-versions
	got 0 snapshots --since 299
	[ "$(cut -f 1 <<<"$output" | tr '\n' ' ')" = "299 300 " ]
	got 0 snapshots --limit 3
	[ "$(cut -f 1 <<<"$output" | tr '\n' ' ')" = "298 299 300 " ]
	got 0 snapshots --since 299 --limit 1
	[ "$(cut -f 1 <<<"$output")" = 300 ]
	got 0 snapshots --since 301
	[ -z "$output" ]
	got 0 snapshots --since 301 --json
	[ "$(jq -c . <<<"$output")" = '[]' ]
	pinctl enable --apply 2>/dev/null
	got 0 snapshots --since 301
	[ "$(cut -f 3 <<<"$output")" = "UpdateConfig (enable)" ]
	got 0 snapshots --since 301 --json
	[ "$(jq -c '.[] | [.operation, .pin_operation]' <<<"$output")" = '["UpdateConfig","enable"]' ]
}

@test "snapshots goes on past a damaged version, and exits 3" {
	use history
	local file
	file=$PINFS_DATASET/$(expected '.versions[2].manifest')
	truncate -s -1 "$file"
	got 3 snapshots
	[[ $stderr == *"$(basename "$file")"* ]]
	one_sentence
	[ "${#lines[@]}" -eq $(($(expected '.versions | length') - 1)) ]
}

@test "tag ls" {
	use tags
	got 0 tag ls --json
	[ "$(jq -c '[.[] | [.name, .version, .branch]]' <<<"$output")" = \
		"$(expected '[.tags | to_entries[] | [.key, .value.version, "main"]] | sort' | jq -c .)" ]
	got 0 tag ls
	[ "$(awk '{ print $1, $2, $3 }' <<<"$output")" = \
		"$(expected '.tags | to_entries | sort_by(.key)[] | "\(.key) \(.value.version) main"')" ]
	echo garbage >"$PINFS_DATASET/_refs/tags/broken.json"
	got 3 tag ls
	one_sentence
	[[ $stderr == *broken.json* ]]
}

@test "branch ls, and pins of a branch are its own" {
	use plain
	"$BATS_TEST_DIRNAME/make-branch" "$PINFS_DATASET" feat/x
	local version
	version=$(expected .latest_version)
	got 0 branch ls
	[ "$(tr -s ' ' <<<"$output")" = "main $version 0"$'\n'"feat/x $version 0 main:$version" ]
	got 0 branch ls --json
	[ "$(jq -c '[.[] | [.name, .head, .parent, .parent_version]]' <<<"$output")" = \
		"[[\"main\",$version,null,null],[\"feat/x\",$version,\"main\",$version]]" ]

	got 1 -b nope ls
	one_sentence
	pinctl -b feat/x enable --apply
	got 1 register +2h # main is not enabled by that
	local line
	line=$(pinctl request -b feat/x 2031-01-01T00:00:00Z --id "$id1")
	[[ $line == "$id1,expires_at=2031-01-01T00:00:00Z,source="*",branch=feat%2Fx,branch_id="* ]]
	got 2 -b main register --request "$line"
	one_sentence
	got 0 register --request "$line" # the line says the branch
	got 0 -b feat/x confirm "$id1"
	[[ $output == *" of feat/x, id "* ]]
	got 1 confirm "$id1"
	got 0 confirm --request "$line"
	got 1 -b main confirm --request "$line"
	got 0 ls
	[ -z "$output" ]
	got 0 branch ls
	[ "$(awk '{ print $3 }' <<<"$output" | tr '\n' ' ')" = "0 1 " ]
}

@test "check: nothing wrong with any fixture" {
	local at
	for at in "$source_dir"/tests/fixtures/tables/*/*.lance; do
		got 0 -d "$at" check
		[[ $'\n'$output != *$'\n'damage* ]]
		one_sentence
	done
}

@test "check: one line a finding, exit 3" {
	use history
	local file
	file=$(expected '.versions[1].manifest')
	truncate -s -1 "$PINFS_DATASET/$file"
	got 3 check
	local severity branch version name text
	IFS=$'\t' read -r severity branch version name text < <(grep ^damage <<<"$output")
	[ "$severity $branch $name" = "damage main $file" ]
	[[ $version == 2 && -n $text ]]
	[[ ${stderr_lines[-1]} == "pinctl: "*" manifests, "*" 1 damaged, "* ]]
	got 3 check --json
	[ "$(jq -r '.totals.damages, (.findings[] | select(.severity == "damage") | .file)' <<<"$output")" = 1$'\n'"$file" ]
}

# damaged COMMAND...: it exits 3 and says where the damage is, as $want.
damaged() {
	got 3 "$@"
	[[ $stderr == *"$want"* ]]
	one_sentence
}

@test "damaged files: exit 3, the place, and nothing is written" {
	local bad=$source_dir/tests/data/bad before kind name want seen=
	while IFS=$'\t' read -r name want; do
		kind=${name%%/*}
		PINFS_DATASET=$BATS_TEST_TMPDIR/$name.lance
		export PINFS_DATASET
		mkdir -p "${PINFS_DATASET%/*}"
		case $kind in
		manifest | index | transaction)
			mkdir -p "$PINFS_DATASET/_versions"
			cp "$bad/$name" "$PINFS_DATASET/_versions/7.manifest"
			;;
		*) cp -a "$source_dir/tests/fixtures/tables/0.39.0/plain.lance" "$PINFS_DATASET" ;;
		esac
		before=$(tree)
		case $kind in
		manifest)
			damaged ls
			damaged enable --apply
			damaged release "$id1"
			;;
		transaction)
			damaged status --json
			# What can be read is shown all the same.
			[[ -z $output || $(jq .transaction <<<"$output") == null ]]
			damaged request +2h
			damaged snapshots
			;;
		txn-file)
			fixture=0.39.0/plain.lance
			cp "$bad/$name" "$PINFS_DATASET/$(expected '.versions[-1].files[] | select(endswith(".txn"))')"
			before=$(tree)
			damaged request +2h
			;;
		tag)
			mkdir -p "$PINFS_DATASET/_refs/tags"
			cp "$bad/$name" "$PINFS_DATASET/_refs/tags/keep.json"
			before=$(tree)
			damaged tag ls
			;;
		branch)
			mkdir -p "$PINFS_DATASET/_refs/branches"
			cp "$bad/$name" "$PINFS_DATASET/_refs/branches/feat%2Fx.json"
			before=$(tree)
			damaged branch ls
			;;
		esac
		got 3 check
		[[ $'\n'$output == *$'\n'damage$'\t'*"$want"* ]]
		[ "$(tree)" = "$before" ]
		seen+=" $kind"
	done <"$bad/expected"
	[[ $seen == *manifest*index*transaction*txn-file*tag*branch* ]]
}

# --- JSON -------------------------------------------------------------------------------------------------------------

@test "--json is one JSON value from every command" {
	use_pinned
	local command
	while read -r command; do
		# shellcheck disable=SC2086
		run --separate-stderr pinctl --json $command
		[ "$(jq -cs 'length' <<<"$output")" = 1 ]
	done <<-END
		status
		enable
		enable --apply
		ls
		ls --expired
		show $id1
		request +2h
		register +2h
		confirm $id1
		confirm $nobody
		renew $id1 2032-01-01T00:00:00Z
		release $nobody
		expire
		expire --apply
		snapshots
		branch ls
		tag ls
		check
		version
	END
}
