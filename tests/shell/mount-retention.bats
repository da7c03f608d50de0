#!/usr/bin/env bats
# retention/: what is kept, why, of one head; without a walk where none is needed. Walks that take long: mount-walks.bats.
# shellcheck disable=SC2154,SC2030,SC2031 # of run; each test is a subshell

load lib
load retention_lib

setup() {
	lib_setup
}

teardown() {
	lib_teardown
}

@test "the tree of retention/, of the root and of a branch; nothing in it can be changed" {
	retention_mounted 14.0.2/fri.lance
	python3 "$BATS_TEST_DIRNAME/make-branch" "$TABLE" feat/x
	local dir at
	for dir in "$R" "$MNT/branches/feat%2Fx/retention"; do
		same "$(ls "$dir")" 'expired
files
fri
snapshots
summary'
		same "$(ls "$dir/fri")" '0
1'
		same "$(stat -c %A "$dir" "$dir/fri" "$dir/summary" "$dir/fri/0" | tr '\n' ' ')" 'drwxr-xr-x drwxr-xr-x -r--r--r-- -r--r--r-- '
		for at in "$dir" "$dir/fri" "$dir/snapshots"; do
			refused EPERM '' mkdir "$at/new"
			refused EPERM '' bash -c "echo >'$at/new'"
			refused EPERM '' ln -s x "$at/new"
			refused EPERM '' rmdir "$at"
			not test -e "$at/new"
		done
		for at in "$dir/summary" "$dir/files" "$dir/expired" "$dir/fri/1" "$dir/snapshots/13"; do
			refused EPERM '' bash -c "echo x >'$at'"
			refused EPERM '' rm -f "$at"
			refused EPERM '' mv "$at" "$at.old"
			refused EPERM '' touch -d "$LATER" "$at"
			cat "$at" >/dev/null
		done
	done
	same "$(find "$R/snapshots" -type f -printf "%f\n" | sort -n | tr "\n" " ")" "$(printf "%d " {1..13})"
	same "$(ls "$MNT/branches/feat%2Fx/retention/snapshots")" 13
	stop
}

# What Lance says of the fixture, what pins and tags mean, and the sizes on disk: these three make every line.
@test "files, snapshots and summary: to the byte, of a table with tags and a pin" {
	retention_mounted 14.0.2/tags.lance
	new_pin
	python3 - "$PINFS_SOURCE/tests/fixtures/expected.json" "$TABLE" "$R" "$ID" <<-'END'
		import json, os, sys
		expected, table, retention, pin = sys.argv[1:]
		table_of = json.load(open(expected))["14.0.2/tags.lance"]
		pin = "pin:" + pin
		needs = {v["version"]: set(v["files"]) | {v["manifest"]} for v in table_of["versions"]}
		data = {f for f in needs[5] if not f.startswith(("_versions/", "_transactions/"))}
		for v in 6, 7:  # what enables pins, and what registers the pin, change no data
		    txn = [f for f in os.listdir(table + "/_transactions") if f.startswith("%d-" % (v - 1))]
		    needs[v] = data | {"_transactions/" + txn[0], "_versions/%020d.manifest" % (2**64 - 1 - v)}
		why = {v: [] for v in needs}
		for v in 6, 7:
		    why[v].append(pin)
		why[7].append("head")
		for name, tag in sorted(table_of["tags"].items()):
		    why[tag["version"]].append("tag:" + name)
		order = [pin, "head"] + ["tag:" + name for name in sorted(table_of["tags"])]
		def size(f):
		    return os.stat(os.path.join(table, f)).st_size
		lines, kept, free, alone, shared = [], {}, {}, 0, 0
		for f in sorted(set().union(*needs.values())):
		    reasons = {r for v in needs if f in needs[v] for r in why[v]}
		    (kept if reasons else free)[f] = size(f)
		    if reasons:
		        lines.append("%d\t%s\t%s\n" % (size(f), ",".join(r for r in order if r in reasons), f))
		    if reasons == {pin}:
		        alone += size(f)
		    elif pin in reasons:
		        shared += size(f)
		assert free and alone and shared
		got = open(retention + "/files").readlines()
		assert got == lines, (got, lines)

		summary = json.load(open(retention + "/summary"))
		assert summary["branch"] == "main" and summary["head"] == 7 and summary["oldest_source"] == 6, summary
		assert summary["versions"] == {"kept": 5, "free": 2}, summary
		assert summary["files"] == {"kept": len(kept), "free": len(free)}, summary
		assert summary["bytes"] == {"kept": sum(kept.values()), "free": sum(free.values())}, summary
		assert summary["elsewhere"] == {"files": 0, "bytes": 0}, summary
		assert summary["pins"] == 1 and summary["expired"] == 0 and summary["blocked"] is None, summary
		(usage,) = summary["usage"]
		assert "pin:" + usage["id"] == pin and usage["source_version"] == 6 and usage["versions"] == 2, usage
		assert (usage["exclusive_bytes"], usage["shared_bytes"]) == (alone, shared), (usage, alone, shared)

		for v in needs:
		    got = json.load(open("%s/snapshots/%d" % (retention, v)))
		    assert got["version"] == v and got["head"] == 7 and got["readable"] is True, got
		    assert got["reasons"] == why[v], (got, why[v])
		    manifest = "_versions/%020d.manifest" % (2**64 - 1 - v)
		    assert got["manifest"] == manifest and got["manifest_bytes"] == size(manifest), got
		for v in table_of["versions"]:
		    got = json.load(open("%s/snapshots/%d" % (retention, v["version"])))
		    assert got["transaction"] == v["transaction"]["uuid"], got
		    assert got["operation"] == v["transaction"]["operation"], got
		    assert got["timestamp"][:26] == v["timestamp"][:26], got
		assert sorted(map(int, os.listdir(retention + "/snapshots"))) == sorted(needs)
	END
	stop
}

@test "the text of a snapshot" {
	retention_mounted 14.0.2/tags.lance
	local name=_versions/18446744073709551611.manifest
	# The fixture says the rest, to the microsecond.
	same "$(sed -E 's/("timestamp": ".{26}).*Z"/\1"/' "$R/snapshots/4")" "$(
		python3 - "$PINFS_SOURCE/tests/fixtures/expected.json" <<-'END'
			import json, sys
			v = json.load(open(sys.argv[1]))["14.0.2/tags.lance"]["versions"][3]
			print("""{
			  "version": 4,
			  "head": 6,
			  "manifest": "_versions/18446744073709551611.manifest",
			  "manifest_bytes": 621,
			  "transaction": "%s",
			  "operation": "%s",
			  "pin_operation": null,
			  "timestamp": "%s",
			  "readable": true,
			  "reasons": [
			    "tag:moved"
			  ]
			}""" % (v["transaction"]["uuid"], v["transaction"]["operation"], v["timestamp"].rstrip("Z")))
		END
	)"
	same "$(stat -c %s "$TABLE/$name")" 621
	stop
}

@test "names that are no version and no record: absent" {
	retention_mounted 14.0.2/fri.lance
	local name
	for name in 0 14 007 -1 +1 1x x 18446744073709551615 18446744073709551616 .hidden; do
		run cat "$R/snapshots/$name"
		has "$output" 'No such file'
	done
	for name in 2 00 -1 x 18446744073709551616; do
		run cat "$R/fri/$name"
		has "$output" 'No such file'
	done
	# Without a history, and without records.
	stop
	rm -rf "$TABLE"
	retention_mounted
	same "$(ls "$R/fri")" ''
	run cat "$R/fri/0"
	has "$output" 'No such file'
	stop
}

# Two deferred compactions, each of which Lance recorded as a version of its history: the first made fragment 4, the second 6.
@test "fri: who needs a record, and it is of one head" {
	retention_mounted 14.0.2/fri.lance
	new_pin
	python3 - "$R/fri" <<-'END'
		import json, os, sys
		records = [json.load(open(os.path.join(sys.argv[1], n))) for n in sorted(os.listdir(sys.argv[1]))]
		assert [r["record"] for r in records] == [0, 1]
		for r in records:
		    assert r["head"] == 14 and r["kind"] == "version", r
		    # The index is older than both; the pin came after both.
		    assert r["needed_by"] == {"pins": [], "indices": ["id_idx"], "unknown": None}, r
		assert records[0]["stamp"] < records[1]["stamp"]
		assert 6 in [f["fragment"] for g in records[1]["groups"] for f in g["to"]]
	END
	stop
}

@test "sizes: 0 until it is open, as in /proc, and then true; whoever copies gets all of it" {
	retention_mounted
	new_pin
	local file size
	for file in summary files snapshots/9 snapshots/10; do
		same "$(stat -c %s "$R/$file")" 0
		python3 -c 'import os, sys; f = open(sys.argv[1], "rb"); assert os.fstat(f.fileno()).st_size == len(f.read()) > 50' "$R/$file"
		[[ $file == summary ]] && continue # it has the age of the pin: it may be longer the next time
		size=$(wc -c < <(cat "$R/$file"))
		same "$(wc -c <"$R/$file")" "$size"
		cp "$R/$file" "$DIR/copy"
		same "$(stat -c %s "$DIR/copy")" "$size"
		same "$(tail -c 5 "$R/$file" | wc -c)" 5
		same "$(stat -c %s "$R/$file")" 0
	done
	# A line of it may be searched for.
	grep -q "pin:$ID" "$R/files"
	same "$(grep -l "pin:$ID" "$R"/snapshots/* | sort)" "$R/snapshots/10
$R/snapshots/9"
	stop
}

@test "times: of a snapshot those of its file, of what is said of the head those of the head" {
	retention_mounted 14.0.2/tags.lance
	touch -d '2020-02-02T02:02:02.5Z' "$TABLE/_versions/18446744073709551612.manifest"
	same "$(stat -c %y "$R/snapshots/3")" '2020-02-02 02:02:02.500000000 +0000'
	same "$(find "$R/snapshots" ! -newermt 2021-01-01)" "$R/snapshots/3"
	same "$(stat -c %y "$R/summary")" "$(stat -c %y "$MNT/head")"
	stop
}

@test "what an open file says is of one head, whatever is committed while it is read" {
	retention_mounted
	python3 - "$R" "$P" "$T" <<-'END'
		import json, os, sys, uuid
		retention, pins, time = sys.argv[1:]
		def head_of(name):
		    f = os.open(os.path.join(retention, name), os.O_RDONLY)
		    text = b""
		    while part := os.read(f, 7):
		        text += part
		        if len(text) < 50:  # a commit or two in between
		            os.mkdir("%s/%s,expires_at=%s" % (pins, uuid.uuid4(), time))
		    again = os.pread(f, 1 << 20, 0)
		    assert again == text
		    os.close(f)
		    return text
		for i in range(3):
		    before = json.load(open(retention + "/summary"))
		    got = json.loads(head_of("summary"))
		    assert got["head"] == before["head"] and got["pins"] == before["pins"] == len(got["usage"]), (got, before)
		    assert json.load(open(retention + "/summary"))["head"] > before["head"]
		    lines = head_of("files").decode().splitlines()
		    newest = max(2**64 - 1 - int(l.split("/")[1].split(".")[0]) for l in lines if "\t_versions/" in l)
		    assert newest < json.load(open(retention + "/summary"))["head"]
		    assert [l for l in lines if ",head\t_versions/" in l][0].endswith("_versions/%020d.manifest" % (2**64 - 1 - newest))
	END
	stop
}

@test "what others do shows at the next look: commits, tags, removed versions" {
	retention_mounted 14.0.2/tags.lance
	local id name=_versions/18446744073709551613.manifest # version 2, which nothing keeps
	has "$(cat "$R/snapshots/2")" '"reasons": \[\]'
	# One after the other, as fast as can be: nothing is answered from what was so a moment ago.
	for _ in 1 2 3 4 5; do
		sed 's/"version": *[0-9]*/"version": 2/' "$TABLE/_refs/tags/first.json" >"$DIR/tag"
		cp "$DIR/tag" "$TABLE/_refs/tags/.new"
		mv "$TABLE/_refs/tags/.new" "$TABLE/_refs/tags/two.json"
		has "$(tr -d '\n ' <"$R/snapshots/2")" '"reasons":\["tag:two"\]'
		rm "$TABLE/_refs/tags/two.json"
		has "$(cat "$R/snapshots/2")" '"reasons": \[\]'
	done
	id=$(pinctl -d "$TABLE" register "$T" 2>/dev/null)
	has "$(cat "$R/snapshots/6")" "pin:$id"
	test -e "$R/snapshots/7"
	pinctl -d "$TABLE" release "$id" 2>/dev/null
	has "$(cat "$R/snapshots/6")" '"reasons": \[\]'
	mv "$TABLE/$name" "$DIR/away"
	run cat "$R/snapshots/2"
	has "$output" 'No such file'
	not grep -q _versions/18446744073709551613 "$R/files"
	same "$(field "$R/summary" head)" 8
	stop
}

@test "expired: ids past their time, one a line, with a true size; released ones are not" {
	retention_mounted
	local first second
	first=$(PINFS_DATASET=$TABLE overdue)
	second=$(PINFS_DATASET=$TABLE overdue)
	new_pin "$T"
	expired_are() {
		[[ $(cat "$R/expired") == "$1" ]]
	}
	eventually expired_are "$first
$second"
	same "$(stat -c %s "$R/expired")" 74
	same "$(field "$R/summary" expired)" 2
	# They hold all the same.
	grep -q "pin:$first" "$R/files"
	rm "$P/$first"
	same "$(cat "$R/expired")" "$second"
	echo "$T" >"$P/$second"
	same "$(cat "$R/expired")" ''
	stop
}

@test "looking at names reads no manifest but the head" {
	retention_mounted 14.0.2/many-versions.lance
	look_around() {
		find "$MNT" >/dev/null
		ls -lR "$R" >/dev/null
		du -a "$R" >/dev/null
	}
	let_watcher_read
	same "$(find "$R/snapshots" -type f | wc -l)" 302
	traced openat look_around
	same "$(opened)" ''
	cat "$R/expired"
	stop
}

@test "one new commit: one more manifest is read" {
	retention_mounted 14.0.2/many-versions.lance
	cat "$R/summary" >/dev/null
	let_watcher_read
	traced openat cat "$R/summary" >"$DIR/summary"
	has "$(cat "$DIR/summary")" "\"id\": \"$id\""
	# Version 302, and the one that it is compared with for pins that it might have dropped.
	same "$(opened)" '18446744073709551313.manifest
18446744073709551314.manifest'
	traced openat cat "$R/summary" >/dev/null
	same "$(opened)" ''
	traced openat cat "$R/snapshots/301" >"$DIR/snapshot"
	has "$(cat "$DIR/snapshot")" "pin:$id"
	same "$(opened)" ''
	stop
}

@test "a damaged version: blocked, with its file and the pin, and everything can still be read" {
	retention_mounted
	new_pin
	local first=$ID
	new_pin
	truncate -s 40 "$TABLE/_versions/18446744073709551605.manifest" # version 10, in the window of the first
	python3 - "$R" "$first" <<-'END'
		import json, sys
		retention, pin = sys.argv[1:]
		summary = json.load(open(retention + "/summary"))
		assert summary["head"] == 11 and summary["pins"] == 2, summary
		assert "18446744073709551605.manifest" in summary["blocked"] and pin in summary["blocked"], summary
		damaged = json.load(open(retention + "/snapshots/10"))
		assert damaged["readable"] is False and "pin:" + pin in damaged["reasons"], damaged
		assert "_versions/18446744073709551605.manifest\n" in open(retention + "/files").read()
	END
	# Releasing stays possible.
	rm "$P"/*
	same "$(sed -n 's/^  "pins": \(.*\),$/\1/p' "$R/summary")" 0
	stop
}

@test "a missing version in a window: blocked, by its number" {
	retention_mounted
	new_pin
	new_pin
	rm "$TABLE/_versions/18446744073709551605.manifest"
	has "$(field "$R/summary" blocked)$(grep blocked "$R/summary")" 'version 10'
	not test -e "$R/snapshots/10"
	stop
}

@test "a head that cannot be read: EUCLEAN with the sentence; right again when it is" {
	retention_mounted
	new_pin
	cat "$R/summary" >/dev/null
	local head file
	head=$(find "$TABLE/_versions" -name '*.manifest' | sort | head -n 1)
	cp -p "$head" "$DIR/good"
	truncate -s 40 "$head"
	for file in summary files expired snapshots/9; do
		run cat "$R/$file"
		has "$output" 'Structure needs cleaning'
		has "$(status_line)" "EUCLEAN .*${head##*/}"
	done
	ls "$R/snapshots" >/dev/null
	cp -p "$DIR/good" "$head"
	has "$(cat "$R/snapshots/9")" "pin:$ID"
	stop
}

@test "a history that cannot be read: its files say so, and the others are there" {
	retention_mounted 14.0.2/fri.lance
	local head
	head=$(find "$TABLE/_versions" -name '*.manifest' | sort | head -n 1)
	# The first digest of the history claims more than there is.
	python3 - "$head" <<-'END'
		import sys
		data = bytearray(open(sys.argv[1], "rb").read())
		at = data.index(b"__lance_frag_reuse")
		data[at : at + 4] = b"\xff\xff\xff\xff"
		open(sys.argv[1], "wb").write(data)
	END
	run ls "$R/fri"
	[[ $status != 0 || ! $output ]]
	ls "$R/snapshots" >/dev/null
	stop
}

@test "readdir goes on where it stopped, by any program" {
	retention_mounted 14.0.2/many-versions.lance
	python3 - "$R/snapshots" "$P" "$T" <<-'END'
		import ctypes, os, sys, uuid
		libc = ctypes.CDLL(None)
		libc.opendir.restype = ctypes.c_void_p
		libc.readdir.restype = ctypes.c_void_p
		libc.telldir.restype = ctypes.c_long
		for f in libc.readdir, libc.telldir, libc.closedir:
		    f.argtypes = [ctypes.c_void_p]
		libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
		def name(d):
		    e = libc.readdir(d)
		    return ctypes.string_at(e + 19) if e else None
		d = libc.opendir(sys.argv[1].encode())
		places, names = [], []
		while True:
		    places.append(libc.telldir(d))
		    n = name(d)
		    if not n:
		        break
		    names.append(n)
		    if len(names) == 100:
		        os.mkdir("%s/%s,expires_at=%s" % (sys.argv[2], uuid.uuid4(), sys.argv[3]))
		assert [int(n) for n in names[2:]] == list(range(1, 302)), names
		for i in 250, 3, 100:
		    libc.seekdir(d, places[i])
		    assert name(d) == names[i], i
		libc.closedir(d)
		assert len(os.listdir(sys.argv[1])) == 302
	END
	stop
}

@test "metrics: bytes of the last account, and none is taken for them" {
	retention_mounted 14.0.2/tags.lance
	metric() {
		sed -n "s/^$1{branch=\"main\"} //p" "$MNT/.pinfs/metrics"
	}
	same "$(metric pinfs_kept_bytes)$(metric pinfs_free_bytes)$(metric pinfs_kept_head_version)" ''
	same "$(metric pinfs_pins)" 0
	cat "$R/summary" >"$DIR/summary"
	same "$(metric pinfs_kept_head_version)" 6
	same "$(metric pinfs_kept_bytes) $(metric pinfs_free_bytes)" "$(jq -r '"\(.bytes.kept) \(.bytes.free)"' "$DIR/summary")"
	new_pin
	same "$(metric pinfs_kept_head_version)" 6
	stop
}

@test "the figures are those of pinctl" {
	retention_mounted 14.0.2/fri.lance
	new_pin "$T,label=a"
	new_pin "$T"
	python3 "$BATS_TEST_DIRNAME/make-branch" "$TABLE" feat/x
	local branch dir
	for branch in main feat/x; do
		dir=$R
		[[ $branch == main ]] || dir=$MNT/branches/feat%2Fx/retention
		pinctl -d "$TABLE" -b "$branch" --json usage >"$DIR/usage" || :
		pinctl -d "$TABLE" -b "$branch" --json snapshots --reasons >"$DIR/snapshots" || :
		pinctl -d "$TABLE" -b "$branch" --json fri >"$DIR/fri" || :
		python3 - "$dir" "$DIR" <<-'END'
			import json, os, sys
			retention, out = sys.argv[1:]
			def of_pinctl(name):
			    return json.load(open(os.path.join(out, name)))
			def of_mount(name):
			    return json.load(open(os.path.join(retention, name)))
			def ageless(usage):
			    return [{k: v for k, v in u.items() if k not in ("age_seconds", "bytes_per_hour")} for u in usage]
			snapshots = of_pinctl("snapshots")
			assert [s["version"] for s in snapshots] == sorted(map(int, os.listdir(retention + "/snapshots")))
			for s in snapshots:
			    assert s == of_mount("snapshots/%d" % s["version"]), s
			records = of_pinctl("fri")
			assert records and len(records) == len(os.listdir(retention + "/fri"))
			for r in records:
			    assert r == of_mount("fri/%d" % r["record"]), r
			mine, theirs = of_mount("summary"), of_pinctl("usage")
			theirs_pins = theirs["usage"] if isinstance(theirs, dict) else theirs
			key = lambda u: u["id"]
			assert sorted(ageless(mine["usage"]), key=key) == sorted(ageless(theirs_pins), key=key), (mine, theirs)
			if isinstance(theirs, dict):
			    for k in mine.keys() & theirs.keys() - {"usage"}:
			        assert mine[k] == theirs[k], k
		END
	done
	stop
}

# A branch by Lance refers to files of the version that it hangs from. Such tables name their place, so they are made where the test runs.
@test "branches made by Lance: what they need of each other" {
	[[ -e ${PINFS_VENVS:-${XDG_CACHE_HOME:-$HOME/.cache}/pinfs/venvs}/pylance-14.0.2/.done ]] || skip 'no Lance 14.0.2: run tools/venv 14.0.2'
	TABLE=$DIR/t.lance
	"$PINFS_SOURCE/tests/fixtures/make" --only branches --release 14.0.2 --out "$TABLE" >"$DIR/expected"
	mount_table
	R=$MNT/retention
	python3 - "$DIR/expected" "$MNT" <<-'END'
		import json, sys
		table, mnt = json.load(open(sys.argv[1])), sys.argv[2]
		def retention(name, file):
		    return open("%s/%sretention/%s" % (mnt, "branches/%s/" % name if name else "", file)).read()
		def reasons(name, version):
		    return json.loads(retention(name, "snapshots/%d" % version))["reasons"]
		assert "branch:dev" in reasons("", 2) and "branch:feat/x" in reasons("", 3)
		assert reasons("", 1) == [] and "tag:main-2" in reasons("", 2)
		assert "tag:feat-4" in reasons("feat%2Fx", 4)
		for name, of in [("", table)] + [(b.replace("/", "%2F"), t) for b, t in table["branches"].items()]:
		    summary = json.loads(retention(name, "summary"))
		    assert summary["head"] == of["latest_version"] and summary["blocked"] is None, (name, summary)
		    assert (summary["branch"] or "main").replace("/", "%2F") == (name or "main"), summary
		# What a branch reads of main's data, main keeps for it, and the branch names it by main's path.
		shared = {l.split("\t")[2] for l in retention("dev", "files").splitlines()} & {
		    l.split("\t")[2] for l in retention("", "files").splitlines()}
		assert shared and all(p.startswith("data/") for p in shared), shared
		for l in retention("", "files").splitlines():
		    size, why, path = l.split("\t")
		    assert path not in shared or "branch:dev" in why.split(","), l
	END
	stop
}
