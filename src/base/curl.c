#include "base/curl.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "base/library.h"
#include "base/mem.h"

#define FUNCTION(name)                                                                             \
	{                                                                                          \
		"curl_" #name, offsetof(struct curl, name)                                         \
	}

static const struct {
	const char *name;
	size_t at;
} functions[] = {
	FUNCTION(easy_init),       FUNCTION(easy_setopt),      FUNCTION(easy_perform),
	FUNCTION(easy_getinfo),    FUNCTION(easy_cleanup),     FUNCTION(easy_strerror),
	FUNCTION(slist_append),    FUNCTION(slist_free_all),   FUNCTION(multi_init),
	FUNCTION(multi_cleanup),   FUNCTION(multi_add_handle), FUNCTION(multi_remove_handle),
	FUNCTION(multi_perform),   FUNCTION(multi_poll),       FUNCTION(multi_wakeup),
	FUNCTION(multi_info_read),
};

bool curl_load(struct curl *c, const char **ret_why)
{
	static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", NULL};
	void *library = library_open(names, ret_why);

	if (!library)
		return false;
	*ret_why = "it lacks a function";
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
		void *function = dlsym(library, functions[i].name);
		if (!function)
			return false;
		memcpy((char *)c + functions[i].at, &function, sizeof(function));
	}
	return true;
}
