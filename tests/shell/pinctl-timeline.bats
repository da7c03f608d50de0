#!/usr/bin/env bats
# A table in one picture: pinctl timeline. Expected pictures are drawn by hand from what the fixtures' recipes say.
# shellcheck disable=SC2154 # stderr, output, lines: set by run
# shellcheck disable=SC2030,SC2031 # each test is a process of its own

load pinctl_lib

setup() {
	unset COLUMNS NO_COLOR
	export LC_ALL=C.UTF-8
}

# In a terminal of its own, so wide.
in_terminal() {
	local columns=$1
	shift
	TERM=xterm python3 - "$columns" "$@" <<-'END'
		import fcntl, os, pty, struct, sys, termios
		pid, fd = pty.fork()
		if pid == 0:
		    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
		    os.execvp(sys.argv[2], sys.argv[2:])
		try:
		    while data := os.read(fd, 4096):
		        os.write(1, data.replace(b"\r\n", b"\n"))
		except OSError:  # the other end is closed
		    pass
		sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
	END
}

# plain: what was printed, without colours
# shellcheck disable=SC2001 # no pattern of the shell does this
plain() {
	sed 's/\x1b\[[0-9;]*m//g' <<<"$output"
}

# widest: of the lines that were printed, in characters
widest() {
	awk '{ if (length($0) > most) most = length($0) } END { print most + 0 }' <<<"$output"
}

@test "timeline: versions, tags, and what is kept" {
	use tags
	run -0 --separate-stderr at '2099-01-01 00:00:00' pinctl timeline
	[ -z "$stderr" ]
	# Its age grows with the fixtures.
	[ "$(sed '/^age /d' <<<"$output")" = "\
main · head 5 · 5 versions, 4 kept · 0 pins

version   1     2     3     4     5
          ●─────○─────●─────●─────◆
tags      ▲ first     ▲ release-2.0
                            ▲ moved

● kept  ○ not kept  ◆ head" ]
	[[ ${lines[2]} =~ ^age\ +7[0-9]y\ +7 ]]
}

@test "timeline: pins, and without a locale only ASCII" {
	use plain
	local v
	v=$(head_version)
	at '2098-12-31 22:00:00' pinctl enable --apply 2>/dev/null
	at '2098-12-31 22:00:00' pinctl register 2099-01-01T03:00:00Z --id "$id1" --label größer >/dev/null 2>&1
	at '2098-12-31 22:00:00' pinctl register 2098-12-31T23:00:00Z --id "$id2" >/dev/null 2>&1
	run -0 at '2099-01-01 00:00:00' env LC_ALL=C pinctl timeline --width 80
	[ "$(sed '/^age /d' <<<"$output")" = "\
main; head $((v + 3)); $((v + 3)) versions, 3 kept; 2 pins

version          1       3       5       7       9       11
                 o---o---o---o---o---o---o---o---*---*---@
window                                3 versions \\-------/
01234567 gr??er                                  |------->          3h left
01234567                                             |===>          60m overdue

* kept  o not kept  @ head" ]
}

@test "timeline: as wide as the terminal, as COLUMNS, or as asked for" {
	use many-versions
	got 0 timeline
	[ "$(widest)" -le 80 ] && [ "$(widest)" -gt 74 ]
	run -0 in_terminal 100 pinctl timeline
	output=$(plain)
	[ "$(widest)" -le 100 ] && [ "$(widest)" -gt 94 ]
	COLUMNS=60 got 0 timeline
	[ "$(widest)" -le 60 ] && [ "$(widest)" -gt 54 ]
	COLUMNS=60 got 0 timeline --width 120
	[ "$(widest)" -le 120 ] && [ "$(widest)" -gt 114 ]
	got 2 timeline --width 39
	[ "$stderr" = "pinctl: --width 39: expected 40 to 10000 columns" ]
	got 2 timeline --width wide
}

@test "timeline: colours on a terminal alone, and not with NO_COLOR" {
	use tags
	got 0 timeline
	[[ $output != *$'\x1b'* ]]
	# At one moment, since it tells how old all is.
	run -0 at '2099-01-01 00:00:00' in_terminal 80 pinctl timeline
	[[ $output == *$'\x1b[32m●'* ]]
	[[ $(plain) == "$(at '2099-01-01 00:00:00' pinctl timeline)" ]]
	NO_COLOR=1 run -0 in_terminal 80 pinctl timeline
	[[ $output != *$'\x1b'* ]]
}

@test "timeline --svg: a file of its own, whole or not at all" {
	use_pinned
	mkdir "$BATS_TEST_TMPDIR/here"
	cd "$BATS_TEST_TMPDIR/here"
	umask 027
	got 0 timeline --svg picture.svg
	[ -z "$output$stderr" ]
	python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' picture.svg
	grep -q '>01234567 first</text>' picture.svg
	[ "$(stat -c %a picture.svg)" = 640 ]
	[ "$(pinctl timeline --svg - | grep -c .)" = "$(grep -c . picture.svg)" ]

	mkdir sealed
	chmod 555 sealed
	run -1 --separate-stderr unprivileged pinctl timeline --svg sealed/picture.svg
	[ "$stderr" = "pinctl: cannot write sealed/picture.svg: Permission denied" ]
	run -1 --separate-stderr pinctl timeline --svg .
	one_sentence
	# What is no file is written to, not replaced.
	mkfifo pipe
	cat pipe >copy &
	got 0 timeline --svg pipe
	wait $!
	[ -p pipe ] && grep -q '</svg>' copy
	[ "$(ls -A)" = "$(printf '%s\n' copy picture.svg pipe sealed)" ]
}

@test "timeline --json: what is drawn" {
	use_pinned
	local v
	v=$(head_version)
	got 0 timeline --json
	[ "$(jq -c '[.branch, .head, .window, .pins[0].id, (.columns | length), .columns[-1]]' <<<"$output")" = \
		'["main",'"$v"',{"oldest_source":'$((v - 1))',"versions":2},"'"$id1"'",'"$v"',{"first":'"$v"',"last":'"$v"',"versions":1,"kept":1,"damaged":0}]' ]
	got 2 timeline --json --svg -
	one_sentence
}

@test "timeline: a damaged version is drawn as such, a damaged head is exit 3" {
	use plain
	printf x >"$(manifest_of 3)"
	got 0 timeline
	[[ $output == *✖* && $output == *"1 damaged"* ]]
	printf x >"$(manifest_of "$(pinctl snapshots 2>/dev/null | tail -n 1 | cut -f 1)")"
	got 3 timeline
	[ -z "$output" ]
	got 1 -b nobody timeline
}

@test "timeline: a tag that cannot be read may keep more than is drawn: exit 3" {
	use tags
	printf '{' >"$PINFS_DATASET/_refs/tags/moved.json"
	got 3 timeline
	one_sentence
	[[ $stderr == "pinctl: more may be kept: \"_refs/tags/moved.json\": "* ]]
	[[ $output == *"5 versions, 3 kept"* ]]
}
