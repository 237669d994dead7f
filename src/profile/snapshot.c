#include "profile/snapshot.h"

#include <errno.h>

#include "base/mem.h"
#include "profile/entries.h"

#define VERSION 1

static const char magic[3] = "SMP";

void snapshot_write(const struct profile *p, struct pack *out)
{
	const struct profile_info *i = &p->info;
	const uint64_t numbers[] = {i->period, i->start_ns,  i->duration_ns,
				    i->lost,   i->truncated, i->capped};
	uint8_t version = VERSION;
	struct entries_mark mark = {};

	pack_raw(out, magic, sizeof(magic));
	pack_raw(out, &version, 1);
	pack_str(out, i->type, strlen(i->type));
	pack_str(out, i->unit, strlen(i->unit));
	for (size_t k = 0; k < ARRAY_SIZE(numbers); k++)
		pack_u64(out, numbers[k]);
	entries_write(p, &mark, SIZE_MAX / 2, out);
	pack_u64(out, p->sample_count);
	for (uint32_t k = 0; k < p->sample_count; k++) {
		pack_u64(out, p->samples[k].series);
		pack_u64(out, p->samples[k].stack);
		pack_u64(out, p->samples[k].count);
		pack_u64(out, p->samples[k].value);
	}
}

static const char *read_word(struct unpack *in, struct profile *p)
{
	size_t len;
	const char *s = unpack_str(in, 256, &len);
	char copy[257];

	memcpy(copy, s, len);
	copy[len] = '\0';
	return profile_keep(p, copy);
}

/*
 * Entries are added before type and unit: interning these first would give them ids that the
 * entries must have.
 */
int snapshot_read(const void *bytes, size_t len, struct profile *p)
{
	struct unpack in = {bytes, (const uint8_t *)bytes + len, false};
	const char *mark = unpack_raw(&in, sizeof(magic));
	const uint8_t *version = unpack_raw(&in, 1);

	if (in.bad || memcmp(mark, magic, sizeof(magic)) != 0)
		return -EBADMSG;
	if (*version != VERSION)
		return -EPROTONOSUPPORT;

	struct unpack head = in;
	size_t skip;
	unpack_str(&in, 256, &skip);
	unpack_str(&in, 256, &skip);
	uint64_t *numbers[] = {&p->info.period, &p->info.start_ns,  &p->info.duration_ns,
			       &p->info.lost,   &p->info.truncated, &p->info.capped};
	for (size_t k = 0; k < ARRAY_SIZE(numbers); k++)
		*numbers[k] = unpack_u64(&in);
	int r = in.bad ? -EBADMSG : entries_read(p, &in);
	if (r)
		return r == -ESTALE ? -EBADMSG : r;
	p->info.type = read_word(&head, p);
	p->info.unit = read_word(&head, p);

	uint64_t count = unpack_max(&in, SNAPSHOT_SAMPLES_MAX);
	for (uint64_t k = 0; k < count && !in.bad; k++) {
		uint32_t series = (uint32_t)unpack_max(&in, p->series_count - 1);
		uint32_t stack = (uint32_t)unpack_max(&in, p->stack_count - 1);
		uint64_t samples = unpack_u64(&in), value = unpack_u64(&in);
		if (!in.bad)
			profile_add(p, series, stack, samples, value);
	}
	return in.bad || in.at != in.end ? -EBADMSG : 0;
}
