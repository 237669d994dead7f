/* Profiles for tests, written as folded text: "main;work;[k]read 3" with labels before a '|'. */
#pragma once

#include "base/mem.h"
#include "profile/profile.h"

static inline uint32_t sample_string(struct profile *p, const char *s)
{
	return profile_string(p, s, strlen(s));
}

/* A frame: "name", "name@module", "[k]name" (kernel), "[i]name" (inlined), "[j]name", "[m]name". */
static inline uint32_t sample_frame(struct profile *p, const char *spec)
{
	static const struct {
		const char *prefix;
		enum frame_kind kind;
	} kinds[] = {{"[k]", FRAME_KERNEL}, {"[i]", FRAME_INLINED}, {"[j]", FRAME_JIT},
		     {"[m]", FRAME_MARK},   {"[g]", FRAME_GO},      {"[b]", FRAME_BPF}};
	struct frame f = {.kind = FRAME_USER};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strncmp(spec, kinds[i].prefix, 3) == 0) {
			f.kind = kinds[i].kind;
			spec += 3;
			break;
		}
	const char *module = strchr(spec, '@');
	f.name = profile_string(p, spec, module ? (size_t)(module - spec) : strlen(spec));
	if (module)
		f.module =
			profile_module(p, &(struct module){.name = sample_string(p, module + 1)});
	return profile_frame(p, &f);
}

/* Adds "comm=x,pid=1|main;work 3"; the value is the count times ten. */
static inline void sample_add(struct profile *p, const char *line)
{
	CLEANUP(freep) char *copy = mem_strdup(line);
	char *stacks = strchr(copy, '|'), *save, *count = strrchr(copy, ' ');
	struct label labels[8];
	size_t n = 0;
	uint32_t stack = 0;

	*count++ = '\0';
	if (stacks) {
		*stacks++ = '\0';
		for (char *l = strtok_r(copy, ",", &save); l; l = strtok_r(NULL, ",", &save)) {
			char *value = strchr(l, '=');
			*value++ = '\0';
			labels[n++] = (struct label){sample_string(p, l), sample_string(p, value)};
		}
	}
	for (char *f = strtok_r(stacks ? stacks : copy, ";", &save); f;
	     f = strtok_r(NULL, ";", &save))
		stack = profile_stack(p, stack, sample_frame(p, f));
	uint64_t value = strtoull(count, NULL, 10);
	profile_add(p, profile_series(p, labels, n), stack, value, value * 10);
}

#define SAMPLE(...) sample_profile((const char *const[]){__VA_ARGS__, NULL})
static inline struct profile *sample_profile(const char *const *lines)
{
	struct profile *p = profile_new();

	for (; *lines; lines++)
		sample_add(p, *lines);
	return p;
}
