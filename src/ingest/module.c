#include "ingest/module.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

static bool starts(const char *s, size_t len, const char *with)
{
	size_t n = strlen(with);

	return len >= n && memcmp(s, with, n) == 0;
}

static bool ends(const char *s, size_t len, const char *with)
{
	size_t n = strlen(with);

	return len >= n && memcmp(s + len - n, with, n) == 0;
}

const char *module_basename(const char *path, size_t len, size_t *ret_len)
{
	const char *slash = len && path[0] != '[' ? memrchr(path, '/', len) : NULL;

	/* A path that ends in '/' has no name behind it; then the path is the name. */
	if (slash && slash + 1 < path + len) {
		*ret_len = len - (size_t)(slash + 1 - path);
		return slash + 1;
	}
	*ret_len = len;
	return path;
}

/* In brackets are the kernel, its modules, and a few areas of a process that are no files. */
static enum frame_kind bracketed_kind(const char *s, size_t len)
{
	static const char *const areas[] = {"[vdso",  "[vvar", "[vsyscall", "[heap",
					    "[stack", "[anon", "[unknown",  "[uprobes]"};

	if (starts(s, len, "[jit") || starts(s, len, "[JIT"))
		return FRAME_JIT;
	if (starts(s, len, "[bpf"))
		return FRAME_BPF;
	for (size_t i = 0; i < ARRAY_SIZE(areas); i++)
		if (starts(s, len, areas[i]))
			return FRAME_USER;
	return FRAME_KERNEL;
}

enum frame_kind module_kind(const char *path, size_t len)
{
	static const char *const modules[] = {".ko", ".ko.xz", ".ko.gz", ".ko.zst"};
	size_t n;
	const char *s = module_basename(path, len, &n);

	if (n && s[0] == '[')
		return bracketed_kind(s, n);
	if (starts(s, n, "bpf_prog_") || starts(s, n, "bpf_trampoline"))
		return FRAME_BPF;
	if (starts(s, n, "vmlinux"))
		return FRAME_KERNEL;
	if ((starts(s, n, "perf-") && ends(s, n, ".map")) ||
	    (starts(s, n, "jitted-") && ends(s, n, ".so")))
		return FRAME_JIT;
	for (size_t i = 0; i < ARRAY_SIZE(modules); i++)
		if (ends(s, n, modules[i]))
			return FRAME_KERNEL;
	return FRAME_USER;
}
