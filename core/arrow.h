/*
 * Arrow IPC files, in the one shape in which Lance keeps row offsets: one batch of one column of uint32 that is never null, plain or compressed by ZSTD.
 * (Apache Arrow, "IPC File Format", with its File.fbs, Schema.fbs and Message.fbs, metadata version V5; FlatBuffers, "Binary format".)
 *
 * Debian 12 has no C library that reads them.
 */
#ifndef PF_ARROW_H
#define PF_ARROW_H

#include "buf.h"
#include "error.h"

/*
 * Append the values of the column, which has this name, to out: uint32 in the byte order of the machine. They are in no order, and any may be there
 * twice. Nothing is allocated for more than `max` of them.
 *   -EBADMSG  damaged, of another shape, or more values: the sentence gives the offset
 */
int pf_arrow_read_u32(const void *file, size_t len, const char *column, uint64_t max, struct pf_buf *out,
		      struct pf_why *why);

#endif
