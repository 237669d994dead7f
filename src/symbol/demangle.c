#include "symbol/demangle.h"

#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

#include <libiberty/demangle.h>

struct print {
	char *to;
	size_t len;
	jmp_buf full;
};

/*
 * libiberty offers no other way to stop. It keeps its state on the stack while it prints, so
 * longjmp leaks nothing but one small buffer, and that only for a Rust name with punycode that is
 * cut.
 */
static void print(const char *s, size_t len, void *opaque)
{
	struct print *p = opaque;
	size_t room = DEMANGLE_MAX - 1 - p->len, n = len < room ? len : room;

	if (n) /* libiberty passes NULL for an empty string */
		memcpy(p->to + p->len, s, n);
	p->len += n;
	if (n < len)
		longjmp(p->full, 1);
}

/* Old Rust names are C++ names that end in a hash: 17h, 16 hex digits, E. */
static bool is_legacy_rust(const char *name, size_t len)
{
	for (const char *h = name; (h = strstr(h, "17h")) != NULL; h++)
		if ((size_t)(name + len - h) >= 20 && strspn(h + 3, "0123456789abcdef") == 16 &&
		    h[19] == 'E' && (h[20] == '\0' || h[20] == '.'))
			return true;
	return false;
}

/* A function of its own, since longjmp loses changes to local variables. */
static bool run(struct print *p, const char *name, bool rust)
{
	const int options = DMGL_PARAMS | DMGL_ANSI;

	p->len = 0;
	if (setjmp(p->full) != 0)
		return true;
	return rust ? rust_demangle_callback(name, options, print, p)
		    : cplus_demangle_v3_callback(name, options, print, p);
}

size_t demangle(const char *name, char ret[static DEMANGLE_MAX])
{
	struct print p = {.to = ret};
	size_t len = strnlen(name, DEMANGLE_MAX);

	if (len < DEMANGLE_MAX && name[0] == '_' && (name[1] == 'Z' || name[1] == 'R')) {
		bool cxx = name[1] == 'Z';
		if (((!cxx || is_legacy_rust(name, len)) && run(&p, name, true)) ||
		    (cxx && run(&p, name, false))) {
			ret[p.len] = '\0';
			return p.len;
		}
	}
	len = len < DEMANGLE_MAX ? len : DEMANGLE_MAX - 1;
	memcpy(ret, name, len);
	ret[len] = '\0';
	return len;
}
