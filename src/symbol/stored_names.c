#include "symbol/stored_names.h"

#include <pthread.h>

#include "base/text.h"
#include "symbol/file_symbols.h"

#define FILES_MAX   64u
#define BYTES_MAX   (16u << 20)
#define SYMBOLS_MAX (1u << 20) /* of one file: 12 MB */

struct open_file {
	char id[DEBUG_CACHE_ID];
	int fd;
	struct file_symbols *symbols; /* NULL: it cannot be read */
	uint64_t used;
};

struct stored_names {
	pthread_mutex_t lock;
	struct debug_cache *cache;
	stored_names_wanted_fn *wanted;
	void *ctx;
	struct open_file files[FILES_MAX];
	uint32_t count;
	size_t bytes;
	uint64_t clock;
	struct stored_names_stats stats; /* read without the lock: loading a table takes long */
};

struct stored_names *stored_names_new(struct debug_cache *cache, stored_names_wanted_fn *wanted,
				      void *ctx)
{
	struct stored_names *n = mem_alloc(sizeof(*n));

	pthread_mutex_init(&n->lock, NULL);
	n->cache = cache;
	n->wanted = wanted;
	n->ctx = ctx;
	return n;
}

static void close_file(struct stored_names *n, uint32_t at)
{
	struct open_file *f = &n->files[at];

	n->bytes -= f->symbols ? file_symbols_bytes(f->symbols) : 0;
	file_symbols_free(f->symbols);
	close(f->fd);
	n->files[at] = n->files[--n->count];
}

void stored_names_free(struct stored_names *n)
{
	if (!n)
		return;
	while (n->count)
		close_file(n, 0);
	pthread_mutex_destroy(&n->lock);
	free(n);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): it is added to. */
static void count(uint64_t *sum, uint64_t n)
{
	__atomic_add_fetch(sum, n, __ATOMIC_RELAXED);
}

/* ---- the debug files that are open ----------------------------------------------------------- */

static void make_room(struct stored_names *n)
{
	while (n->count == FILES_MAX || (n->count && n->bytes > BYTES_MAX)) {
		uint32_t oldest = 0;
		for (uint32_t i = 1; i < n->count; i++)
			if (n->files[i].used < n->files[oldest].used)
				oldest = i;
		close_file(n, oldest);
	}
}

/* NULL: it is not there, or it cannot be read. */
static struct file_symbols *open_file(struct stored_names *n, const char *id)
{
	int fd = debug_cache_open(n->cache, id);
	if (fd < 0)
		return NULL;

	make_room(n);
	struct open_file *f = &n->files[n->count++];
	*f = (struct open_file){.fd = fd, .used = ++n->clock};
	snprintf(f->id, sizeof(f->id), "%s", id);
	struct file_symbols_source source = {.fd = fd, .is_debug_file = true};
	if (file_symbols_open(&source, SYMBOLS_MAX, &f->symbols) == 0)
		n->bytes += file_symbols_bytes(f->symbols);
	else
		count(&n->stats.unreadable, 1);
	return f->symbols;
}

static struct file_symbols *symbols_of(struct stored_names *n, const char *id)
{
	enum debug_cache_state state = debug_cache_find(n->cache, id);

	for (uint32_t i = 0; i < n->count; i++) {
		if (strcmp(n->files[i].id, id) != 0)
			continue;
		if (state >= DEBUG_CACHE_DOWNLOADED) {
			n->files[i].used = ++n->clock;
			return n->files[i].symbols;
		}
		close_file(n, i); /* it was removed: the disk gets its room back */
		break;
	}
	if (state == DEBUG_CACHE_UNKNOWN && n->wanted)
		n->wanted(n->ctx, id);
	return state >= DEBUG_CACHE_DOWNLOADED ? open_file(n, id) : NULL;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* The address in "[gzip+0x4710]"; false if it is another kind of name. */
static bool parse_place(const char *name, uint64_t *ret_vaddr)
{
	const char *plus = name[0] == '[' ? strrchr(name, '+') : NULL;
	const char *end = plus ? strchr(plus, ']') : NULL;

	return end && !end[1] && strncmp(plus, "+0x", 3) == 0 && plus + 3 < end &&
	       text_parse_hex(plus + 3, end, ret_vaddr) == end;
}

const char *stored_names_lacks(const struct profile *p, const struct frame *f, uint64_t *ret_vaddr)
{
	if (f->kind != FRAME_USER || !f->module || !p->modules[f->module].build_id ||
	    !parse_place(profile_str(p, f->name), ret_vaddr))
		return NULL;
	const char *id = profile_str(p, p->modules[f->module].build_id);
	return debug_cache_is_id(id) ? id : NULL;
}

void stored_names_frame(void *ctx, struct profile *p, struct frame *f)
{
	struct stored_names *n = ctx;
	struct file_symbols_hit hit;
	char name[DEMANGLE_MAX];
	enum frame_kind kind;
	uint64_t vaddr;

	const char *id = stored_names_lacks(p, f, &vaddr);
	if (!id)
		return;
	pthread_mutex_lock(&n->lock);
	struct file_symbols *symbols = symbols_of(n, id);
	bool found = symbols && file_symbols_find(symbols, vaddr, &hit) == 0 &&
		     file_symbols_name(symbols, &hit, name, &kind) == 0;
	count(&n->stats.named, found);
	count(&n->stats.not_there, symbols && !found);
	pthread_mutex_unlock(&n->lock);
	if (!found)
		return;
	f->name = profile_string(p, name, strlen(name));
	f->kind = kind;
}

void stored_names_look(struct stored_names *n, const struct profile *p, uint32_t first)
{
	uint32_t last = 0; /* frames of one file come together */
	uint64_t vaddr;

	for (uint32_t i = first; n->wanted && i < p->frame_count; i++) {
		const char *id = p->frames[i].module == last
					 ? NULL
					 : stored_names_lacks(p, &p->frames[i], &vaddr);
		if (!id)
			continue;
		last = p->frames[i].module;
		if (debug_cache_find(n->cache, id) == DEBUG_CACHE_UNKNOWN)
			n->wanted(n->ctx, id);
	}
}

void stored_names_stats(struct stored_names *n, struct stored_names_stats *ret)
{
	ret->named = __atomic_load_n(&n->stats.named, __ATOMIC_RELAXED);
	ret->not_there = __atomic_load_n(&n->stats.not_there, __ATOMIC_RELAXED);
	ret->unreadable = __atomic_load_n(&n->stats.unreadable, __ATOMIC_RELAXED);
}
