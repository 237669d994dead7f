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

static int add_terms(struct pmu_event *e, const char *terms, bool is_named, char *why, size_t size);

/* "event=0x3c", "edge" (which is 1), or the name of an event. */
static int add_term(struct pmu_event *e, char *term, bool is_named, char *why, size_t size)
{
	char *value_text = strchr(term, '='), *end = NULL;
	uint64_t value = 1;

	if (value_text) {
		*value_text++ = '\0';
		value = strtoull(value_text, &end, 0);
	}
	bool is_number = !value_text || (end != value_text && !*end);
	__u64 *config = config_of(&e->attr, term, strlen(term));
	CLEANUP(freep) char *format = read_line(e->pmu, "format/", term, "");
	CLEANUP(freep)
	char *alias = !value_text && !is_named ? read_line(e->pmu, "events/", term, "") : NULL;
	if (alias) {
		CLEANUP(freep) char *scale = read_line(e->pmu, "events/", term, ".scale");
		CLEANUP(freep) char *unit = read_line(e->pmu, "events/", term, ".unit");
		e->scale = scale ? strtod(scale, NULL) : 1;
		snprintf(e->unit, sizeof(e->unit), "%s", unit ? unit : "");
		return add_terms(e, alias, true, why, size);
	}
	if (is_number && config && value_text) {
		*config = value;
		return 0;
	}
	if (is_number && format && put_bits(&e->attr, format, value) == 0)
		return 0;
	CLEANUP(freep) char *events = mem_printf(DEVICES "/%s/events", e->pmu);
	CLEANUP(freep) char *meant = format ? NULL : nearest_file(term, events);
	snprintf(why, size, "the unit '%s' has no event or field '%s%s%s'%s%s%s", e->pmu, term,
		 value_text ? "=" : "", value_text ? value_text : "",
		 meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
	return -EINVAL;
}

static int add_terms(struct pmu_event *e, const char *terms, bool is_named, char *why, size_t size)
{
	CLEANUP(freep) char *copy = mem_strdup(terms);
	char *save = NULL;
	int err = 0;

	for (char *t = strtok_r(copy, ",", &save); t && !err; t = strtok_r(NULL, ",", &save))
		err = add_term(e, t, is_named, why, size);
	return err;
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
	int err = add_terms(&e, terms, false, why, size);
	if (err)
		return err == -EINVAL ? -ENOENT : err; /* another machine may have it */
	*ret = e;
	return 0;
}

int pmu_cpus(const char *pmu, cpus_fn *fn, void *ctx)
{
	/* Units beside the cores have the first, kinds of cores the second. */
	CLEANUP(freep) char *mask = read_line(pmu, "", "cpumask", "");
	CLEANUP(freep) char *cpus = mask ? NULL : read_line(pmu, "", "cpus", "");
	const char *text = mask ? mask : cpus;

	return !text || !*text ? -ENOENT : cpus_parse(text, fn, ctx);
}
