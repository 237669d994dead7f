/*
 * /proc/kallsyms is 5 MB of lines "ADDRESS TYPE NAME[\t[MODULE]]", read once through a small
 * buffer. Functions are kept, 8 bytes each, with their names in one blob; data symbols are not.
 */
#include "symbol/kallsyms.h"

#include <errno.h>
#include <fcntl.h>

#include "base/mem.h"
#include "base/sort.h"
#include "base/text.h"
#include "symbol/ksym.h"

#define BUFFER   (64u << 10) /* a name has at most KSYM_NAME_LEN, 512 bytes */
#define BLOB_MAX (64u << 20)
#define FUNCTION_MAX                                                                               \
	(1u << 20) /* a symbol farther below an address than this is not its function */
#define IN_MODULE 0x80000000u
#define UNKNOWN   UINT32_MAX

struct func {
	uint32_t start; /* above base */
	uint32_t name;  /* in blob; IN_MODULE: the module's name follows it; or UNKNOWN */
};

struct kallsyms {
	struct ksym *live; /* NULL: the fields below, from the file */
	uint64_t base;     /* the first address: where the kernel starts */
	struct func *funcs;
	char *blob;
	size_t count, cap, used, blob_cap;
	uint64_t zeros; /* lines whose address the kernel hides */
	char scratch[64];
};

void kallsyms_free(struct kallsyms *k)
{
	if (!k)
		return;
	ksym_close(k->live);
	free(k->funcs);
	free(k->blob);
	free(k);
}

size_t kallsyms_bytes(const struct kallsyms *k)
{
	return sizeof(*k) + (k->live ? ksym_bytes(k->live) : 0) + k->cap * sizeof(*k->funcs) +
	       k->blob_cap;
}

/* ---- parsing -------------------------------------------------------------------------------- */

static void keep(struct kallsyms *k, uint64_t addr, const char *name, size_t len,
		 const char *module, size_t module_len)
{
	size_t need = len + 1 + (module_len ? module_len + 1 : 0);

	if (k->count == 0)
		k->base = addr - MIN(addr, 1ull << 31);
	if (addr < k->base || addr - k->base > UINT32_MAX || k->used + need > BLOB_MAX)
		return;
	MEM_GROW(k->funcs, k->count, k->cap);
	if (k->blob_cap - k->used < need) {
		k->blob_cap = MAX(k->blob_cap * 2, (size_t)(256 << 10)) + need;
		k->blob = mem_resize_array(k->blob, k->blob_cap, 1);
	}
	k->funcs[k->count++] = (struct func){(uint32_t)(addr - k->base),
					     (uint32_t)k->used | (module_len ? IN_MODULE : 0)};
	memcpy(k->blob + k->used, name, len);
	k->blob[k->used + len] = '\0';
	if (module_len) {
		memcpy(k->blob + k->used + len + 1, module, module_len);
		k->blob[k->used + need - 1] = '\0';
	}
	k->used += need;
}

static void parse_line(struct kallsyms *k, const char *p, const char *end)
{
	uint64_t addr;
	const char *after = text_parse_hex(p, end, &addr);

	if (!after || after == p || end - after < 4 || after[0] != ' ' || after[2] != ' ')
		return;
	char type = after[1] | 32;
	const char *name = after + 3;
	if (addr == 0) {
		k->zeros++;
		return;
	}
	if (type != 't' && type != 'w')
		return;
	const char *tab = memchr(name, '\t', (size_t)(end - name));
	size_t len = (size_t)((tab ? tab : end) - name);
	size_t mark = ksym_padding(name, len);
	name += mark;
	len -= mark;
	keep(k, addr, name, len, tab ? tab + 1 : NULL, tab ? (size_t)(end - tab - 1) : 0);
}

static int parse(struct kallsyms *k, int fd)
{
	CLEANUP(freep) char *buf = mem_resize_array(NULL, BUFFER, 1);
	size_t have = 0;

	for (;;) {
		ssize_t n = read(fd, buf + have, BUFFER - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		have += (size_t)n;
		const char *line = buf, *end = buf + have, *nl;
		while ((nl = memchr(line, '\n', (size_t)(end - line)))) {
			parse_line(k, line, nl);
			line = nl + 1;
		}
		if (n == 0) {
			parse_line(k, line, end);
			return 0;
		}
		have = (size_t)(end - line);
		if (have == BUFFER) /* no symbol has a line this long: skip it */
			have = 0;
		memmove(buf, line, have);
	}
}

/* Of several names of an address the first is the one that the kernel itself uses. */
static void finish(struct kallsyms *k)
{
	size_t out = 0;

	sort_by_u32(k->funcs, k->count, sizeof(*k->funcs));
	for (size_t i = 0; i < k->count; i++)
		if (i == 0 || k->funcs[i].start != k->funcs[out - 1].start)
			k->funcs[out++] = k->funcs[i];
	k->count = k->cap = out;
	k->blob_cap = k->used;
	k->funcs = mem_resize_array(k->funcs, k->cap, sizeof(*k->funcs));
	k->blob = mem_resize_array(k->blob, k->blob_cap, 1);
}

int kallsyms_load(const char *path, struct kallsyms **ret)
{
	struct ksym *live = NULL;
	if (!path && ksym_open(&live) == 0) {
		*ret = mem_alloc(sizeof(**ret));
		(*ret)->live = live;
		return 0;
	}
	CLEANUP(fd_closep) int fd = open(path ? path : "/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;

	struct kallsyms *k = mem_alloc(sizeof(*k));
	int r = parse(k, fd);
	if (r == 0 && k->count == 0)
		r = k->zeros ? -EPERM : -EINVAL;
	if (r < 0) {
		kallsyms_free(k);
		return r;
	}
	finish(k);
	*ret = k;
	return 0;
}

/* ---- lookups -------------------------------------------------------------------------------- */

bool kallsyms_is_live(const struct kallsyms *k)
{
	return k->live;
}

/* The last one that starts at or before `at`; else the first. */
static struct func *last_before(const struct kallsyms *k, uint32_t at)
{
	struct func *f = k->funcs;

	for (size_t n = k->count; n > 1;) {
		size_t half = n / 2;
		f += f[half].start <= at ? half : 0;
		n -= half;
	}
	return f;
}

static int find(struct kallsyms *k, uint64_t ip, struct symbol *ret, const char **ret_module)
{
	if (ip < k->base || ip - k->base > UINT32_MAX)
		return -ENOENT;

	uint32_t at = (uint32_t)(ip - k->base);
	const struct func *f = last_before(k, at);
	if (at < f->start || at - f->start >= FUNCTION_MAX || f->name == UNKNOWN)
		return -ENOENT;
	*ret = (struct symbol){.addr = ip, .kind = FRAME_KERNEL, .start = k->base + f->start};
	ret->name = k->blob + (f->name & ~IN_MODULE);
	*ret_module = f->name & IN_MODULE ? ret->name + strlen(ret->name) + 1 : "[kernel]";
	if (strcmp(*ret_module, "[bpf]") == 0)
		ret->kind = FRAME_BPF;
	if (!(f->name & IN_MODULE)) { /* modules may be unloaded */
		const struct func *next = f + 1;
		ret->before = at - f->start;
		ret->after = FUNCTION_MAX - ret->before;
		if (next < k->funcs + k->count)
			ret->after = MIN(ret->after, next->start - at);
	}
	return 0;
}

static int unknown(struct kallsyms *k, uint64_t ip, struct symbol *ret, const char **ret_module)
{
	snprintf(k->scratch, sizeof(k->scratch), "[kernel+0x%lx]", ip);
	*ret = (struct symbol){.addr = ip, .kind = FRAME_KERNEL, .name = k->scratch};
	*ret_module = "[kernel]";
	return -ENOENT;
}

int kallsyms_find(struct kallsyms *k, uint64_t ip, struct symbol *ret, const char **ret_module)
{
	int r = k->live ? ksym_find(k->live, ip, ret, ret_module) : find(k, ip, ret, ret_module);

	return r ? unknown(k, ip, ret, ret_module) : 0;
}

int kallsyms_find_fixed(struct kallsyms *k, uint64_t ip, struct symbol *ret,
			const char **ret_module)
{
	int r = kallsyms_find(k, ip, ret, ret_module);

	return r || strcmp(*ret_module, "[kernel]") == 0 ? r : unknown(k, ip, ret, ret_module);
}

/*
 * A function reaches up to the next one. So one without a name starts where the code does that came
 * or went, or what came there would have the name of what stands before it.
 */
static void start_unknown(struct kallsyms *k, uint32_t at)
{
	size_t i = (size_t)(last_before(k, at) - k->funcs);

	if (k->funcs[i].start > at || k->funcs[i].name == UNKNOWN)
		return;
	if (k->funcs[i].start == at) {
		k->funcs[i].name = UNKNOWN;
		return;
	}
	MEM_GROW(k->funcs, k->count, k->cap);
	memmove(&k->funcs[i + 2], &k->funcs[i + 1], (k->count - i - 1) * sizeof(*k->funcs));
	k->funcs[i + 1] = (struct func){at, UNKNOWN};
	k->count++;
}

void kallsyms_forget(struct kallsyms *k, uint64_t start, uint64_t end)
{
	if (k->live || end <= k->base || (start > k->base && start - k->base > UINT32_MAX))
		return;
	uint32_t first = start > k->base ? (uint32_t)(start - k->base) : 0;
	if (first)
		start_unknown(k, first);
	for (struct func *f = last_before(k, first); f < k->funcs + k->count; f++) {
		if (k->base + f->start >= end)
			break;
		if (f->start >= first && f->name & IN_MODULE)
			f->name = UNKNOWN;
	}
}
