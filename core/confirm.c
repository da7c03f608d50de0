#include "commit.h"

#include <inttypes.h>
#include <string.h>

void pf_confirmation_release(struct pf_confirmation *c)
{
	pf_pin_release(&c->pin);
	*c = (struct pf_confirmation){ .pin = PF_PIN_INIT };
}

static int cannot_tell(struct pf_why *why, const char *inner)
{
	return pf_why_set(why, -EINPROGRESS, "whether the pin is held cannot be told: %s", inner);
}

int pf_confirm(struct pf_branch *b, const struct pf_uuid *id, const struct pf_request *request,
	       struct pf_confirmation *out, struct pf_why *why)
{
	_cleanup_(pf_confirmation_release) struct pf_confirmation c = { .pin = PF_PIN_INIT };
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	struct pf_why inner = PF_WHY_INIT;
	char text[PF_UUID_TEXT], until[PF_TIME_TEXT];
	const char *name = pf_branch_name(b);

	/*
	 * The branch id before and after the head: a branch that was deleted and made anew in between would lend the
	 * new one's pins to the old one's name.
	 */
	char before[PF_BRANCH_ID_TEXT] = "";
	int r = name ? pf_branch_id(b, before, &inner) : 0;
	if (r == 0)
		r = pf_branch_head(b, &head, &inner);
	if (r == 0 && name)
		r = pf_branch_id(b, c.branch_id, &inner);
	if (r < 0)
		return cannot_tell(why, inner.text[0] ? inner.text : strerror(-r));
	if (strcmp(before, c.branch_id) != 0)
		return cannot_tell(why, "the branch was deleted and made anew while it was read");
	c.version = head->version;

	pf_uuid_format(id, text);
	const struct pf_pin *p = pf_pins_find(&head->pins, id);
	if (!p) {
		pf_why_set(why, 0, "version %" PRIu64 ", the head, has no pin %s", c.version, text);
	} else {
		r = pf_pin_copy(p, &c.pin);
		if (r < 0)
			return cannot_tell(why, strerror(-r));
		c.held = !request || (pf_request_check_branch(request, name, c.branch_id, why) == 0 &&
				      pf_request_compare(request, p, why) == 0);
	}
	r = c.held ? pf_branch_sync(b) : 0;
	if (r < 0)
		return cannot_tell(why, strerror(-r));
	if (c.held) {
		pf_time_format(p->expires_at, until);
		pf_why_set(why, 0, "pin %s holds versions from %" PRIu64 " to %" PRIu64 ", the head, until %s", text,
			   p->source_version, c.version, until);
	}
	*out = c;
	c = (struct pf_confirmation){ .pin = PF_PIN_INIT };
	return 0;
}
