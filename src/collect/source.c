#include "collect/source.h"

#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>

/* Each array ends with a NULL name. */
extern const struct source_kind sample_sources[], page_fault_sources[];

static const struct source_kind *const all[] = {
	sample_sources,
	page_fault_sources,
	NULL,
};

const struct source_kind *source_find(const char *name)
{
	for (const struct source_kind *const *list = all; *list; list++)
		for (const struct source_kind *k = *list; k->name; k++)
			if (strcmp(k->name, name) == 0)
				return k;
	return NULL;
}

const char *source_names(void)
{
	static char names[1024];
	size_t len = 0;

	for (const struct source_kind *const *list = all; *list; list++)
		for (const struct source_kind *k = *list; k->name && len < sizeof(names); k++)
			len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s",
						len ? ", " : "", k->name);
	return names;
}

uint64_t source_counter(const struct source *s, uint32_t cpu, enum wire_counter which)
{
	struct wire_counts c = {};

	bpf_map_lookup_elem(s->counters_fd, &cpu, &c);
	return c.n[which];
}
