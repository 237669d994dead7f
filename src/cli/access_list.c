#include "cli/access_list.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"

static bool is_number(const char *text, uint32_t *ret)
{
	char *end;

	errno = 0;
	unsigned long long n = strtoull(text, &end, 10);
	*ret = (uint32_t)n;
	return *text >= '0' && *text <= '9' && !*end && !errno && n < UINT32_MAX;
}

static uid_t starter(void)
{
	const char *caller = geteuid() == 0 ? getenv("SUDO_UID") : NULL;
	uint32_t uid;

	return caller && is_number(caller, &uid) ? uid : getuid();
}

int access_list_read(const struct settings *s, struct access_list *ret)
{
	const struct settings_list *users = settings_list(s, SET_ALLOW_USER);
	const struct settings_list *groups = settings_list(s, SET_ALLOW_GROUP);
	const char *missing = NULL, *kind = "user";

	*ret = (struct access_list){
		.users = mem_alloc_array(users->count + 1, sizeof(uid_t)),
		.groups = mem_alloc_array(groups->count + 1, sizeof(gid_t)),
	};
	for (size_t i = 0; i < users->count && !missing; i++) {
		const struct passwd *p = getpwnam(users->items[i]);
		if (p)
			ret->users[i] = p->pw_uid;
		else if (!is_number(users->items[i], &ret->users[i]))
			missing = users->items[i];
	}
	for (size_t i = 0; i < groups->count && !missing; i++) {
		const struct group *g = getgrnam(groups->items[i]);
		if (g)
			ret->groups[i] = g->gr_gid;
		else if (!is_number(groups->items[i], &ret->groups[i]))
			missing = groups->items[i], kind = "group";
	}
	if (missing) {
		log_error("--allow-%s: there is no %s '%s'", kind, kind, missing);
		access_list_done(ret);
		return 1;
	}
	ret->options = (struct access_options){
		.starter = starter(),
		.users = ret->users,
		.groups = ret->groups,
		.user_count = users->count,
		.group_count = groups->count,
	};
	return 0;
}

void access_list_done(struct access_list *a)
{
	free(a->users);
	free(a->groups);
	*a = (struct access_list){};
}
