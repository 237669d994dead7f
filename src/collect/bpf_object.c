#include "collect/bpf_object.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/btf.h>

#include "base/mem.h"

#define WORDS_MAX 512

/* Where the linker has put all of them: see OBJECT_APART in the Makefile. */
extern const char __start_bpf_objects[] __attribute__((weak, visibility("hidden")));
extern const char __stop_bpf_objects[] __attribute__((weak, visibility("hidden")));

/*
 * libbpf says why through a callback without a context. What is kept of it here is the verifier's
 * complaint, if there is one: of its log, the line before the statistics; else the last line.
 */
static _Thread_local char words[WORDS_MAX];
static _Thread_local bool complained;

static void keep_complaint(char *log)
{
	char *end = strstr(log, "\nprocessed ");
	if (!end)
		return;
	*end = '\0';
	char *line = strrchr(log, '\n');
	snprintf(words, sizeof(words), "the verifier: %s", line ? line + 1 : log);
	complained = true;
}

static int keep_words(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	CLEANUP(freep) char *text = NULL;

	if (level != LIBBPF_WARN || complained || vasprintf(&text, fmt, ap) < 0)
		return 0;
	snprintf(words, sizeof(words), "%s", text);
	keep_complaint(text);
	words[strcspn(words, "\n")] = '\0';
	return 0;
}

void bpf_object_listen(void)
{
	words[0] = '\0';
	complained = false;
	libbpf_set_print(keep_words);
}

const char *bpf_object_words(void)
{
	return words;
}

static struct bpf_map *find_rodata(struct bpf_object *o)
{
	struct bpf_map *m;

	bpf_object__for_each_map(m, o)
	{
		const char *dot = strrchr(bpf_map__name(m), '.');
		if (dot && strcmp(dot, ".rodata") == 0)
			return m;
	}
	return NULL;
}

int bpf_object_set(struct bpf_object *o, const char *name, const void *value, size_t bytes)
{
	const struct btf *btf = bpf_object__btf(o);
	struct bpf_map *rodata = find_rodata(o);
	size_t size = 0;
	uint8_t *at = rodata ? (uint8_t *)bpf_map__initial_value(rodata, &size) : NULL;
	int id = btf ? btf__find_by_name_kind(btf, ".rodata", BTF_KIND_DATASEC) : -ENOENT;
	if (!at || id < 0)
		return -ENOENT;

	const struct btf_type *section = btf__type_by_id(btf, (uint32_t)id);
	const struct btf_var_secinfo *var = btf_var_secinfos(section);
	for (unsigned i = 0; i < btf_vlen(section); i++, var++) {
		const struct btf_type *t = btf__type_by_id(btf, var->type);
		if (strcmp(btf__name_by_offset(btf, t->name_off), name) != 0)
			continue;
		if (var->size != bytes || var->offset + bytes > size)
			break;
		memcpy(at + var->offset, value, bytes);
		return 0;
	}
	return -ENOENT;
}

int bpf_object_share(struct bpf_object *o, const struct bpf_object *from, const char *const *names)
{
	for (; *names; names++) {
		struct bpf_map *to = bpf_object__find_map_by_name(o, *names);
		int fd = bpf_object__find_map_fd_by_name(from, *names);
		int r = !to || fd < 0 ? -ENOENT : bpf_map__reuse_fd(to, fd);
		if (r)
			return r;
	}
	return 0;
}

int bpf_object_attach(struct bpf_program *p, struct bpf_link **links, unsigned *count)
{
	if (!bpf_program__autoload(p))
		return 0;
	struct bpf_link *link = bpf_program__attach(p);
	if (!link)
		return -errno;
	links[(*count)++] = link;
	return 0;
}

void bpf_object_detach(struct bpf_link **links, unsigned *count)
{
	while (*count)
		bpf_link__destroy(links[--*count]);
}

void bpf_object_unread(void)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = ((uintptr_t)__start_bpf_objects + page - 1) & -page;
	uintptr_t to = (uintptr_t)__stop_bpf_objects & -page;

	if (from < to)
		madvise((void *)from, to - from, MADV_DONTNEED); /* the file still has them */
}
