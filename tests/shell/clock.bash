# Other clocks than this machine's.
# shellcheck shell=bash

# at TIME COMMAND...: run it with this clock: an absolute time, or +N with a unit (see faketime(1)).
at() {
	local time=$1
	shift
	# The sanitizer wants to be the first library. Not by way of faketime(1): it fails where a killed process of the same id left its semaphore.
	ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0 FAKETIME=$time \
		LD_PRELOAD=$(echo /usr/lib/*/faketime/libfaketimeMT.so.1) "$@"
}

# overdue [OPTION...]: register a pin that is past its time at once, by a clock that is an hour late; its id.
overdue() {
	at -1h pinctl register +10m "$@" 2>/dev/null
}
