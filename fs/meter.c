#include "meter.h"

static const char *const outcome_names[FS_OUTCOMES] = {
	[FS_COMMITTED] = "committed", [FS_UNCHANGED] = "unchanged", [FS_REFUSED] = "refused",
	[FS_RACED] = "raced",	      [FS_UNKNOWN] = "unknown",	    [FS_FAILED] = "failed",
};

const char *fs_outcome_name(enum fs_outcome o)
{
	return outcome_names[o];
}

const double fs_bucket_limit[] = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10 };

static enum fs_outcome outcome(const struct pf_answer *a)
{
	switch (-a->err) {
	case 0:
		return a->committed ? FS_COMMITTED : FS_UNCHANGED;
	case EAGAIN:
		return FS_RACED;
	case EINPROGRESS:
		return FS_UNKNOWN;
	case EINVAL:
	case ENOENT:
	case EEXIST:
	case EBUSY:
	case ESTALE:
	case EOPNOTSUPP:
		return FS_REFUSED;
	default:
		return FS_FAILED;
	}
}

void fs_meter_count(struct fs_meter *m, enum pf_op_kind kind, const struct pf_answer *a, double seconds)
{
	struct fs_meter_kind *k = &m->kind[kind];
	size_t i = 0;

	while (i < FS_BUCKETS - 1 && seconds > fs_bucket_limit[i])
		i++;
	k->bucket[i]++;
	k->seconds += seconds;
	k->outcome[outcome(a)]++;
	if (a->attempts > 1)
		k->retries += a->attempts - 1;
	m->guard_failures += a->guard < 0;
}
