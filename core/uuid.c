#include "text.h"

#include <stdio.h>
#include <string.h>
#include <uuid.h>

static bool all(const struct pf_uuid *u, uint8_t byte)
{
	for (size_t i = 0; i < sizeof(u->b); i++)
		if (u->b[i] != byte)
			return false;
	return true;
}

bool pf_uuid_valid(const struct pf_uuid *u)
{
	return !all(u, 0) && !all(u, 0xff);
}

bool pf_uuid_eq(const struct pf_uuid *a, const struct pf_uuid *b)
{
	return memcmp(a->b, b->b, sizeof(a->b)) == 0;
}

int pf_uuid_parse(const char *s, size_t len, struct pf_uuid *out, struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT], text[PF_UUID_TEXT];
	struct pf_uuid u;

	/* libuuid wants a C string; one with a NUL inside is too short for it, and refused. */
	bool ok = len == sizeof(text) - 1;
	if (ok) {
		memcpy(text, s, len);
		text[len] = '\0';
		ok = uuid_parse(text, u.b) == 0;
	}
	if (!ok)
		return pf_why_set(why, -EINVAL,
				  "%s is not an id; expected 36 characters like 01234567-89ab-4cde-8f01-23456789abcd",
				  pf_text_quote(s, len, quoted));
	if (!pf_uuid_valid(&u))
		return pf_why_set(why, -EINVAL, "%s is not an id: all zeros and all ones are refused",
				  pf_text_quote(s, len, quoted));
	*out = u;
	return 0;
}

void pf_uuid_format(const struct pf_uuid *u, char out[PF_UUID_TEXT])
{
	uuid_unparse_lower(u->b, out);
}

void pf_uuid_new(struct pf_uuid *out)
{
	uuid_generate_random(out->b);
}

void pf_uuid_of(const void *bytes, size_t len, struct pf_uuid *out)
{
	static const uuid_t space = { 0x6e, 0x2c, 0x41, 0x0f, 0x93, 0x5d, 0x4e, 0x8b,
				      0xa1, 0x77, 0x1c, 0x58, 0xd0, 0x3a, 0xe9, 0x24 };

	uuid_generate_sha1(out->b, space, bytes, len);
}
