#include "flags.h"

#include "pins.pb-c.h"

#define BIT(n) (UINT64_C(1) << (n))

const uint64_t PF_FLAG_PINS = BIT(PINS__NUMBER__FLAG_BIT);

/* Lance 14.0.2's bits, and ours. */
static const char *const names[64] = {
	[0] = "deletion-files",
	[1] = "stable-row-ids",
	[2] = "v2-format",
	[3] = "table-config",
	[4] = "base-paths",
	[5] = "no-transaction-file",
	[6] = "data-overlays",
	[7] = "covered-index-metadata",
	[8] = "mixed-data-file-versions",
	[9] = "frag-reuse-with-stable-row-ids",
	[10] = "tagged-frag-reuse-index",
	[11] = "hidden-row-lineage",
	[12] = "fragment-tree",
	[13] = "independent-covering-fields",
	[14] = "managed-blobs",
	[15] = "non-reusable-field-ids",
	[16] = "zone-write-seeds",
	[17] = "object-metadata",
	[PINS__NUMBER__FLAG_BIT] = "ongoing-work-pins",
};

/* What we understand well enough to read, and to carry in a commit that touches no fragment: 0-8, 10, 11, 14 and 15. */
static const uint64_t understood = 0x1ff | BIT(10) | BIT(11) | BIT(14) | BIT(15);

/* Bits that mean something only when both words have them. */
static const uint64_t paired = BIT(8) | BIT(10) | BIT(14) | BIT(16);

const char *pf_flag_name(unsigned bit)
{
	return bit < ARRAY_LEN(names) && names[bit] ? names[bit] : "unknown";
}

int pf_flags_describe(uint64_t word, struct pf_buf *out)
{
	const char *sep = "";

	for (unsigned bit = 0; bit < ARRAY_LEN(names); bit++) {
		if (!(word & BIT(bit)))
			continue;
		int r = pf_buf_addf(out, "%s%u %s", sep, bit, pf_flag_name(bit));
		if (r < 0)
			return r;
		sep = ", ";
	}
	return 0;
}

/* A sentence that ends in the bits of `word`. */
static int refuse(struct pf_why *why, int err, const char *text, uint64_t word)
{
	_cleanup_(pf_buf_release) struct pf_buf bits = PF_BUF_INIT;

	if (pf_flags_describe(word, &bits) < 0)
		return -ENOMEM;
	const char *s = pf_buf_str(&bits);
	return s ? pf_why_set(why, err, "%s: %s", text, s) : -ENOMEM;
}

int pf_flags_readable(uint64_t reader, uint64_t writer, struct pf_why *why)
{
	uint64_t alone = (reader ^ writer) & paired;

	if (alone)
		return refuse(why, -EBADMSG, "expected these feature bits in both flag words, found them in one",
			      alone);
	if (reader & ~understood)
		return refuse(why, -EOPNOTSUPP, "not readable: reader feature bits that pinfs does not support",
			      reader & ~understood);
	return 0;
}

int pf_flags_writable(uint64_t writer, struct pf_why *why)
{
	uint64_t lacking = writer & ~(understood | PF_FLAG_PINS);

	if (lacking)
		return refuse(why, -EOPNOTSUPP, "read-only: writer feature bits that pinfs does not support", lacking);
	return 0;
}

/* Bits 0 to 5, 7, 8, 10, 11, 14 and 15, and ours. Of 2 and 5 nothing has to be kept. */
static const uint64_t committable = 0x1bf | BIT(10) | BIT(11) | BIT(14) | BIT(15);

int pf_flags_committable(const struct pf_manifest *m, struct pf_why *why)
{
	uint64_t lacking = (m->reader_flags | m->writer_flags) & ~(committable | PF_FLAG_PINS);

	if (lacking)
		return refuse(why, -EOPNOTSUPP, "work cannot be committed: feature bits that pinfs does not maintain",
			      lacking);
	return 0;
}
