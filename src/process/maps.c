#include "process/maps.h"

#include "base/mem.h"

static uint64_t next_version(void)
{
	static uint64_t last;

	return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

struct maps *maps_new(void)
{
	struct maps *m = mem_alloc(sizeof(*m));

	m->refs = 1;
	m->version = next_version();
	return m;
}

struct maps *maps_ref(struct maps *m)
{
	m->refs++;
	return m;
}

void maps_unref(struct maps *m)
{
	if (!m || --m->refs)
		return;
	free(m->list);
	free(m);
}

struct maps *maps_copy(const struct maps *m)
{
	struct maps *copy = maps_new();

	copy->count = copy->cap = m->count;
	copy->list = mem_dup(m->list, m->count * sizeof(*m->list));
	return copy;
}

struct maps *maps_own(struct maps *m)
{
	if (m->refs == 1)
		return m;

	struct maps *copy = maps_copy(m);
	maps_unref(m);
	return copy;
}

/* The first mapping that ends after addr; count if there is none. */
static size_t first_after(const struct maps *m, uint64_t addr)
{
	size_t lo = 0, hi = m->count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (m->list[mid].end > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

static void insert_at(struct maps *m, size_t at, const struct mapping *new)
{
	MEM_GROW(m->list, m->count, m->cap);
	memmove(&m->list[at + 1], &m->list[at], (m->count - at) * sizeof(*m->list));
	m->list[at] = *new;
	m->count++;
}

static void remove_at(struct maps *m, size_t at, size_t count)
{
	if (count == 0)
		return; /* the list may be NULL */
	memmove(&m->list[at], &m->list[at + count], (m->count - at - count) * sizeof(*m->list));
	m->count -= count;
}

bool maps_replaces(const struct maps *m, const struct mapping *new)
{
	for (size_t i = first_after(m, new->start); i < m->count; i++) {
		const struct mapping *old = &m->list[i];
		if (old->start >= new->end)
			break;
		if (!old->inode && !new->inode) /* both anonymous */
			continue;
		if (old->path != new->path || old->inode != new->inode ||
		    old->start - old->offset != new->start - new->offset)
			return true;
	}
	return false;
}

bool maps_is_anonymous(const struct maps *m, uint64_t start, uint64_t end)
{
	size_t at = first_after(m, start);
	const struct mapping *old = at < m->count ? &m->list[at] : NULL;

	return old && old->start <= start && end <= old->end && !old->inode;
}

void maps_remove(struct maps *m, uint64_t start, uint64_t end)
{
	if (start >= end)
		return;

	m->version = next_version();
	size_t at = first_after(m, start);
	if (at < m->count && m->list[at].start < start) {
		struct mapping *old = &m->list[at];
		if (old->end > end) { /* in the middle of it: keep both ends */
			struct mapping right = *old;
			right.offset += end - right.start;
			right.start = end;
			old->end = start;
			insert_at(m, at + 1, &right);
			return;
		}
		old->end = start;
		at++;
	}

	size_t covered = at;
	while (covered < m->count && m->list[covered].end <= end)
		covered++;
	remove_at(m, at, covered - at);
	if (at < m->count && m->list[at].start < end) {
		m->list[at].offset += end - m->list[at].start;
		m->list[at].start = end;
	}
}

bool maps_insert(struct maps *m, const struct mapping *new)
{
	if (new->start >= new->end)
		return true;
	if (m->count >= MAPS_MAX)
		return false;
	maps_remove(m, new->start, new->end);
	insert_at(m, first_after(m, new->start), new);
	return true;
}

struct mapping *maps_find(const struct maps *m, uint64_t addr)
{
	size_t at = first_after(m, addr);

	return at < m->count && m->list[at].start <= addr ? &m->list[at] : NULL;
}
