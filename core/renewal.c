#include "render.h"

#include <string.h>

/* Is there a member that no record has? */
static const char *unknown_key(json_t *got, const json_t *want)
{
	const char *key;
	json_t *value;

	json_object_foreach(got, key, value) if (!json_object_get(want, key)) return key;
	return NULL;
}

/* The same record but for expires_at: an editor that has an older text open, or another pin's, must not pass. */
static int same_but_expiry(json_t *got, json_t *want, struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT];
	const char *key = unknown_key(got, want);
	json_t *value;

	if (key)
		return pf_why_set(why, -EINVAL, "a pin's record has no member %s",
				  pf_text_quote(key, strlen(key), quoted));
	json_object_foreach(want, key, value)
	{
		const json_t *other = json_object_get(got, key);
		if (!other)
			return pf_why_set(why, -EINVAL, "the record written has no member \"%s\"", key);
		if (strcmp(key, "expires_at") != 0 && !json_equal(other, value))
			return pf_why_set(why, -EINVAL,
					  "\"%s\" differs from the pin's record; only expires_at can be changed", key);
	}
	return 0;
}

static int parse_record(const char *s, size_t len, struct pf_time now, const struct pf_pin *pin, struct pf_time *out,
			struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT];
	json_error_t err;

	json_auto_t *got = json_loadb(s, len, JSON_REJECT_DUPLICATES, &err);
	if (!got)
		return pf_why_set(why, -EINVAL, "what was written begins like a record but is not JSON: %s in line %d",
				  pf_text_quote(err.text, strlen(err.text), quoted), err.line);
	json_auto_t *want = pf_json_pin(pin);
	if (!want)
		return pf_why_set(why, -ENOMEM, "out of memory");

	int r = same_but_expiry(got, want, why);
	if (r < 0)
		return r;
	const json_t *t = json_object_get(got, "expires_at");
	if (!json_is_string(t))
		return pf_why_set(why, -EINVAL, "\"expires_at\" is not a string");
	return pf_time_parse(json_string_value(t), json_string_length(t), now, out, why);
}

int pf_renewal_parse(const char *s, size_t len, struct pf_time now, const struct pf_pin *pin, struct pf_time *out,
		     struct pf_why *why)
{
	if (len > PF_RENEWAL_MAX)
		return pf_why_set(why, -EINVAL, "%zu bytes are neither a time nor a pin's record", len);
	while (len > 0 && s[len - 1] == '\n')
		len--;
	if (len > 0 && s[0] == '{')
		return parse_record(s, len, now, pin, out, why);
	return pf_time_parse(s, len, now, out, why);
}
