#include "symbol/symbols.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/root.h"
#include "symbol/name_cache.h"
#include "symbol/demangle.h"
#include "symbol/file_symbols.h"
#include "symbol/symtab.h"

#define FDS_MAX 256

/*
 * How max_bytes is divided: tables get what they need up to TABLES_SHARE, names get three eighths,
 * or what tables leave of seven eighths if that is less, and an eighth is for struct symbol_file.
 */
#define TABLES_SHARE(max) ((max) / 4 * 3)
#define NAMES_SHARE(max, tables)                                                                   \
	MIN((max) / 8 * 3, (max) / 8 * 7 - MIN((tables), TABLES_SHARE(max)))

struct symbol_file {
	char *path, *root;
	int fd;
	bool opened;     /* it had a descriptor, so it may be opened again */
	struct stat st;  /* of that descriptor */
	const void *mem; /* instead of fd; borrowed */
	size_t mem_size;
	struct file_symbols *symbols; /* NULL: not loaded */
	size_t counted;               /* bytes of it in symbols.symbol_bytes */
	int error;                    /* why it cannot be */
	bool module_known;
	bool debug_refused; /* its debug file: counted once, however often it is loaded */
	struct symbols_module module;
	uint8_t build_id[ELF_BUILD_ID_MAX]; /* of the mapped file */
	size_t build_id_len;
	uint64_t used; /* symbols.clock of the last time that its symbols were needed */
};

struct named_offset { /* what was found for an offset */
	uint64_t vaddr;
	uint64_t start; /* of the function; vaddr if unknown */
	struct file_symbols_hit hit;
	bool named;
	uint32_t before, after; /* as in struct symbol */
};

struct cached_name { /* in the cache, per function */
	uint32_t kind;
	char text[];
};

struct symbols {
	struct symbol_file *files; /* by id - 1 */
	uint32_t count, cap;
	size_t max_bytes, file_bytes, symbol_bytes;
	struct name_cache names; /* (file, start) -> struct cached_name */
	uint64_t clock;
	uint32_t fds;
	struct symbols_stats stats;
	char scratch[DEMANGLE_MAX + 256];
};

struct symbols *symbols_new(size_t max_bytes)
{
	struct symbols *s = mem_alloc(sizeof(*s));

	s->max_bytes = max_bytes;
	name_cache_init(&s->names, NAMES_SHARE(max_bytes, 0));
	return s;
}

/* One more file of a kind of trouble, of which the first is remembered. */
static void count_trouble(const struct symbol_file *f, uint64_t *sum, char *first)
{
	if ((*sum)++ == 0)
		snprintf(first, SYMBOLS_FIRST, "%s", f->path);
}

/* ---- files and their symbols ---------------------------------------------------------------- */

static size_t bytes(const struct symbols *s)
{
	return s->file_bytes + s->symbol_bytes + name_cache_bytes(&s->names);
}

/* Some of it is read only when needed, so it grows. */
static void count(struct symbols *s, struct symbol_file *f)
{
	size_t now = f->symbols ? file_symbols_bytes(f->symbols) : 0;

	s->symbol_bytes += now - f->counted;
	f->counted = now;
}

static void drop_symbols(struct symbols *s, struct symbol_file *f)
{
	if (!f->symbols)
		return;
	s->fds -= (uint32_t)file_symbols_fds(f->symbols);
	s->stats.symbols -= file_symbols_count(f->symbols);
	s->stats.tables--;
	file_symbols_free(f->symbols);
	f->symbols = NULL;
	count(s, f);
}

static void close_file(struct symbols *s, struct symbol_file *f)
{
	drop_symbols(s, f);
	if (f->fd >= 0) {
		close(f->fd);
		s->fds--;
	}
	f->fd = -1;
}

/* The least recently used file, except `keep`, with a table or, if `with_fd`, a descriptor. */
static struct symbol_file *oldest(struct symbols *s, const struct symbol_file *keep, bool with_fd)
{
	struct symbol_file *found = NULL;

	for (struct symbol_file *f = s->files; f < s->files + s->count; f++)
		if (f != keep && (f->symbols || (with_fd && f->fd >= 0)) &&
		    (!found || f->used < found->used))
			found = f;
	return found;
}

static void make_room(struct symbols *s, const struct symbol_file *keep)
{
	struct symbol_file *f;

	while (s->symbol_bytes > TABLES_SHARE(s->max_bytes) && (f = oldest(s, keep, false))) {
		drop_symbols(s, f);
		s->stats.evictions++;
	}
	name_cache_set_max(&s->names, NAMES_SHARE(s->max_bytes, s->symbol_bytes));
	while (s->fds > FDS_MAX && (f = oldest(s, keep, true))) {
		close_file(s, f);
		s->stats.evictions++;
	}
}

void symbols_free(struct symbols *s)
{
	if (!s)
		return;
	for (struct symbol_file *f = s->files; f < s->files + s->count; f++) {
		close_file(s, f);
		free(f->path);
		free(f->root);
	}
	free(s->files);
	name_cache_done(&s->names);
	free(s);
}

static struct symbol_file *add(struct symbols *s, const char *path, const char *root)
{
	static const char deleted[] = " (deleted)"; /* as /proc/PID/maps has it */
	size_t len = strlen(path), tail = len - MIN(len, strlen(deleted));

	if (tail && strcmp(path + tail, deleted) == 0)
		len = tail;
	MEM_GROW(s->files, s->count, s->cap);
	struct symbol_file *f = &s->files[s->count++];
	*f = (struct symbol_file){.fd = -1, .path = mem_strndup(path, len), .used = ++s->clock};
	f->root = root ? mem_strdup(root) : NULL;
	s->file_bytes += sizeof(*f) + len + 1 + (root ? strlen(root) + 1 : 0);
	return f;
}

uint32_t symbols_add_file(struct symbols *s, const struct symbols_file *file)
{
	struct symbol_file *f = add(s, file->path ? file->path : "", file->root);

	f->build_id_len = MIN(file->build_id_len, sizeof(f->build_id));
	if (f->build_id_len)
		memcpy(f->build_id, file->build_id, f->build_id_len);
	f->fd = file->fd;
	f->opened = f->fd >= 0;
	if (!f->opened) {
		f->error = -ENOENT;
		count_trouble(f, &s->stats.failures, s->stats.first_failure);
	} else if (fstat(f->fd, &f->st) < 0 || !S_ISREG(f->st.st_mode)) {
		close(f->fd);
		f->fd = -1;
		f->error = -EINVAL;
		count_trouble(f, &s->stats.failures, s->stats.first_failure);
	} else {
		s->fds++;
		make_room(s, f);
	}
	return s->count;
}

uint32_t symbols_add_vdso(struct symbols *s)
{
	struct symbol_file *f = add(s, "[vdso]", NULL);

	f->mem = elf_file_vdso(&f->mem_size);
	if (!f->mem)
		f->error = -ENOENT;
	return s->count;
}

/* Opens a file again that was closed to save descriptors; it must be the same file. */
static int reopen(struct symbols *s, struct symbol_file *f)
{
	struct stat st;
	int fd = f->opened ? root_open(f->root, f->path, false, &st) : -ENOENT;
	if (fd < 0)
		return fd;
	if (st.st_dev != f->st.st_dev || st.st_ino != f->st.st_ino || st.st_size != f->st.st_size ||
	    st.st_mtim.tv_sec != f->st.st_mtim.tv_sec ||
	    st.st_mtim.tv_nsec != f->st.st_mtim.tv_nsec) {
		close(fd);
		return -ESTALE;
	}
	f->fd = fd;
	s->fds++;
	return 0;
}

/* A file with an error is not tried again. */
static int give_up(struct symbols *s, struct symbol_file *f, int error)
{
	if (error != -ESTALE)
		count_trouble(f, &s->stats.failures, s->stats.first_failure);
	f->error = error;
	close_file(s, f);
	return error;
}

static int describe(struct symbols *s, struct symbol_file *f, const struct elf_file *e)
{
	struct symbols_module *m = &f->module;
	const Elf64_Phdr *text = elf_file_text(e);

	m->build_id_len = elf_file_build_id(e, m->build_id);
	m->go = elf_file_is_go(e);
	if (text) {
		m->start = text->p_vaddr;
		m->end = text->p_vaddr + text->p_memsz;
		m->offset = text->p_offset;
	}
	f->module_known = true;
	if (!f->build_id_len || (m->build_id_len == f->build_id_len &&
				 memcmp(m->build_id, f->build_id, f->build_id_len) == 0))
		return 0;
	count_trouble(f, &s->stats.mismatches, s->stats.first_mismatch);
	return -ESTALE;
}

/* Of one file; leaves some of the tables' share for its headers. */
static uint32_t symbols_max(const struct symbols *s)
{
	return (uint32_t)(TABLES_SHARE(s->max_bytes) / 16 * 15 / sizeof(struct symtab_entry));
}

static int load(struct symbols *s, struct symbol_file *f)
{
	if (f->error)
		return f->error;
	f->used = ++s->clock;
	if (f->symbols)
		return 0;

	int r = f->fd < 0 && !f->mem ? reopen(s, f) : 0;
	struct file_symbols_source source = {f->fd, f->mem, f->mem_size, f->path, f->root, false};
	if (r == 0)
		r = file_symbols_open(&source, symbols_max(s), &f->symbols);
	if (r == 0) {
		count(s, f);
		s->fds += (uint32_t)file_symbols_fds(f->symbols);
		s->stats.symbols += file_symbols_count(f->symbols);
		s->stats.dropped += file_symbols_dropped(f->symbols);
		if (file_symbols_debug_error(f->symbols) != 0 && !f->debug_refused) {
			count_trouble(f, &s->stats.debug_refused, s->stats.first_debug_refused);
			f->debug_refused = true;
		}
		s->stats.tables++;
		s->stats.loads++;
		if (!f->module_known)
			r = describe(s, f, file_symbols_elf(f->symbols));
	}
	if (r < 0)
		give_up(s, f, r);
	make_room(s, f);
	return r;
}

/* Reads only the headers: a file that is mapped, but not sampled, needs no table. */
static int read_module(struct symbols *s, struct symbol_file *f)
{
	struct elf_file e;
	int r = f->fd < 0 && !f->mem ? reopen(s, f) : 0;

	if (r == 0)
		r = f->mem ? elf_file_init_mem(&e, f->mem, f->mem_size) : elf_file_init(&e, f->fd);
	if (r == 0) {
		r = describe(s, f, &e);
		elf_file_done(&e);
	}
	if (r < 0)
		give_up(s, f, r);
	make_room(s, f);
	return r;
}

int symbols_module(struct symbols *s, uint32_t file, struct symbols_module *ret)
{
	*ret = (struct symbols_module){};
	if (file == 0 || file > s->count)
		return -EINVAL;
	struct symbol_file *f = &s->files[file - 1];
	int r = f->error;
	if (r == 0 && !f->module_known)
		r = read_module(s, f);
	if (r == 0)
		*ret = f->module;
	return r;
}

/* ---- lookups -------------------------------------------------------------------------------- */

/* "[basename+0xSTART]"; a name in brackets, like "[vdso]", becomes "[vdso+0x…]". */
static const char *no_name(struct symbols *s, const struct symbol_file *f, uint64_t vaddr)
{
	const char *base = f ? strrchr(f->path, '/') : NULL;
	base = base ? base + 1 : f ? f->path : "?";
	size_t len = strnlen(base, 255);
	if (len > 2 && base[0] == '[' && base[len - 1] == ']') {
		base++;
		len -= 2;
	}

	char *at = s->scratch, digits[16];
	int n = 0;
	*at++ = '[';
	memcpy(at, base, len);
	at += len;
	memcpy(at, "+0x", 3);
	at += 3;
	do
		digits[n++] = "0123456789abcdef"[vaddr & 15];
	while (vaddr >>= 4);
	while (n)
		*at++ = digits[--n];
	memcpy(at, "]", 2);
	return s->scratch;
}

/* The address of an offset in a file whose headers were read, though it may be readable no more. */
static uint64_t address_of(const struct symbol_file *f, uint64_t offset)
{
	const struct symbols_module *m = &f->module;

	if (!f->module_known || offset < m->offset || offset - m->offset >= m->end - m->start)
		return offset;
	return offset - m->offset + m->start;
}

static struct named_offset locate(struct symbols *s, struct symbol_file *f, uint64_t offset)
{
	struct named_offset p = {.vaddr = offset, .start = offset};

	if (load(s, f) < 0 || !elf_file_vaddr(file_symbols_elf(f->symbols), offset, &p.vaddr)) {
		p.vaddr = p.start = address_of(f, offset);
		return p;
	}
	p.start = p.vaddr;
	p.named = file_symbols_find(f->symbols, p.vaddr, &p.hit) == 0;
	struct symtab_hit *same = &p.hit.in_table;
	uint64_t end;
	if (p.named) {
		p.start = p.hit.start;
	} else {
		if (file_symbols_bounds(f->symbols, p.vaddr, &p.hit, &p.start, &end) == 0) {
			same->from = MAX(same->from, p.start);
			same->to = MIN(same->to, end);
		} else {
			same->to = 0; /* each address is a frame of its own */
		}
		count(s, f);
		make_room(s, f);
	}
	if (same->from <= p.vaddr && p.vaddr < same->to) {
		p.before = (uint32_t)MIN(p.vaddr - same->from, UINT32_MAX);
		p.after = (uint32_t)MIN(same->to - p.vaddr, UINT32_MAX);
	}
	return p;
}

/* The name of the function that was found; NULL when it cannot be read. */
static const struct cached_name *read_name(struct symbols *s, uint32_t file,
					   const struct named_offset *p)
{
	struct cached_name *n = (struct cached_name *)s->scratch;
	enum frame_kind kind;

	if (file_symbols_name(s->files[file - 1].symbols, &p->hit, n->text, &kind) < 0)
		return NULL;
	s->stats.names++;
	n->kind = kind;
	const struct cached_name *kept =
		name_cache_put(&s->names, file, p->start, n, sizeof(*n) + strlen(n->text) + 1);
	return kept ? kept : n;
}

int symbols_find(struct symbols *s, uint32_t file, uint64_t offset, struct symbol *ret)
{
	s->stats.lookups++;
	*ret = (struct symbol){.addr = offset};
	if (file == 0 || file > s->count) {
		s->stats.unnamed++;
		ret->name = no_name(s, NULL, offset);
		return -ENOENT;
	}

	struct named_offset place = locate(s, &s->files[file - 1], offset);
	const struct cached_name *name = NULL;
	if (place.named) {
		name = name_cache_get(&s->names, file, place.start);
		if (!name)
			name = read_name(s, file, &place);
	}
	ret->addr = place.vaddr;
	ret->before = place.before;
	ret->after = place.after;
	if (!name) {
		s->stats.unnamed++;
		ret->name = no_name(s, &s->files[file - 1], place.start);
		return -ENOENT;
	}
	ret->name = name->text;
	ret->kind = (enum frame_kind)name->kind;
	ret->start = place.start;
	return 0;
}

void symbols_stats(const struct symbols *s, struct symbols_stats *ret)
{
	*ret = s->stats;
	ret->bytes = bytes(s);
	ret->fds = s->fds;
}
