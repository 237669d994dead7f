#include "pipeline/finding_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

#define DEPTH      64
#define COMM_BYTES 256

const char *finding_number(double value, char ret[static FINDING_NUMBER])
{
	char digits[FINDING_NUMBER];
	double unit = 1;

	if (value < 10) {
		snprintf(ret, FINDING_NUMBER, "%.1f", value);
		return ret;
	}
	while (value / unit >= 1000)
		unit *= 10;
	int len =
		snprintf(digits, sizeof(digits), "%.0f", (double)(long)(value / unit + 0.5) * unit);
	int n = 0;
	for (int i = 0; i < len && n + 2 < FINDING_NUMBER; i++) {
		if (i && (len - i) % 3 == 0)
			ret[n++] = ',';
		ret[n++] = digits[i];
	}
	ret[n] = '\0';
	return ret;
}

const char *finding_cpu(double share, char ret[static FINDING_NUMBER])
{
	if (share > 1.05)
		snprintf(ret, FINDING_NUMBER, "%.1f CPUs", share);
	else
		snprintf(ret, FINDING_NUMBER,
			 share < 0.095 ? "%.1f %% of a CPU" : "%.0f %% of a CPU",
			 100 * MIN(share, 1.0));
	return ret;
}

/* Of processes that come and go, who starts them. */
static void put_parent(uint32_t parent, char *ret, size_t size)
{
	char path[32];
	CLEANUP(freep) char *name = NULL;

	snprintf(path, sizeof(path), "/proc/%u/comm", parent);
	if (file_read(path, COMM_BYTES, &name, NULL) != 0)
		return;
	name[strcspn(name, "\n")] = '\0';
	snprintf(ret, size, ", which %s (pid %u) runs again and again,", name, parent);
}

const char *finding_who(const struct finding_case *c, char *ret, size_t size)
{
	if (c->of->pid) {
		snprintf(ret, size, "%s (pid %u)", c->of->comm, c->of->pid);
		return ret;
	}
	size_t n = (size_t)snprintf(ret, size, "%s", c->of->comm);
	if (c->of->parent && n < size)
		put_parent(c->of->parent, ret + n, size - n);
	return ret;
}

/* A deep one loses its root: what matters is who calls. */
void finding_stack(const struct profile *dict, uint32_t stack, const char *leaf,
		   struct finding *ret)
{
	const char *names[DEPTH];
	char text[sizeof(ret->stack)];
	size_t count = 0, bytes = leaf ? strlen(leaf) + 1 : 0, n = 0;

	for (uint32_t at = stack; at && count < DEPTH; at = dict->stacks[at].parent) {
		names[count] = profile_str(dict, dict->frames[dict->stacks[at].frame].name);
		bytes += strlen(names[count]) + 1;
		if (bytes >= sizeof(text))
			break;
		count++;
	}
	if (leaf && count && strcmp(names[0], leaf) == 0)
		leaf = NULL; /* the library's function has its name */
	text[0] = '\0';
	while (count-- > 0)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n ? ";" : "",
				      names[count]);
	if (leaf)
		snprintf(text + n, sizeof(text) - n, "%s%s", n ? ";" : "", leaf);
	FINDING_SET(ret->stack, text);
}

static bool is_of_library(const char *path)
{
	static const char *const libraries[] = {"libc.", "libc-", "ld-", "libpthread", "[vdso]"};
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < ARRAY_SIZE(libraries); i++)
		if (strncmp(name, libraries[i], strlen(libraries[i])) == 0)
			return true;
	return false;
}

const char *finding_caller(const struct profile *dict, uint32_t stack, const char *call)
{
	for (uint32_t at = stack; at; at = dict->stacks[at].parent) {
		const struct frame *f = &dict->frames[dict->stacks[at].frame];
		const char *name = profile_str(dict, f->name);
		if (strcmp(name, call) != 0 &&
		    !is_of_library(profile_str(dict, dict->modules[f->module].path)))
			return *name && *name != '[' ? name : "it";
	}
	return "it";
}

static void put(char *ret, size_t size, const char *fmt, va_list ap)
{
	CLEANUP(freep) char *text = mem_alloc(size);

	vsnprintf(text, size, fmt, ap);
	finding_set(ret, size, text);
}

void finding_headline(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(f->headline, sizeof(f->headline), fmt, ap);
	va_end(ap);
}

void finding_means(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(f->means, sizeof(f->means), fmt, ap);
	va_end(ap);
}

void finding_next(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(f->next, sizeof(f->next), fmt, ap);
	va_end(ap);
}
