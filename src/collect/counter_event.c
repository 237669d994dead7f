#include "collect/counter_event.h"

#include <errno.h>
#include <stdarg.h>
#include <strings.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/nearest.h"
#include "base/text.h"
#include "collect/tracepoint.h"

struct known {
	const char *name;
	__u32 type;
	__u64 config;
};

static const struct known known[] = {
	{"cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK},
	{"task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK},
	{"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
	{"faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
	{"context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
	{"cs", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
	{"cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
	{"migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
	{"minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN},
	{"major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ},
	{"alignment-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_ALIGNMENT_FAULTS},
	{"emulation-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_EMULATION_FAULTS},
	{"cgroup-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CGROUP_SWITCHES},
	{"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
	{"cpu-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
	{"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
	{"cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES},
	{"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
	{"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
	{"branch-instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
	{"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
	{"bus-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BUS_CYCLES},
	{"ref-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES},
	{"stalled-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
	{"idle-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
	{"stalled-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
	{"idle-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
};

/* The names of cache events are made of these two, by their numbers in perf_event.h. */
static const char *const caches[] = {"L1-dcache", "L1-icache", "LLC", "dTLB",
				     "iTLB",      "branch",    "node"};
static const char *const cache_uses[][2] = {
	{"loads", "load-misses"},
	{"stores", "store-misses"},
	{"prefetches", "prefetch-misses"},
};
#define CACHE_NAMES (ARRAY_SIZE(caches) * ARRAY_SIZE(cache_uses) * 2)

void counter_events_done(struct counter_events *e)
{
	free(e->list);
	*e = (struct counter_events){};
}

static __attribute__((format(printf, 3, 4))) int refuse(struct counter_events *e, int err,
							const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e->error, sizeof(e->error), fmt, ap);
	va_end(ap);
	return err;
}

static __u64 cache_config(unsigned cache, unsigned use, bool misses)
{
	return cache | use << 8 | (misses ? 1u : 0u) << 16;
}

__u64 counter_event_cache(unsigned cache, bool misses)
{
	return cache_config(cache, PERF_COUNT_HW_CACHE_OP_READ, misses);
}

static struct known cache_event(size_t i, char ret_name[static 32])
{
	size_t cache = i / (ARRAY_SIZE(cache_uses) * 2), use = i / 2 % ARRAY_SIZE(cache_uses);

	snprintf(ret_name, 32, "%s-%s", caches[cache], cache_uses[use][i % 2]);
	return (struct known){ret_name, PERF_TYPE_HW_CACHE,
			      cache_config((unsigned)cache, (unsigned)use, i % 2)};
}

static bool find_known(const char *name, struct perf_event_attr *attr)
{
	char cache_name[32];

	for (size_t i = 0; i < ARRAY_SIZE(known) + CACHE_NAMES; i++) {
		struct known k = i < ARRAY_SIZE(known)
					 ? known[i]
					 : cache_event(i - ARRAY_SIZE(known), cache_name);
		if (strcasecmp(k.name, name) == 0) {
			attr->type = k.type;
			attr->config = k.config;
			return true;
		}
	}
	return false;
}

/* "r1a8" */
static bool find_raw(const char *name, struct perf_event_attr *attr)
{
	const char *end = name + strlen(name);
	uint64_t config;

	if (name[0] != 'r' || !name[1] || text_parse_hex(name + 1, end, &config) != end)
		return false;
	attr->type = PERF_TYPE_RAW;
	attr->config = config;
	return true;
}

static int unknown(struct counter_events *e, const char *name)
{
	const char *names[ARRAY_SIZE(known) + CACHE_NAMES + 1] = {};
	char cache_names[CACHE_NAMES][32];

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		names[i] = known[i].name;
	for (size_t i = 0; i < CACHE_NAMES; i++)
		names[ARRAY_SIZE(known) + i] = cache_event(i, cache_names[i]).name;
	const char *meant = nearest_word(name, names);
	return refuse(e, -EINVAL, "there is no event '%s'%s%s%s", name,
		      meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
}

/* Modifiers: false if the word is not made of them. */
static bool parse_modifiers(const char *word, struct perf_event_attr *attr)
{
	bool user = strchr(word, 'u'), kernel = strchr(word, 'k'), hypervisor = strchr(word, 'h');
	bool guest = strchr(word, 'G'), host = strchr(word, 'H');

	if (!*word || strspn(word, "ukhGH") != strlen(word))
		return false;
	if (user || kernel || hypervisor) {
		attr->exclude_user = !user;
		attr->exclude_kernel = !kernel;
		attr->exclude_hv = !hypervisor;
	}
	if (guest != host) {
		attr->exclude_guest = host;
		attr->exclude_host = guest;
	}
	return true;
}

/* "msr/tsc/", "cpu/event=0x3c/u" */
static int parse_pmu(struct counter_events *e, struct counter_event *event, char *name)
{
	char *terms = strchr(name, '/'), *end = strrchr(name, '/');
	struct pmu_event found;

	if (terms == end || (end[1] && !parse_modifiers(end + 1, &event->attr)))
		return refuse(e, -EINVAL,
			      "'%s' is not an event; one of a unit is as in msr/tsc/ or "
			      "cpu/event=0x3c/u",
			      name);
	event->base = (size_t)(end + 1 - name);
	*terms = *end = '\0';
	int err = pmu_find(name, terms + 1, &found, e->error, sizeof(e->error));
	if (err)
		return err;
	event->attr.type = found.attr.type;
	event->attr.config = found.attr.config;
	event->attr.config1 = found.attr.config1;
	event->attr.config2 = found.attr.config2;
	event->scale = found.scale;
	memcpy(event->unit, found.unit, sizeof(event->unit));
	memcpy(event->pmu, found.pmu, sizeof(event->pmu));
	return 0;
}

/* "cycles", "cycles:u", "sched:sched_switch", "sched:sched_switch:k" */
static int parse_one(struct counter_events *e, struct counter_event *event)
{
	CLEANUP(freep) char *name = mem_strdup(event->name);
	struct perf_event_attr *attr = &event->attr, plain;
	char *last = strrchr(name, ':');
	uint64_t id;

	if (strchr(name, '/') && !last)
		return parse_pmu(e, event, name);
	if (last && parse_modifiers(last + 1, attr)) {
		*last = '\0';
		event->base = (size_t)(last - name);
	}
	char *colon = strchr(name, ':');
	if (!colon)
		return find_known(name, attr) || find_raw(name, attr) ? 0 : unknown(e, name);
	*colon = '\0';
	if (find_known(name, &plain) || find_raw(name, &plain))
		return refuse(e, -EINVAL,
			      "'%s' does not say where to count %s; u, k, h, G and H do, as in "
			      "%s:u",
			      colon + 1, name, name);
	int err = tracepoint_find(name, colon + 1, &id, e->error, sizeof(e->error));
	if (err)
		return err;
	attr->type = PERF_TYPE_TRACEPOINT;
	attr->config = id;
	return 0;
}

static int add_one(struct counter_events *e, const char *name, size_t len, size_t leader)
{
	struct counter_event event = {.attr = {.size = sizeof(event.attr)}, .scale = 1};
	char clean[TEXT_MAX + 1];

	if (len == 0)
		return refuse(e, -EINVAL, "an event is missing between two commas");
	text_clean(name, len, clean);
	if (strlen(clean) > COUNTER_NAME_MAX - 4)
		return refuse(e, -EINVAL, "there is no event '%.40s…': no name is so long", clean);
	if (e->count == COUNTER_EVENTS_MAX)
		return refuse(e, -EINVAL, "at most %d events are counted at a time",
			      COUNTER_EVENTS_MAX);
	event.base = strlen(clean);
	memcpy(event.name, clean, event.base + 1);
	event.leader = MIN(leader, e->count);
	int err = parse_one(e, &event);
	if (err)
		return err;
	if (counter_event_is_clock(&event)) {
		event.scale = 1e-6;
		snprintf(event.unit, sizeof(event.unit), "msec");
	}
	MEM_GROW(e->list, e->count, e->cap);
	e->list[e->count++] = event;
	return 0;
}

/* Where the name of an event ends: the commas of its unit's fields are part of it. */
static size_t name_length(const char *at)
{
	size_t len = strcspn(at, ",{}/");

	if (at[len] == '/') {
		len++;
		len += strcspn(at + len, "{}/");
		len += strcspn(at + len, ",{}");
	}
	return len;
}

int counter_events_add(struct counter_events *e, const char *list)
{
	size_t leader = SIZE_MAX;

	for (const char *at = list;; at++) {
		if (*at == '{' && leader == SIZE_MAX) {
			leader = e->count;
			at++;
		}
		size_t len = name_length(at);
		int err = add_one(e, at, len, leader);
		if (err)
			return err;
		at += len;
		if (*at == '}' && leader != SIZE_MAX) {
			leader = SIZE_MAX;
			at++;
		}
		if (*at == '\0' && leader == SIZE_MAX)
			return 0;
		if (*at != ',')
			return refuse(e, -EINVAL, "the braces in '%s' do not match", list);
	}
}

void counter_events_add_default(struct counter_events *e, bool of_cpus, bool detailed)
{
	static const char stalled[] = "/sys/bus/event_source/devices/cpu/events/stalled-cycles-";
	static const char *const ends[] = {"frontend", "backend"};

	counter_events_add(e, of_cpus ? "cpu-clock" : "task-clock");
	counter_events_add(e, "context-switches,cpu-migrations,page-faults,cycles");
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		CLEANUP(freep) char *path = mem_printf("%s%s", stalled, ends[i]);
		CLEANUP(freep) char *name = mem_printf("stalled-cycles-%s", ends[i]);
		if (access(path, F_OK) == 0)
			counter_events_add(e, name);
	}
	counter_events_add(e, "instructions,branches,branch-misses");
	if (detailed)
		counter_events_add(
			e, "L1-dcache-loads,L1-dcache-load-misses,LLC-loads,LLC-load-misses");
}

bool counter_event_is(const struct counter_event *e, __u32 type, __u64 config)
{
	return e->attr.type == type && e->attr.config == config;
}

bool counter_event_is_clock(const struct counter_event *e)
{
	return counter_event_is(e, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK) ||
	       counter_event_is(e, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
}

bool counter_event_only_user(struct counter_event *e)
{
	if (e->name[e->base] || e->attr.type == PERF_TYPE_TRACEPOINT)
		return false;
	e->attr.exclude_kernel = e->attr.exclude_hv = 1;
	snprintf(e->name + e->base, sizeof(e->name) - e->base, "%s", *e->pmu ? "u" : ":u");
	return true;
}
