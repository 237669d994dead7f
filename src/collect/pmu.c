#include "collect/pmu.h"

#include <errno.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/nearest.h"

#define DEVICES        "/sys/bus/event_source/devices"
#define LINE_MAX_BYTES 4096

/* One file of a unit, as a line; caller frees. NULL: there is none. */
static char *read_line(const char *pmu, const char *dir, const char *name, const char *end)
{
	CLEANUP(freep) char *path = mem_printf(DEVICES "/%s/%s%s%s", pmu, dir, name, end);
	char *text = NULL;

	if (strchr(name, '/') || file_read(path, LINE_MAX_BYTES, &text, NULL) != 0)
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	return text;
}

static __u64 *config_of(struct perf_event_attr *attr, const char *name, size_t len)
{
	static const char *const names[] = {"config", "config1", "config2"};
	__u64 *const configs[] = {(__u64 *)&attr->config, (__u64 *)&attr->config1,
				  (__u64 *)&attr->config2};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
			return configs[i];
	return NULL;
}

/* Puts the value's bits where the format has them: "config:0-7,32-35". 0 or -EINVAL. */
static int put_bits(struct perf_event_attr *attr, const char *format, uint64_t value)
{
	const char *at = strchr(format, ':');
	__u64 *config = at ? config_of(attr, format, (size_t)(at - format)) : NULL;

	while (config && at && *at) {
		char *end;
		unsigned long first = strtoul(at + 1, &end, 10), last = first;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (end == at + 1 || first > last || last > 63 || (*end && *end != ','))
			return -EINVAL;
		for (unsigned long bit = first; bit <= last; bit++, value >>= 1)
			*config = (*config & ~(1ull << bit)) | (value & 1) << bit;
		at = *end ? end : NULL;
	}
	return config && value == 0 ? 0 : -EINVAL;
}

/* The fields that the name of an event stands for, with its scale and unit. Caller frees; NULL: it
 * is no name. */
static char *find_event(struct pmu_event *e, const char *name)
{
	/* A dot is in the names of files that say more of an event. */
	char *fields = strchr(name, '.') ? NULL : read_line(e->pmu, "events/", name, "");

	if (!fields)
		return NULL;
	CLEANUP(freep) char *scale = read_line(e->pmu, "events/", name, ".scale");
	CLEANUP(freep) char *unit = read_line(e->pmu, "events/", name, ".unit");
	e->scale = scale ? strtod(scale, NULL) : 1;
	snprintf(e->unit, sizeof(e->unit), "%s", unit ? unit : "");
	return fields;
}

/* "tsc,edge": with the names of events replaced by what they stand for. Caller frees. */
static char *replace_events(struct pmu_event *e, const char *terms)
{
	CLEANUP(freep) char *copy = mem_strdup(terms);
	char *all = mem_strdup(""), *save = NULL;

	for (char *t = strtok_r(copy, ",", &save); t; t = strtok_r(NULL, ",", &save)) {
		CLEANUP(freep) char *fields = find_event(e, t);
		CLEANUP(freep) char *before = all;
		all = mem_printf("%s%s%s", before, *before ? "," : "", fields ? fields : t);
	}
	return all;
}

/* "event=0x3c", or "edge", which is 1. */
static int set_field(struct pmu_event *e, const char *term)
{
	const char *value_text = strchr(term, '=');
	size_t len = value_text ? (size_t)(value_text - term) : strlen(term);
	CLEANUP(freep) char *name = mem_strndup(term, len);
	CLEANUP(freep) char *format = read_line(e->pmu, "format/", name, "");
	__u64 *config = config_of(&e->attr, name, len);
	uint64_t value = 1;
	char *end;

	if (value_text) {
		value = strtoull(value_text + 1, &end, 0);
		if (end == value_text + 1 || *end)
			return -EINVAL;
	}
	if (format)
		return put_bits(&e->attr, format, value);
	if (config && value_text)
		*config = value;
	return config && value_text ? 0 : -EINVAL;
}

static int set_fields(struct pmu_event *e, const char *terms, char *why, size_t size)
{
	CLEANUP(freep) char *copy = replace_events(e, terms);
	char *save = NULL;

	for (char *t = strtok_r(copy, ",", &save); t; t = strtok_r(NULL, ",", &save)) {
		if (set_field(e, t) == 0)
			continue;
		CLEANUP(freep) char *events = mem_printf(DEVICES "/%s/events", e->pmu);
		CLEANUP(freep) char *meant = nearest_file(t, events);
		snprintf(why, size, "the unit '%s' has no event or field '%s'%s%s%s", e->pmu, t,
			 meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
		return -ENOENT; /* another machine may have it */
	}
	return 0;
}

int pmu_find(const char *pmu, const char *terms, struct pmu_event *ret, char *why, size_t size)
{
	struct pmu_event e = {.attr = {.size = sizeof(e.attr)}, .scale = 1};
	CLEANUP(freep)
	char *type = strchr("./", *pmu) || strchr(pmu, '/') ? NULL : read_line(pmu, "", "type", "");

	if (!type || strlen(pmu) >= sizeof(e.pmu)) {
		CLEANUP(freep) char *meant = nearest_file(pmu, DEVICES);
		snprintf(why, size, "this machine has no unit '%s' that counts%s%s%s", pmu,
			 meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
		return -ENOENT;
	}
	snprintf(e.pmu, sizeof(e.pmu), "%s", pmu);
	e.attr.type = (__u32)strtoul(type, NULL, 10);
	int err = set_fields(&e, terms, why, size);
	if (!err)
		*ret = e;
	return err;
}

int pmu_cpus(const char *pmu, cpus_fn *fn, void *ctx)
{
	/* Units beside the cores have the first, kinds of cores the second. */
	CLEANUP(freep) char *mask = read_line(pmu, "", "cpumask", "");
	CLEANUP(freep) char *cpus = mask ? NULL : read_line(pmu, "", "cpus", "");
	const char *text = mask ? mask : cpus;

	return !text || !*text ? -ENOENT : cpus_parse(text, fn, ctx);
}
