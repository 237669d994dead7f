#include "cli/wait_options.h"

#include <errno.h>

#include "base/log.h"
#include "cli/service.h"

bool wait_options_set(struct settings *s, enum setting which, const char *function)
{
	struct settings_error why;

	if (settings_set(s, which, function, &why))
		return true;
	log_error("--%s", why.text);
	return false;
}

void wait_options_read(struct settings *s, struct waiting_options *ret)
{
	struct settings_error why;
	int err = settings_read(s, SERVICE_CONFIG, &why);

	if (err && err != -ENOENT)
		log_warn("%s cannot be read (%s); its idle-in and blocked-in are ignored",
			 SERVICE_CONFIG, why.text);
	ret->idle = (const char *const *)settings_list(s, SET_IDLE_IN)->items;
	ret->blocked = (const char *const *)settings_list(s, SET_BLOCKED_IN)->items;
}
