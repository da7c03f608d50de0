#include "manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SUFFIX	   ".manifest"
#define SUFFIX_LEN (sizeof(SUFFIX) - 1)
#define V2_DIGITS  20

int pf_manifest_name_parse(const char *name, uint64_t *version, bool *v2)
{
	size_t len = strlen(name);
	uint64_t n = 0;

	if (len <= SUFFIX_LEN || strcmp(name + len - SUFFIX_LEN, SUFFIX) != 0)
		return 0;
	size_t digits = len - SUFFIX_LEN;
	for (size_t i = 0; i < digits; i++) {
		if (name[i] < '0' || name[i] > '9')
			return 0;
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, (uint64_t)(name[i] - '0'), &n))
			return 0;
	}
	/* Lance tells the schemes apart by length alone. A V1 name of 20 digits would need a version that only detached ones have. */
	bool inverted = digits == V2_DIGITS;
	if (!inverted && digits > 1 && name[0] == '0')
		return 0;
	*version = inverted ? UINT64_MAX - n : n;
	*v2 = inverted;
	return 1;
}

bool pf_manifest_name_misleads(const char *name)
{
	static const char end[] = "manifest"; /* with or without a dot before it */
	const char *number = name[0] == '+' ? name + 1 : name;
	size_t len = strlen(name), digits = strspn(number, "0123456789");
	uint64_t version;
	bool v2;

	return digits > 0 && number[digits] == '.' && len >= sizeof(end) - 1 &&
	       strcmp(name + len - (sizeof(end) - 1), end) == 0 && !pf_manifest_name_parse(name, &version, &v2);
}

void pf_manifest_name_format(uint64_t version, bool v2, char out[PF_MANIFEST_NAME_MAX])
{
	if (v2)
		snprintf(out, PF_MANIFEST_NAME_MAX, "%0*" PRIu64 SUFFIX, V2_DIGITS, UINT64_MAX - version);
	else
		snprintf(out, PF_MANIFEST_NAME_MAX, "%" PRIu64 SUFFIX, version);
}
