#include "base/library.h"

#include <dlfcn.h>
#include <link.h>
#include <nss.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* By the linker: where our own file begins in memory. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

/* Whether no loader was asked for. */
static bool is_static(void)
{
	const ElfW(Ehdr) *e = (const void *)__ehdr_start;
	const ElfW(Phdr) *p = (const void *)(__ehdr_start + e->e_phoff);

	for (size_t i = 0; i < e->e_phnum; i++)
		if (p[i].p_type == PT_INTERP)
			return false;
	return true;
}

void library_begin(void)
{
	if (!is_static())
		return;
	__nss_configure_lookup("passwd", "files");
	__nss_configure_lookup("group", "files");
	__nss_configure_lookup("initgroups", "files");
	__nss_configure_lookup("services", "files");
	__nss_configure_lookup("hosts", "files dns");
}

void *library_open(const char *const *names, const char **ret_why)
{
	static _Thread_local char why[128];
	void *library = NULL;

	if (is_static()) {
		snprintf(why, sizeof(why), "a static smolder cannot load %s; take one that is not",
			 names[0]);
		*ret_why = why;
		return NULL;
	}
	for (; !library && *names; names++)
		library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		*ret_why = dlerror();
	return library;
}
