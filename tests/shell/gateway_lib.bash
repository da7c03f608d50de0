# What the tests of the gateway share: a table with a pin, mounted over itself.
# shellcheck shell=bash disable=SC2034,SC2154 # MNT and P are of lib; of run

# Manifests of versions 6, 7 and 8.
V6=18446744073709551609.manifest
V7=18446744073709551608.manifest
V8=18446744073709551607.manifest

# The table as it was at version 5; pins are enabled by 6, a pin on that is registered by 7; 8, as Lance wrote it, waits beside.
setup() {
	lib_setup
	copy_table
	mv "$TABLE/_versions/$V8" "$DIR/next"
	rm "$TABLE/_versions/$V7" "$TABLE/_versions/$V6"
	pinctl -d "$TABLE" enable --apply >/dev/null
	ID=$(pinctl -d "$TABLE" register "$T" 2>/dev/null)
}

teardown() {
	lib_teardown
}

open_gateway() {
	MNT=$TABLE
	start "$@" "$TABLE" "$TABLE"
	P=$TABLE/.pinfs/pins
}

# call CALL ARGUMENT...: the name of the errno, or what the call of Python's os returned.
call() {
	python3 - "$@" <<-'END'
		import ctypes, errno, fcntl, os, sys
		def falloc(path):
		    f = os.open(path, os.O_RDWR)
		    os.posix_fallocate(f, 0, 1 << 20)
		def copy_range(a, b):
		    os.copy_file_range(os.open(a, os.O_RDONLY), os.open(b, os.O_WRONLY), 10)
		def trunc_open(path):
		    os.close(os.open(path, os.O_WRONLY | os.O_TRUNC))
		def write_open(path):
		    os.close(os.open(path, os.O_RDWR))
		def append_open(path):
		    os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
		def immutable(path):
		    fcntl.ioctl(os.open(path, os.O_RDONLY), 0x40086602, b"\x10\0\0\0\0\0\0\0")
		def exchange(a, b):
		    libc = ctypes.CDLL(None, use_errno=True)
		    if libc.renameat2(-100, a.encode(), -100, b.encode(), 2) < 0:
		        raise OSError(ctypes.get_errno(), "renameat2")
		def create(path):
		    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
		name, *words = sys.argv[1:]
		words = [int(w, 8) if w.startswith("0o") else w for w in words]
		try:
		    print((globals().get(name) or getattr(os, name))(*words))
		except OSError as e:
		    print(errno.errorcode[e.errno])
	END
}

# no ERRNO PATTERN CALL ARGUMENT...: it fails like that, and last_status says why.
no() {
	local errno=$1 pattern=$2
	shift 2
	same "$(call "$@")" "$errno"
	has "$(status_line)" "^[0-9T:.-]+Z $errno .*$pattern"
}

# needed FOLDER...: FILES are those in them that are kept.
needed() {
	local folder
	FILES=()
	for folder; do
		mapfile -t -O "${#FILES[@]}" FILES < <(cut -f 3 "$TABLE/.pinfs/retention/files" | grep "^$folder/" | sed "s|^|$TABLE/|")
	done
	[[ ${#FILES[@]} -gt 0 ]]
}

# stage NAME: the waiting version, as a client stages it.
stage() {
	cp "$DIR/next" "$TABLE/_versions/$1"
}

# The data file that version 8 has and those before have not, put aside: $LAST is its name.
take_last() {
	mv "$DIR/next" "$TABLE/_versions/$V8"
	LAST=$(pinctl -d "$TABLE" snapshots >/dev/null && comm -13 <(named_before) <(files_now))
	[[ $LAST == data/* && $LAST != *$'\n'* ]]
	mv "$TABLE/_versions/$V8" "$DIR/next"
	mkdir "$DIR/last"
	mv "$TABLE/$LAST" "$DIR/last/data"
}

named_before() {
	local f
	for f in "$TABLE"/data/*; do
		! cat "$TABLE/_versions/$V7" "$TABLE"/_versions/1844674407370955161[0-4].manifest | grep -qF "${f##*/}" || echo "${f#"$TABLE/"}"
	done | sort
}

files_now() {
	(cd "$TABLE" && printf '%s\n' data/*) | sort
}

# Each version that is there has the pin's window whole.
window_whole() {
	run pinctl -d "$TABLE" check
	same "$status" 0
	pinctl -d "$TABLE" confirm "$ID" >/dev/null
}
