/* The pause between attempts that others won: of pin commits and of prepared work. */
#ifndef PF_BACKOFF_H
#define PF_BACKOFF_H

/* Lost races that are retried at once. */
#define PF_BACKOFF_FREE 3

/* After `lost` of them: return at once, or after a random time that grows to 64 ms, because the others are as busy as we are. */
void pf_back_off(unsigned lost);

#endif
