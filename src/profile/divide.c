#include "profile/divide.h"

void profile_divide(struct profile *p, uint64_t by)
{
	uint64_t carry = by / 2;

	for (uint32_t i = 0; i < p->sample_count; i++) {
		/* The view is read-only; the memory is the profile's own. */
		uint64_t *value = (uint64_t *)(uintptr_t)&p->samples[i].value;
		uint64_t rest = *value % by + carry;
		*value = *value / by + rest / by;
		carry = rest % by;
	}
}
