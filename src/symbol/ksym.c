#include "symbol/ksym.h"

#include <errno.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/mem.h"
#include "ksym_name.skel.h"

#define FUNCS_MAX 16384u /* in the cache, which is emptied when full */

struct func { /* an answer of the kernel */
	uint64_t start;
	uint32_t size;
	const char *name, *module;
};

struct ksym {
	struct ksym_name *bpf;
	struct func *funcs; /* sorted by start */
	size_t count, cap;
	struct arena text;
};

void ksym_close(struct ksym *k)
{
	if (!k)
		return;
	ksym_name__destroy(k->bpf);
	free(k->funcs);
	arena_done(&k->text);
	free(k);
}

size_t ksym_bytes(const struct ksym *k)
{
	return sizeof(*k) + k->cap * sizeof(*k->funcs) + k->text.bytes;
}

static int ask(struct ksym *k, uint64_t ip)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);

	k->bpf->bss->ip = ip;
	int r = bpf_prog_test_run_opts(bpf_program__fd(k->bpf->progs.name), &opts);
	if (r < 0)
		return r;
	k->bpf->bss->text[sizeof(k->bpf->bss->text) - 1] = '\0';
	return (int)opts.retval > 0 ? 0 : -EIO;
}

int ksym_open(struct ksym **ret)
{
	/* Old kernels refuse the program: that is not worth a message. */
	libbpf_print_fn_t print = libbpf_set_print(NULL);
	struct ksym *k = mem_alloc(sizeof(*k));
	k->bpf = ksym_name__open_and_load();
	int r = k->bpf ? ask(k, 0) : errno ? -errno : -EIO;
	libbpf_set_print(print);

	if (r < 0) {
		ksym_close(k);
		return r;
	}
	*ret = k;
	return 0;
}

static bool has_prefix(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* bpf_prog_TAG, bpf_prog_TAG_NAME, and the trampolines that call them. */
static bool is_bpf(const char *name)
{
	enum { TAG = 16 };

	if (has_prefix(name, "bpf_prog_")) {
		const char *tag = name + strlen("bpf_prog_");
		return strspn(tag, "0123456789abcdef") == TAG && (!tag[TAG] || tag[TAG] == '_');
	}
	if (has_prefix(name, "bpf_trampoline_")) {
		const char *number = name + strlen("bpf_trampoline_");
		return *number >= '0' && *number <= '9';
	}
	return strcmp(name, "bpf_dispatcher_xdp") == 0 ||
	       has_prefix(name, "bpf__" /* struct_ops */);
}

int ksym_parse(char *text, char **ret_name, uint64_t *ret_offset, uint64_t *ret_size,
	       const char **ret_module)
{
	/* Backwards, since a name may contain anything, even '+' and spaces. */
	size_t len = strlen(text);
	char *module = len && text[len - 1] == ']' ? strrchr(text, '[') : NULL;
	if (module && (module == text || module[-1] != ' '))
		return -EINVAL;
	if (module)
		module[-1] = '\0';

	char *plus = strrchr(text, '+'), *end;
	if (!plus || plus == text || strncmp(plus, "+0x", 3) != 0)
		return -EINVAL;
	errno = 0;
	*ret_offset = strtoull(plus + 3, &end, 16);
	if (end == plus + 3 || strncmp(end, "/0x", 3) != 0)
		return -EINVAL;
	char *size = end + 3;
	*ret_size = strtoull(size, &end, 16);
	if (end == size || *end != '\0' || errno || *ret_offset > *ret_size)
		return -EINVAL;
	*plus = '\0';
	*ret_name = text;
	*ret_module = module ? module : is_bpf(text) ? "[bpf]" : "[kernel]";
	return 0;
}

size_t ksym_padding(const char *name, size_t len)
{
	enum { MARK = 6 };

	return len > MARK && (memcmp(name, "__pfx_", MARK) == 0 ||
			      memcmp(name, "__cfi_", MARK) == 0)
		       ? MARK
		       : 0;
}

/* The number of functions that start at or before ip. */
static size_t before(const struct ksym *k, uint64_t ip)
{
	size_t low = 0, high = k->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (k->funcs[mid].start <= ip)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Modules and BPF programs are unloaded, and others take their addresses. */
static bool is_lasting(const struct func *f)
{
	return strcmp(f->module, "[kernel]") == 0;
}

static void answer(const struct func *f, uint64_t ip, struct symbol *ret, const char **ret_module)
{
	*ret = (struct symbol){.name = f->name, .addr = ip, .start = f->start};
	ret->kind = strcmp(f->module, "[bpf]") == 0 ? FRAME_BPF : FRAME_KERNEL;
	*ret_module = f->module;
	if (is_lasting(f)) {
		ret->before = (uint32_t)(ip - f->start);
		ret->after = f->size - ret->before;
	}
}

static void remember(struct ksym *k, size_t at, const struct func *f)
{
	if (k->count == FUNCS_MAX) {
		arena_done(&k->text);
		k->count = at = 0;
	}
	MEM_GROW(k->funcs, k->count, k->cap);
	memmove(&k->funcs[at + 1], &k->funcs[at], (k->count - at) * sizeof(*f));
	k->funcs[at] = *f;
	k->funcs[at].name = arena_strndup(&k->text, f->name, strlen(f->name));
	k->funcs[at].module = arena_strndup(&k->text, f->module, strlen(f->module));
	k->count++;
}

int ksym_find(struct ksym *k, uint64_t ip, struct symbol *ret, const char **ret_module)
{
	size_t at = before(k, ip);
	if (at && ip - k->funcs[at - 1].start < k->funcs[at - 1].size) {
		answer(&k->funcs[at - 1], ip, ret, ret_module);
		return 0;
	}

	char *name;
	const char *module;
	uint64_t offset, size;
	if (ask(k, ip) < 0 || ksym_parse(k->bpf->bss->text, &name, &offset, &size, &module) < 0)
		return -ENOENT;
	name += ksym_padding(name, strlen(name));
	struct func f = {ip - offset, (uint32_t)MIN(size, (uint64_t)UINT32_MAX), name, module};
	answer(&f, ip, ret, ret_module);
	if (is_lasting(&f))
		remember(k, at, &f);
	return 0;
}
