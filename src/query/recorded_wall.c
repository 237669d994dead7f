#include "query/recorded_wall.h"

#include <string.h>

#include "pipeline/wall.h"
#include "query/computed.h"
#include "query/wall_parts.h"

/* The kinds of samples that there are: see pipeline/wall.h. */
enum kind { SAMPLED, RAN, LOST, OFF, KINDS };

static enum kind kind_of(const struct profile *p, uint32_t series)
{
	const char *state = profile_label(p, series, "state");

	return !state                             ? SAMPLED
	       : strcmp(state, WALL_RUNNING) == 0 ? RAN
	       : strcmp(state, WALL_LOST) == 0    ? LOST
						  : OFF;
}

struct profile *recorded_wall(const struct profile *recorded)
{
	static const char *const labels[] = {"comm", "pid", "thread", "tid", "state", "reason"};
	struct wall_parts_list lists[KINDS];
	struct sample *samples[KINDS];
	struct profile *all = profile_new();

	for (int k = 0; k < KINDS; k++) {
		samples[k] = mem_alloc_array(recorded->sample_count + 1, sizeof(*samples[k]));
		lists[k] = (struct wall_parts_list){recorded, samples[k], 0};
	}
	for (uint32_t i = 0; i < recorded->sample_count; i++) {
		enum kind k = kind_of(recorded, recorded->samples[i].series);
		samples[k][lists[k].count++] = recorded->samples[i];
	}
	struct wall_parts parts = {
		.ran = lists[RAN],
		.sampled = lists[SAMPLED],
		.off = lists[OFF],
		.lost = lists[LOST],
		.owner = {"pid", "tid"},
		.by = labels,
		.by_count = ARRAY_SIZE(labels),
	};
	all->info = recorded->info;
	all->info.type = COMPUTED_WALL;
	all->info.unit = "nanoseconds";
	all->info.period = 0;
	wall_parts_sum(&parts, all);
	for (int k = 0; k < KINDS; k++)
		free(samples[k]);
	return all;
}
