#include "cli/stat_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

void stat_mean_add(struct stat_mean *m, double value)
{
	double off = value - m->mean;

	m->runs++;
	m->mean += off / m->runs;
	m->squares += off * (value - m->mean);
}

double stat_mean_error(const struct stat_mean *m)
{
	return m->runs > 1 ? sqrt(m->squares / (m->runs - 1) / m->runs) : 0;
}

double stat_mean_percent(const struct stat_mean *m)
{
	return m->mean != 0 ? 100 * stat_mean_error(m) / m->mean : 0;
}

bool stat_cell_is_counted(const struct stat_cell *c)
{
	return c->is_supported && c->running.mean > 0;
}

void stat_table_init(struct stat_table *t, const struct counter_events *events,
		     const struct counters_place *places, size_t place_count)
{
	*t = (struct stat_table){.events = events, .place_count = place_count};
	t->places = mem_dup(places, place_count * sizeof(*places));
	t->cells = mem_alloc_array(events->count * place_count + 1, sizeof(*t->cells));
}

void stat_table_done(struct stat_table *t)
{
	free(t->cells);
	free(t->places);
	*t = (struct stat_table){};
}

void stat_table_add(struct stat_table *t, const struct counter_value *values, double seconds)
{
	for (size_t i = 0; i < t->events->count * t->place_count; i++) {
		struct stat_cell *c = &t->cells[i];
		c->is_supported = values[i].is_supported;
		c->is_elsewhere = values[i].is_elsewhere;
		stat_mean_add(&c->value, counter_value_scaled(&values[i]));
		stat_mean_add(&c->enabled, (double)values[i].enabled);
		stat_mean_add(&c->running, (double)values[i].running);
	}
	stat_mean_add(&t->seconds, seconds);
}

/* An event of the same place that counts where `like` does. 0: none, or it counted nothing. */
static double value_of(const struct stat_table *t, size_t place, const struct counter_event *like,
		       __u32 type, __u64 config)
{
	for (size_t i = 0; i < t->events->count; i++) {
		const struct counter_event *e = &t->events->list[i];
		const struct stat_cell *c = &t->cells[i * t->place_count + place];
		if (counter_event_is(e, type, config) && stat_cell_is_counted(c) &&
		    e->attr.exclude_user == like->attr.exclude_user &&
		    e->attr.exclude_kernel == like->attr.exclude_kernel)
			return c->value.mean;
	}
	return 0;
}

/* How long the threads ran, in nanoseconds; 0: that was not counted. */
static double time_run(const struct stat_table *t, size_t place)
{
	for (size_t i = 0; i < t->events->count; i++) {
		const struct stat_cell *c = &t->cells[i * t->place_count + place];
		if (counter_event_is_clock(&t->events->list[i]) && stat_cell_is_counted(c))
			return c->value.mean;
	}
	return 0;
}

static size_t say(struct stat_metric *ret, double value, int decimals, const char *unit)
{
	*ret = (struct stat_metric){.value = value, .decimals = decimals, .after = ""};
	snprintf(ret->unit, sizeof(ret->unit), "%s", unit);
	return 1;
}

static size_t say_rate(struct stat_metric *ret, double per_second)
{
	static const char *const units[] = {"/sec", "K/sec", "M/sec", "G/sec"};
	size_t unit = 0;

	for (; per_second > 1000 && unit + 1 < ARRAY_SIZE(units); unit++)
		per_second /= 1000;
	return say(ret, per_second, 3, units[unit]);
}

/* Of which other event an event is a share, and how that is said. */
struct share {
	__u32 type;
	__u64 config;
	__u32 of_type;
	__u64 of_config;
	const char *unit;
};

#define HARDWARE(name)      PERF_TYPE_HARDWARE, PERF_COUNT_HW_##name
#define CACHE(name, result) PERF_TYPE_HW_CACHE, PERF_COUNT_HW_CACHE_##name | (result) << 16
#define CACHE_SHARE(name, unit)                                                                    \
	{                                                                                          \
		CACHE(name, 1), CACHE(name, 0), unit                                               \
	}

static const struct share shares[] = {
	{HARDWARE(BRANCH_MISSES), HARDWARE(BRANCH_INSTRUCTIONS), "of all branches"},
	{HARDWARE(CACHE_MISSES), HARDWARE(CACHE_REFERENCES), "of all cache refs"},
	{HARDWARE(STALLED_CYCLES_FRONTEND), HARDWARE(CPU_CYCLES), "frontend cycles idle"},
	{HARDWARE(STALLED_CYCLES_BACKEND), HARDWARE(CPU_CYCLES), "backend cycles idle"},
	CACHE_SHARE(L1D, "of all L1-dcache accesses"),
	CACHE_SHARE(L1I, "of all L1-icache accesses"),
	CACHE_SHARE(LL, "of all LL-cache accesses"),
	CACHE_SHARE(DTLB, "of all dTLB cache accesses"),
	CACHE_SHARE(ITLB, "of all iTLB cache accesses"),
};

static bool say_share(const struct stat_table *t, const struct counter_event *e, size_t place,
		      double value, struct stat_metric *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(shares); i++) {
		const struct share *s = &shares[i];
		if (!counter_event_is(e, s->type, s->config))
			continue;
		double all = value_of(t, place, e, s->of_type, s->of_config);
		if (!all)
			return false;
		say(ret, 100 * value / all, 2, s->unit);
		ret->after = "%";
		return true;
	}
	return false;
}

static size_t say_instructions(const struct stat_table *t, const struct counter_event *e,
			       size_t place, double value, struct stat_metric *ret)
{
	double cycles = value_of(t, place, e, HARDWARE(CPU_CYCLES));
	double front = value_of(t, place, e, HARDWARE(STALLED_CYCLES_FRONTEND));
	double back = value_of(t, place, e, HARDWARE(STALLED_CYCLES_BACKEND));
	size_t count = 0;

	if (cycles)
		count += say(&ret[count], value / cycles, 2, "insn per cycle");
	if (value && (front || back))
		count += say(&ret[count], MAX(front, back) / value, 2, "stalled cycles per insn");
	return count;
}

size_t stat_table_metrics(const struct stat_table *t, size_t event, size_t place,
			  struct stat_metric ret[static STAT_METRICS_MAX])
{
	const struct counter_event *e = &t->events->list[event];
	const struct stat_cell *c = &t->cells[event * t->place_count + place];
	double value = c->value.mean, ran = time_run(t, place);

	if (!stat_cell_is_counted(c))
		return 0;
	if (counter_event_is_clock(e))
		return t->seconds.mean > 0
			       ? say(ret, value / 1e9 / t->seconds.mean, 3, "CPUs utilized")
			       : 0;
	if (counter_event_is(e, HARDWARE(CPU_CYCLES)))
		return ran ? say(ret, value / ran, 3, "GHz") : 0;
	if (counter_event_is(e, HARDWARE(INSTRUCTIONS)))
		return say_instructions(t, e, place, value, ret);
	if (say_share(t, e, place, value, ret))
		return 1;
	return ran ? say_rate(ret, value * e->scale * 1e9 / ran) : 0;
}
